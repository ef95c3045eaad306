//! Memory of the flush between its steps.

use crate::segment::Entry;
use seiner_platform::File;
use std::sync::Arc;

/// A segment whose chapter was ended and is not on disk yet.
pub(crate) struct Ended {
    pub(super) number: u64,
    pub(super) file: Arc<dyn File>,
    pub(super) marked: u64,
    pub(super) end: u64,
    pub(super) pins: Vec<(u32, u64)>,
    pub(super) entries: Vec<Entry>,
}

/// Memory of the job.
#[derive(Default)]
pub(crate) struct Memory {
    /// Chapters that were ended, as long as they are not on disk.
    pub(super) chapters: Vec<Ended>,
}
