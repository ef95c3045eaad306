//! Memory of the jobs. The thread that holds its lock writes segments.

use crate::health::Health;
use crate::jobs::filing::memory::FilingMemory;
use crate::jobs::forgetting::memory::ForgettingMemory;
use crate::jobs::free::memory::SpaceMemory;
use crate::jobs::gathering::memory::GatheringMemory;
use crate::jobs::idle::memory::IdleMemory;
use crate::jobs::merging::memory::MergeMemory;
use crate::jobs::rollup::pass::RollupPass;
use crate::jobs::segments::memory::SegmentMemory;
use crate::maps::{HashMap, HashSet};
use crate::segment::Entry;
use parking_lot::MutexGuard;
use roaring::RoaringTreemap;
use std::ops::{Deref, DerefMut};

/// State that each job keeps between its steps.
pub(crate) struct Writing {
    pub segments: SegmentMemory,
    pub gathering: GatheringMemory,
    pub idle: IdleMemory,
    pub space: SpaceMemory,
    pub merge: MergeMemory,
    pub filing: FilingMemory,
    pub forgetting: ForgettingMemory,
    /// Roll-up pass that is under way, if any.
    pub rollup: Option<RollupPass>,
    /// Overwritten blocks, by segment and offset.
    pub overwritten: HashMap<u64, RoaringTreemap>,
    /// Segments for which coalescing blocks proved not worthwhile.
    pub tidy: HashSet<u64>,
}

impl Writing {
    /// Returns the memory of jobs that have not run yet.
    pub fn new(space: SpaceMemory, merge: MergeMemory) -> Writing {
        Writing {
            segments: SegmentMemory::default(),
            gathering: GatheringMemory::default(),
            idle: IdleMemory::default(),
            space,
            merge,
            filing: FilingMemory::default(),
            forgetting: ForgettingMemory::default(),
            rollup: None,
            overwritten: HashMap::default(),
            tidy: HashSet::default(),
        }
    }

    /// Returns whether a block is dead in its segment because other blocks contain or overwrite all
    /// of its rows.
    pub fn is_elsewhere(&self, segment: u64, entry: &Entry) -> bool {
        let overwritten = self.overwritten.get(&segment);
        self.merge.copied.contains(&(segment, entry.number))
            || overwritten.is_some_and(|blocks| blocks.contains(entry.number))
    }

    /// Removes a segment that leaves service.
    pub fn forget(&mut self, segment: u64) {
        self.merge.forget(segment);
        self.overwritten.remove(&segment);
        self.tidy.remove(&segment);
    }
}

/// Access to the memory of the jobs. A panic of a job ends writing, because the job may have stopped half-way.
pub(crate) struct WritingGuard<'a> {
    writing: MutexGuard<'a, Writing>,
    health: &'a Health,
}

impl<'a> WritingGuard<'a> {
    /// Wraps a lock that was taken.
    pub fn new(writing: MutexGuard<'a, Writing>, health: &'a Health) -> WritingGuard<'a> {
        WritingGuard { writing, health }
    }
}

impl Deref for WritingGuard<'_> {
    type Target = Writing;

    fn deref(&self) -> &Writing {
        &self.writing
    }
}

impl DerefMut for WritingGuard<'_> {
    fn deref_mut(&mut self) -> &mut Writing {
        &mut self.writing
    }
}

impl Drop for WritingGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.health
                .poison(|| "a background job panicked".to_string());
        }
    }
}
