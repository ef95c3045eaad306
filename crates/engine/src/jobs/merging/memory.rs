//! Memory of merging between its steps, with its latest decisions.

use crate::maps::{HashMap, HashSet};
use crate::segment::sealed::Segment;
use crate::volume::SlotState;
use seiner_merge::Policy;
pub use seiner_store::DecisionRecord;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Memory of merging between its steps.
pub(crate) struct MergeMemory {
    /// Policy that chooses victims.
    pub policy: Box<dyn Policy>,
    /// Victims whose live blocks were rewritten. They are dropped when these blocks are on disk.
    pub merged: Vec<MergedSegment>,
    /// Progress on victims of an unfinished merge.
    pub partial: HashMap<u64, PartialMerge>,
    /// Success rate of recent recompressions.
    pub recompressions: Recompressions,
    /// Merge that continues with the next step.
    pub paused: Option<PausedMerge>,
    /// Segments whose names mark them as being merged.
    pub merging: HashSet<u64>,
    /// Segments in `merging` that were already marked at the start.
    pub interrupted: HashSet<u64>,
    /// Blocks of the segments in `interrupted` that other segments also contain, as segment and
    /// number.
    pub copied: HashSet<(u64, u64)>,
    /// Segments whose index is damaged.
    pub unreadable: HashSet<u64>,
    /// Segments out of service that may still have readers.
    pub obsolete: Vec<(Arc<Segment>, SlotState)>,
    /// Bytes of all blocks sealed up to the last full liveness scan before shedding.
    pub scanned: u64,
}

impl MergeMemory {
    /// Returns the memory of a store that was just opened. `merging` lists the segments that were
    /// being merged. `copied` lists their blocks that other segments also contain.
    pub fn new(
        policy: Box<dyn Policy>,
        merging: HashSet<u64>,
        copied: HashSet<(u64, u64)>,
    ) -> MergeMemory {
        MergeMemory {
            policy,
            merged: Vec::new(),
            partial: HashMap::default(),
            recompressions: Recompressions::default(),
            paused: None,
            interrupted: merging.clone(),
            merging,
            copied,
            unreadable: HashSet::default(),
            obsolete: Vec::new(),
            scanned: 0,
        }
    }

    /// Removes a segment that leaves service.
    pub fn forget(&mut self, segment: u64) {
        if self.interrupted.remove(&segment) && self.interrupted.is_empty() {
            self.copied.clear();
        }
        self.partial.remove(&segment);
        self.merging.remove(&segment);
    }
}

/// Victim whose live blocks were rewritten.
pub(crate) struct MergedSegment {
    pub segment: Arc<Segment>,
    /// Segments that contain the rewritten blocks.
    pub(super) into: HashSet<u64>,
    /// True if some of the blocks are unreadable.
    pub(super) damaged: bool,
}

/// Recent decisions, for readers that do not wait for a merge.
#[derive(Default)]
pub(crate) struct Decisions {
    /// Records of decisions, latest last.
    pub records: VecDeque<DecisionRecord>,
    /// Memory of the policy.
    pub memory: seiner_merge::Memory,
}

/// Merge that continues with a later step.
pub(crate) struct PausedMerge {
    /// Segments that are being merged.
    pub victims: Vec<u64>,
    /// True if the merge only serves reads.
    pub extra: bool,
}

/// Progress on a victim.
#[derive(Default)]
pub(crate) struct PartialMerge {
    /// Segments that contain the rewritten blocks.
    pub(super) into: HashSet<u64>,
    /// Numbers of the rewritten blocks.
    pub(super) done: HashSet<u64>,
    /// True if some blocks are unreadable.
    pub(super) damaged: bool,
}

/// Success rate of recent recompressions. Recompression takes most of the time of a merge. It gains
/// nothing for values that do not compress or were recompressed before.
#[derive(Default)]
pub(crate) struct Recompressions {
    pub(super) tried: Cell<u32>,
    pub(super) kept: Cell<u32>,
    pub(super) passed: Cell<u32>,
}

impl Recompressions {
    /// Returns whether to recompress a block. If success was rare, recompression is tried from time
    /// to time.
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
    fn recompression_is_rare_if_it_rarely_succeeded() {
        let recompressions = Recompressions::default();
        for _ in 0..16 {
            assert!(recompressions.is_worth_a_try(), "too little is known");
            recompressions.note(false);
        }
        let tries = |recompressions: &Recompressions| {
            (0..160).filter(|_| recompressions.is_worth_a_try()).count()
        };
        assert_eq!(tries(&recompressions), 10, "one in sixteen");
        // Two of 18 attempts succeeded, but not one in eight.
        recompressions.note(true);
        recompressions.note(true);
        assert_eq!(tries(&recompressions), 10);
        recompressions.note(true);
        assert_eq!(tries(&recompressions), 160);
    }

    #[test]
    fn old_attempts_lose_their_weight() {
        let recompressions = Recompressions::default();
        for _ in 0..256 {
            recompressions.note(true);
        }
        // Of 256 successes, 128 remain in the record.
        let until = (0..).find(|_| {
            let worth = recompressions.is_worth_a_try();
            recompressions.note(false);
            !worth
        });
        assert!(until.is_some_and(|notes| notes < 1024), "{until:?}");
    }
}
