//! Errors of names files.

use std::io;

/// Error of reading a names file or of merging several.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Bytes of the file are not those that were written.
    #[error("names file {file}, offset {offset}: {what}")]
    Damage {
        /// Name of the file.
        file: String,
        /// Offset of the damaged part, in bytes.
        offset: u64,
        /// Expected and found.
        what: String,
    },
    /// The file cannot be read or written.
    #[error("names file {file}: {source}")]
    Io {
        /// Name of the file.
        file: String,
        /// Error of the disk.
        source: io::Error,
    },
    /// The file has a version that this program cannot read.
    #[error(
        "names file {file} has version {found}, this program reads version 1; use a newer program"
    )]
    Version {
        /// Name of the file.
        file: String,
        /// Version in the file.
        found: u32,
    },
}
