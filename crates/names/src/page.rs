//! Pages: about 16 KiB of entries, compressed and read as a whole.
//!
//! Entries are stored relative to the entry before. Every 16th entry is complete, so that a look-up decodes few
//! entries: the *restarts*, whose places are at the end of the page.

use crate::bytes::{Cursor, Malformed};
use std::cell::RefCell;

/// Bytes from which on a page is complete.
pub const PAGE_BYTES: usize = 16 << 10;
/// Maximum bytes of a page. The longest entry exceeds a complete page by less than 64 KiB.
pub const PAGE_LIMIT: usize = 128 << 10;
/// Entries from one restart to the next.
pub const RESTART: usize = 16;
/// Compression level of pages.
const LEVEL: i32 = 3;

/// Place of a page in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRef {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Bytes in the file.
    pub stored: u32,
    /// Bytes after decompression. A page with as many stored bytes is not compressed.
    pub plain: u32,
    /// Checksum of the stored bytes.
    pub sum: u32,
}

/// Compresses a page. Returns `None` if compression saves less than a sixteenth, which is not worth the time to
/// decompress.
pub fn pack(plain: &[u8]) -> Option<Vec<u8>> {
    thread_local! {
        static CONTEXT: RefCell<zstd::bulk::Compressor<'static>> =
            RefCell::new(zstd::bulk::Compressor::new(LEVEL).expect("the level exists"));
    }
    let packed = CONTEXT
        .with_borrow_mut(|context| context.compress(plain))
        .expect("zstd allocates a large enough output buffer");
    (packed.len() < plain.len() - plain.len() / 16).then_some(packed)
}

/// Decompresses a page of `plain` bytes, which are at most [`PAGE_LIMIT`].
pub fn unpack(stored: Vec<u8>, plain: usize) -> Result<Vec<u8>, Malformed> {
    if stored.len() == plain {
        return Ok(stored);
    }
    thread_local! {
        static CONTEXT: RefCell<zstd::bulk::Decompressor<'static>> =
            RefCell::new(zstd::bulk::Decompressor::new().expect("a context without a dictionary"));
    }
    let bytes = CONTEXT
        .with_borrow_mut(|context| context.decompress(&stored, plain))
        .map_err(|_| Malformed)?;
    (bytes.len() == plain).then_some(bytes).ok_or(Malformed)
}

/// Entries of a page, and the places of the restarts.
#[derive(Clone, Copy)]
pub struct Entries<'a> {
    /// Bytes of the entries.
    pub body: &'a [u8],
    restarts: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Splits a decompressed page.
    pub fn of(page: &'a [u8]) -> Result<Entries<'a>, Malformed> {
        let (rest, count) = page.split_last_chunk::<4>().ok_or(Malformed)?;
        let count = u32::from_le_bytes(*count) as usize;
        let places = count.checked_mul(4).ok_or(Malformed)?;
        let body = rest.len().checked_sub(places).ok_or(Malformed)?;
        let (body, restarts) = rest.split_at(body);
        Ok(Entries { body, restarts })
    }

    /// Returns the number of restarts.
    pub fn restarts(&self) -> usize {
        self.restarts.len() / 4
    }

    /// Returns the place of a restart in the body.
    pub fn restart(&self, index: usize) -> Result<usize, Malformed> {
        let place = self.restarts.get(4 * index..4 * index + 4);
        let place = place.ok_or(Malformed)?.try_into().expect("four bytes");
        Ok(u32::from_le_bytes(place) as usize)
    }

    /// Returns the last restart whose entry meets a condition that no later one meets; 0 if there is none.
    pub fn search(
        &self,
        mut is_before: impl FnMut(Cursor<'a>) -> Result<bool, Malformed>,
    ) -> Result<usize, Malformed> {
        let (mut low, mut high) = (0, self.restarts());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let place = self.restart(middle)?;
            match is_before(Cursor(self.body.get(place..).ok_or(Malformed)?))? {
                true => low = middle,
                false => high = middle,
            }
        }
        Ok(low)
    }
}

/// Place of a reader in the entries of a page.
#[derive(Clone, Copy, Default)]
pub struct Position {
    at: usize,
    index: usize,
}

impl Position {
    /// Returns the place of a restart.
    pub fn restart(entries: &Entries<'_>, restart: usize) -> Result<Position, Malformed> {
        Ok(Position {
            at: entries.restart(restart)?,
            index: restart * RESTART,
        })
    }

    /// Returns the bytes from the next entry on, and whether the entry is a restart. `None` at the end of the page.
    pub fn next<'a>(
        &mut self,
        entries: &Entries<'a>,
    ) -> Result<Option<(Cursor<'a>, bool)>, Malformed> {
        let rest = entries.body.get(self.at..).ok_or(Malformed)?;
        if rest.is_empty() {
            let complete = self.index.div_ceil(RESTART) == entries.restarts();
            return complete.then_some(None).ok_or(Malformed);
        }
        let is_restart = self.index.is_multiple_of(RESTART);
        if is_restart && entries.restart(self.index / RESTART)? != self.at {
            return Err(Malformed);
        }
        self.index += 1;
        Ok(Some((Cursor(rest), is_restart)))
    }

    /// Moves to the end of an entry, after which `rest` is unread.
    pub fn advance(&mut self, entries: &Entries<'_>, rest: &Cursor<'_>) {
        self.at = entries.body.len() - rest.0.len();
    }
}

/// Entries of a page that is being written.
#[derive(Default)]
pub struct EntriesWriter {
    /// Bytes of the entries.
    pub bytes: Vec<u8>,
    restarts: Vec<u32>,
    entries: usize,
}

impl EntriesWriter {
    /// Begins an entry. Returns whether it is a restart.
    pub fn begin(&mut self) -> bool {
        let is_restart = self.entries.is_multiple_of(RESTART);
        if is_restart {
            self.restarts.push(self.bytes.len() as u32);
        }
        self.entries += 1;
        is_restart
    }

    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    pub fn is_full(&self) -> bool {
        self.bytes.len() >= PAGE_BYTES
    }

    /// Returns the page, and begins the next one.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut page = std::mem::take(&mut self.bytes);
        for restart in &self.restarts {
            page.extend_from_slice(&restart.to_le_bytes());
        }
        page.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        self.restarts.clear();
        self.entries = 0;
        page
    }
}

/// Returns the number of bytes that two texts have in common at their start.
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b);
    same.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_return_and_are_stored_plain_if_nothing_is_gained() {
        let repeated = vec![7; 5000];
        let packed = pack(&repeated).unwrap();
        assert!(packed.len() < 100);
        assert_eq!(unpack(packed.clone(), 5000), Ok(repeated));
        assert_eq!(unpack(packed, 5001), Err(Malformed));
        let random: Vec<u8> = (0..5000u32)
            .map(|n| (n.wrapping_mul(0x9e37_79b9).rotate_left(n % 31) >> 24) as u8)
            .collect();
        assert_eq!(pack(&random), None);
        assert_eq!(unpack(random.clone(), 5000), Ok(random));
    }

    #[test]
    fn restarts_outside_the_page_are_rejected() {
        assert!(Entries::of(&[0, 0, 0]).is_err());
        assert!(Entries::of(&[1, 0, 0, 0]).is_err());
        assert!(Entries::of(&[0xff; 8]).is_err());
        let page = [1, 9, 0, 0, 0, 1, 0, 0, 0];
        let entries = Entries::of(&page).unwrap();
        assert_eq!((entries.body, entries.restart(0)), (&page[..1], Ok(9)));
        assert!(
            Position::restart(&entries, 0)
                .unwrap()
                .next(&entries)
                .is_err()
        );
    }
}
