//! Reader of whole bytes and of numbers of variable length.

use super::TsdbError;

/// Maximum bytes of a number of 64 bits of variable length.
const MAX_VARINT: usize = 10;

/// Reader that advances through bytes.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a reader at the first byte.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    /// Returns the number of bytes that were read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the number of bytes that were not read.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns an error at the next byte.
    pub fn error(&self, what: &'static str) -> TsdbError {
        TsdbError { at: self.at, what }
    }

    /// Reads bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], TsdbError> {
        match self.bytes[self.at..].get(..count) {
            Some(bytes) => {
                self.at += count;
                Ok(bytes)
            }
            None => Err(self.error("the bytes end too early")),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], TsdbError> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("take returns the given number"))
    }

    /// Reads a number of 16 bits in network order.
    pub fn be16(&mut self) -> Result<u16, TsdbError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Reads a number of 32 bits in network order.
    pub fn be32(&mut self) -> Result<u32, TsdbError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Reads a number of 64 bits in network order.
    pub fn be64(&mut self) -> Result<u64, TsdbError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Reads a number of variable length: 7 bits per byte, lowest first.
    pub fn uvarint(&mut self) -> Result<u64, TsdbError> {
        let mut value = 0;
        for (number, &byte) in self.bytes[self.at..].iter().take(MAX_VARINT).enumerate() {
            if number == MAX_VARINT - 1 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * number);
            if byte < 0x80 {
                self.at += number + 1;
                return Ok(value);
            }
        }
        Err(match self.left() {
            0..MAX_VARINT => self.error("the bytes end within a number"),
            _ => self.error("a number has more than 64 bits"),
        })
    }

    /// Reads a signed number of variable length, written as zigzag.
    pub fn varint(&mut self) -> Result<i64, TsdbError> {
        let value = self.uvarint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}
