//! Write merging: strategies that decide when to hold a write until its stripe fills.
//!
//! A stripe that is written whole needs no reads and one pass of syndromes. A part of it costs a read-modify-write.
//! A [`Strategy`] decides whether the writes that wait for an idle stripe start now or wait for more. Writes that
//! queue behind a busy stripe wait anyway. Strategies receive addresses and times, never contents.

mod adaptive;
mod cost;
mod explorer;
mod fixed;
mod paper;
mod view;

pub use adaptive::{Adaptive, AdaptiveSettings};
pub use explorer::{Explorer, ExplorerSettings};
pub use fixed::{Always, Batch, Never};
pub use paper::{Paper, PaperSettings};
pub use view::{Area, View, ViewRequest};

use crate::request::Nanos;

/// Tag that a strategy gives to a write on arrival. It identifies the write when it starts and ends.
pub type WriteTag = u32;

/// Write that arrives, or the part of a write that lies in one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time of the arrival, ns.
    pub now: Nanos,
    /// Number of the stripe.
    pub stripe: u64,
    /// First block of the volume.
    pub start: u64,
    /// Number of blocks.
    pub blocks: u32,
}

/// Writes that wait for an idle stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingWrites {
    /// Present time, ns.
    pub now: Nanos,
    /// Number of the stripe.
    pub stripe: u64,
    /// Number of waiting writes.
    pub requests: u32,
    /// Blocks of the stripe that the writes cover.
    pub filled: u32,
    /// Blocks of the stripe that the writes do not cover.
    pub missing: u32,
    /// Arrival of the first write, ns.
    pub oldest: Nanos,
    /// Latest time at which the first write must start, ns.
    pub deadline: Nanos,
    /// Number of reads of any stripe in flight.
    pub reads: u32,
}

/// Decision about waiting writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Starts the first write alone.
    Alone,
    /// Starts all writes as one.
    Together,
    /// Holds the writes until this time, ns, or until another write arrives.
    Hold(Nanos),
}

/// Strategy for holding writes.
pub trait Strategy {
    /// Notes a write that has arrived. It is judged next if its stripe is idle.
    fn arrived(&mut self, _: &Arrival) -> WriteTag {
        0
    }

    /// Decides about the writes that wait for an idle stripe.
    fn judge(&mut self, waiting: &WaitingWrites) -> Verdict;

    /// Notes the start of a waiting write.
    fn started(&mut self, _stripe: u64, _tag: WriteTag, _blocks: u32) {}

    /// Notes the end of a write.
    fn ended(&mut self, _now: Nanos, _tag: WriteTag, _blocks: u32) {}

    /// Notes the end of the write of a stripe that began at `started`; `full`: a whole stripe, otherwise a part.
    fn written(&mut self, _now: Nanos, _started: Nanos, _full: bool) {}

    /// Notes the arrival of a read.
    fn read_began(&mut self, _now: Nanos) {}

    /// Notes the answer to a read of `blocks` blocks.
    fn read_ended(&mut self, _now: Nanos, _blocks: u32) {}

    /// Notes that no request concerns the stripe any more.
    fn idle(&mut self, _stripe: u64) {}

    /// Returns a stripe whose verdict may have changed without a write to it.
    fn stirred(&mut self) -> Option<u64> {
        None
    }

    /// Returns the present behaviour, for people.
    fn view(&self, request: &ViewRequest) -> View;
}

/// Names of the strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// Writes every request alone.
    Never,
    /// Merges writes that queue behind a busy stripe.
    Batch,
    /// Holds every write until its stripe is full, or until the maximum time is over.
    Always,
    /// Uses the algorithm of *RAID* §4–5 as it was published: writes that are not merged start one at a time.
    Paper,
    /// Uses the same algorithm on top of [`Merging::Batch`]: writes that are not merged start with all queued ones.
    PaperBatch,
    /// The default.
    Adaptive,
}

impl Merging {
    /// All strategies.
    pub const ALL: [Merging; 6] = [
        Merging::Never,
        Merging::Batch,
        Merging::Always,
        Merging::Paper,
        Merging::PaperBatch,
        Merging::Adaptive,
    ];

    /// Returns the name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Merging::Never => "never",
            Merging::Batch => "batch",
            Merging::Always => "always",
            Merging::Paper => "paper",
            Merging::PaperBatch => "paper-batch",
            Merging::Adaptive => "default",
        }
    }

    /// Creates the strategy for stripes of `stripe_blocks` blocks of data. No write may be held longer than
    /// `longest_hold` ns.
    pub fn strategy(self, stripe_blocks: u32, longest_hold: Nanos) -> Box<dyn Strategy + Send> {
        match self {
            Merging::Never => Box::new(Never),
            Merging::Batch => Box::new(Batch),
            Merging::Always => Box::new(Always),
            Merging::Paper | Merging::PaperBatch => {
                let settings = PaperSettings {
                    batches: self == Merging::PaperBatch,
                    ..PaperSettings::default()
                };
                Box::new(Paper::new(settings, stripe_blocks, longest_hold))
            }
            Merging::Adaptive => {
                let model = Adaptive::new(AdaptiveSettings::default(), stripe_blocks);
                Box::new(Explorer::new(ExplorerSettings::default(), model))
            }
        }
    }
}
