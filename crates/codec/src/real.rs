//! Common interface of 32-bit and 64-bit floats.

use pco::data_types::Number;

use crate::DecodeError;
use crate::reader::Reader;

/// A float whose identity is its bits.
pub trait Real: Number + Default {
    /// The canonical quiet NaN.
    const NAN: Self;
    /// Bytes of the raw float.
    const BYTES: usize;
    /// Returns the value as a double, exactly.
    fn wide(self) -> f64;
    /// Returns the nearest value of this type.
    fn narrow(value: f64) -> Self;
    /// Returns the bits, with zeros above them.
    fn bits(self) -> u64;
    /// Returns the float with these bits; higher bits are ignored.
    fn from_bits(bits: u64) -> Self;

    /// Returns whether both have the same bits.
    #[inline(always)]
    fn same(self, other: Self) -> bool {
        self.bits() == other.bits()
    }

    /// Appends the bits, little-endian.
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bits().to_le_bytes()[..Self::BYTES]);
    }

    /// Reads the bits, little-endian.
    ///
    /// # Errors
    /// The bytes end before.
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.take(Self::BYTES, "a float").map(Self::from_bytes)
    }

    /// Returns the float in the first bytes.
    ///
    /// # Panics
    /// If there are fewer than `BYTES`.
    fn from_bytes(bytes: &[u8]) -> Self {
        let mut word = [0; 8];
        word[..Self::BYTES].copy_from_slice(&bytes[..Self::BYTES]);
        Self::from_bits(u64::from_le_bytes(word))
    }
}

impl Real for f64 {
    const NAN: f64 = f64::from_bits(0x7ff8_0000_0000_0000);
    const BYTES: usize = 8;

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }

    #[inline(always)]
    fn narrow(value: f64) -> f64 {
        value
    }

    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }

    #[inline(always)]
    fn from_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
}

impl Real for f32 {
    const NAN: f32 = f32::from_bits(0x7fc0_0000);
    const BYTES: usize = 4;

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn narrow(value: f64) -> f32 {
        value as f32
    }

    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }

    #[inline(always)]
    fn from_bits(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }
}
