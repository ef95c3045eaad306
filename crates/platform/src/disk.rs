//! The disk: a flat directory of named files.

use std::io;
use std::sync::Arc;

/// A flat directory of named files, locked for one process.
///
/// What survives a power cut: bytes of a file once [`File::sync`] returned after they were
/// written; a file's name, its absence or its new name once [`Disk::sync_names`] returned.
/// Anything else may or may not be there afterwards, in any mixture.
pub trait Disk: Send + Sync {
    /// The names of all files, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file for reading and writing; `NotFound` where there is none.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Creates an empty file, or empties the one of this name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Removes a file. Handles that are open stay usable.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Gives a file another name, in place of any file that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes creations, removals and renames durable.
    fn sync_names(&self) -> io::Result<()>;

    /// Bytes that files may still take; `None` where nobody knows.
    fn free(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// What files take of the disk is a multiple of so many bytes, and best written in multiples of them.
    fn unit(&self) -> u64 {
        4096
    }
}

/// An open file.
pub trait File: Send + Sync {
    /// Fills `buffer` from `offset`; `UnexpectedEof` where the file is shorter.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`, lengthening the file where needed.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was written durable, the file's length included.
    fn sync(&self) -> io::Result<()>;

    /// Sets the length; what is gained reads as zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves room for `len` bytes without changing the length, so that later writes
    /// neither fail for want of room nor have to find it. A hint where it is not supported.
    fn reserve(&self, len: u64) -> io::Result<()>;

    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}
