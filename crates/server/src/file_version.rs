//! Versions of files that are read again when they change.

use std::path::Path;
use std::time::SystemTime;

/// Version of a file: the time of its last change and its length, or nothing if it cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileVersion(Option<(SystemTime, u64)>);

impl FileVersion {
    /// Returns the present version of a file.
    pub fn of(path: &Path) -> FileVersion {
        let version = std::fs::metadata(path).and_then(|metadata| {
            let changed = metadata.modified()?;
            Ok((changed, metadata.len()))
        });
        FileVersion(version.ok())
    }
}
