//! Memory of the job that forgets sources between its steps.

use crate::query::memory::Epoch;
use crate::segment::sealed::Segment;
use roaring::RoaringBitmap;
use std::collections::VecDeque;
use std::sync::Arc;

/// State of the job between its steps.
#[derive(Default)]
pub(crate) struct ForgettingMemory {
    /// Number of dropped segments when the last search began. `None` before the first.
    pub(super) dropped: Option<u64>,
    pub(super) search: Option<Search>,
    /// Sources whose numbers are not yet free, oldest first.
    pub(super) waiting: VecDeque<Waiting>,
    /// Sources whose numbers could be free, but are in names files.
    pub(super) held: RoaringBitmap,
    /// True if the sources that had no name at the start are among them.
    pub(super) knows_start: bool,
    /// Bytes of the catalog after it was compacted.
    pub(super) compacted: u64,
    /// Number of registrations when segments were closed last.
    pub(super) closed: u64,
    /// True if the catalog is damaged, so that names cannot be removed from it.
    pub(super) is_off: bool,
}

/// Search for sources without data.
pub(super) struct Search {
    /// Segments that are still to be read, oldest first.
    pub(super) segments: Vec<Arc<Segment>>,
    /// Sources that have blocks.
    pub(super) found: RoaringBitmap,
}

/// Sources whose names were removed.
pub(super) struct Waiting {
    pub(super) sources: RoaringBitmap,
    /// Queries that may refer to the sources.
    pub(super) queries: Epoch,
    /// Monotonic time at which the names were removed, ns.
    pub(super) since: u64,
}
