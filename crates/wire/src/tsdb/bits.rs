//! Reader of numbers of any number of bits, the highest bit first.

use super::TsdbError;

/// Reader that advances through bits.
pub struct Bits<'a> {
    bytes: &'a [u8],
    /// Number of bits that were read.
    position: usize,
}

impl<'a> Bits<'a> {
    /// Creates a reader at a byte.
    pub fn new(bytes: &'a [u8], at: usize) -> Bits<'a> {
        Bits {
            bytes,
            position: at * 8,
        }
    }

    /// Returns an error at the next bit.
    pub fn error(&self, what: &'static str) -> TsdbError {
        TsdbError {
            at: self.position / 8,
            what,
        }
    }

    /// Reads a bit.
    pub fn bit(&mut self) -> Result<bool, TsdbError> {
        Ok(self.bits(1)? == 1)
    }

    /// Reads a number of 0 to 64 bits.
    pub fn bits(&mut self, count: u32) -> Result<u64, TsdbError> {
        if self.bytes.len() * 8 - self.position < count as usize {
            return Err(self.error("the chunk ends within a sample"));
        }
        let (mut value, mut left) = (0u64, count);
        while left > 0 {
            let used = (self.position % 8) as u32;
            let taken = left.min(8 - used);
            let bits = (self.bytes[self.position / 8] << used) >> (8 - taken);
            value = value << taken | u64::from(bits);
            self.position += taken as usize;
            left -= taken;
        }
        Ok(value)
    }
}
