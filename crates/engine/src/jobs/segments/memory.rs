//! Memory of the segment job between its steps.

use crate::segment::Entry;
use seiner_platform::File;
use std::sync::Arc;

/// Checkpoint that was made in memory and is not yet on disk.
pub(crate) struct PendingCheckpoint {
    pub(super) number: u64,
    pub(super) file: Arc<dyn File>,
    pub(super) marked: u64,
    pub(super) end: u64,
    pub(super) pins: Vec<(u32, u64)>,
    pub(super) entries: Vec<Entry>,
}

/// Memory of the segment job.
#[derive(Default)]
pub(crate) struct SegmentMemory {
    /// Checkpoints that are not yet on disk.
    pub(super) checkpoints: Vec<PendingCheckpoint>,
}
