//! Memory of the log: lists of blocks, and the rows that a start after a crash would replay.
//!
//! The lists of open segments grow with every block. The list of a closed segment is copied when it
//! is sealed. The rows that a start after a crash would replay are bounded ([`REPLAY_SHARE`]), so
//! that this start fits into the memory.

use super::Log;
use crate::options::Durability;
use crate::segment::open::OpenSegment;
use crate::segment::stats::SegmentStats;

/// Maximum fraction of the memory for the block list of one open segment.
const LIST_SHARE: usize = 16;
/// Maximum fraction of the memory for the block lists of all lanes. Beyond it, segments are closed
/// early, which costs disk space.
const LISTS_SHARE: usize = 4;
/// Fraction of the memory for the block lists of closed segments, above which they are sealed at
/// once.
const CLOSED_SHARE: usize = 32;
/// Fraction of the memory for rows in the journal that no index contains, if they were replayed.
/// Beyond it, checkpoints are written.
const REPLAY_SHARE: u64 = 8;
/// Fraction of the memory that may wait for the segment writer before writers wait for it.
const WAITING_SHARE: u64 = 16;

impl Log {
    /// Returns the bytes of memory of segments.
    pub fn memory(&self) -> usize {
        self.open.iter().map(OpenSegment::memory).sum::<usize>()
            + self.sparse_index_bytes
            + self.stats_bytes
    }

    /// Stores the statistics of a sealed segment.
    pub fn put_stats(&mut self, stats: SegmentStats) {
        self.stats_bytes += stats.memory();
        let before = self.segment_stats.insert(stats.stat.number, stats);
        self.stats_bytes -= before.map_or(0, |before| before.memory());
    }

    /// Returns the bytes of the block lists of open segments.
    fn lists(&self) -> usize {
        self.open.iter().map(OpenSegment::list_bytes).sum()
    }

    /// Returns whether the block list of an open segment uses memory that buffers need. The segment
    /// is then sealed early.
    pub(super) fn is_list_long(&self, at: usize) -> bool {
        let (memory, list) = (self.options.memory as usize, self.open[at].list_bytes());
        let fair = memory / LISTS_SHARE / self.open.len();
        list >= memory / LIST_SHARE || list >= fair && self.lists() >= memory / LISTS_SHARE
    }

    /// Returns whether closed segments with lists of this size are sealed together. Their lists are
    /// copied.
    pub fn is_sealed_at_once(&self, lists: usize) -> bool {
        lists <= self.options.memory as usize / LIST_SHARE / 2
    }

    /// Returns the memory that a replay of the rows outside any index would need.
    fn replayable(&self) -> u64 {
        match self.options.durability {
            Durability::Memory => 0,
            _ => self.open.iter().map(|open| open.replayable).sum(),
        }
    }

    /// Returns whether open segments use memory that only a seal or a checkpoint would free.
    pub fn is_short_of_memory(&self) -> bool {
        let closed = self.open.iter().filter(|open| open.closed_at.is_some());
        let lists = closed.clone().map(OpenSegment::list_bytes).sum::<usize>();
        let replayable = self.replayable() > self.options.memory / REPLAY_SHARE / 2 * 3;
        lists > self.options.memory as usize / CLOSED_SHARE
            || replayable && (closed.count() > 0 || self.checkpoint_due)
    }

    /// Requests checkpoints if a start after a crash would find too many rows in the journal.
    pub fn bound_replay(&mut self) {
        if self.replayable() > self.options.memory / REPLAY_SHARE {
            self.checkpoint_due = true;
        }
    }

    /// Returns whether open segments have as many unwritten bytes as the memory may contain.
    pub fn is_much_waiting(&self) -> bool {
        let waiting = self.open.iter().map(OpenSegment::waiting).sum::<usize>();
        waiting as u64 > self.options.memory / WAITING_SHARE || self.is_short_of_memory()
    }

    /// Returns whether writers fill memory or journal faster than the jobs empty them.
    pub fn is_behind(&self, is_journal_full: bool) -> bool {
        let closed = |open: &OpenSegment| open.closed_at.is_some();
        let journal_full = is_journal_full && (self.checkpoint_due || self.open.iter().any(closed));
        journal_full || self.is_much_waiting()
    }
}
