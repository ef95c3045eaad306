//! Cursor over bytes that are being decoded. It counts the offset from the start for error messages and
//! never reads past the end.

use crate::{DecodeError, MAX_COUNT};

/// Unread bytes, and the number of bytes read.
pub struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            rest: bytes,
            offset: 0,
        }
    }

    /// Returns the number of bytes read.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads `count` bytes.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(DecodeError::Truncated {
                what,
                offset: self.offset,
                needed: count,
                left: self.rest.len(),
            });
        };
        self.rest = rest;
        self.offset += count;
        Ok(taken)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn byte(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.take(1, what)?[0])
    }

    /// Reads a LEB128 number.
    ///
    /// # Errors
    /// The bytes end before, or the number exceeds 64 bits.
    #[inline]
    pub fn varint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        if let [byte @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            self.offset += 1;
            return Ok(u64::from(*byte));
        }
        self.long_varint(what)
    }

    fn long_varint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let mut value = 0;
        for (index, &byte) in self.rest.iter().take(10).enumerate() {
            if index == 9 && byte > 1 {
                return Err(self.invalid("a variable-length number exceeds 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                self.offset += index + 1;
                return Ok(value);
            }
        }
        Err(DecodeError::Truncated {
            what,
            offset: self.offset,
            needed: self.rest.len() + 1,
            left: self.rest.len(),
        })
    }

    /// Reads a zigzag LEB128 number.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn signed(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        self.varint(what).map(crate::varint::unzigzag)
    }

    /// Reads a length.
    ///
    /// # Errors
    /// The bytes end before, or the length exceeds `limit`.
    pub fn length(&mut self, limit: usize, what: &'static str) -> Result<usize, DecodeError> {
        let value = self.varint(what)?;
        if value > limit as u64 {
            return Err(self.invalid(what));
        }
        Ok(value as usize)
    }

    /// Returns an error at the present offset.
    pub fn invalid(&self, what: &'static str) -> DecodeError {
        DecodeError::Invalid {
            what,
            offset: self.offset,
        }
    }

    /// Returns an error about the byte just read.
    pub fn unknown(&self, what: &'static str, found: u8) -> DecodeError {
        DecodeError::UnknownCodec {
            what,
            offset: self.offset.saturating_sub(1),
            found,
        }
    }
}

/// Runs a decoder over the front of `bytes` and, if it succeeds, advances `bytes`.
pub(crate) fn consume<T>(
    bytes: &mut &[u8],
    count: usize,
    decode: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    if count > MAX_COUNT {
        return Err(DecodeError::TooMany { count });
    }
    let mut reader = Reader::new(bytes);
    let value = decode(&mut reader)?;
    let offset = reader.offset();
    *bytes = &bytes[offset..];
    Ok(value)
}
