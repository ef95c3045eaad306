//! Storage target of a store: a directory, or something that the caller of the server provides, such as an array.

use crate::figures::Volume;
use seiner_platform::Disk;
use serde_json::Value;
use std::sync::Arc;

/// Storage target other than a directory.
pub trait Ground: Send + Sync {
    /// Name for people: `array 01234567-…`.
    fn name(&self) -> String;

    /// Files of the target.
    fn disk(&self) -> Arc<dyn Disk>;

    /// Bytes that files can occupy together.
    fn capacity(&self) -> u64;

    /// Status, for `/status`.
    fn status(&self) -> Value;

    /// Metrics in OpenMetrics text, for `/metrics`.
    fn metrics(&self) -> String {
        String::new()
    }

    /// Warnings, each with its remedy.
    fn warnings(&self) -> Vec<String>;
}

/// Returns the space of a target, in the form of a file system.
pub fn volume(ground: &dyn Ground) -> Volume {
    Volume {
        total_bytes: ground.capacity(),
        free_bytes: ground.disk().free().ok().flatten().unwrap_or(0),
        ..Volume::default()
    }
}
