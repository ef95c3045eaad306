//! Settings of a store under load: its budget, the lifetime of its rows, and their values.

use anyhow::Result;
use seiner_engine::{Class, Classes, Durability, Keep, MergePolicy, Options};
use std::time::Duration;
/// Number of rows in a batch of floats, which belong to many sources.
pub(super) const BATCH: usize = 1024;
/// Number of rows in a batch of texts, which belong to one source.
pub(super) const TEXTS: usize = 4;
/// Number of rows of all sources per second of the store's clock.
pub(super) const ROWS_A_SECOND: u64 = 100_000;
/// Number of rows per source from which the bytes per row in a block are measured.
const PROBE_ROWS: usize = 1500;
/// Number of segments in a budget: 4,000 sources of 50 blocks at V = 0.8 in segments of 400 blocks.
const SEGMENTS: u64 = 625;
/// Approximate bytes of a row of floats in a block.
const FLOAT_BYTES: usize = 10;
/// Approximate share of the budget in open segments. Overwritten rows are not dead until these
/// segments are on disk.
const OPEN: f64 = 0.015;

/// Lifetime of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lifetimes {
    /// Every source keeps the same number of latest rows. Rates are lognormal with this σ.
    Rings { sigma: f64 },
    /// All sources have the same rate. There are `classes` classes. Each class keeps its rows
    /// `ratio` times as long as the class before it.
    Ages { classes: u32, ratio: f64 },
}

/// Store and its load.
#[derive(Clone, Debug)]
pub struct StoreLoad {
    /// Budget of the store, C.
    pub budget: u64,
    /// Live share of the budget, V.
    pub v: f64,
    pub lifetimes: Lifetimes,
    pub sources: u32,
    /// Block size, B.
    pub block_bytes: u32,
    /// Segment size, R.
    pub segment_bytes: u64,
    pub lanes: u32,
    /// Fill at which merging begins, Um.
    pub merge_from: f64,
    pub policy: MergePolicy,
    /// Maximum bytes written to improve reads per byte stored.
    pub extra_writes: f64,
    pub values: Values,
    /// Number of successive rows of a source, if values are floats. With a block's worth of rows,
    /// blocks arrive at random (a Poisson process). With 1, they are nearly regular.
    pub burst: usize,
}

/// Values of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// Floats that do not compress: a row takes some 10 bytes in a block.
    Floats,
    /// Floats from 1 to 2 with 52 random bits. They favour no encoding: decimals of one scale need
    /// as many bits as the floats themselves.
    Fractions,
    /// Texts of this many random characters. Like pictures, they do not compress, so they take many
    /// bytes for little processor time.
    Texts(u32),
}

impl Values {
    /// Number of rows in a batch.
    pub(super) fn batch(self) -> usize {
        match self {
            Values::Floats | Values::Fractions => BATCH,
            Values::Texts(_) => TEXTS,
        }
    }

    /// Number of rows per source from which the bytes per row are measured.
    pub(super) fn probe_rows(self, block_bytes: u32) -> usize {
        match self {
            Values::Floats | Values::Fractions => PROBE_ROWS.max(block_bytes as usize / 2),
            Values::Texts(bytes) => 5 * (block_bytes / bytes) as usize,
        }
    }
}

/// Returns the number of lanes of a policy. The papers' policies write one log, so they get the
/// fewest lanes that the engine accepts.
fn lanes_of(policy: MergePolicy) -> u32 {
    match policy {
        MergePolicy::Patient => 32,
        _ => 2,
    }
}

impl StoreLoad {
    /// Returns the workload of the design's simulation on a budget: rings of 50 blocks, and
    /// `SEGMENTS` segments.
    pub fn rings(budget: u64, v: f64, sigma: f64, policy: MergePolicy) -> StoreLoad {
        let block_bytes: u32 = 4096;
        StoreLoad {
            budget,
            v,
            lifetimes: Lifetimes::Rings { sigma },
            sources: (budget as f64 * v / (50.0 * f64::from(block_bytes))).max(16.0) as u32,
            block_bytes,
            segment_bytes: (budget / SEGMENTS).max(64 << 10),
            lanes: lanes_of(policy),
            merge_from: 0.95,
            policy,
            extra_writes: Options::default().extra_writes,
            values: Values::Floats,
            burst: 1,
        }
    }

    /// Returns the same load with a block's worth of rows of a source at a time.
    pub fn in_bursts(self) -> StoreLoad {
        StoreLoad {
            burst: self.block_bytes as usize / FLOAT_BYTES,
            ..self
        }
    }

    /// Returns the same load with another block size and equally many blocks per ring.
    pub fn with_blocks(self, block_bytes: u32) -> StoreLoad {
        let sources =
            f64::from(self.sources) * f64::from(self.block_bytes) / f64::from(block_bytes);
        StoreLoad {
            sources: (sources as u32).max(16),
            block_bytes,
            ..self
        }
    }

    /// Returns a load of sources with one or more lifetimes.
    pub fn ages(budget: u64, v: f64, classes: u32, ratio: f64, policy: MergePolicy) -> StoreLoad {
        StoreLoad {
            lifetimes: Lifetimes::Ages { classes, ratio },
            ..StoreLoad::rings(budget, v, 0.0, policy)
        }
    }

    pub(super) fn options(&self, classes: Classes) -> Options {
        Options {
            durability: Durability::Memory,
            memory: 64 << 20,
            block_bytes: self.block_bytes,
            segment_bytes: self.segment_bytes,
            disk: Some(self.budget),
            merge_from: self.merge_from,
            policy: self.policy,
            extra_writes: self.extra_writes,
            lanes: self.lanes,
            idle_seal: Duration::from_secs(1 << 30),
            classes,
            ..Options::default()
        }
    }

    /// Returns the retention rules that keep V of the budget live, for the measured sizes of rows.
    pub(super) fn classes(&self, sizes: RowSizes) -> Result<Classes> {
        let live_rows = self.budget as f64 * (self.v - OPEN) / sizes.row_bytes;
        let class = |name: String, sources: String, keep: Keep| Class {
            name,
            sources,
            keep,
            ..Class::forever()
        };
        let list = match self.lifetimes {
            Lifetimes::Rings { .. } => {
                // A ring contains up to one additional block, on average half a block.
                let rows = live_rows / f64::from(self.sources) - sizes.block_rows / 2.0;
                vec![class(
                    "ring".into(),
                    String::new(),
                    Keep {
                        rows: Some(rows.max(1.0) as u64),
                        ..Keep::default()
                    },
                )]
            }
            Lifetimes::Ages { classes, ratio } => {
                let lifetimes = (0..classes).map(|class| ratio.powi(class as i32));
                let sum: f64 = lifetimes.clone().sum();
                let all_s = live_rows / (ROWS_A_SECOND as f64 / f64::from(classes));
                lifetimes
                    .enumerate()
                    .map(|(number, life)| {
                        let age = Some(Duration::from_secs_f64((all_s * life / sum).max(1.0)));
                        class(
                            format!("c{number}"),
                            format!("m{number}"),
                            Keep {
                                age,
                                ..Keep::default()
                            },
                        )
                    })
                    .collect()
            }
        };
        Ok(Classes::new(list)?)
    }

    pub(super) fn class_count(&self) -> u32 {
        match self.lifetimes {
            Lifetimes::Rings { .. } => 1,
            Lifetimes::Ages { classes, .. } => classes,
        }
    }
}

/// Sizes of rows in blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowSizes {
    pub row_bytes: f64,
    pub block_rows: f64,
}
