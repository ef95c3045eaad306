//! From the bytes of a source's name to its number, without reading the name twice.
//!
//! A name is known by 96 bits of a keyed hash of its bytes: the key is drawn when the store is
//! opened, so nobody can look for two names with the same hash, and among a million names the
//! chance that any two meet is below 10⁻¹⁷. Several names may lead to the same source: another
//! order of the tags, another notation. Its canonical name always does, so that a canonical name
//! which is not here is that of a new source.

use crate::prefetch::prefetch;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// A hash of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameHash {
    high: u64,
    low: u32,
}

/// The hash's high word; below it, the hash's low half word and the source's number plus one. Zeros
/// are free: a page of memory that has none but them costs nothing before it is written.
type Entry = [u64; 2];

const FREE: Entry = [0; 2];

fn entry(hash: NameHash, source: u32) -> Entry {
    [
        hash.high,
        u64::from(hash.low) << 32 | (u64::from(source) + 1),
    ]
}

/// Names by hash, open addressing.
pub struct Names {
    entries: Vec<Entry>,
    used: usize,
    seed: u64,
}

impl Names {
    /// No names; hashes depend on the seed.
    pub fn new(seed: u64) -> Names {
        Names {
            entries: vec![FREE; 1024],
            used: 0,
            seed,
        }
    }

    /// What a name's hash depends on, so that it can be computed elsewhere.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    #[inline]
    fn slot(&self, hash: NameHash) -> usize {
        hash.high as usize & (self.entries.len() - 1)
    }

    /// Starts fetching the place of a hash.
    #[inline]
    pub fn prefetch(&self, hash: NameHash) {
        prefetch(&self.entries[self.slot(hash)]);
    }

    /// The source with a name of this hash.
    #[inline]
    pub fn find(&self, hash: NameHash) -> Option<u32> {
        let mut at = self.slot(hash);
        loop {
            let [high, word] = self.entries[at];
            if word as u32 == 0 {
                return None;
            }
            if high == hash.high && (word >> 32) as u32 == hash.low {
                return Some(word as u32 - 1);
            }
            at = (at + 1) & (self.entries.len() - 1);
        }
    }

    /// Notes that a name of this hash, which is not known yet, is this source's.
    pub fn insert(&mut self, hash: NameHash, source: u32) {
        // Two thirds full at most, so that look-ups stay short.
        if (self.used + 1) * 3 > self.entries.len() * 2 {
            self.grow();
        }
        self.put(entry(hash, source));
        self.used += 1;
    }

    fn put(&mut self, entry: Entry) {
        let mut at = entry[0] as usize & (self.entries.len() - 1);
        while self.entries[at] != FREE {
            at = (at + 1) & (self.entries.len() - 1);
        }
        self.entries[at] = entry;
    }

    fn grow(&mut self) {
        let double = vec![FREE; self.entries.len() * 2];
        for entry in std::mem::replace(&mut self.entries, double) {
            if entry != FREE {
                self.put(entry);
            }
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
    }

    /// Bytes that the table takes for a moment beside what it has if so many names come: twice as
    /// large, it is filled from the old one.
    pub fn growth(&self, names: usize) -> usize {
        match (self.used + names) * 3 > self.entries.len() * 2 {
            true => 2 * self.memory(),
            false => 0,
        }
    }
}

/// The hash of a name in a notation.
#[inline]
pub fn hash_name(seed: u64, notation: u32, name: &[u8]) -> NameHash {
    let hash = xxh3_128_with_seed(
        name,
        seed ^ u64::from(notation).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    );
    NameHash {
        high: (hash >> 64) as u64,
        low: hash as u32,
    }
}
