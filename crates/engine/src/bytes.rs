//! Decoding of numbers and texts from bytes, with checks of the length.

use roaring::RoaringBitmap;
use seiner_codec::varint;

/// Error: the bytes end too early, or contain an impossible number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short;

/// Limit of block and record numbers. No store reaches it, so a larger number is damage. Adding 1
/// to a valid number never overflows.
pub const COUNT_LIMIT: u64 = 1 << 62;

/// Writes a set of sources: the length, and the portable Roaring format.
pub fn put_sources(sources: &RoaringBitmap, out: &mut Vec<u8>) {
    varint::put_u64(sources.serialized_size() as u64, out);
    sources
        .serialize_into(out)
        .expect("a write to a Vec does not fail");
}

/// Reader that consumes a slice from the front.
#[derive(Clone)]
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// Returns the next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Short> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Short)?;
        self.0 = rest;
        Ok(head)
    }

    /// Reads a byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Short> {
        Ok(self.take(1)?[0])
    }

    /// Reads four bytes, little endian.
    pub fn u32(&mut self) -> Result<u32, Short> {
        Ok(u32::from_le_bytes(
            self.take(4)?.try_into().expect("four bytes"),
        ))
    }

    /// Reads eight bytes, little endian.
    pub fn u64(&mut self) -> Result<u64, Short> {
        Ok(u64::from_le_bytes(
            self.take(8)?.try_into().expect("eight bytes"),
        ))
    }

    /// Reads a varint.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Short> {
        varint::get_u64(&mut self.0).map_err(|_| Short)
    }

    /// Reads a zigzag varint.
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Short> {
        varint::get_i64(&mut self.0).map_err(|_| Short)
    }

    /// Reads a set of sources.
    pub fn sources(&mut self) -> Result<RoaringBitmap, Short> {
        let len = self.count(u32::MAX as usize)?;
        RoaringBitmap::deserialize_from(self.take(len)?).map_err(|_| Short)
    }

    /// Reads a varint of at most `limit`.
    pub fn count(&mut self, limit: usize) -> Result<usize, Short> {
        usize::try_from(self.varint()?)
            .ok()
            .filter(|&count| count <= limit)
            .ok_or(Short)
    }

    /// Reads bytes after their length, as [`put_bytes`] writes them.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Short> {
        let len = self.count(self.0.len())?;
        self.take(len)
    }

    /// Reads a text: its length, then its bytes.
    pub fn text(&mut self) -> Result<&'a str, Short> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Short)
    }

    /// Returns whether all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends a text: its length, then its bytes.
pub fn put_text(text: &str, out: &mut Vec<u8>) {
    put_bytes(text.as_bytes(), out);
}

/// Appends the length of some bytes, then the bytes.
#[inline]
pub fn put_bytes(text: &[u8], out: &mut Vec<u8>) {
    varint::put_u64(text.len() as u64, out);
    out.extend_from_slice(text);
}
