//! Traits of a disk: a flat directory of named files.

use std::io;
use std::sync::Arc;

/// A flat directory of named files, locked for one process.
///
/// Guarantees after a power cut:
///
/// - Bytes written to a file survive once a later [`File::sync`] of the file has returned.
/// - The creation, removal or new name of a file survives once a later [`Disk::sync_names`] has returned.
///
/// Any other change may or may not survive, in any combination.
pub trait Disk: Send + Sync {
    /// Returns the names of all files, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` if there is no file of this name.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Creates an empty file, or truncates the file of this name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Removes a file. Open handles of the file stay usable.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Renames a file. Replaces any file that has the name `to`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes creations, removals and renames durable.
    fn sync_names(&self) -> io::Result<()>;

    /// Returns the number of bytes that files may still occupy; `None` if that number is unknown.
    fn free(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Returns the allocation unit in bytes. Files occupy multiples of it, and writes are most efficient in
    /// multiples of it.
    fn unit(&self) -> u64 {
        4096
    }
}

/// An open file.
pub trait File: Send + Sync {
    /// Fills `buffer` with the bytes from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before the buffer is full.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`. Extends the file if necessary.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes all written bytes and the file's length durable.
    fn sync(&self) -> io::Result<()>;

    /// Sets the length in bytes. New bytes read as zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space for `len` bytes without a change of the length, so that later writes neither fail for
    /// lack of space nor allocate it. Has no effect if the file system does not support reservations.
    fn reserve(&self, len: u64) -> io::Result<()>;

    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Returns the bytes that the file system allocated to the file, with its own records about a file in
    /// several pieces. Without such a number: the length.
    fn allocated(&self) -> io::Result<u64> {
        self.len()
    }

    /// Returns whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}
