//! Memory of the jobs that write segments: whoever holds its lock writes.

use crate::jobs::ageing::round::Round;
use crate::jobs::ended::Ended;
use crate::jobs::merging::memory::{Eaten, Half, Squeezes, Unfinished};
use crate::segment::Entry;
use crate::segment::sealed::Segment;
use crate::volume::SlotState;
use roaring::RoaringBitmap;
use seiner_merge::Policy;
use seiner_platform::Disk;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A source is idle after so many ticks without a row.
pub const IDLE_TICKS: u16 = 8;

/// What belongs to whoever writes segments.
pub(crate) struct Writing {
    pub disk: Arc<dyn Disk>,
    pub policy: Box<dyn Policy>,
    /// Chapters that were ended, as long as they are not on disk.
    pub chapters: Vec<Ended>,
    pub idle_hand: u32,
    pub idle_tick: u16,
    pub idle_rows: u64,
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
    /// Blocks that later ones overwrite, by their places in segments.
    pub overwritten: HashMap<u64, RoaringBitmap>,
    /// Segments whose index is damaged.
    pub unreadable: HashSet<u64>,
    /// Segments in which gathering blocks was found not to be worth it.
    pub tidy: HashSet<u64>,
    /// Segments out of service that somebody may be reading still.
    pub graveyard: Vec<(Arc<Segment>, SlotState)>,
    /// When the free room was asked for, and when everything was last tried to make some, in the
    /// clock's monotone ns.
    pub asked: Option<u64>,
    pub tried: Option<u64>,
    /// The next level that is being made.
    pub round: Option<Round>,
    /// The bytes of blocks that had been sealed when everything was counted anew before shedding.
    pub surveyed: u64,
}

impl Writing {
    /// Whether all that is in a block of a segment lies in others, too, or is overwritten there: then it is
    /// dead in this one.
    pub fn is_elsewhere(&self, segment: u64, entry: &Entry) -> bool {
        let overwritten = self.overwritten.get(&segment);
        self.copied.contains(&(segment, entry.number))
            || overwritten.is_some_and(|blocks| blocks.contains(entry.offset))
    }
}
