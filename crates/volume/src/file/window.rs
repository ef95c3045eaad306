//! Contents of one unit in memory, with the range that is not on the volume yet.

use crate::blocks::BLOCK;
use std::ops::Range;

/// Divisor: a stripe is written whole if at least one part in this many is new.
const WHOLE_STRIPE_DIVISOR: usize = 4;

/// Contents of a unit in memory.
pub struct Window {
    /// Offset of the unit in the file.
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    /// Range of the bytes that are not on the volume.
    pub(super) dirty: Range<usize>,
    /// Offset from which on nothing was ever written to the unit.
    pub(super) fresh: usize,
}

impl Window {
    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        self.bytes[at..end].copy_from_slice(bytes);
        self.dirty = match self.dirty.is_empty() {
            true => at..end,
            false => self.dirty.start.min(at)..self.dirty.end.max(end),
        };
    }

    /// Marks all bytes as dirty, on a unit to which nothing was written.
    pub(super) fn mark_all_dirty(&mut self) {
        self.dirty = 0..self.bytes.len();
        self.fresh = 0;
    }

    /// Ends the file at `at`. The bytes behind stay, because the table may still count them.
    pub(super) fn cut(&mut self, at: usize) {
        let at = at.min(self.bytes.len());
        self.dirty = self.dirty.start.min(at)..self.dirty.end.min(at);
    }

    /// Returns the range to write for the dirty bytes: whole blocks, and whole stripes where that pays.
    pub(super) fn range_to_write(&self, stripe: usize) -> Range<usize> {
        let dirty = self.dirty.start / BLOCK * BLOCK..self.dirty.end.next_multiple_of(BLOCK);
        let is_worthwhile = |start: usize| {
            let new = dirty.end.min(start + stripe) - dirty.start.max(start);
            start >= self.fresh || new * WHOLE_STRIPE_DIVISOR >= stripe
        };
        let first = dirty.start / stripe * stripe;
        let last = (dirty.end - 1) / stripe * stripe;
        let start = if is_worthwhile(first) {
            first
        } else {
            dirty.start
        };
        let end = if is_worthwhile(last) {
            last + stripe
        } else {
            dirty.end
        };
        start..end
    }
}
