//! Identity of sealed segments.

use seiner_engine::inspect::FileKind;
use seiner_platform::{Disk, File};
use std::collections::BTreeMap;
use std::io;

/// Bytes of the trailer, which ends a sealed segment (`docs/format/segment.md`). The trailer has the store, the number
/// of the segment, the time at which it was sealed, and the checksum of its index.
const TRAILER: u64 = 132;
/// Bytes at the end of a sealed segment from which its name in a bucket follows.
#[cfg(feature = "object-storage")]
const TAIL: u64 = 4096;

/// Returns the part of a sealed segment's name that stays the same for the segment's life; `None` for other files.
pub fn stem(name: &str) -> Option<&str> {
    let (stem, _) = name.split_once('.')?;
    (FileKind::of(name) == FileKind::Segment).then_some(stem)
}

/// Returns whether two files are the same sealed segment: they have the same length and the same trailer.
///
/// # Errors
/// If a file cannot be read.
pub fn is_same(file: &dyn File, other: &dyn File) -> io::Result<bool> {
    let length = file.len()?;
    if length != other.len()? {
        return Ok(false);
    }
    Ok(last(file, length, TRAILER)? == last(other, length, TRAILER)?)
}

/// Returns the last bytes of a segment of the given length, with its trailer.
///
/// # Errors
/// If the file cannot be read.
#[cfg(feature = "object-storage")]
pub fn tail(file: &dyn File, length: u64) -> io::Result<Vec<u8>> {
    last(file, length, TAIL)
}

/// Returns the last `count` bytes of a file of the given length.
fn last(file: &dyn File, length: u64, count: u64) -> io::Result<Vec<u8>> {
    let from = length.saturating_sub(count);
    let mut bytes = vec![0; (length - from) as usize];
    file.read_at(from, &mut bytes).map(|()| bytes)
}

/// Returns the names of the sealed segments on a disk, by their stem.
///
/// # Errors
/// If the disk cannot be listed.
pub fn names(disk: &dyn Disk) -> io::Result<BTreeMap<String, String>> {
    let names = disk.list()?.into_iter();
    Ok(names
        .filter_map(|name| Some((stem(&name)?.to_string(), name)))
        .collect())
}
