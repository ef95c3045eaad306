//! Cells of the paper's matrix. Merging was tuned on these cells and on the cells in `practice.rs`,
//! and is judged by the cells in `heldout.rs`.

use super::cell::{Cell, job, read, write};
use seiner_raid::simulate::Address::{Random, Sequential};
use seiner_raid::simulate::Mix;

const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];
const THREADS: [usize; 3] = [1, 8, 32];

/// Returns all cells of the matrix.
pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (name, address) in [("random write", Random), ("sequential write", Sequential)] {
        for blocks in [1, 2, 4] {
            for threads in THREADS {
                for depth in DEPTHS {
                    let group = format!("{name} {} KiB", blocks * 4);
                    cells.push(Cell::new(
                        group,
                        vec![job(vec![write(1, blocks, address)], threads, depth)],
                    ));
                }
            }
        }
    }
    for share in [70, 50, 30] {
        for threads in THREADS {
            for depth in DEPTHS {
                let mix = vec![
                    write(share, 1, Sequential),
                    read(100 - share, 1, Sequential),
                ];
                let group = format!("sequential 4 KiB, {share} % written");
                cells.push(Cell::new(group, vec![job(mix, threads, depth)]));
            }
        }
    }
    for (name, mix) in patterns() {
        cells.push(Cell::new(name, vec![job(mix, 8, 16)]));
    }
    cells
}

/// Block sizes in KiB of the neoclassic patterns (*RAID*, figure 1), with their shares in sequences and at random.
const NEOCLASSIC: [(u64, u64, u64); 10] = [
    (4, 29, 31),
    (8, 33, 31),
    (16, 6, 5),
    (32, 5, 5),
    (48, 0, 1),
    (56, 0, 1),
    (60, 0, 2),
    (64, 22, 20),
    (128, 3, 2),
    (256, 2, 2),
];
const FOUR: [(u64, u64, u64); 7] = [
    (4, 56, 55),
    (8, 33, 31),
    (16, 6, 5),
    (32, 5, 5),
    (48, 0, 1),
    (56, 0, 1),
    (60, 0, 2),
];
const SIXTY_FOUR: [(u64, u64, u64); 7] = [
    (4, 30, 30),
    (8, 33, 31),
    (16, 6, 5),
    (32, 31, 5),
    (48, 0, 1),
    (56, 0, 1),
    (60, 0, 27),
];
const FOUR_LARGE: [(u64, u64, u64); 10] = [
    (4, 0, 55),
    (8, 0, 31),
    (16, 0, 5),
    (32, 0, 5),
    (48, 0, 1),
    (56, 0, 1),
    (60, 0, 2),
    (64, 81, 0),
    (128, 11, 0),
    (256, 8, 0),
];
const FOUR_NEO: [(u64, u64, u64); 10] = [
    (4, 29, 55),
    (8, 33, 31),
    (16, 6, 5),
    (32, 5, 5),
    (48, 1, 1),
    (56, 1, 1),
    (60, 2, 2),
    (64, 22, 0),
    (128, 3, 0),
    (256, 2, 0),
];

/// Returns the nine mixed patterns. The paper states the block sizes of five patterns. The shares of
/// reads and writes, and the other four patterns, follow the usual emulations of test programs.
fn patterns() -> Vec<(&'static str, Vec<Mix>)> {
    let sizes = |table: &[(u64, u64, u64)]| {
        let mut mix = Vec::new();
        for &(kib, sequential, random) in table {
            for (share, address) in [(sequential, Sequential), (random, Random)] {
                if share > 0 {
                    mix.extend([
                        read(share * 6, kib / 4, address),
                        write(share * 4, kib / 4, address),
                    ]);
                }
            }
        }
        mix
    };
    vec![
        ("Neoclassic", sizes(&NEOCLASSIC)),
        ("Four", sizes(&FOUR)),
        ("Sixty Four", sizes(&SIXTY_FOUR)),
        ("Four+Largeseq", sizes(&FOUR_LARGE)),
        ("Four+Neoseq", sizes(&FOUR_NEO)),
        (
            "database",
            vec![
                read(67, 2, Random),
                write(28, 2, Random),
                write(5, 1, Sequential),
            ],
        ),
        (
            "file server",
            vec![
                read(40, 1, Random),
                read(30, 16, Sequential),
                write(10, 1, Random),
                write(10, 4, Sequential),
                write(10, 16, Sequential),
            ],
        ),
        (
            "VDI",
            vec![
                read(20, 1, Random),
                write(70, 1, Random),
                write(10, 8, Sequential),
            ],
        ),
        (
            "web server",
            vec![
                read(50, 2, Random),
                read(45, 16, Sequential),
                write(5, 1, Sequential),
            ],
        ),
    ]
}
