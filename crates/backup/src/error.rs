//! Errors of backups.

use std::io;

/// Error of a backup or a restore.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directories do not suit the request. The text has the remedy.
    #[error("{0}")]
    Request(String),
    /// The store cannot be read, or the copy cannot be written.
    #[error(transparent)]
    Store(#[from] seiner_engine::Error),
    /// A folder of backups cannot be read or written.
    #[error("{context}: {error}")]
    Folder {
        /// Operation, and the file.
        context: String,
        /// Error of the disk.
        error: io::Error,
    },
    /// An object store cannot be read or written.
    #[cfg(feature = "object-storage")]
    #[error("{context}: {error}")]
    Bucket {
        /// Operation, and the object.
        context: String,
        /// Error of the object store.
        error: Box<object_store::Error>,
    },
}

/// Adds the failed operation to an error of the disk.
pub fn folder_error<C: FnOnce() -> String>(context: C) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Folder {
        context: context(),
        error,
    }
}
