//! Memory of merging between its steps, and what it decided lately.

use crate::segment::sealed::Segment;
use crate::volume::SlotState;
use seiner_merge::Policy;
pub use seiner_store::Record;
use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Memory of merging between its steps.
pub(crate) struct Memory {
    /// The policy that chooses victims.
    pub policy: Box<dyn Policy>,
    /// Victims whose live blocks were written again.
    pub eaten: Vec<Eaten>,
    /// What was done of victims of a merge that is not done.
    pub half: HashMap<u64, Half>,
    /// Whether compressing harder was worth it lately.
    pub squeezes: Squeezes,
    /// A merge that goes on with the next step.
    pub unfinished: Option<Unfinished>,
    /// Segments whose names say that they are being merged.
    pub merging: HashSet<u64>,
    /// Those of them that were at the start.
    pub interrupted: HashSet<u64>,
    /// Blocks of these that other segments have, too: segment and number.
    pub copied: HashSet<(u64, u64)>,
    /// Segments whose index is damaged.
    pub unreadable: HashSet<u64>,
    /// Segments out of service that somebody may be reading still.
    pub graveyard: Vec<(Arc<Segment>, SlotState)>,
    /// The bytes of blocks that had been sealed when everything was counted anew before shedding.
    pub surveyed: u64,
}

impl Memory {
    /// Returns the memory of a store that was just opened. `merging`: segments that were being merged. `copied`: blocks of
    /// these that other segments have, too.
    pub fn new(
        policy: Box<dyn Policy>,
        merging: HashSet<u64>,
        copied: HashSet<(u64, u64)>,
    ) -> Memory {
        Memory {
            policy,
            eaten: Vec::new(),
            half: HashMap::new(),
            squeezes: Squeezes::default(),
            unfinished: None,
            interrupted: merging.clone(),
            merging,
            copied,
            unreadable: HashSet::new(),
            graveyard: Vec::new(),
            surveyed: 0,
        }
    }

    /// Forgets a segment that leaves service.
    pub fn forget(&mut self, segment: u64) {
        if self.interrupted.remove(&segment) && self.interrupted.is_empty() {
            self.copied.clear();
        }
        self.half.remove(&segment);
        self.merging.remove(&segment);
    }
}

/// A segment whose live blocks were written again.
pub(crate) struct Eaten {
    pub segment: Arc<Segment>,
    /// The segments that have them now.
    pub(super) into: HashSet<u64>,
    /// Whether some of its blocks cannot be read.
    pub(super) damaged: bool,
}

/// What was decided lately, for whoever asks without waiting for a merge.
#[derive(Default)]
pub(crate) struct Decisions {
    /// The latest last.
    pub records: VecDeque<Record>,
    /// What the policy remembers.
    pub memory: seiner_merge::Memory,
}

/// A merge that goes on.
pub(crate) struct Unfinished {
    /// The victims.
    pub victims: Vec<u64>,
    /// Whether it is for the sake of reads alone.
    pub extra: bool,
}

/// What was done of a victim.
#[derive(Default)]
pub(crate) struct Half {
    /// The segments that have its blocks now.
    pub(super) into: HashSet<u64>,
    /// The blocks.
    pub(super) done: HashSet<u64>,
    /// Whether some cannot be read.
    pub(super) damaged: bool,
}

/// How often compressing harder was worth it lately. It takes most of a merge's time, for nothing
/// where values do not compress, or were compressed harder before.
#[derive(Default)]
pub(crate) struct Squeezes {
    pub(super) tried: Cell<u32>,
    pub(super) kept: Cell<u32>,
    pub(super) passed: Cell<u32>,
}

impl Squeezes {
    /// Where it seldom was, it is tried now and then.
    pub(super) fn is_worth_a_try(&self) -> bool {
        if self.tried.get() < 16 || 8 * self.kept.get() >= self.tried.get() {
            return true;
        }
        self.passed.set((self.passed.get() + 1) % 16);
        self.passed.get() == 0
    }

    pub(super) fn note(&self, kept: bool) {
        if self.tried.get() == 256 {
            self.tried.set(128);
            self.kept.set(self.kept.get() / 2);
        }
        self.tried.set(self.tried.get() + 1);
        self.kept.set(self.kept.get() + u32::from(kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressing_harder_is_tried_seldom_where_it_was_seldom_worth_it() {
        let squeezes = Squeezes::default();
        for _ in 0..16 {
            assert!(squeezes.is_worth_a_try(), "too little is known");
            squeezes.note(false);
        }
        let tries = |squeezes: &Squeezes| (0..160).filter(|_| squeezes.is_worth_a_try()).count();
        assert_eq!(tries(&squeezes), 10, "one in sixteen");
        // Two of 18 were worth it, but not one in eight.
        squeezes.note(true);
        squeezes.note(true);
        assert_eq!(tries(&squeezes), 10);
        squeezes.note(true);
        assert_eq!(tries(&squeezes), 160);
    }

    #[test]
    fn old_tries_lose_their_weight() {
        let squeezes = Squeezes::default();
        for _ in 0..256 {
            squeezes.note(true);
        }
        // Of 256 that were worth it, 128 count on.
        let until = (0..).find(|_| {
            let worth = squeezes.is_worth_a_try();
            squeezes.note(false);
            !worth
        });
        assert!(until.is_some_and(|notes| notes < 1024), "{until:?}");
    }
}
