//! Memory of the jobs: whoever holds its lock writes segments.

use crate::jobs::ageing::round::Round;
use crate::jobs::flush::memory::Memory as Flush;
use crate::jobs::free::memory::Memory as Space;
use crate::jobs::idle::memory::Memory as Idle;
use crate::jobs::merging::memory::Memory as Merge;
use crate::segment::Entry;
use roaring::RoaringBitmap;
use std::collections::{HashMap, HashSet};

/// What each job remembers between its steps.
pub(crate) struct Writing {
    pub flush: Flush,
    pub idle: Idle,
    pub space: Space,
    pub merge: Merge,
    /// The next level that is being made.
    pub round: Option<Round>,
    /// Blocks that later ones overwrite, by their places in segments.
    pub overwritten: HashMap<u64, RoaringBitmap>,
    /// Segments in which gathering blocks was found not to be worth it.
    pub tidy: HashSet<u64>,
}

impl Writing {
    /// Returns the memory of jobs that have done nothing yet.
    pub fn new(space: Space, merge: Merge) -> Writing {
        Writing {
            flush: Flush::default(),
            idle: Idle::default(),
            space,
            merge,
            round: None,
            overwritten: HashMap::new(),
            tidy: HashSet::new(),
        }
    }

    /// Returns whether all that is in a block of a segment lies in others, too, or is overwritten there: then it is
    /// dead in this one.
    pub fn is_elsewhere(&self, segment: u64, entry: &Entry) -> bool {
        let overwritten = self.overwritten.get(&segment);
        self.merge.copied.contains(&(segment, entry.number))
            || overwritten.is_some_and(|blocks| blocks.contains(entry.offset))
    }

    /// Forgets a segment that leaves service.
    pub fn forget(&mut self, segment: u64) {
        self.merge.forget(segment);
        self.overwritten.remove(&segment);
        self.tidy.remove(&segment);
    }
}
