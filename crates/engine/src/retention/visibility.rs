//! Visibility filter: the hidden parts of one source.

use crate::retention::Floor;
use crate::segment::Entry;
use seiner_model::Interval;

/// Hidden parts of one source.
#[derive(Clone, Debug)]
pub struct VisibilityFilter {
    pub(super) floor: Floor,
    /// Ordinal up to which blocks are past the end of the ring.
    pub(super) past: u64,
    /// Deletes: for blocks below a number, the deleted times.
    pub(super) deletes: Vec<(u64, Interval)>,
    /// Number from which on blocks are hidden, for a reader of earlier blocks only.
    pub(super) end: u64,
}

impl VisibilityFilter {
    /// Returns the filter that hides all blocks from a number on as well.
    pub fn before(self, end: u64) -> VisibilityFilter {
        VisibilityFilter {
            end: self.end.min(end),
            ..self
        }
    }

    /// Returns whether a block is hidden because of its number.
    fn is_outside(&self, number: u64) -> bool {
        number < self.floor.number || number >= self.end
    }

    /// Returns whether all rows of a block are hidden.
    pub fn hides(&self, entry: &Entry) -> bool {
        let span = Interval::new(entry.first, entry.last);
        self.is_outside(entry.number)
            || entry.last < self.floor.time
            || self.is_past(entry.ordinal)
            || self
                .deletes(entry.number)
                .any(|delete| delete.covers(&span))
    }

    /// Returns whether the ring has expired a block with this ordinal.
    pub fn is_past(&self, ordinal: u64) -> bool {
        ordinal <= self.past
    }

    /// Returns whether any row of a block is hidden for a reason other than its age.
    pub fn touches(&self, number: u64, span: &Interval) -> bool {
        self.is_outside(number) || self.deletes(number).any(|delete| delete.overlaps(span))
    }

    /// Returns whether a row of a block is hidden.
    pub fn hides_row(&self, number: u64, time: i64) -> bool {
        self.is_outside(number)
            || time < self.floor.time
            || self.deletes(number).any(|delete| delete.contains(time))
    }

    /// Returns the earliest visible time.
    pub fn start(&self) -> i64 {
        self.floor.time
    }

    fn deletes(&self, number: u64) -> impl Iterator<Item = &Interval> {
        self.deletes
            .iter()
            .filter(move |(before, _)| number < *before)
            .map(|(_, interval)| interval)
    }
}
