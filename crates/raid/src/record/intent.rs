//! The intent record: regions that are being written, so that syndromes there may not fit after a crash, and stripes of
//! which lost data cannot be computed for certain. See `docs/format/raid.md`.

use super::Uuid;
use crate::geometry::BLOCK_BYTES;
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use std::collections::BTreeSet;
use std::ops::Range;

const MAGIC: &[u8; 8] = b"SEININTN";
/// Where the bits of regions are.
const BITS: usize = 64;
/// Where ranges of doubtful stripes are, and how many there can be.
const DOUBTS: usize = BITS + REGIONS as usize / 8;
const MOST_DOUBTS: usize = (CHECKSUM - DOUBTS) / 16;
const CHECKSUM: usize = BLOCK_BYTES - 8;

/// The most regions that an array has.
pub const REGIONS: u64 = 16384;

/// An intent record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The later of two records has the higher one.
    pub sequence: u64,
    /// Stripes of a region.
    region_stripes: u64,
    marked: BTreeSet<u64>,
    doubts: BTreeSet<u64>,
}

impl Intent {
    /// Nothing is being written.
    pub fn new(region_stripes: u64) -> Intent {
        Intent {
            sequence: 0,
            region_stripes,
            marked: BTreeSet::new(),
            doubts: BTreeSet::new(),
        }
    }

    /// A region is being written.
    pub fn mark(&mut self, region: u64) {
        self.marked.insert(region);
    }

    /// A region is no longer being written, and all there is durable.
    pub fn clear(&mut self, region: u64) {
        self.marked.remove(&region);
    }

    /// Regions that are being written.
    pub fn marked(&self) -> &BTreeSet<u64> {
        &self.marked
    }

    /// Stripes of which lost data cannot be computed for certain.
    pub fn doubts(&self) -> &BTreeSet<u64> {
        &self.doubts
    }

    /// The doubtful stripes among some are these.
    pub fn set_doubts(&mut self, among: impl Fn(u64) -> bool, doubts: BTreeSet<u64>) {
        self.doubts.retain(|&stripe| !among(stripe));
        self.doubts.extend(doubts);
    }

    /// Takes over what another member knows.
    pub fn join(&mut self, other: &Intent) {
        self.sequence = self.sequence.max(other.sequence);
        self.marked.extend(&other.marked);
        self.doubts.extend(&other.doubts);
    }

    /// As it is written. Doubtful stripes for which there is no room have their regions marked: then they are looked at
    /// again.
    pub fn encode(&self, array: Uuid) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        let ranges = ranges(&self.doubts);
        let (kept, rest) = ranges.split_at(ranges.len().min(MOST_DOUBTS));
        let regions_of = |range: &Range<u64>| {
            range.start / self.region_stripes..=(range.end - 1) / self.region_stripes
        };
        let marked = self
            .marked
            .iter()
            .copied()
            .chain(rest.iter().flat_map(regions_of));
        for region in marked {
            bytes[BITS + (region / 8) as usize] |= 1 << (region % 8);
        }
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, MAGIC);
        put(8, &array.0);
        put(24, &self.sequence.to_le_bytes());
        put(32, &self.region_stripes.to_le_bytes());
        put(40, &(kept.len() as u64).to_le_bytes());
        for (at, range) in kept.iter().enumerate() {
            put(DOUBTS + 16 * at, &range.start.to_le_bytes());
            put(DOUBTS + 16 * at + 8, &range.end.to_le_bytes());
        }
        let checksum = crc_fast::checksum(Crc32Iscsi, &bytes[..CHECKSUM]) as u32;
        bytes[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Understands what was written; none if it is no record of this array, or damaged.
    pub fn decode(bytes: &[u8; BLOCK_BYTES], array: Uuid) -> Option<Intent> {
        let u64_at =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let checksum = crc_fast::checksum(Crc32Iscsi, &bytes[..CHECKSUM]) as u32;
        let whole = bytes[CHECKSUM..CHECKSUM + 4] == checksum.to_le_bytes();
        if !bytes.starts_with(MAGIC) || !whole || bytes[8..24] != array.0 {
            return None;
        }
        let bit = |region: &u64| bytes[BITS + (region / 8) as usize] >> (region % 8) & 1 == 1;
        let doubts = (0..(u64_at(40) as usize).min(MOST_DOUBTS)).map(|at| DOUBTS + 16 * at);
        Some(Intent {
            sequence: u64_at(24),
            region_stripes: u64_at(32),
            marked: (0..REGIONS).filter(bit).collect(),
            doubts: doubts.flat_map(|at| u64_at(at)..u64_at(at + 8)).collect(),
        })
    }
}

/// Numbers as ranges.
fn ranges(numbers: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => ranges.push(number..number + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: Uuid = Uuid([9; 16]);

    #[test]
    fn what_was_written_is_understood_and_nothing_else() {
        let mut intent = Intent::new(10);
        intent.sequence = 5;
        for region in [0, 7, 8, REGIONS - 1] {
            intent.mark(region);
        }
        intent.mark(9);
        intent.clear(9);
        intent.set_doubts(|_| true, [1, 2, 3, 70].into());
        intent.set_doubts(|stripe| stripe > 50, [90].into());
        let bytes = intent.encode(ARRAY);
        assert_eq!(Intent::decode(&bytes, ARRAY).unwrap(), intent);
        assert_eq!(Intent::decode(&bytes, Uuid([8; 16])), None);
        for at in 0..CHECKSUM + 4 {
            let mut bad = bytes;
            bad[at] ^= 4;
            assert_eq!(Intent::decode(&bad, ARRAY), None, "byte {at}");
        }
    }

    #[test]
    fn doubts_without_room_have_their_regions_marked() {
        let mut intent = Intent::new(10);
        intent.set_doubts(|_| true, (0..1000).map(|at| 2 * at).collect());
        let read = Intent::decode(&intent.encode(ARRAY), ARRAY).unwrap();
        assert_eq!(read.doubts().len(), MOST_DOUBTS);
        for stripe in intent.doubts() {
            assert!(
                read.doubts().contains(stripe) || read.marked().contains(&(stripe / 10)),
                "{stripe}"
            );
        }
    }
}
