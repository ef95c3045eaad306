//! Cells by which merging is judged and on which it is never tuned: they are written down before they are run, and
//! no cell of them is looked into while the strategy is worked on. Once they have been, cells of that kind belong in
//! `practice.rs`, and new ones here.

use super::cell::{Cell, Loads, job, read, write};
use seiner_raid::Level;
use seiner_raid::simulate::Address::{Holes, Random, Sequential, Streams};
use seiner_raid::simulate::{Job, Model};

/// Slower than the disks of the matrix: flash behind an older bus, of which reads are not that slow.
const SLOW: Model = Model {
    read: 165_000,
    write: 95_000,
    spread: 45,
    slots: 26,
    read_rate: 620_000_000,
    write_rate: 390_000_000,
    flush: 600_000,
};

/// Faster than those of the matrix: the next generation.
const FAST: Model = Model {
    read: 22_000,
    write: 12_000,
    spread: 20,
    slots: 80,
    read_rate: 6_000_000_000,
    write_rate: 4_200_000_000,
    flush: 10_000,
};

/// Members whose times differ much from one operation to the next.
const UNEVEN: Model = Model {
    read: 70_000,
    write: 38_000,
    spread: 65,
    slots: 22,
    read_rate: 2_000_000_000,
    write_rate: 1_050_000_000,
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
    cells.extend(pauses());
    cells.extend(holds());
    cells.extend(slow_clients());
    cells
}

fn pauses() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (on, off) in [(3, 9), (7, 35)] {
        for depth in [5, 17, 21, 36] {
            for (threads, offset) in [(1, 0), (1, 6), (6, 0), (6, 11)] {
                let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
                let name = format!("bursts of {on} ms every {} ms", on + off);
                cells.push(Cell::new(name, load).bursts(on, off).offset(offset));
            }
        }
        let random = vec![job(vec![write(1, 1, Random)], 3, 11)];
        let name = format!("bursts of {on} ms every {} ms, at random", on + off);
        cells.push(Cell::new(name, random).bursts(on, off));
        let mix = vec![write(2, 1, Sequential), read(1, 2, Random)];
        let name = format!(
            "bursts of {on} ms every {} ms, two thirds written",
            on + off
        );
        cells.push(Cell::new(name, vec![job(mix, 3, 26)]).bursts(on, off));
    }
    cells
}

fn holds() -> Vec<Cell> {
    let mut cells = Vec::new();
    for hold in [80, 150, 250, 450] {
        for (threads, offset) in [(1, 0), (1, 9), (7, 0), (7, 5)] {
            for depth in [6, 17, 23, 38] {
                let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
                let name = format!("held for {hold} µs");
                cells.push(Cell::new(name, load).hold(hold).offset(offset));
            }
        }
    }
    cells
}

fn slow_clients() -> Vec<Cell> {
    let mut cells = Vec::new();
    for submit in [4_000, 9_000, 24_000] {
        for (threads, offset) in [(1, 0), (1, 10), (6, 0), (6, 2)] {
            for depth in [3, 11, 18, 34] {
                let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
                let name = format!("{} µs a request of the client", submit / 1000);
                cells.push(Cell::new(name, load).submit(submit).offset(offset));
            }
        }
    }
    cells
}

fn depths() -> Vec<Cell> {
    let mut cells = Vec::new();
    for depth in [9, 11, 13, 18, 22, 31, 41, 54] {
        for threads in [1, 5, 13] {
            let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
            cells.push(Cell::new("odd depths, 4 KiB", load));
        }
    }
    cells
}

fn sizes() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (kib, blocks) in [(20, 5), (24, 6)] {
        for depth in [2, 5, 7, 9, 14, 21] {
            for threads in [1, 7] {
                let load = vec![job(vec![write(1, blocks, Sequential)], threads, depth)];
                cells.push(Cell::new(format!("{kib} KiB"), load));
            }
        }
        for depth in [3, 13] {
            for threads in [1, 5, 17] {
                let load = vec![job(vec![write(1, blocks, Random)], threads, depth)];
                cells.push(Cell::new(format!("{kib} KiB at random"), load));
            }
        }
    }
    for depth in [5, 11, 19] {
        let sizes = vec![
            write(5, 1, Sequential),
            write(3, 2, Sequential),
            write(1, 6, Sequential),
        ];
        cells.push(Cell::new("sizes mixed", vec![job(sizes, 3, depth)]));
    }
    cells
}

fn arrivals() -> Vec<Cell> {
    let mut cells = Vec::new();
    for jitter in [5_000, 25_000, 90_000, 220_000] {
        for depth in [9, 21, 35] {
            for threads in [1, 7] {
                let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
                let mut cell = Cell::new(format!("jitter of {} µs", jitter / 1000), load);
                cell.load.jitter = jitter;
                cells.push(cell);
            }
        }
    }
    for holes in [6, 18, 30] {
        for depth in [7, 19, 38] {
            let load = vec![job(vec![write(1, 1, Holes(holes))], 3, depth)];
            cells.push(Cell::new(format!("{holes} % left out"), load));
        }
    }
    cells
}

fn mixed_streams() -> Vec<Cell> {
    let mut cells = Vec::new();
    for streams in [2, 3, 4, 7, 9] {
        for depth in [18, 34, 49] {
            let alone = vec![write(1, 1, Streams(streams))];
            let name = format!("{streams} streams mixed");
            cells.push(Cell::new(&name, vec![job(alone, 3, depth)]));
            for (with, other) in [
                ("writes at random", write(3, 1, Random)),
                ("reads at random", read(3, 2, Random)),
            ] {
                let mix = vec![write(7, 1, Streams(streams)), other];
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
        depths: &[3, 7, 19, 29],
        threads: &[1, 10],
        kinds: &[
            ("sequential", vec![write(1, 1, Sequential)]),
            ("random", vec![write(1, 1, Random)]),
            (
                "52 % written",
                vec![write(13, 1, Sequential), read(12, 1, Sequential)],
            ),
            (
                "80 % written",
                vec![write(4, 1, Sequential), read(1, 3, Random)],
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
        depths: &[5, 13, 28, 58],
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
        (Level::Raid6, 4, 64),
        (Level::Raid6, 8, 8),
        (Level::Raid6, 10, 32),
        (Level::Raid5, 3, 32),
        (Level::Raid5, 4, 16),
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
            vec![sequential(5, 16), random(7, 6)],
        ),
        (
            "sequential beside random",
            vec![sequential(1, 42), random(3, 10)],
        ),
        (
            "sequential beside random",
            vec![sequential(6, 9), random(4, 7)],
        ),
        (
            "deep beside shallow",
            vec![sequential(3, 30), sequential(5, 3)],
        ),
        (
            "deep beside shallow",
            vec![sequential(1, 26), sequential(9, 3)],
        ),
        (
            "deep beside shallow",
            vec![sequential(4, 23), sequential(8, 5)],
        ),
        (
            "sequential beside reads",
            vec![sequential(4, 22), reading(6, 5)],
        ),
        (
            "sequential beside reads",
            vec![sequential(5, 14), reading(3, 17)],
        ),
    ];
    let cells = loads.into_iter().map(|(name, jobs)| Cell::new(name, jobs));
    cells.collect()
}
