//! What a store lies on: a directory, or something that whoever starts the server keeps, such as an array.

use crate::figures::Volume;
use seiner_platform::Disk;
use serde_json::Value;
use std::sync::Arc;

/// Something other than a directory that holds a store.
pub trait Ground: Send + Sync {
    /// What it is, for people: `array 01234567-…`.
    fn name(&self) -> String;

    /// Its files.
    fn disk(&self) -> Arc<dyn Disk>;

    /// Bytes that files can take together.
    fn capacity(&self) -> u64;

    /// How it is, for `/status`.
    fn status(&self) -> Value;

    /// Its figures in OpenMetrics text, for `/metrics`.
    fn metrics(&self) -> String {
        String::new()
    }

    /// What somebody should look at, with the remedy.
    fn warnings(&self) -> Vec<String>;
}

/// Its room, as that of a file system.
pub fn volume(ground: &dyn Ground) -> Volume {
    Volume {
        total_bytes: ground.capacity(),
        free_bytes: ground.disk().free().ok().flatten().unwrap_or(0),
        ..Volume::default()
    }
}
