//! Decoding of numbers and texts from bytes, with checks of the length.

use roaring::RoaringBitmap;
use seiner_codec::varint;

/// Error: the bytes end too early, or contain an impossible number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Reader that consumes a slice from the front.
#[derive(Clone, Copy)]
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// Returns the next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    /// Reads a byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// Reads four bytes, little endian.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.try_into().expect("four bytes");
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads eight bytes, little endian.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?.try_into().expect("eight bytes");
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads a varint.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        varint::get_u64(&mut self.0).map_err(|_| Malformed)
    }

    /// Reads a varint of at most 32 bits.
    #[inline]
    pub fn number(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed)
    }

    /// Reads a zigzag varint.
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        varint::get_i64(&mut self.0).map_err(|_| Malformed)
    }

    /// Reads a varint of at most `limit`.
    #[inline]
    pub fn count(&mut self, limit: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        (count <= limit).then_some(count).ok_or(Malformed)
    }

    /// Reads bytes after their length, as [`put_bytes`] writes them.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.count(self.0.len())?;
        self.take(len)
    }

    /// Returns whether all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends the length of some bytes, then the bytes.
pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint::put_u64(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Returns a set in the portable Roaring format. Its containers are the shortest ones.
pub fn set_bytes(set: &mut RoaringBitmap) -> Vec<u8> {
    set.optimize();
    let mut bytes = Vec::with_capacity(set.serialized_size());
    set.serialize_into(&mut bytes)
        .expect("a write to a Vec does not fail");
    bytes
}

/// Decodes a set in the portable Roaring format.
pub fn parse_set(bytes: &[u8]) -> Result<RoaringBitmap, Malformed> {
    RoaringBitmap::deserialize_from(bytes).map_err(|_| Malformed)
}
