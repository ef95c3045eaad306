//! Combinations that the benchmark measures, and their results.

use seiner_raid::{BLOCK_BYTES, Counters, Merging, Nanos};
use std::fmt;
use std::time::Duration;

/// Order of the addresses of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Uniformly random addresses.
    Random,
    /// Ascending addresses.
    Sequential,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Pattern; 2] = [Pattern::Random, Pattern::Sequential];

    /// Returns the name of the pattern.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Random => "random",
            Pattern::Sequential => "sequential",
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A load under one strategy.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Pattern of block addresses.
    pub pattern: Pattern,
    /// Number of outstanding writes.
    pub depth: usize,
    /// Strategy of merging.
    pub merging: Merging,
    /// Number of blocks per write.
    pub blocks: u64,
    /// Maximum time for which a write is held, ns.
    pub longest_hold: Nanos,
    /// Duration of the measurement.
    pub time: Duration,
}

impl Cell {
    /// Returns the duration at the beginning that is not counted.
    pub fn warm_up(&self) -> Duration {
        self.time / 5
    }
}

/// Result of a measurement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of writes answered.
    pub writes: u64,
    /// Number of blocks in those writes.
    pub blocks: u64,
    /// Work of the array for those writes.
    pub counters: Counters,
    /// Median latency, ns.
    pub p50: Nanos,
    /// 99th percentile of latency, ns.
    pub p99: Nanos,
}

impl Outcome {
    /// Returns the rate at which clients wrote, MB/s.
    pub fn rate(&self) -> f64 {
        self.blocks as f64 * BLOCK_BYTES as f64 / 1e6 / self.seconds.max(1e-9)
    }

    /// Returns the number of member operations per client write.
    pub fn operations(&self) -> f64 {
        (self.counters.reads + self.counters.writes) as f64 / self.writes.max(1) as f64
    }

    /// Returns the number of bytes that members read and wrote per byte written by clients.
    pub fn bytes(&self) -> f64 {
        let blocks = self.counters.blocks_read + self.counters.blocks_written;
        blocks as f64 / self.blocks.max(1) as f64
    }
}
