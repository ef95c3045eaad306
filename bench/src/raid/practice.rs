//! Cells outside the matrix on which merging was tuned as well: former held-out cells that were examined.
//! Merging is judged by the cells in `heldout.rs`.

use super::cell::{Cell, Loads, job, read, write};
use seiner_raid::Level;
use seiner_raid::simulate::Address::{Holes, Random, Sequential, Streams};
use seiner_raid::simulate::MemberModel;

/// Slower than the disks of the matrix: flash behind an older bus.
const SLOW: MemberModel = MemberModel {
    read: 180_000,
    write: 60_000,
    spread: 30,
    slots: 32,
    read_rate: 550_000_000,
    write_rate: 450_000_000,
    flush: 500_000,
};

/// Faster than the disks of the matrix: storage-class memory.
const FAST: MemberModel = MemberModel {
    read: 12_000,
    write: 10_000,
    spread: 10,
    slots: 64,
    read_rate: 6_500_000_000,
    write_rate: 5_000_000_000,
    flush: 10_000,
};

/// Members whose latencies vary strongly.
const UNEVEN: MemberModel = MemberModel {
    read: 90_000,
    write: 40_000,
    spread: 60,
    slots: 24,
    read_rate: 2_500_000_000,
    write_rate: 1_200_000_000,
    flush: 100_000,
};

/// Returns all practice cells.
pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for depth in [3, 5, 7, 12, 20, 24, 48] {
        for threads in [1, 6, 24] {
            let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
            cells.push(Cell::new("odd depths, 4 KiB", load));
        }
    }
    for depth in [1, 2, 5, 6, 11, 27] {
        for threads in [1, 8] {
            let load = vec![job(vec![write(1, 3, Sequential)], threads, depth)];
            cells.push(Cell::new("12 KiB", load));
            let load = vec![job(vec![write(1, 3, Random)], threads, depth)];
            cells.push(Cell::new("12 KiB at random", load));
        }
    }
    for jitter in [10_000, 50_000, 250_000] {
        for depth in [4, 16, 40] {
            for threads in [1, 8] {
                let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
                let mut cell = Cell::new(format!("jitter of {} µs", jitter / 1000), load);
                cell.load.jitter = jitter;
                cells.push(cell);
            }
        }
    }
    for streams in [2, 3, 5, 8] {
        for depth in [8, 32, 64] {
            let load = vec![job(vec![write(1, 1, Streams(streams))], 1, depth)];
            cells.push(Cell::new(format!("{streams} streams mixed"), load));
            let mix = vec![write(1, 1, Streams(streams)), write(1, 1, Random)];
            cells.push(Cell::new(
                format!("{streams} streams mixed with as much at random"),
                vec![job(mix, 1, depth)],
            ));
        }
    }
    // With few streams, filling stripes rarely pays. The results vary at random.
    for streams in [2, 3, 4, 6] {
        for depth in [30, 38, 44, 52, 60] {
            let mix = vec![write(1, 1, Streams(streams)), write(1, 1, Random)];
            cells.push(Cell::new(
                format!("{streams} streams mixed with as much at random"),
                vec![job(mix, 1, depth)],
            ));
        }
    }
    // Former held-out cells; one of them had the worst result.
    for streams in [2, 3, 5, 6, 8] {
        for depth in [14, 28, 46] {
            let mix = vec![write(5, 1, Streams(streams)), write(2, 1, Random)];
            cells.push(Cell::new(
                format!("{streams} streams mixed with fewer at random"),
                vec![job(mix, 1, depth)],
            ));
        }
    }
    for holes in [3, 12, 40] {
        for depth in [6, 16, 36] {
            let load = vec![job(vec![write(1, 1, Holes(holes))], 4, depth)];
            cells.push(Cell::new(format!("{holes} % left out"), load));
        }
    }
    cells.extend(members());
    cells.extend(reads_beside());
    let fast_and_random = vec![
        job(vec![write(1, 1, Sequential)], 2, 32),
        job(vec![write(1, 1, Random)], 6, 4),
    ];
    cells.push(Cell::new("sequential beside random", fast_and_random));
    let deep_and_shallow = vec![
        job(vec![write(1, 1, Sequential)], 2, 24),
        job(vec![write(1, 1, Sequential)], 8, 2),
    ];
    cells.push(Cell::new("deep beside shallow", deep_and_shallow));
    cells.extend(shapes());
    cells.extend(pauses());
    cells.extend(holds());
    cells.extend(slow_clients());
    cells
}

/// Returns cells with pausing clients, which give the array idle time.
fn pauses() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (on, off) in [(5, 20), (1, 4), (2, 11), (3, 14), (6, 21)] {
        for depth in [4, 16, 24, 32, 33, 35] {
            for threads in [1, 8] {
                let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
                let name = format!("bursts of {on} ms every {} ms", on + off);
                cells.push(Cell::new(&name, load.clone()).bursts(on, off));
                let name = format!("{name}, begun within a stripe");
                cells.push(Cell::new(&name, load).bursts(on, off).offset(7));
            }
        }
        let mix = vec![write(1, 1, Sequential), read(1, 1, Random)];
        let name = format!("bursts of {on} ms every {} ms, half read", on + off);
        cells.push(Cell::new(&name, vec![job(mix, 4, 24)]).bursts(on, off));
    }
    cells
}

/// Returns cells with short holds, and with starts within a stripe.
fn holds() -> Vec<Cell> {
    let mut cells = Vec::new();
    for hold in [100, 300, 1000] {
        for offset in [0, 3, 7] {
            for depth in [4, 16, 20, 32] {
                for threads in [1, 8] {
                    let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
                    let name = format!("held for {hold} µs, begun {offset} blocks into a stripe");
                    let cell = Cell::new(name, load).hold(hold).offset(offset);
                    cells.push(cell);
                }
            }
        }
    }
    cells
}

/// Returns cells with clients that need longer per request.
fn slow_clients() -> Vec<Cell> {
    let mut cells = Vec::new();
    for submit in [6_000, 15_000, 24_000] {
        for offset in [0, 5] {
            for depth in [2, 8, 11, 16, 20, 32] {
                for threads in [1, 8] {
                    let load = vec![job(vec![write(1, 1, Sequential)], threads, depth)];
                    let name = format!("{} µs a request of the client", submit / 1000);
                    cells.push(Cell::new(name, load).submit(submit).offset(offset));
                }
            }
        }
    }
    cells
}

fn members() -> Vec<Cell> {
    let loads = Loads {
        depths: &[1, 6, 16, 27, 40],
        threads: &[1, 12],
        kinds: &[
            ("sequential", vec![write(1, 1, Sequential)]),
            ("random", vec![write(1, 2, Random)]),
            (
                "60 % written",
                vec![write(3, 1, Sequential), read(2, 1, Sequential)],
            ),
            (
                "half read at random",
                vec![write(1, 1, Sequential), read(1, 1, Random)],
            ),
        ],
    };
    loads.on_members(&[
        ("slower members", SLOW),
        ("faster members", FAST),
        ("uneven members", UNEVEN),
    ])
}

/// Returns cells with reads and writes on members of varying latency. Waiting writes also delay the
/// reads, and a stream has fewer outstanding bytes than a stripe. Held-out cells of this kind had the
/// worst results.
fn reads_beside() -> Vec<Cell> {
    let loads = Loads {
        depths: &[3, 8, 14, 20, 30],
        threads: &[1, 4, 9, 14],
        kinds: &[
            (
                "35 % written",
                vec![write(7, 1, Sequential), read(13, 1, Sequential)],
            ),
            (
                "45 % written",
                vec![write(9, 1, Sequential), read(11, 1, Sequential)],
            ),
            (
                "75 % written",
                vec![write(3, 1, Sequential), read(1, 2, Random)],
            ),
        ],
    };
    let member =
        |(read, write, spread, slots): (u64, u64, u64, usize), rates: (u64, u64)| MemberModel {
            read,
            write,
            spread,
            slots,
            read_rate: rates.0,
            write_rate: rates.1,
            flush: 100_000,
        };
    loads.on_members(&[
        (
            "times within 75 %",
            member((85_000, 35_000, 75, 20), (2_200_000_000, 1_100_000_000)),
        ),
        (
            "times within 90 %",
            member((60_000, 50_000, 90, 12), (1_500_000_000, 900_000_000)),
        ),
        (
            "times within 40 %",
            member((130_000, 80_000, 40, 24), (800_000_000, 400_000_000)),
        ),
    ])
}

fn shapes() -> Vec<Cell> {
    let loads = Loads {
        depths: &[3, 12, 24, 64],
        threads: &[1, 9],
        kinds: &[
            ("sequential", vec![write(1, 1, Sequential)]),
            (
                "half written",
                vec![write(1, 1, Sequential), read(1, 1, Sequential)],
            ),
        ],
    };
    loads.on_shapes(&[
        (Level::Raid6, 5, 32),
        (Level::Raid6, 12, 16),
        (Level::Raid5, 5, 8),
        (Level::Raid5, 6, 64),
    ])
}
