//! Hashes of names, by the numbers of the names.

use super::canonical::Canonical;
use super::name_hash::NameHash;
use super::pages::Pages;
use crate::prefetch::prefetch;

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
    pub canonical: Canonical,
    /// Other names, in the order in which they were added. A new one takes the place of a removed one.
    pub others: Pages<Other>,
}

impl Hashes {
    /// Returns the hash of the name with a number.
    #[inline]
    pub fn of(&self, number: u32) -> NameHash {
        match number & OTHER {
            0 => self.canonical.get(number),
            _ => self.others.get((number & !OTHER) as usize).hash,
        }
    }

    /// Removes the hash of the name with a number.
    pub fn remove(&mut self, number: u32) {
        match number & OTHER {
            0 => self.canonical.remove(number),
            _ => self.others.get_mut((number & !OTHER) as usize).hash = NameHash::NONE,
        }
    }

    /// Prefetches the hash of the name with a number.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        match number & OTHER {
            0 => self.canonical.prefetch(number),
            _ => prefetch(self.others.get((number & !OTHER) as usize)),
        }
    }

    /// Returns whether a name has a number and a hash.
    #[inline]
    pub fn is_at(&self, number: u32, hash: NameHash) -> bool {
        match number & OTHER {
            0 => self.canonical.get(number) == hash,
            _ => {
                let index = (number & !OTHER) as usize;
                index < self.others.len() && self.others.get(index).hash == hash
            }
        }
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.canonical.memory() + self.others.memory()
    }
}
