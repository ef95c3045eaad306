//! Hash pages: hashes of the canonical names in ascending order, with the numbers of the sources.
//!
//! The entries of a page have the same number of bits, so that a look-up decodes no other entries.

use crate::bytes::{Cursor, Malformed};
use seiner_codec::varint;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bits of a hash that are stored.
pub const HASH_BITS: u32 = 40;
/// Maximum entries of a page.
pub const HASH_ENTRIES: usize = 2048;
/// Distance from the expected entry at which a look-up begins.
const VICINITY: usize = 64;
/// Bytes after the entries, so that an entry is read with its neighbours as a word.
const PADDING: usize = 8;

/// Returns the hash of a canonical name.
pub fn hash_name(seed: u64, name: &[u8]) -> u64 {
    xxh3_64_with_seed(name, seed)
}

/// Returns the bits of a hash that are stored.
pub fn stored_bits(hash: u64) -> u64 {
    hash >> (64 - HASH_BITS)
}

/// Returns the page of some entries, which are ascending and at least one.
pub fn encode_hashes(entries: &[(u64, u32)]) -> Vec<u8> {
    let first = entries[0].0;
    let numbers = entries.iter().map(|(_, number)| *number);
    let least = numbers.clone().min().unwrap_or(0);
    let greatest = numbers.max().unwrap_or(0);
    let hash_bits = width(entries[entries.len() - 1].0 - first);
    let number_bits = width(u64::from(greatest - least));
    let mut out = Vec::with_capacity(24 + entries.len() * 10);
    varint::put_u64(entries.len() as u64, &mut out);
    varint::put_u64(first, &mut out);
    varint::put_u64(least.into(), &mut out);
    out.extend_from_slice(&[hash_bits as u8, number_bits as u8]);
    let (mut word, mut bits) = (0u128, 0);
    for &(hash, number) in entries {
        let entry = u128::from(hash - first) | (u128::from(number - least) << hash_bits);
        word |= entry << bits;
        bits += hash_bits + number_bits;
        while bits >= 8 {
            out.push(word as u8);
            word >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(word as u8);
    }
    out.resize(out.len() + PADDING, 0);
    out
}

/// Returns the number of bits of a number.
fn width(number: u64) -> u32 {
    64 - number.leading_zeros()
}

/// Entries of a hash page.
#[derive(Clone, Copy)]
pub struct HashPage<'a> {
    bits: &'a [u8],
    len: usize,
    first: u64,
    least: u32,
    hash_bits: u32,
    number_bits: u32,
}

impl<'a> HashPage<'a> {
    /// Splits a decompressed page.
    pub fn of(page: &'a [u8]) -> Result<HashPage<'a>, Malformed> {
        let mut rest = Cursor(page);
        let len = rest.count(HASH_ENTRIES)?;
        let first = rest.varint()?;
        let least = rest.number()?;
        let (hash_bits, number_bits) = (u32::from(rest.u8()?), u32::from(rest.u8()?));
        let bits = len * (hash_bits + number_bits) as usize;
        let fits = first < 1 << HASH_BITS && hash_bits <= HASH_BITS && number_bits <= 32;
        if !fits || rest.0.len() != bits.div_ceil(8) + PADDING {
            return Err(Malformed);
        }
        Ok(HashPage {
            bits: rest.0,
            len,
            first,
            least,
            hash_bits,
            number_bits,
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the hash of an entry.
    pub fn hash(&self, index: usize) -> u64 {
        let at = index * (self.hash_bits + self.number_bits) as usize;
        self.first + self.get(at, self.hash_bits)
    }

    /// Returns the number of the source of an entry.
    pub fn number(&self, index: usize) -> Result<u32, Malformed> {
        let at = index * (self.hash_bits + self.number_bits) as usize;
        let offset = self.get(at + self.hash_bits as usize, self.number_bits) as u32;
        self.least.checked_add(offset).ok_or(Malformed)
    }

    /// Returns `width` bits, at most 40, from a bit on.
    fn get(&self, bit: usize, width: u32) -> u64 {
        let bytes = &self.bits[bit / 8..bit / 8 + PADDING];
        let word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        (word >> (bit % 8)) & ((1 << width) - 1)
    }

    /// Returns a range of entries that contains, or ends with, the first one whose hash is not less than `hash`.
    /// Hashes are uniform, so a short range around the expected entry is enough in most cases.
    fn vicinity(&self, hash: u64) -> (usize, usize) {
        let Some(last) = self.len.checked_sub(1) else {
            return (0, 0);
        };
        let span = self.hash(last) - self.first + 1;
        let offset = hash.saturating_sub(self.first).min(span);
        let guess = (offset * self.len as u64 / span) as usize;
        let (low, high) = (guess.saturating_sub(VICINITY), guess + VICINITY);
        let is_before = |index: usize| self.hash(index) < hash;
        let low = (low < self.len && is_before(low)).then_some(low);
        let high = (high < self.len && !is_before(high)).then_some(high);
        (low.unwrap_or(0), high.unwrap_or(self.len))
    }

    /// Returns the index of the first entry whose hash is not less than `hash`.
    pub fn lower_bound(&self, hash: u64) -> usize {
        let (mut low, mut high) = self.vicinity(hash);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.hash(middle) < hash {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_return_and_are_found() {
        let widest = [(0, 0), ((1 << HASH_BITS) - 1, u32::MAX)];
        let wide: Vec<(u64, u32)> = (0..1000u64)
            .map(|n| (n * n * 1_000_003, (n as u32).wrapping_mul(0x9e37_79b9)))
            .collect();
        for entries in [&[(5, 9)][..], &[(5, 9), (5, 9)], &widest, &wide] {
            let page = encode_hashes(entries);
            let found = HashPage::of(&page).unwrap();
            assert_eq!(found.len(), entries.len());
            for (index, &(hash, number)) in entries.iter().enumerate() {
                assert_eq!((found.hash(index), found.number(index)), (hash, Ok(number)));
                let first = entries.partition_point(|entry| entry.0 < hash);
                assert_eq!(found.lower_bound(hash), first);
                let after = entries.partition_point(|entry| entry.0 <= hash);
                assert_eq!(found.lower_bound(hash + 1), after);
            }
        }
    }

    #[test]
    fn hashes_are_fixed() {
        assert_eq!(hash_name(0, b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(stored_bits(u64::MAX), (1 << HASH_BITS) - 1);
    }
}
