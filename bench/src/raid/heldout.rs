//! Held-out cells: merging is judged by these cells and never tuned on them.
//!
//! The cells are fixed before the first run. While the strategy changes, single cells are not
//! examined. After an examination, cells of that kind move to `practice.rs`, and new cells replace
//! them here.

use super::cell::{Cell, Loads, job, read, write};
use seiner_raid::Level;
use seiner_raid::simulate::Address::{Holes, Random, Sequential, Streams};
use seiner_raid::simulate::{ClientJob, MemberModel};

/// Slower than the disks of the matrix: flash behind an older bus. Reads are slowed down less than writes.
const SLOW: MemberModel = MemberModel {
    read: 140_000,
    write: 70_000,
    spread: 35,
    slots: 30,
    read_rate: 580_000_000,
    write_rate: 410_000_000,
    flush: 450_000,
};

/// Faster than the disks of the matrix: the next generation.
const FAST: MemberModel = MemberModel {
    read: 25_000,
    write: 16_000,
    spread: 15,
    slots: 72,
    read_rate: 5_500_000_000,
    write_rate: 4_600_000_000,
    flush: 15_000,
};

/// Members whose latencies vary strongly between operations.
const UNEVEN: MemberModel = MemberModel {
    read: 75_000,
    write: 42_000,
    spread: 55,
    slots: 20,
    read_rate: 2_200_000_000,
    write_rate: 1_100_000_000,
    flush: 90_000,
};

/// Returns all held-out cells.
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
    for (on, off) in [(2, 9), (4, 13), (7, 33)] {
        for depth in [9, 19, 26, 37] {
            for (threads, offset) in [(1, 0), (1, 5), (6, 0), (6, 11)] {
                let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
                let name = format!("bursts of {on} ms every {} ms", on + off);
                cells.push(Cell::new(name, load).bursts(on, off).offset(offset));
            }
        }
        let random = vec![job(vec![write(1, 1, Random)], 3, 11)];
        let name = format!("bursts of {on} ms every {} ms, at random", on + off);
        cells.push(Cell::new(name, random).bursts(on, off));
        let mix = vec![write(3, 1, Sequential), read(2, 1, Random)];
        let name = format!("bursts of {on} ms every {} ms, 60 % written", on + off);
        cells.push(Cell::new(name, vec![job(mix, 3, 29)]).bursts(on, off));
    }
    cells
}

fn holds() -> Vec<Cell> {
    let mut cells = Vec::new();
    for hold in [130, 240, 450, 800] {
        for (threads, offset) in [(1, 0), (1, 9), (7, 0), (7, 4)] {
            for depth in [7, 20, 23, 38] {
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
    for submit in [4_000, 13_000, 19_000] {
        for (threads, offset) in [(1, 0), (1, 10), (5, 0), (5, 3)] {
            for depth in [6, 10, 17, 34] {
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
    for depth in [9, 13, 18, 22, 25, 29, 37, 50] {
        for threads in [1, 5, 10] {
            let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
            cells.push(Cell::new("odd depths, 4 KiB", load));
        }
    }
    cells
}

fn sizes() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (kib, blocks) in [(28, 7), (40, 10)] {
        for depth in [2, 3, 5, 8, 13, 19] {
            for threads in [1, 6] {
                let load = vec![job(vec![write(1, blocks, Sequential)], threads, depth)];
                cells.push(Cell::new(format!("{kib} KiB"), load));
            }
        }
        for depth in [4, 9] {
            for threads in [1, 6, 13] {
                let load = vec![job(vec![write(1, blocks, Random)], threads, depth)];
                cells.push(Cell::new(format!("{kib} KiB at random"), load));
            }
        }
    }
    for depth in [7, 12, 18] {
        let sizes = vec![
            write(5, 1, Sequential),
            write(3, 2, Sequential),
            write(1, 5, Sequential),
        ];
        cells.push(Cell::new("sizes mixed", vec![job(sizes, 3, depth)]));
    }
    cells
}

fn arrivals() -> Vec<Cell> {
    let mut cells = Vec::new();
    for jitter in [8_000, 20_000, 90_000, 160_000] {
        for depth in [9, 22, 35] {
            for threads in [1, 5] {
                let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
                let mut cell = Cell::new(format!("jitter of {} µs", jitter / 1000), load);
                cell.load.jitter = jitter;
                cells.push(cell);
            }
        }
    }
    for holes in [4, 9, 22] {
        for depth in [11, 19, 38] {
            let load = vec![job(vec![write(1, 1, Holes(holes))], 3, depth)];
            cells.push(Cell::new(format!("{holes} % left out"), load));
        }
    }
    cells
}

fn mixed_streams() -> Vec<Cell> {
    let mut cells = Vec::new();
    for streams in [2, 3, 6, 8] {
        for depth in [17, 35, 50] {
            let alone = vec![write(1, 1, Streams(streams))];
            let name = format!("{streams} streams mixed");
            cells.push(Cell::new(&name, vec![job(alone, 2, depth)]));
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
        depths: &[5, 11, 21, 31],
        threads: &[1, 6],
        kinds: &[
            ("sequential", vec![write(1, 1, Sequential)]),
            ("random", vec![write(1, 1, Random)]),
            (
                "62 % written",
                vec![write(8, 1, Sequential), read(5, 1, Sequential)],
            ),
            (
                "70 % written",
                vec![write(7, 1, Sequential), read(3, 3, Random)],
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
        depths: &[7, 14, 30, 46],
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
        (Level::Raid6, 5, 16),
        (Level::Raid6, 9, 16),
        (Level::Raid6, 10, 8),
        (Level::Raid5, 4, 32),
        (Level::Raid5, 5, 16),
        (Level::Raid5, 7, 8),
    ])
}

fn beside() -> Vec<Cell> {
    let sequential = |threads, depth| job(vec![write(1, 1, Sequential)], threads, depth);
    let random = |threads, depth| job(vec![write(1, 1, Random)], threads, depth);
    let reading = |threads, depth| job(vec![read(1, 2, Random)], threads, depth);
    let loads: [(&str, Vec<ClientJob>); 8] = [
        (
            "sequential beside random",
            vec![sequential(4, 18), random(5, 7)],
        ),
        (
            "sequential beside random",
            vec![sequential(1, 35), random(2, 14)],
        ),
        (
            "sequential beside random",
            vec![sequential(8, 11), random(3, 8)],
        ),
        (
            "deep beside shallow",
            vec![sequential(2, 28), sequential(7, 3)],
        ),
        (
            "deep beside shallow",
            vec![sequential(1, 31), sequential(6, 5)],
        ),
        (
            "deep beside shallow",
            vec![sequential(3, 26), sequential(9, 4)],
        ),
        (
            "sequential beside reads",
            vec![sequential(5, 19), reading(4, 7)],
        ),
        (
            "sequential beside reads",
            vec![sequential(7, 12), reading(3, 15)],
        ),
    ];
    let cells = loads.into_iter().map(|(name, jobs)| Cell::new(name, jobs));
    cells.collect()
}
