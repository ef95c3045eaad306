//! Bit packing of numbers of known widths, lowest bit first.
//!
//! Only the last byte is padded: ten numbers of five bits take seven bytes.

/// Returns the number of bits of `value` without leading zeros; 0 for zero.
#[inline(always)]
pub fn width(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// Returns the number of bytes that hold `bits` bits.
pub fn bytes_for(bits: usize) -> usize {
    bits.div_ceil(8)
}

/// Bit packer that appends numbers of mixed widths to a byte vector.
pub struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    filled: u32,
}

impl<'a> BitWriter<'a> {
    /// Creates a packer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> BitWriter<'a> {
        BitWriter {
            out,
            pending: 0,
            filled: 0,
        }
    }

    /// Appends the `width` (0 to 64) lowest bits of `value`; the others must be zero.
    #[inline(always)]
    pub fn put(&mut self, value: u64, width: u32) {
        debug_assert!(width == 64 || value >> width == 0);
        self.pending |= value << self.filled;
        let total = self.filled + width;
        if total < 64 {
            self.filled = total;
            return;
        }
        self.out.extend_from_slice(&self.pending.to_le_bytes());
        // Bits of `value` that did not fit into the word; none if `value` began at the start of the
        // word.
        self.pending = if self.filled == 0 {
            0
        } else {
            value >> (64 - self.filled)
        };
        self.filled = total - 64;
    }

    /// Writes the pending bits, padded with zeros to a whole byte.
    pub fn finish(self) {
        let bytes = bytes_for(self.filled as usize);
        self.out
            .extend_from_slice(&self.pending.to_le_bytes()[..bytes]);
    }
}

/// Reader of packed numbers of mixed widths. Past the end it reads zeros; callers check lengths first.
pub struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> BitReader<'a> {
    /// Creates a reader at the first bit of `bytes`.
    pub fn new(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader { bytes, position: 0 }
    }

    /// Returns the number of bits read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Reads a number of `width` (0 to 64) bits.
    #[inline(always)]
    pub fn get(&mut self, width: u32) -> u64 {
        let (byte, shift) = (self.position / 8, self.position % 8);
        self.position += width as usize;
        let mask = low_mask(width);
        if width <= 57
            && let Some(word) = self
                .bytes
                .get(byte..)
                .and_then(|rest| rest.first_chunk::<8>())
        {
            return (u64::from_le_bytes(*word) >> shift) & mask;
        }
        (self.wide(byte) >> shift) as u64 & mask
    }

    /// Counts ones up to the next zero, which is read too, or up to `most` (at most 32).
    pub fn ones(&mut self, most: u32) -> u32 {
        let start = self.position;
        let ones = self.get(most).trailing_ones();
        self.position = start + (ones + 1).min(most) as usize;
        ones
    }

    /// Returns sixteen bytes from `byte` on, with zeros past the end.
    #[cold]
    fn wide(&self, byte: usize) -> u128 {
        let mut word = [0; 16];
        let rest = self.bytes.get(byte..).unwrap_or_default();
        let length = rest.len().min(16);
        word[..length].copy_from_slice(&rest[..length]);
        u128::from_le_bytes(word)
    }
}

/// Number of bytes that must follow packed bits for [`get`] to read them.
pub const PADDING: usize = 16;

/// Returns the `width` (0 to 64) bits at a bit position. Stateless, for tight loops. At least
/// [`PADDING`] bytes must follow the packed bits.
///
/// # Panics
/// If fewer than eight bytes follow the position.
#[inline(always)]
pub fn get(padded: &[u8], position: usize, width: u32) -> u64 {
    let (byte, shift) = (position / 8, position % 8);
    let bytes: [u8; 8] = padded[byte..byte + 8].try_into().expect("eight bytes");
    let word = u64::from_le_bytes(bytes) >> shift;
    if width <= 57 {
        return word & ((1 << width) - 1);
    }
    let above = u64::from(padded[byte + 8]) << 8 << (56 - shift);
    (word | above) & low_mask(width)
}

/// Returns a mask of the lowest `width` (0 to 64) bits.
pub fn low_mask(width: u32) -> u64 {
    if width == 0 {
        0
    } else {
        u64::MAX >> (64 - width)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn widths_round_trip(items in prop::collection::vec((any::<u64>(), 0u32..=64), 0..200)) {
            let mut bytes = Vec::new();
            let mut writer = BitWriter::new(&mut bytes);
            for &(value, width) in &items {
                writer.put(value & low_mask(width), width);
            }
            writer.finish();
            let bits = items.iter().map(|&(_, width)| width as usize).sum();
            prop_assert_eq!(bytes.len(), bytes_for(bits));
            let mut reader = BitReader::new(&bytes);
            for &(value, width) in &items {
                prop_assert_eq!(reader.get(width), value & low_mask(width));
            }
        }
    }
}
