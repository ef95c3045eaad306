//! Checksums of blocks on members: `docs/format/raid.md`.

use crate::geometry::BLOCK_BYTES;
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use std::fmt;

/// Size of a checksum in bytes.
const WIDTH: usize = 4;
/// Number of checksums per block.
pub const PER_BLOCK: u64 = (BLOCK_BYTES / WIDTH) as u64;
/// CRC-32C of a block of zeroes.
const OF_ZEROES: u32 = 0x98f9_4189;

/// CRC-32C of a block, XOR that of a block of zeroes. A member full of zeroes therefore has valid checksums.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Checksum(u32);

impl Checksum {
    /// Checksum of a block of zeroes.
    pub const ZEROES: Checksum = Checksum(0);

    /// Returns the checksum of a block.
    pub fn of(block: &[u8; BLOCK_BYTES]) -> Checksum {
        Checksum(crc_fast::checksum(Crc32Iscsi, block) as u32 ^ OF_ZEROES)
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0 ^ OF_ZEROES)
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A block of checksums.
pub struct Sums(Vec<u32>);

impl Sums {
    /// Decodes the bytes on a member.
    pub fn decode(bytes: &[u8; BLOCK_BYTES]) -> Sums {
        let sums = bytes.chunks_exact(WIDTH);
        Sums(
            sums.map(|sum| u32::from_le_bytes(sum.try_into().expect("four bytes")))
                .collect(),
        )
    }

    /// Encodes the bytes for a member.
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        for (place, sum) in bytes.chunks_exact_mut(WIDTH).zip(&self.0) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        bytes
    }

    /// Returns the checksum at an index.
    pub fn get(&self, at: usize) -> Checksum {
        Checksum(self.0[at])
    }

    /// Sets the checksum at an index.
    pub fn set(&mut self, at: usize, checksum: Checksum) {
        self.0[at] = checksum.0;
    }
}

/// Returns the number of blocks of checksums for `data` blocks of data.
pub fn blocks_for(data: u64) -> u64 {
    data.div_ceil(PER_BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroes_have_a_fixed_checksum_and_every_bit_changes_it() {
        let zeroes = [0; BLOCK_BYTES];
        assert_eq!(Checksum::of(&zeroes), Checksum::ZEROES);
        for bit in (0..BLOCK_BYTES * 8).step_by(97) {
            let mut block = zeroes;
            block[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Checksum::of(&block), Checksum::ZEROES, "bit {bit}");
        }
        // The check value in the definition of CRC-32C.
        assert_eq!(crc_fast::checksum(Crc32Iscsi, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_block_of_checksums_round_trips() {
        let mut sums = Sums::decode(&[0; BLOCK_BYTES]);
        let checksum = Checksum::of(&[7; BLOCK_BYTES]);
        sums.set(1023, checksum);
        let again = Sums::decode(&sums.encode());
        assert_eq!(
            (again.get(1023), again.get(0)),
            (checksum, Checksum::ZEROES)
        );
        assert_eq!(
            (blocks_for(1), blocks_for(1024), blocks_for(1025)),
            (1, 1, 2)
        );
    }
}
