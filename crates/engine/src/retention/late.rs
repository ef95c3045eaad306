//! Late blocks. A late block begins before the end of an earlier block of its source, and may
//! overwrite rows of the earlier block.

use crate::retention::Retention;
use crate::segment::Entry;
use seiner_model::Interval;
use std::collections::BTreeMap;

impl Retention {
    /// Records a block on disk, which a start after a crash will find.
    pub fn found(&mut self, entry: &Entry) {
        if entry.source >= self.members.count() {
            return;
        }
        self.is_late(entry.source, entry.first);
        if entry.late {
            note_times(
                &mut self.late,
                entry.source,
                Interval::new(entry.first, entry.last),
            );
        }
        if self.rings {
            let rows = self.durable_rows.of(entry.source);
            *rows = (*rows).max(entry.ordinal);
            let rows = self.logged_rows.of(entry.source);
            *rows = (*rows).max(entry.ordinal);
        }
    }

    /// Records the beginning of a block. Returns whether the block may overwrite an earlier one.
    pub fn is_late(&mut self, source: u32, first: i64) -> bool {
        self.edges.raise(source, ordered(first))
    }

    /// Records a partly overwritten block. Blocks that begin before its end may overwrite the rest.
    pub fn expect_late(&mut self, source: u32, last: i64) {
        self.edges.raise(source, ordered(last));
    }

    /// Returns whether any source has blocks that may overwrite others.
    pub fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Removes and returns sources with blocks that may overwrite others, and the times of these
    /// blocks.
    pub fn take_late(&mut self, most: usize) -> Vec<(u32, Interval)> {
        let first = |late: &mut BTreeMap<u32, Interval>| late.pop_first();
        (0..most).map_while(|_| first(&mut self.late)).collect()
    }

    /// Postpones the search in a source until the segments of its blocks are sealed.
    pub fn wait_for_seal(&mut self, source: u32, interval: Interval) {
        note_times(&mut self.late_and_open, source, interval);
    }

    /// Resumes postponed searches after a segment was sealed.
    pub fn look_again(&mut self) {
        for (source, interval) in std::mem::take(&mut self.late_and_open) {
            note_times(&mut self.late, source, interval);
        }
    }
}

/// Maps a timestamp to a u64 with the same order; i64::MIN becomes 0.
fn ordered(time: i64) -> u64 {
    (time as u64 ^ 1 << 63).max(1)
}

fn note_times(late: &mut BTreeMap<u32, Interval>, source: u32, interval: Interval) {
    let known = late.entry(source).or_insert(interval);
    known.start = known.start.min(interval.start);
    known.end = known.end.max(interval.end);
}
