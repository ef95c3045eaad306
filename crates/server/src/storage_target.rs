//! Storage target of a store other than a directory, such as an array of devices.

use crate::array::ArrayMonitor;
use crate::system::FileSystem;
use seiner_platform::Disk;
use std::sync::Arc;

/// Storage target that the caller of the server provides.
pub trait StorageTarget: Send + Sync {
    /// Returns the name for people: `array 01234567-…`.
    fn name(&self) -> String;

    /// Returns the files of the target.
    fn disk(&self) -> Arc<dyn Disk>;

    /// Returns the number of bytes that files can occupy together.
    fn capacity(&self) -> u64;

    /// Returns the array under the files, for `/status` and `/metrics`.
    fn array(&self) -> Option<&dyn ArrayMonitor>;

    /// Returns warnings, each with its remedy.
    fn warnings(&self) -> Vec<String>;
}

/// Returns the space of a target, in the form of a file system.
pub fn space(target: &dyn StorageTarget) -> FileSystem {
    FileSystem {
        total_bytes: target.capacity(),
        free_bytes: target.disk().free().ok().flatten().unwrap_or(0),
        ..FileSystem::default()
    }
}
