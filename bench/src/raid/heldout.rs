//! Cells by which merging is judged and on which it is never tuned: they are written down before they are run, and
//! no cell of them is looked into while the strategy is worked on. Once they have been, cells of that kind belong in
//! `practice.rs`, and new ones here.

use super::cell::{Cell, Loads, job, read, write};
use seiner_raid::Level;
use seiner_raid::simulate::Address::{Holes, Random, Sequential, Streams};
use seiner_raid::simulate::{Job, Model};

/// Slower than the disks of the matrix: flash behind an older bus, of which reads are not that slow.
const SLOW: Model = Model {
    read: 150_000,
    write: 110_000,
    spread: 35,
    slots: 28,
    read_rate: 700_000_000,
    write_rate: 350_000_000,
    flush: 700_000,
};

/// Faster than those of the matrix: the next generation.
const FAST: Model = Model {
    read: 30_000,
    write: 9_000,
    spread: 25,
    slots: 96,
    read_rate: 5_500_000_000,
    write_rate: 3_500_000_000,
    flush: 10_000,
};

/// Members whose times differ much from one operation to the next.
const UNEVEN: Model = Model {
    read: 75_000,
    write: 45_000,
    spread: 70,
    slots: 18,
    read_rate: 1_800_000_000,
    write_rate: 950_000_000,
    flush: 100_000,
};

/// All of them.
pub fn cells() -> Vec<Cell> {
    let mut cells = depths();
    cells.extend(sizes());
    cells.extend(arrivals());
    cells.extend(mixed_streams());
    cells.extend(members());
    cells.extend(shapes());
    cells.extend(beside());
    cells
}

fn depths() -> Vec<Cell> {
    let mut cells = Vec::new();
    for depth in [10, 14, 17, 19, 23, 29, 37, 60] {
        for threads in [1, 4, 15] {
            let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
            cells.push(Cell::new("odd depths, 4 KiB", load));
        }
    }
    cells
}

fn sizes() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (kib, blocks) in [(12, 3), (28, 7)] {
        for depth in [3, 4, 8, 10, 13, 22] {
            for threads in [1, 6] {
                let load = vec![job(vec![write(1, blocks, Sequential)], threads, depth)];
                cells.push(Cell::new(format!("{kib} KiB"), load));
            }
        }
        for depth in [4, 15] {
            for threads in [1, 6, 18] {
                let load = vec![job(vec![write(1, blocks, Random)], threads, depth)];
                cells.push(Cell::new(format!("{kib} KiB at random"), load));
            }
        }
    }
    for depth in [3, 9, 17] {
        let sizes = vec![
            write(4, 1, Sequential),
            write(2, 3, Sequential),
            write(1, 5, Sequential),
        ];
        cells.push(Cell::new("sizes mixed", vec![job(sizes, 2, depth)]));
    }
    cells
}

fn arrivals() -> Vec<Cell> {
    let mut cells = Vec::new();
    for jitter in [7_000, 35_000, 120_000, 300_000] {
        for depth in [7, 19, 33] {
            for threads in [1, 6] {
                let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
                let mut cell = Cell::new(format!("jitter of {} µs", jitter / 1000), load);
                cell.load.jitter = jitter;
                cells.push(cell);
            }
        }
    }
    for holes in [4, 15, 35] {
        for depth in [9, 22, 42] {
            let load = vec![job(vec![write(1, 1, Holes(holes))], 2, depth)];
            cells.push(Cell::new(format!("{holes} % left out"), load));
        }
    }
    cells
}

fn mixed_streams() -> Vec<Cell> {
    let mut cells = Vec::new();
    for streams in [2, 3, 5, 6, 8] {
        for depth in [14, 28, 46] {
            let alone = vec![write(1, 1, Streams(streams))];
            let name = format!("{streams} streams mixed");
            cells.push(Cell::new(&name, vec![job(alone, 2, depth)]));
            for (with, other) in [
                ("writes at random", write(2, 1, Random)),
                ("reads at random", read(2, 2, Random)),
            ] {
                let mix = vec![write(5, 1, Streams(streams)), other];
                cells.push(Cell::new(
                    format!("{name} with {with}"),
                    vec![job(mix, 1, depth)],
                ));
            }
        }
    }
    cells
}

fn members() -> Vec<Cell> {
    let loads = Loads {
        depths: &[2, 9, 18, 34],
        threads: &[1, 11],
        kinds: &[
            ("sequential", vec![write(1, 1, Sequential)]),
            ("random", vec![write(1, 1, Random)]),
            (
                "42 % written",
                vec![write(8, 1, Sequential), read(11, 1, Sequential)],
            ),
            (
                "85 % written",
                vec![write(17, 1, Sequential), read(3, 2, Random)],
            ),
        ],
    };
    loads.on_members(&[
        ("slower members", SLOW),
        ("faster members", FAST),
        ("uneven members", UNEVEN),
    ])
}

fn shapes() -> Vec<Cell> {
    let loads = Loads {
        depths: &[4, 11, 30, 66],
        threads: &[1, 8],
        kinds: &[
            ("sequential", vec![write(1, 1, Sequential)]),
            (
                "three fifths written",
                vec![write(3, 2, Sequential), read(2, 2, Sequential)],
            ),
        ],
    };
    loads.on_shapes(&[
        (Level::Raid6, 4, 32),
        (Level::Raid6, 7, 8),
        (Level::Raid6, 11, 32),
        (Level::Raid5, 3, 16),
        (Level::Raid5, 4, 64),
        (Level::Raid5, 8, 16),
    ])
}

fn beside() -> Vec<Cell> {
    let sequential = |threads, depth| job(vec![write(1, 1, Sequential)], threads, depth);
    let random = |threads, depth| job(vec![write(1, 1, Random)], threads, depth);
    let reading = |threads, depth| job(vec![read(1, 2, Random)], threads, depth);
    let loads: [(&str, Vec<Job>); 8] = [
        (
            "sequential beside random",
            vec![sequential(4, 18), random(6, 5)],
        ),
        (
            "sequential beside random",
            vec![sequential(1, 36), random(2, 12)],
        ),
        (
            "sequential beside random",
            vec![sequential(7, 10), random(5, 4)],
        ),
        (
            "deep beside shallow",
            vec![sequential(2, 35), sequential(6, 4)],
        ),
        (
            "deep beside shallow",
            vec![sequential(1, 20), sequential(10, 2)],
        ),
        (
            "deep beside shallow",
            vec![sequential(5, 21), sequential(7, 6)],
        ),
        (
            "sequential beside reads",
            vec![sequential(3, 24), reading(5, 4)],
        ),
        (
            "sequential beside reads",
            vec![sequential(6, 12), reading(2, 20)],
        ),
    ];
    let cells = loads.into_iter().map(|(name, jobs)| Cell::new(name, jobs));
    cells.collect()
}
