//! Windows of segments: many small blocks that lie close together are read by one call of the disk.

use crate::error::Error;
use crate::maps::HashMap;
use crate::query::snapshot::BlockLocation;
use crate::segment::Entry;
use std::borrow::Cow;

/// Bytes of a window.
const BYTES: u64 = 64 << 10;
/// Maximum number of windows.
const WINDOWS: usize = 16;

/// Latest window of each segment from which blocks are read.
#[derive(Default)]
pub(crate) struct Windows(HashMap<u64, Window>);

#[derive(Default)]
struct Window {
    /// Offset of the bytes in the segment.
    start: u64,
    bytes: Vec<u8>,
    /// End of the block that was read last.
    end: u64,
}

impl Windows {
    /// Returns the bytes of a block. If the block follows soon after the block that was read last, later bytes of the
    /// segment are read ahead.
    ///
    /// # Errors
    /// As [`BlockLocation::read`].
    pub fn read(&mut self, entry: &Entry, place: &BlockLocation) -> Result<Cow<'_, [u8]>, Error> {
        let BlockLocation::Sealed(segment) = place else {
            return Ok(place.read(entry)?.into());
        };
        let (offset, len) = (u64::from(entry.offset), u64::from(entry.len));
        let number = segment.trailer.number;
        if self.0.len() >= WINDOWS && !self.0.contains_key(&number) {
            self.0.clear();
        }
        let window = self.0.entry(number).or_default();
        let follows = offset >= window.end && offset < window.end + BYTES;
        window.end = offset + len;
        if window.at(offset, len).is_none() {
            let ahead = BYTES.min(segment.bytes().saturating_sub(offset));
            if !follows || ahead < len {
                return Ok(place.read(entry)?.into());
            }
            window.bytes = segment.bytes_at(offset, ahead)?;
            window.start = offset;
        }
        let found = window.at(offset, len).map(Cow::Borrowed);
        Ok(found.expect("the window begins with the block"))
    }
}

impl Window {
    /// Returns bytes of the segment, if they are in the window.
    fn at(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let from = offset.checked_sub(self.start)? as usize;
        self.bytes.get(from..from.checked_add(len as usize)?)
    }
}
