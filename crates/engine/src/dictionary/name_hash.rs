//! Hash of a name.

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

/// Returns the hash of a name in a notation.
#[inline]
pub fn hash_name(seed: u64, notation: u32, name: &[u8]) -> NameHash {
    let hash = xxh3_128_with_seed(
        name,
        seed ^ u64::from(notation).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    );
    NameHash([(hash >> 64) as u32, (hash >> 96) as u32, hash as u32])
}
