//! Metadata on the volume: superblock, and records of the table of files. Format: `docs/format/volume.md`.

use crate::blocks::{BLOCK, VolumeShape};
use crc_fast::CrcAlgorithm;

/// Magic number of the superblock.
pub const MAGIC: &[u8; 8] = b"SEINVOLM";
const RECORD: &[u8; 8] = b"SEINTABL";
const VERSION: u32 = 1;
/// Least bytes of a unit.
const LEAST_UNIT: u64 = 64 << 10;
/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 64;
/// Maximum bytes of a name.
pub const LONGEST_NAME: usize = 255;
/// Least number of blocks of a table.
const LEAST_TABLE: u64 = 64;
/// Least number of units of a table.
const LEAST_TABLE_UNITS: u64 = 8;
/// Bytes of table per unit of the volume; a file of one unit needs less.
const TABLE_SHARE: u64 = 128;
/// Divisor: one unit in this many is kept for data that must not be changed in place.
const KEPT_SHARE: u64 = 8;
/// Maximum number of units kept for that, about the number of files open at a time.
const MOST_KEPT: u64 = 8;
/// Divisor: the largest part of a large volume that a table takes.
const LARGE_SHARE: u64 = 1024;

/// Returns the CRC-32C (Castagnoli) of the bytes.
fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// A run of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First unit.
    pub start: u64,
    /// Number of units.
    pub units: u64,
}

/// Division of the volume, written when the volume is formatted and never again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name of the volume.
    pub volume: [u8; 16],
    /// Size and stripe of the volume.
    pub shape: VolumeShape,
    /// Blocks of a unit, a multiple of a stripe.
    pub unit_blocks: u64,
    /// Blocks of each of the two tables.
    pub table_blocks: u64,
    /// Number of units for files.
    pub units: u64,
}

/// Returns the blocks of a unit: the least multiple of a stripe with at least 64 KiB.
fn unit_blocks(shape: VolumeShape) -> u64 {
    let least = LEAST_UNIT / BLOCK as u64;
    shape.stripe_blocks * least.div_ceil(shape.stripe_blocks)
}

impl Layout {
    /// Computes the division of a volume; `None` if there is no space for a file.
    pub fn new(volume: [u8; 16], shape: VolumeShape) -> Option<Layout> {
        let unit_blocks = unit_blocks(shape);
        let all = shape.blocks / unit_blocks;
        let wanted = (all * TABLE_SHARE).div_ceil(BLOCK as u64);
        let most = (shape.blocks / LARGE_SHARE).max((1 << 20) / BLOCK as u64);
        let table = wanted
            .min(most)
            .max(LEAST_TABLE)
            .max(LEAST_TABLE_UNITS * unit_blocks);
        let table_blocks = table.next_multiple_of(unit_blocks);
        let mut layout = Layout {
            volume,
            shape,
            unit_blocks,
            table_blocks,
            units: 0,
        };
        layout.units = all
            .checked_sub(layout.first_unit())
            .filter(|&units| units > 0)?;
        Some(layout)
    }

    /// Returns the number of units that files may not grow into. With them, a full volume with missing members can
    /// still be written, which is necessary to remove anything from a store.
    pub fn kept(&self) -> u64 {
        (self.units / KEPT_SHARE).min(MOST_KEPT)
    }

    /// Returns the bytes of a unit.
    pub fn unit_bytes(&self) -> u64 {
        self.unit_blocks * BLOCK as u64
    }

    /// Returns the block numbers of the two superblocks.
    pub fn superblocks(shape: VolumeShape) -> [u64; 2] {
        [0, unit_blocks(shape)]
    }

    /// Returns the first block of a table.
    pub fn table(&self, which: usize) -> u64 {
        2 * self.unit_blocks + which as u64 * self.table_blocks
    }

    /// Returns the number of units before those for files.
    fn first_unit(&self) -> u64 {
        2 + 2 * self.table_blocks / self.unit_blocks
    }

    /// Returns the first block of a unit.
    pub fn block(&self, unit: u64) -> u64 {
        (self.first_unit() + unit) * self.unit_blocks
    }

    /// Encodes the superblock, one block.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(BLOCK as u32).to_le_bytes());
        bytes.extend_from_slice(&self.volume);
        let words = [
            self.shape.blocks,
            self.shape.stripe_blocks,
            self.unit_blocks,
            self.table_blocks,
            self.units,
        ];
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.resize(BLOCK - 4, 0);
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes a superblock.
    ///
    /// # Errors
    /// The reason why it cannot be used on a volume of this shape.
    pub fn decode(bytes: &[u8], shape: VolumeShape) -> Result<Layout, String> {
        let mut reader = Reader(bytes);
        if reader.take(8) != Some(MAGIC) {
            return Err("has no superblock of a store".to_string());
        }
        let (body, sum) = bytes.split_at(bytes.len().saturating_sub(4));
        if bytes.len() != BLOCK || sum != checksum(body).to_le_bytes() {
            return Err("has a damaged superblock".to_string());
        }
        let version = reader.u32();
        if version != Some(VERSION) {
            return Err(format!(
                "is of version {}, but this program reads {VERSION}: use a newer program",
                version.unwrap_or(0)
            ));
        }
        let layout = Layout::decode_words(&mut reader).ok_or("has a damaged superblock")?;
        match Layout::new(layout.volume, shape) {
            Some(expected) if expected == layout => Ok(layout),
            _ => Err(format!(
                "was made with {} blocks in stripes of {}, but the array has {} in stripes of {}: use the array on \
                 which it was made",
                layout.shape.blocks, layout.shape.stripe_blocks, shape.blocks, shape.stripe_blocks
            )),
        }
    }

    fn decode_words(reader: &mut Reader) -> Option<Layout> {
        (reader.u32()? == BLOCK as u32).then_some(())?;
        Some(Layout {
            volume: reader.take(16)?.try_into().ok()?,
            shape: VolumeShape {
                blocks: reader.u64()?,
                stripe_blocks: reader.u64()?,
            },
            unit_blocks: reader.u64()?,
            table_blocks: reader.u64()?,
            units: reader.u64()?,
        })
    }
}

/// Header of a record of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Generation of the snapshot to which the record belongs.
    pub generation: u64,
    /// 0 for the snapshot itself, then one more with each record of the log.
    pub sequence: u64,
    /// Bytes of the changes that follow; those of a snapshot start at the next stripe.
    pub body_bytes: u32,
    /// Checksum of the changes.
    pub body_sum: u32,
}

impl Header {
    /// Creates the header of a record with the changes `body`.
    pub fn of(generation: u64, sequence: u64, body: &[u8]) -> Header {
        Header {
            generation,
            sequence,
            body_bytes: body.len() as u32,
            body_sum: checksum(body),
        }
    }

    /// Encodes the header.
    pub fn encode(&self, volume: &[u8; 16]) -> Vec<u8> {
        let mut bytes = RECORD.to_vec();
        bytes.extend_from_slice(volume);
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.body_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.body_sum.to_le_bytes());
        bytes.resize(HEADER_BYTES - 4, 0);
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes a header; `None` if the bytes are not a header of this volume.
    pub fn decode(bytes: &[u8], volume: &[u8; 16]) -> Option<Header> {
        let (body, sum) = bytes.get(..HEADER_BYTES)?.split_at(HEADER_BYTES - 4);
        let mut reader = Reader(body);
        let ours = reader.take(8)? == RECORD && reader.take(16)? == volume;
        let header = Header {
            generation: reader.u64()?,
            sequence: reader.u64()?,
            body_bytes: reader.u32()?,
            body_sum: reader.u32()?,
        };
        (ours && sum == checksum(body).to_le_bytes()).then_some(header)
    }

    /// Returns the offset of the changes in the record, in bytes. Those of a snapshot start in the next stripe, so
    /// that the header is written after they are durable, without touching them.
    pub fn body_at(&self, shape: VolumeShape) -> usize {
        match self.sequence {
            0 => shape.stripe_blocks as usize * BLOCK,
            _ => HEADER_BYTES,
        }
    }

    /// Returns the blocks of the record.
    pub fn blocks(&self, shape: VolumeShape) -> u64 {
        (self.body_at(shape) + self.body_bytes as usize).div_ceil(BLOCK) as u64
    }
}

/// A change of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Gives a file this name in place of its former one. Another file with the name is removed.
    Name {
        /// Number of the file.
        file: u64,
        /// New name.
        name: String,
    },
    /// Removes a file.
    Gone {
        /// Number of the file.
        file: u64,
    },
    /// Sets the contents of a file.
    Body {
        /// Number of the file.
        file: u64,
        /// Length in bytes.
        len: u64,
        /// Units of the file, in order.
        extents: Vec<Extent>,
    },
}

const NAME: u8 = 1;
const GONE: u8 = 2;
const BODY: u8 = 3;

impl Change {
    /// Appends the encoded change.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Change::Name { file, name } => {
                out.push(NAME);
                out.extend_from_slice(&file.to_le_bytes());
                out.extend_from_slice(&(name.len() as u16).to_le_bytes());
                out.extend_from_slice(name.as_bytes());
            }
            Change::Gone { file } => {
                out.push(GONE);
                out.extend_from_slice(&file.to_le_bytes());
            }
            Change::Body { file, len, extents } => {
                out.push(BODY);
                out.extend_from_slice(&file.to_le_bytes());
                out.extend_from_slice(&len.to_le_bytes());
                out.extend_from_slice(&(extents.len() as u32).to_le_bytes());
                for extent in extents {
                    out.extend_from_slice(&extent.start.to_le_bytes());
                    out.extend_from_slice(&extent.units.to_le_bytes());
                }
            }
        }
    }

    /// Decodes all changes of a record; `None` if the bytes are invalid.
    pub fn decode_all(bytes: &[u8]) -> Option<Vec<Change>> {
        let mut reader = Reader(bytes);
        let mut changes = Vec::new();
        while !reader.0.is_empty() {
            changes.push(Change::decode(&mut reader)?);
        }
        Some(changes)
    }

    fn decode(reader: &mut Reader) -> Option<Change> {
        let kind = reader.take(1)?[0];
        let file = reader.u64()?;
        match kind {
            NAME => {
                let len = usize::from(reader.u16()?);
                let name = str::from_utf8(reader.take(len)?).ok()?.to_string();
                Some(Change::Name { file, name })
            }
            GONE => Some(Change::Gone { file }),
            BODY => {
                let (len, count) = (reader.u64()?, reader.u32()?);
                let extents = (0..count).map(|_| {
                    Some(Extent {
                        start: reader.u64()?,
                        units: reader.u64()?,
                    })
                });
                let extents = extents.collect::<Option<Vec<Extent>>>()?;
                Some(Change::Body { file, len, extents })
            }
            _ => None,
        }
    }
}

/// Cursor that takes bytes off the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_platform::sim::Rng;

    const SHAPE: VolumeShape = VolumeShape {
        blocks: 6144,
        stripe_blocks: 16,
    };

    fn golden(name: &str) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/volume/v1/");
        std::fs::read(format!("{folder}{name}")).unwrap()
    }

    fn volume() -> [u8; 16] {
        std::array::from_fn(|at| at as u8)
    }

    fn changes() -> Vec<Change> {
        let extents = [(5, 1), (9, 2)].map(|(start, units)| Extent { start, units });
        vec![
            Change::Name {
                file: 7,
                name: "catalog".to_string(),
            },
            Change::Body {
                file: 7,
                len: 100_000,
                extents: extents.to_vec(),
            },
            Change::Gone { file: 3 },
        ]
    }

    /// Compares with golden files that another program made from the format page.
    #[test]
    fn bytes_are_those_of_the_golden_files() {
        let layout = Layout::new(volume(), SHAPE).unwrap();
        assert_eq!(layout.encode(), golden("superblock"));
        assert_eq!(Layout::decode(&golden("superblock"), SHAPE), Ok(layout));
        let mut body = Vec::new();
        changes().iter().for_each(|change| change.encode(&mut body));
        let mut record = Header::of(4, 9, &body).encode(&volume());
        record.extend_from_slice(&body);
        assert_eq!(record, golden("record"));
        assert_eq!(Change::decode_all(&body), Some(changes()));
        let header = Header::decode(&golden("record"), &volume()).unwrap();
        assert_eq!(header, Header::of(4, 9, &body));
        assert_eq!(Header::decode(&golden("record"), &[0; 16]), None);
    }

    #[test]
    fn the_division_fits_on_the_volume() {
        for stripe_blocks in [1, 3, 16, 20, 256, 1000] {
            for blocks in [0, 100, 5000, 100_000, 1 << 30] {
                let shape = VolumeShape {
                    blocks,
                    stripe_blocks,
                };
                let Some(layout) = Layout::new(volume(), shape) else {
                    assert!(blocks < 100_000, "{shape:?} is large enough");
                    continue;
                };
                assert!(
                    layout.unit_bytes() >= LEAST_UNIT && layout.unit_blocks % stripe_blocks == 0
                );
                assert!(layout.table(0) >= 2 * layout.unit_blocks);
                assert!(layout.table(1) + layout.table_blocks <= layout.block(0));
                assert!(layout.block(layout.units) <= blocks);
                assert!(layout.block(layout.units + 1) > blocks);
            }
        }
    }

    #[test]
    fn another_shape_is_rejected() {
        let other = VolumeShape {
            blocks: 6143,
            ..SHAPE
        };
        let why = Layout::decode(&golden("superblock"), other).unwrap_err();
        assert!(why.contains("6144") && why.contains("6143"), "{why}");
    }

    #[test]
    fn arbitrary_bytes_cause_no_panic() {
        let mut rng = Rng::new(1);
        for turn in 0..20_000 {
            let mut bytes = golden(if turn % 2 == 0 {
                "superblock"
            } else {
                "record"
            });
            for _ in 0..rng.between(1, 4) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
            let _ = Layout::decode(&bytes, SHAPE);
            let _ = Header::decode(&bytes, &volume());
            let skip = HEADER_BYTES.min(bytes.len());
            let _ = Change::decode_all(&bytes[skip..]);
        }
    }
}
