//! Memory of the log: lists of blocks, and what a crash would bring back as rows.
//!
//! The lists of open segments grow with every block; those that are closed are copied to be sealed. What a crash now
//! would bring back as rows is bounded ([`REPLAY_SHARE`]), so that the next start fits.

use super::Log;
use crate::options::Durability;
use crate::segment::open::OpenSegment;
use crate::segment::tally::Tally;

/// The list of the blocks of one open segment takes this part of the memory at most.
const LIST_SHARE: usize = 16;
/// Those of all lanes: then segments are closed early, which costs room on the disk.
const LISTS_SHARE: usize = 4;
/// The lists of those that are closed, before they are sealed at once.
const CLOSED_SHARE: usize = 32;
/// Rows that only the journal and no index has take this part, if they are replayed; then chapters end.
const REPLAY_SHARE: u64 = 8;
/// The share of the memory that may wait for the segment writer before writers wait for it.
const WAITING_SHARE: u64 = 16;

impl Log {
    /// Returns the bytes of memory of segments.
    pub fn memory(&self) -> usize {
        self.open.iter().map(OpenSegment::memory).sum::<usize>()
            + self.fence_bytes
            + self.tally_bytes
    }

    /// Keeps what is known of a sealed segment.
    pub fn put_tally(&mut self, tally: Tally) {
        self.tally_bytes += tally.memory();
        let before = self.tallies.insert(tally.stat.number, tally);
        self.tally_bytes -= before.map_or(0, |before| before.memory());
    }

    /// Bytes of the lists of open segments.
    fn lists(&self) -> usize {
        self.open.iter().map(OpenSegment::list_bytes).sum()
    }

    /// Whether the list of an open segment takes memory that buffers need: the segment is sealed as
    /// it is.
    pub(super) fn is_list_long(&self, at: usize) -> bool {
        let (memory, list) = (self.options.memory as usize, self.open[at].list_bytes());
        let fair = memory / LISTS_SHARE / self.open.len();
        list >= memory / LIST_SHARE || list >= fair && self.lists() >= memory / LISTS_SHARE
    }

    /// How many of the closed segments are sealed at once: their lists are copied for that.
    pub fn is_sealed_at_once(&self, lists: usize) -> bool {
        lists <= self.options.memory as usize / LIST_SHARE / 2
    }

    /// Bytes that rows would take which the journal alone has, or no index yet.
    fn replayable(&self) -> u64 {
        match self.options.durability {
            Durability::Memory => 0,
            _ => self.open.iter().map(|open| open.replayable).sum(),
        }
    }

    /// Whether open segments take memory that only their being sealed, or the end of their chapters,
    /// gives back.
    pub fn is_short_of_memory(&self) -> bool {
        let closed = self.open.iter().filter(|open| open.closed_at.is_some());
        let lists = closed.clone().map(OpenSegment::list_bytes).sum::<usize>();
        let replayable = self.replayable() > self.options.memory / REPLAY_SHARE / 2 * 3;
        lists > self.options.memory as usize / CLOSED_SHARE
            || replayable && (closed.count() > 0 || self.chapter_due)
    }

    /// Lets chapters end where a start after a crash would find too many rows in the journal.
    pub fn bound_replay(&mut self) {
        if self.replayable() > self.options.memory / REPLAY_SHARE {
            self.chapter_due = true;
        }
    }

    /// Returns whether as much is in open segments and not written as memory may hold.
    pub fn is_much_waiting(&self) -> bool {
        let waiting = self.open.iter().map(OpenSegment::waiting).sum::<usize>();
        waiting as u64 > self.options.memory / WAITING_SHARE || self.is_short_of_memory()
    }

    /// Returns whether writers fill memory or journal faster than the jobs empty them.
    pub fn is_behind(&self, is_journal_full: bool) -> bool {
        let closed = |open: &OpenSegment| open.closed_at.is_some();
        let journal_full = is_journal_full && (self.chapter_due || self.open.iter().any(closed));
        journal_full || self.is_much_waiting()
    }
}
