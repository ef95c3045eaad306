//! Cells by which merging is judged and on which it is never tuned: they were written before the strategy was worked on, and
//! no cell of them is looked into while it is. Once they have been, they belong in `practice.rs`, and new ones here.

use super::cell::{Cell, Loads, job, read, write};
use seiner_raid::Level;
use seiner_raid::simulate::Address::{Holes, Random, Sequential, Streams};
use seiner_raid::simulate::{Job, Model};

/// Slower than the disks of the matrix: flash behind an older bus, of which reads are not that slow.
const SLOW: Model = Model {
    read: 120_000,
    write: 90_000,
    spread: 25,
    slots: 32,
    read_rate: 500_000_000,
    write_rate: 300_000_000,
    flush: 800_000,
};

/// Faster than those of the matrix: the next generation.
const FAST: Model = Model {
    read: 40_000,
    write: 8_000,
    spread: 15,
    slots: 128,
    read_rate: 7_000_000_000,
    write_rate: 4_000_000_000,
    flush: 10_000,
};

/// Members whose times differ much from one operation to the next.
const UNEVEN: Model = Model {
    read: 70_000,
    write: 30_000,
    spread: 80,
    slots: 16,
    read_rate: 2_000_000_000,
    write_rate: 1_000_000_000,
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
    for depth in [9, 13, 15, 18, 22, 28, 41, 56] {
        for threads in [1, 3, 12] {
            let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
            cells.push(Cell::new("odd depths, 4 KiB", load));
        }
    }
    cells
}

fn sizes() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (kib, blocks) in [(12, 3), (20, 5)] {
        for depth in [3, 4, 7, 9, 14, 21] {
            for threads in [1, 5] {
                let load = vec![job(vec![write(1, blocks, Sequential)], threads, depth)];
                cells.push(Cell::new(format!("{kib} KiB"), load));
            }
        }
        for depth in [3, 14] {
            for threads in [1, 5, 20] {
                let load = vec![job(vec![write(1, blocks, Random)], threads, depth)];
                cells.push(Cell::new(format!("{kib} KiB at random"), load));
            }
        }
    }
    for depth in [2, 7, 19] {
        let sizes = vec![
            write(5, 1, Sequential),
            write(3, 2, Sequential),
            write(1, 6, Sequential),
        ];
        cells.push(Cell::new("sizes mixed", vec![job(sizes, 2, depth)]));
    }
    cells
}

fn arrivals() -> Vec<Cell> {
    let mut cells = Vec::new();
    for jitter in [5_000, 25_000, 100_000, 400_000] {
        for depth in [6, 18, 30] {
            for threads in [1, 5] {
                let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
                let mut cell = Cell::new(format!("jitter of {} µs", jitter / 1000), load);
                cell.load.jitter = jitter;
                cells.push(cell);
            }
        }
    }
    for holes in [5, 20, 30] {
        for depth in [10, 24, 44] {
            let load = vec![job(vec![write(1, 1, Holes(holes))], 2, depth)];
            cells.push(Cell::new(format!("{holes} % left out"), load));
        }
    }
    cells
}

fn mixed_streams() -> Vec<Cell> {
    let mut cells = Vec::new();
    for streams in [2, 4, 6, 7, 8] {
        for depth in [12, 24, 50] {
            let alone = vec![write(1, 1, Streams(streams))];
            let name = format!("{streams} streams mixed");
            cells.push(Cell::new(&name, vec![job(alone, 2, depth)]));
            for (with, other) in [
                ("writes at random", write(2, 1, Random)),
                ("reads at random", read(2, 2, Random)),
            ] {
                let mix = vec![write(3, 1, Streams(streams)), other];
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
        depths: &[2, 7, 17, 36],
        threads: &[1, 10],
        kinds: &[
            ("sequential", vec![write(1, 1, Sequential)]),
            ("random", vec![write(1, 1, Random)]),
            (
                "40 % written",
                vec![write(2, 1, Sequential), read(3, 1, Sequential)],
            ),
            (
                "80 % written",
                vec![write(4, 1, Sequential), read(1, 2, Random)],
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
        depths: &[5, 10, 33, 70],
        threads: &[1, 7],
        kinds: &[
            ("sequential", vec![write(1, 1, Sequential)]),
            (
                "two thirds written",
                vec![write(2, 2, Sequential), read(1, 2, Sequential)],
            ),
        ],
    };
    loads.on_shapes(&[
        (Level::Raid6, 4, 16),
        (Level::Raid6, 8, 4),
        (Level::Raid6, 10, 64),
        (Level::Raid5, 3, 8),
        (Level::Raid5, 4, 32),
        (Level::Raid5, 9, 16),
    ])
}

fn beside() -> Vec<Cell> {
    let sequential = |threads, depth| job(vec![write(1, 1, Sequential)], threads, depth);
    let random = |threads, depth| job(vec![write(1, 1, Random)], threads, depth);
    let reading = |threads, depth| job(vec![read(1, 2, Random)], threads, depth);
    let loads: [(&str, Vec<Job>); 8] = [
        (
            "sequential beside random",
            vec![sequential(3, 20), random(5, 6)],
        ),
        (
            "sequential beside random",
            vec![sequential(1, 40), random(1, 16)],
        ),
        (
            "sequential beside random",
            vec![sequential(8, 9), random(4, 3)],
        ),
        (
            "deep beside shallow",
            vec![sequential(3, 30), sequential(5, 3)],
        ),
        (
            "deep beside shallow",
            vec![sequential(1, 17), sequential(12, 1)],
        ),
        (
            "deep beside shallow",
            vec![sequential(6, 19), sequential(6, 7)],
        ),
        (
            "sequential beside reads",
            vec![sequential(2, 26), reading(4, 5)],
        ),
        (
            "sequential beside reads",
            vec![sequential(5, 11), reading(1, 30)],
        ),
    ];
    let cells = loads.into_iter().map(|(name, jobs)| Cell::new(name, jobs));
    cells.collect()
}
