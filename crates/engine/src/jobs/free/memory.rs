//! Memory of queries to the file system: the time of the last query and of the last attempt to free
//! space.

use seiner_platform::Disk;
use std::sync::Arc;

/// Memory of the job.
pub(crate) struct SpaceMemory {
    disk: Arc<dyn Disk>,
    /// Time of the last query for free space, in monotonic ns of the clock. `None` if a query is
    /// due now.
    pub queried: Option<u64>,
    /// Time of the last attempt to free space by all means, in monotonic ns of the clock.
    pub tried: Option<u64>,
}

impl SpaceMemory {
    /// Returns the disk of the store.
    pub fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    /// Returns the memory of a store on a disk.
    pub fn new(disk: Arc<dyn Disk>) -> SpaceMemory {
        SpaceMemory {
            disk,
            queried: None,
            tried: None,
        }
    }
}
