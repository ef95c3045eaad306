//! Places that files are copied to.

use crate::error::Error;
use seiner_platform::Disk;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// Place that gets the files of one backup, or of one restored store.
pub trait Target {
    /// Returns the disk for the files that change. They are copied as fast as possible, so it is a local one.
    fn changing(&self) -> &dyn Disk;

    /// Removes what an interrupted run has left and is of no use. Returns the names of the source's sealed segments that
    /// are there.
    ///
    /// # Errors
    /// If a disk fails.
    fn keep(&self, source: &dyn Disk) -> Result<BTreeSet<String>, seiner_engine::Error>;

    /// Makes a segment that an earlier backup has a part of this one. Returns whether one has it.
    ///
    /// # Errors
    /// If the place or the source fails.
    fn reuse(&self, source: &dyn Disk, name: &str) -> Result<bool, Error>;

    /// Copies a sealed segment. A segment of this name is replaced. `advance` is called with the bytes of each piece.
    ///
    /// # Errors
    /// If the place or the source fails. No segment of this name has other contents then.
    fn send(
        &self,
        source: &dyn Disk,
        name: &str,
        advance: &mut dyn FnMut(u64),
    ) -> Result<(), Error>;

    /// Returns the bytes that [`Target::complete`] will send, of the given bytes of files that change.
    fn pending(&self, changing: u64) -> u64;

    /// Makes all files durable. Returns a disk with them.
    ///
    /// # Errors
    /// If the place fails.
    fn complete(&self, advance: &mut dyn FnMut(u64)) -> Result<Arc<dyn Disk>, Error>;

    /// Returns the bytes that segments may still occupy; `None` if that number is unknown.
    ///
    /// # Errors
    /// If the place fails.
    fn free(&self) -> io::Result<Option<u64>>;
}
