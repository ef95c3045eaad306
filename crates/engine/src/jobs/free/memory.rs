//! Memory of what was asked of the file system, and when.

use seiner_platform::Disk;
use std::sync::Arc;

/// Memory of the job.
pub(crate) struct Memory {
    pub(super) disk: Arc<dyn Disk>,
    /// When the free room was asked for, in the clock's monotone ns; `None`: it is to be asked for now.
    pub asked: Option<u64>,
    /// When everything was last tried to make some, in the clock's monotone ns.
    pub tried: Option<u64>,
}

impl Memory {
    /// Returns the memory of a store on a disk.
    pub fn new(disk: Arc<dyn Disk>) -> Memory {
        Memory {
            disk,
            asked: None,
            tried: None,
        }
    }
}
