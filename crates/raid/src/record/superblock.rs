//! The superblock: `docs/format/raid.md`.

use crate::array::Filling;
use crate::geometry::{BLOCK_BYTES, Geometry, GeometryError, Level};
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use std::fmt;
use std::io;
use thiserror::Error;

/// How it begins.
pub const MAGIC: &[u8; 8] = b"SEINRAID";
/// The version that is written.
const VERSION: u32 = 1;
/// Where the members' states begin.
const FILLINGS: usize = 128;
/// Where the checksum of everything else is.
const CHECKSUM: usize = BLOCK_BYTES - 4;
/// The index of a spare.
const SPARE: u32 = u32::MAX;
/// Instead of stripes that a member has: all, and the member is not used.
const FULL: u64 = u64::MAX;
const GONE: u64 = u64::MAX - 1;

/// The name of an array that no other has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A new one.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn random() -> io::Result<Uuid> {
        let mut bytes = [0; 16];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        assert_eq!(filled, bytes.len(), "so few bytes come at once");
        // Version 4, variant 1 of RFC 9562.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(Uuid(bytes))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if [4, 6, 8, 10].contains(&at) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a device has no superblock to go by.
#[derive(Debug, Error)]
pub enum SuperblockError {
    /// There is none.
    #[error("has no superblock: it is no member of an array; create one, or name the right device")]
    Missing,
    /// The device cannot be read.
    #[error("cannot be read: {0}")]
    System(#[from] io::Error),
    /// Its checksum does not fit.
    #[error(
        "has two damaged superblocks (checksum {found:08x}, expected {expected:08x}): leave it out, and replace it when the others run"
    )]
    Damaged {
        /// The checksum in it.
        expected: u32,
        /// What it comes to.
        found: u32,
    },
    /// It was written by a later program.
    #[error(
        "has a superblock of version {0}, and this program knows version 1: use the program that made it"
    )]
    Version(u32),
    /// It says something that cannot be.
    #[error(
        "has a superblock that makes no sense ({0}): leave it out, and replace it when the others run"
    )]
    Nonsense(String),
}

/// What a member says of itself and of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The array.
    pub array: Uuid,
    /// The member's place in it; none for a spare.
    pub index: Option<usize>,
    /// The array's level.
    pub level: Level,
    /// Bytes of a strip.
    pub strip_bytes: u64,
    /// Where data begin on every member, in bytes.
    pub data_offset: u64,
    /// Stripes.
    pub stripes: u64,
    /// Stripes of a region of the intent record.
    pub region_stripes: u64,
    /// Raised whenever a superblock is written to the members: who has a lower one than others missed something.
    pub generation: u64,
    /// The array was stopped, and nothing is to be made to fit.
    pub clean: bool,
    /// Members have checksums behind the data.
    pub checksums: bool,
    /// What each member has.
    pub fillings: Vec<Filling>,
}

impl Superblock {
    /// The shape of the array.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn geometry(&self) -> Result<Geometry, GeometryError> {
        let bytes = self.stripes.saturating_mul(self.strip_bytes);
        Geometry::new(self.level, self.fillings.len(), self.strip_bytes, bytes)
    }

    /// The bytes of a member that are data; checksums follow.
    pub fn data(&self) -> std::ops::Range<u64> {
        self.data_offset..self.data_offset + self.stripes * self.strip_bytes
    }

    /// As it is written.
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, MAGIC);
        put(8, &VERSION.to_le_bytes());
        let level: u32 = match self.level {
            Level::Raid0 => 0,
            Level::Raid1 => 1,
            Level::Raid5 => 5,
            Level::Raid6 => 6,
        };
        put(12, &level.to_le_bytes());
        put(16, &self.array.0);
        put(32, &(self.fillings.len() as u32).to_le_bytes());
        let index = self.index.map_or(SPARE, |index| index as u32);
        put(36, &index.to_le_bytes());
        put(40, &self.strip_bytes.to_le_bytes());
        put(48, &self.data_offset.to_le_bytes());
        put(56, &self.stripes.to_le_bytes());
        put(64, &self.region_stripes.to_le_bytes());
        put(72, &self.generation.to_le_bytes());
        let flags = u64::from(self.clean) | u64::from(self.checksums) << 1;
        put(80, &flags.to_le_bytes());
        for (at, filling) in self.fillings.iter().enumerate() {
            let stripes = match filling {
                Filling::Full => FULL,
                Filling::Gone => GONE,
                Filling::Below(stripes) => *stripes,
            };
            put(FILLINGS + 8 * at, &stripes.to_le_bytes());
        }
        let checksum = crc_fast::checksum(Crc32Iscsi, &bytes[..CHECKSUM]) as u32;
        bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Understands what was written.
    ///
    /// # Errors
    /// If it is none, is damaged, or cannot be.
    pub fn decode(bytes: &[u8; BLOCK_BYTES]) -> Result<Superblock, SuperblockError> {
        if !bytes.starts_with(MAGIC) {
            return Err(SuperblockError::Missing);
        }
        let u32_at =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let (expected, found) = (
            u32_at(CHECKSUM),
            crc_fast::checksum(Crc32Iscsi, &bytes[..CHECKSUM]) as u32,
        );
        if expected != found {
            return Err(SuperblockError::Damaged { expected, found });
        }
        if u32_at(8) != VERSION {
            return Err(SuperblockError::Version(u32_at(8)));
        }
        let nonsense = |what: String| SuperblockError::Nonsense(what);
        let level = match u32_at(12) {
            0 => Level::Raid0,
            1 => Level::Raid1,
            5 => Level::Raid5,
            6 => Level::Raid6,
            level => return Err(nonsense(format!("level {level}"))),
        };
        let members = u32_at(32) as usize;
        if members > 255 {
            return Err(nonsense(format!("{members} members")));
        }
        let index = match u32_at(36) {
            SPARE => None,
            index if (index as usize) < members => Some(index as usize),
            index => return Err(nonsense(format!("member {index} of {members}"))),
        };
        let filling = |at: usize| match u64_at(FILLINGS + 8 * at) {
            FULL => Filling::Full,
            GONE => Filling::Gone,
            stripes => Filling::Below(stripes),
        };
        let superblock = Superblock {
            array: Uuid(bytes[16..32].try_into().expect("sixteen bytes")),
            index,
            level,
            strip_bytes: u64_at(40),
            data_offset: u64_at(48),
            stripes: u64_at(56),
            region_stripes: u64_at(64),
            generation: u64_at(72),
            clean: u64_at(80) & 1 == 1,
            checksums: u64_at(80) & 2 == 2,
            fillings: (0..members).map(filling).collect(),
        };
        let geometry = superblock
            .geometry()
            .map_err(|error| nonsense(error.to_string()))?;
        if geometry.stripes() != superblock.stripes {
            return Err(nonsense(format!("{} stripes", superblock.stripes)));
        }
        if superblock.region_stripes == 0 {
            return Err(nonsense("regions without stripes".to_string()));
        }
        Ok(superblock)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn example() -> Superblock {
        Superblock {
            array: Uuid(*b"0123456789abcdef"),
            index: Some(2),
            level: Level::Raid6,
            strip_bytes: 16384,
            data_offset: 1 << 20,
            stripes: 1000,
            region_stripes: 64,
            generation: 41,
            clean: false,
            checksums: false,
            fillings: vec![
                Filling::Full,
                Filling::Gone,
                Filling::Below(17),
                Filling::Full,
            ],
        }
    }

    #[test]
    fn what_was_written_is_understood_and_nothing_else() {
        for index in [None, Some(0), Some(3)] {
            let superblock = Superblock {
                index,
                clean: index.is_none(),
                checksums: index == Some(3),
                ..example()
            };
            assert_eq!(
                Superblock::decode(&superblock.encode()).unwrap(),
                superblock
            );
        }
        let good = example().encode();
        for at in 8..BLOCK_BYTES {
            let mut bad = good;
            bad[at] ^= 0x10;
            assert!(
                matches!(
                    Superblock::decode(&bad),
                    Err(SuperblockError::Damaged { .. })
                ),
                "byte {at}"
            );
        }
        assert!(matches!(
            Superblock::decode(&[0; BLOCK_BYTES]),
            Err(SuperblockError::Missing)
        ));
        let changed = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            let checksum = crc_fast::checksum(Crc32Iscsi, &bytes[..CHECKSUM]) as u32;
            bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
            Superblock::decode(&bytes).unwrap_err()
        };
        assert!(matches!(changed(8, 2), SuperblockError::Version(2)));
        for (at, value) in [(12, 4), (33, 1), (32, 3), (36, 4), (41, 1), (64, 0)] {
            assert!(
                matches!(changed(at, value), SuperblockError::Nonsense(_)),
                "byte {at}"
            );
        }
    }

    #[test]
    fn a_new_name_is_like_no_other() {
        let (one, other) = (Uuid::random().unwrap(), Uuid::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.to_string().len(), 36);
        assert_eq!(
            Uuid(*b"0123456789abcdef").to_string(),
            "30313233-3435-3637-3839-616263646566"
        );
    }
}
