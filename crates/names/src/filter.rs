//! Filter: a Bloom filter in blocks of 64 bytes, which contains the hashes of all names of a file.

use crate::hashes::HASH_BITS;

/// Bytes of a block, which is a line of the processor's cache.
const BLOCK_BYTES: usize = 64;
const BLOCK_WORDS: usize = BLOCK_BYTES / 8;
/// Bits per name.
const BITS: u64 = 10;
/// Bits that a name sets in its block.
const PROBES: u32 = 6;

/// Filter of hashes. May contain a hash that was not inserted, in about one of 70 cases.
#[derive(Default)]
pub struct Filter {
    words: Vec<u64>,
}

impl Filter {
    /// Creates an empty filter for some names.
    pub fn new(names: u64) -> Filter {
        let blocks = (names * BITS).div_ceil(8 * BLOCK_BYTES as u64) as usize;
        Filter {
            words: vec![0; blocks * BLOCK_WORDS],
        }
    }

    /// Decodes a filter. `None` if the bytes are not whole blocks.
    pub fn parse(bytes: &[u8]) -> Option<Filter> {
        let (words, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let whole = rest.is_empty() && words.len().is_multiple_of(BLOCK_WORDS);
        whole.then_some(Filter { words })
    }

    /// Returns the bytes of the filter.
    pub fn bytes(&self) -> Vec<u8> {
        self.words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    /// Adds the stored bits of a hash.
    pub fn insert(&mut self, hash: u64) {
        let block = self.block(hash);
        for bit in probes(hash) {
            self.words[block + bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Returns whether the stored bits of a hash may have been added.
    pub fn may_have(&self, hash: u64) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let block = self.block(hash);
        probes(hash).all(|bit| (self.words[block + bit / 64] >> (bit % 64)) & 1 == 1)
    }

    /// Returns the first word of the block of a hash.
    fn block(&self, hash: u64) -> usize {
        let blocks = (self.words.len() / BLOCK_WORDS) as u128;
        ((u128::from(hash) * blocks) >> HASH_BITS) as usize * BLOCK_WORDS
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.words.capacity() * 8
    }
}

/// Returns the bits of a hash in its block. The highest bits of the hash are the same within a block.
fn probes(hash: u64) -> impl Iterator<Item = usize> {
    let mixed = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (0..PROBES).map(move |probe| ((mixed >> (64 - 9 * (probe + 1))) & 511) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashes::{hash_name, stored_bits};

    #[test]
    fn a_filter_has_all_hashes_and_few_others() {
        let hash = |n: u64| stored_bits(hash_name(7, &n.to_le_bytes()));
        let mut filter = Filter::new(20_000);
        (0..20_000).for_each(|n| filter.insert(hash(n)));
        let bytes = filter.bytes();
        assert_eq!(bytes.len(), 25_024);
        let filter = Filter::parse(&bytes).unwrap();
        assert!((0..20_000).all(|n| filter.may_have(hash(n))));
        let others = (20_000..120_000).filter(|n| filter.may_have(hash(*n)));
        let others = others.count();
        assert!(others < 2000, "{others} of 100,000");
        assert!(!Filter::new(0).may_have(1));
        assert!(Filter::parse(&bytes[1..]).is_none());
    }
}
