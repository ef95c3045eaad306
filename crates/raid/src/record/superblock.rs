//! The superblock of a member: `docs/format/raid.md`.

use crate::array::Completeness;
use crate::geometry::{BLOCK_BYTES, Geometry, GeometryError, Level};
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use std::fmt;
use std::io;
use thiserror::Error;

/// First bytes of a superblock.
pub const MAGIC: &[u8; 8] = b"SEINRAID";
/// Version of the format that is written.
const VERSION: u32 = 1;
/// Offset of the members' states.
const FILLINGS: usize = 128;
/// Offset of the checksum of all other bytes.
const CHECKSUM: usize = BLOCK_BYTES - 4;
/// Index of a spare.
const SPARE: u32 = u32::MAX;
/// Special values in place of the number of complete stripes: the member is complete, or not used.
const FULL: u64 = u64::MAX;
const GONE: u64 = u64::MAX - 1;

/// Unique identity of an array.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Creates a random identity.
    ///
    /// # Errors
    /// If the system cannot provide random numbers.
    pub fn random() -> io::Result<Uuid> {
        let mut bytes = [0; 16];
        #[allow(clippy::disallowed_methods, reason = "identities are unique")]
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        assert_eq!(filled, bytes.len(), "up to 256 bytes are returned at once");
        // Sets version 4 and variant 1 of RFC 9562.
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

/// Reasons why a device has no usable superblock.
#[derive(Debug, Error)]
pub enum SuperblockError {
    /// There is no superblock.
    #[error(
        "has no superblock, so it is not a member of an array: create an array, or name the right device"
    )]
    Missing,
    /// The device cannot be read.
    #[error("cannot be read: {0}")]
    System(#[from] io::Error),
    /// The checksum does not match.
    #[error(
        "has two damaged superblocks (checksum {found:08x}, expected {expected:08x}): leave it out, and replace it when the array runs"
    )]
    Damaged {
        /// Checksum in the superblock.
        expected: u32,
        /// Checksum of its contents.
        found: u32,
    },
    /// A later version of the program wrote the superblock.
    #[error(
        "has a superblock of version {0}, but this program reads version 1: use the program that wrote it"
    )]
    Version(u32),
    /// A field has an impossible value.
    #[error(
        "has an inconsistent superblock ({0}): leave it out, and replace it when the array runs"
    )]
    Nonsense(String),
}

/// Contents of a superblock, about the member and the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Identity of the array.
    pub array: Uuid,
    /// Place of the member in the array; `None` for a spare.
    pub index: Option<usize>,
    /// Level of the array.
    pub level: Level,
    /// Size of a strip in bytes.
    pub strip_bytes: u64,
    /// Offset of the data on every member, in bytes.
    pub data_offset: u64,
    /// Number of stripes.
    pub stripes: u64,
    /// Number of stripes per region of the intent record.
    pub region_stripes: u64,
    /// Number that every write of the superblocks increases. A member with a lower number has missed a change.
    pub generation: u64,
    /// True if the array was stopped cleanly, so that no resync is necessary.
    pub clean: bool,
    /// True if members have checksums behind the data.
    pub checksums: bool,
    /// Completeness of each member.
    pub completeness: Vec<Completeness>,
}

impl Superblock {
    /// Returns the shape of the array.
    ///
    /// # Errors
    /// If the shape is not possible.
    pub fn geometry(&self) -> Result<Geometry, GeometryError> {
        let bytes = self.stripes.saturating_mul(self.strip_bytes);
        Geometry::new(self.level, self.completeness.len(), self.strip_bytes, bytes)
    }

    /// Returns the range of the data on a member, in bytes. Checksums follow the data.
    pub fn data(&self) -> std::ops::Range<u64> {
        self.data_offset..self.data_offset + self.stripes * self.strip_bytes
    }

    /// Encodes the superblock.
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
        put(32, &(self.completeness.len() as u32).to_le_bytes());
        let index = self.index.map_or(SPARE, |index| index as u32);
        put(36, &index.to_le_bytes());
        put(40, &self.strip_bytes.to_le_bytes());
        put(48, &self.data_offset.to_le_bytes());
        put(56, &self.stripes.to_le_bytes());
        put(64, &self.region_stripes.to_le_bytes());
        put(72, &self.generation.to_le_bytes());
        let flags = u64::from(self.clean) | u64::from(self.checksums) << 1;
        put(80, &flags.to_le_bytes());
        for (at, filling) in self.completeness.iter().enumerate() {
            let stripes = match filling {
                Completeness::Full => FULL,
                Completeness::Gone => GONE,
                Completeness::Below(stripes) => *stripes,
            };
            put(FILLINGS + 8 * at, &stripes.to_le_bytes());
        }
        let checksum = crc_fast::checksum(Crc32Iscsi, &bytes[..CHECKSUM]) as u32;
        bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a superblock.
    ///
    /// # Errors
    /// If the bytes are not a superblock, are damaged, or contain impossible values.
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
            FULL => Completeness::Full,
            GONE => Completeness::Gone,
            stripes => Completeness::Below(stripes),
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
            completeness: (0..members).map(filling).collect(),
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
            completeness: vec![
                Completeness::Full,
                Completeness::Gone,
                Completeness::Below(17),
                Completeness::Full,
            ],
        }
    }

    #[test]
    fn encoded_bytes_are_decoded_and_others_are_rejected() {
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
    fn random_names_differ() {
        let (one, other) = (Uuid::random().unwrap(), Uuid::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.to_string().len(), 36);
        assert_eq!(
            Uuid(*b"0123456789abcdef").to_string(),
            "30313233-3435-3637-3839-616263646566"
        );
    }
}
