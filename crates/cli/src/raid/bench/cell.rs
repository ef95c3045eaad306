//! What is measured, and what came of it.

use seiner_raid::{BLOCK_BYTES, Counters, Merging, Nanos};
use std::fmt;
use std::time::Duration;

/// Where writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Anywhere.
    Random,
    /// One after the other.
    Sequential,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Pattern; 2] = [Pattern::Random, Pattern::Sequential];

    /// Its name.
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

/// A load under a strategy.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Where writes go.
    pub pattern: Pattern,
    /// How many are outstanding.
    pub depth: usize,
    /// When they are held.
    pub merging: Merging,
    /// Blocks of a write.
    pub blocks: u64,
    /// How long a write is held at the most.
    pub longest_hold: Nanos,
    /// For how long it is measured.
    pub time: Duration,
}

impl Cell {
    /// Time that is not counted, at the beginning.
    pub fn warm_up(&self) -> Duration {
        self.time / 5
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Seconds.
    pub seconds: f64,
    /// Writes answered.
    pub writes: u64,
    /// Blocks that they had.
    pub blocks: u64,
    /// What the array did for them.
    pub counters: Counters,
    /// Half of them took no longer.
    pub p50: Nanos,
    /// Of 100, 99 took no longer.
    pub p99: Nanos,
}

impl Outcome {
    /// Megabytes a second that clients wrote.
    pub fn rate(&self) -> f64 {
        self.blocks as f64 * BLOCK_BYTES as f64 / 1e6 / self.seconds.max(1e-9)
    }

    /// Member operations for each write of a client.
    pub fn operations(&self) -> f64 {
        (self.counters.reads + self.counters.writes) as f64 / self.writes.max(1) as f64
    }

    /// Bytes that members read and wrote for each byte that a client wrote.
    pub fn bytes(&self) -> f64 {
        let blocks = self.counters.blocks_read + self.counters.blocks_written;
        blocks as f64 / self.blocks.max(1) as f64
    }
}
