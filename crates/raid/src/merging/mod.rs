//! When to hold a write until its stripe fills.
//!
//! A stripe that is written whole needs no reads and one pass of syndromes; a part of it costs a read-modify-write. A
//! [`Strategy`] says of the writes that wait for an idle stripe whether they go now or wait for more. Writes that queue
//! behind a busy stripe wait anyway. Strategies see addresses and times, never contents.

mod adaptive;
mod cost;
mod fixed;
mod guard;
mod paper;
mod view;

pub use adaptive::{Adaptive, AdaptiveSettings};
pub use fixed::{Always, Batch, Never};
pub use guard::{Guard, GuardSettings};
pub use paper::{Paper, PaperSettings};
pub use view::{Area, Question, View};

use crate::request::Nanos;

/// Whatever a strategy wants to know about a write when it ends.
pub type Mark = u32;

/// A write that arrives, or the part of one that falls into a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub now: Nanos,
    /// The stripe.
    pub stripe: u64,
    /// First block of the volume.
    pub start: u64,
    /// How many blocks.
    pub blocks: u32,
}

/// The writes that wait for an idle stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// When.
    pub now: Nanos,
    /// The stripe.
    pub stripe: u64,
    /// How many wait.
    pub requests: u32,
    /// Blocks of the stripe that they cover.
    pub filled: u32,
    /// Blocks of the stripe that they do not cover.
    pub missing: u32,
    /// When the first of them came.
    pub oldest: Nanos,
    /// When the first of them must go.
    pub deadline: Nanos,
    /// Reads of any stripe that are under way.
    pub reads: u32,
}

/// What is to be done with writes that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first goes by itself.
    Alone,
    /// All go, as one.
    Together,
    /// They wait; ask again at this time, or when another write arrives.
    Hold(Nanos),
}

/// A rule for holding writes.
pub trait Strategy {
    /// A write has arrived, and will be judged next if its stripe is idle.
    fn arrived(&mut self, _: &Arrival) -> Mark {
        0
    }

    /// What to do with the writes that wait for an idle stripe.
    fn judge(&mut self, look: &Look) -> Verdict;

    /// A write that waited was started.
    fn started(&mut self, _stripe: u64, _mark: Mark, _blocks: u32) {}

    /// A write has ended.
    fn ended(&mut self, _now: Nanos, _mark: Mark, _blocks: u32) {}

    /// The writing of a stripe has ended that began at `started`; it was `full` or a part.
    fn written(&mut self, _now: Nanos, _started: Nanos, _full: bool) {}

    /// A read has arrived.
    fn read_began(&mut self, _now: Nanos) {}

    /// A read of so many blocks has been answered.
    fn read_ended(&mut self, _now: Nanos, _blocks: u32) {}

    /// Nothing concerns the stripe any more.
    fn idle(&mut self, _stripe: u64) {}

    /// A stripe of which the verdict may have changed without a write to it.
    fn stirred(&mut self) -> Option<u64> {
        None
    }

    /// What it does where, and why.
    fn view(&self, question: &Question) -> View;
}

/// The strategies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// Every request by itself.
    Never,
    /// What queues behind a busy stripe goes together.
    Batch,
    /// Everything is held until its stripe is full, or the longest time is over.
    Always,
    /// The algorithm of *RAID* §4–5, as it was published: what is not merged goes one request at a time.
    Paper,
    /// The same algorithm on top of [`Merging::Batch`]: what is not merged goes together with all that queues.
    PaperBatch,
    /// The default.
    Adaptive,
}

impl Merging {
    /// All of them.
    pub const ALL: [Merging; 6] = [
        Merging::Never,
        Merging::Batch,
        Merging::Always,
        Merging::Paper,
        Merging::PaperBatch,
        Merging::Adaptive,
    ];

    /// Its name in settings and reports.
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

    /// The strategy, for stripes with so many blocks of data, of which none may be held longer than `longest_hold`.
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
                Box::new(Guard::new(GuardSettings::default(), model))
            }
        }
    }
}
