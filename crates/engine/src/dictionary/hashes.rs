//! Hashes of names, by the numbers of the names.

use super::pages::Pages;
use crate::prefetch::prefetch;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Hash of a name, in three words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameHash(pub(super) [u32; 3]);

impl NameHash {
    /// Stands for no name.
    pub const NONE: NameHash = NameHash([u32::MAX; 3]);

    /// Returns the bits that place the hash in the table: the lowest select the segment, the highest the line in it.
    #[inline]
    pub fn place(self) -> u32 {
        self.0[0]
    }

    /// Returns the bits that the table contains.
    #[inline]
    pub fn tag(self) -> u8 {
        self.0[1] as u8
    }
}

/// First number of a name that is not canonical.
pub const OTHER: u32 = 1 << 31;

/// Name that is not canonical.
pub struct Other {
    /// Hash of the name.
    pub hash: NameHash,
    /// Source with the name.
    pub source: u32,
}

/// Hashes of all names, by number.
#[derive(Default)]
pub struct Hashes {
    /// Canonical names, by source.
    pub canonical: Pages<NameHash>,
    /// Other names, in the order in which they were added. A new one takes the place of a removed one.
    pub others: Pages<Other>,
}

impl Hashes {
    /// Returns the hash of the name with a number.
    #[inline]
    pub fn of(&self, number: u32) -> NameHash {
        match number & OTHER {
            0 => *self.canonical.get(number as usize),
            _ => self.others.get((number & !OTHER) as usize).hash,
        }
    }

    /// Returns the hash of the name with a number, mutably.
    pub fn of_mut(&mut self, number: u32) -> &mut NameHash {
        match number & OTHER {
            0 => self.canonical.get_mut(number as usize),
            _ => &mut self.others.get_mut((number & !OTHER) as usize).hash,
        }
    }

    /// Prefetches the hash of the name with a number.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        match number & OTHER {
            0 => prefetch(self.canonical.get(number as usize)),
            _ => prefetch(self.others.get((number & !OTHER) as usize)),
        }
    }

    /// Returns whether a name has a number and a hash.
    #[inline]
    pub fn is_at(&self, number: u32, hash: NameHash) -> bool {
        let len = match number & OTHER {
            0 => self.canonical.len(),
            _ => self.others.len(),
        };
        ((number & !OTHER) as usize) < len && self.of(number) == hash
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.canonical.memory() + self.others.memory()
    }
}

/// Returns the hash of a name in a notation.
#[inline]
pub fn hash_name(seed: u64, notation: u32, name: &[u8]) -> NameHash {
    let hash = xxh3_128_with_seed(
        name,
        seed ^ u64::from(notation).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    );
    NameHash([(hash >> 64) as u32, (hash >> 96) as u32, hash as u32])
}
