//! Reading numbers out of bytes whose length is checked.

use seiner_codec::varint;

/// The bytes end too early or hold a number that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short;

/// No store comes so far: larger numbers of blocks and records are damage, and one more than a
/// number of either is always a number.
pub const COUNT_LIMIT: u64 = 1 << 62;

/// Reads from the front of a slice.
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Short> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Short)?;
        self.0 = rest;
        Ok(head)
    }

    /// A byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Short> {
        Ok(self.take(1)?[0])
    }

    /// Four bytes, little endian.
    pub fn u32(&mut self) -> Result<u32, Short> {
        Ok(u32::from_le_bytes(
            self.take(4)?.try_into().expect("four bytes"),
        ))
    }

    /// Eight bytes, little endian.
    pub fn u64(&mut self) -> Result<u64, Short> {
        Ok(u64::from_le_bytes(
            self.take(8)?.try_into().expect("eight bytes"),
        ))
    }

    /// A varint.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Short> {
        varint::get_u64(&mut self.0).map_err(|_| Short)
    }

    /// A zigzag varint.
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Short> {
        varint::get_i64(&mut self.0).map_err(|_| Short)
    }

    /// A varint that must be at most `limit`.
    pub fn count(&mut self, limit: usize) -> Result<usize, Short> {
        usize::try_from(self.varint()?)
            .ok()
            .filter(|&count| count <= limit)
            .ok_or(Short)
    }

    /// A text, its length first.
    pub fn text(&mut self) -> Result<&'a str, Short> {
        let len = self.count(self.0.len())?;
        std::str::from_utf8(self.take(len)?).map_err(|_| Short)
    }

    /// Returns whether all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends a text, its length first.
pub fn put_text(text: &str, out: &mut Vec<u8>) {
    put_bytes(text.as_bytes(), out);
}

/// Appends the bytes of a text, their number first.
#[inline]
pub fn put_bytes(text: &[u8], out: &mut Vec<u8>) {
    varint::put_u64(text.len() as u64, out);
    out.extend_from_slice(text);
}
