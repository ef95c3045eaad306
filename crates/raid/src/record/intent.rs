//! Intent record: parts of the array that are being written, where syndromes may not match after a crash, and
//! stripes whose lost data cannot be computed reliably. See `docs/format/raid.md`.

use super::Uuid;
use crate::geometry::BLOCK_BYTES;
use crate::mark::Mark;
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const MAGIC: &[u8; 8] = b"SEININTN";
/// Offset of the bits of regions.
const BITS: usize = 64;
/// Offset of the ranges of stripes, and their maximum number.
const RANGES: usize = BITS + REGIONS as usize / 8;
const MOST_RANGES: usize = (CHECKSUM - RANGES) / 16;
const CHECKSUM: usize = BLOCK_BYTES - 8;

/// Maximum number of regions of an array.
pub const REGIONS: u64 = 16384;

/// An intent record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Number of the record. The later of two records has the higher one.
    pub sequence: u64,
    /// Number of stripes of a region.
    region_stripes: u64,
    marks: BTreeSet<Mark>,
    doubts: BTreeSet<u64>,
}

impl Intent {
    /// Creates the record of an array in which nothing is being written.
    pub fn new(region_stripes: u64) -> Intent {
        Intent {
            sequence: 0,
            region_stripes,
            marks: BTreeSet::new(),
            doubts: BTreeSet::new(),
        }
    }

    /// Marks a part as being written.
    pub fn mark(&mut self, mark: Mark) {
        self.marks.insert(mark);
    }

    /// Clears the mark of a part whose writes are durable.
    pub fn clear(&mut self, mark: Mark) {
        self.marks.remove(&mark);
    }

    /// Returns the parts that are being written.
    pub fn marks(&self) -> &BTreeSet<Mark> {
        &self.marks
    }

    /// Replaces the parts that are being written.
    pub fn set_marks(&mut self, marks: BTreeSet<Mark>) {
        self.marks = marks;
    }

    /// Returns the stripes whose lost data cannot be computed reliably.
    pub fn doubts(&self) -> &BTreeSet<u64> {
        &self.doubts
    }

    /// Replaces the doubtful stripes among those for which `among` returns true.
    pub fn set_doubts(&mut self, among: impl Fn(u64) -> bool, doubts: BTreeSet<u64>) {
        self.doubts.retain(|&stripe| !among(stripe));
        self.doubts.extend(doubts);
    }

    /// Adds the marks and doubtful stripes of another member's record.
    pub fn join(&mut self, other: &Intent) {
        self.sequence = self.sequence.max(other.sequence);
        self.marks.extend(&other.marks);
        self.doubts.extend(&other.doubts);
    }

    /// Encodes the record. The region of every marked stripe is marked as well. If stripes of a marked region are
    /// listed, the other stripes are not being written. Doubtful stripes that do not fit into the list have their
    /// whole regions marked, and so have marked stripes: the next start then examines all stripes of these regions.
    pub fn encode(&self, array: Uuid) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        let doubts = ranges(self.doubts.iter().copied());
        let (kept, rest) = doubts.split_at(doubts.len().min(MOST_RANGES));
        let region_of = |stripe: u64| stripe / self.region_stripes;
        let whole = self.marks.iter().filter_map(|mark| match mark {
            Mark::Region(region) => Some(*region),
            Mark::Stripe(_) => None,
        });
        let without_place = rest
            .iter()
            .flat_map(|range| region_of(range.start)..=region_of(range.end - 1));
        let mut marked: BTreeSet<u64> = whole.chain(without_place).collect();
        let mut listed = Vec::new();
        for (region, stripes) in self.stripes_by_region() {
            let stripes = ranges(stripes);
            if marked.insert(region) && kept.len() + listed.len() + stripes.len() <= MOST_RANGES {
                listed.extend(stripes);
            }
        }
        for region in marked {
            bytes[BITS + (region / 8) as usize] |= 1 << (region % 8);
        }
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, MAGIC);
        put(8, &array.0);
        put(24, &self.sequence.to_le_bytes());
        put(32, &self.region_stripes.to_le_bytes());
        put(40, &(kept.len() as u64).to_le_bytes());
        put(48, &(listed.len() as u64).to_le_bytes());
        for (at, range) in kept.iter().chain(&listed).enumerate() {
            put(RANGES + 16 * at, &range.start.to_le_bytes());
            put(RANGES + 16 * at + 8, &range.end.to_le_bytes());
        }
        let checksum = crc_fast::checksum(Crc32Iscsi, &bytes[..CHECKSUM]) as u32;
        bytes[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns the individually marked stripes by region.
    fn stripes_by_region(&self) -> BTreeMap<u64, Vec<u64>> {
        let mut stripes: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for &mark in &self.marks {
            if let Mark::Stripe(stripe) = mark {
                stripes
                    .entry(mark.region(self.region_stripes))
                    .or_default()
                    .push(stripe);
            }
        }
        stripes
    }

    /// Decodes a record. Returns `None` if the bytes are damaged or not a record of this array.
    pub fn decode(bytes: &[u8; BLOCK_BYTES], array: Uuid) -> Option<Intent> {
        let u64_at =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let checksum = crc_fast::checksum(Crc32Iscsi, &bytes[..CHECKSUM]) as u32;
        let whole = bytes[CHECKSUM..CHECKSUM + 4] == checksum.to_le_bytes();
        if !bytes.starts_with(MAGIC) || !whole || bytes[8..24] != array.0 {
            return None;
        }
        let region_stripes = u64_at(32);
        let stripes = region_stripes
            .checked_mul(REGIONS)
            .filter(|&stripes| stripes > 0)?;
        let range = |at: usize| u64_at(RANGES + 16 * at)..u64_at(RANGES + 16 * at + 8).min(stripes);
        let first_listed = (u64_at(40) as usize).min(MOST_RANGES);
        let end = (u64_at(48) as usize).min(MOST_RANGES - first_listed) + first_listed;
        let listed: BTreeSet<u64> = (first_listed..end).flat_map(range).collect();
        let in_part: BTreeSet<u64> = listed
            .iter()
            .map(|stripe| stripe / region_stripes)
            .collect();
        let bit = |region: &u64| bytes[BITS + (region / 8) as usize] >> (region % 8) & 1 == 1;
        let regions = (0..REGIONS)
            .filter(bit)
            .filter(|region| !in_part.contains(region));
        let marks = regions
            .map(Mark::Region)
            .chain(listed.iter().copied().map(Mark::Stripe));
        Some(Intent {
            sequence: u64_at(24),
            region_stripes,
            marks: marks.collect(),
            doubts: (0..first_listed).flat_map(range).collect(),
        })
    }
}

/// Returns ascending numbers as ranges.
fn ranges(numbers: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for number in numbers {
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
    fn encoded_bytes_are_decoded_and_others_are_rejected() {
        let mut intent = Intent::new(10);
        intent.sequence = 5;
        for region in [0, 7, 8, REGIONS - 1] {
            intent.mark(Mark::Region(region));
        }
        for stripe in [99, 100, 101, 110] {
            intent.mark(Mark::Stripe(stripe));
        }
        intent.mark(Mark::Region(9));
        intent.clear(Mark::Region(9));
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
    fn doubtful_stripes_without_space_have_their_regions_marked() {
        let mut intent = Intent::new(10);
        intent.set_doubts(|_| true, (0..1000).map(|at| 2 * at).collect());
        // The whole region of the stripe must be looked at, because of its doubtful stripes.
        intent.mark(Mark::Stripe(1991));
        let read = Intent::decode(&intent.encode(ARRAY), ARRAY).unwrap();
        assert_eq!(read.doubts().len(), MOST_RANGES);
        for stripe in intent.doubts() {
            let region = Mark::Region(stripe / 10);
            assert!(
                read.doubts().contains(stripe) || read.marks().contains(&region),
                "{stripe}"
            );
        }
    }

    #[test]
    fn marked_stripes_without_space_have_their_regions_marked() {
        let mut intent = Intent::new(10);
        intent.set_doubts(|_| true, (0..100).map(|at| 2 * at).collect());
        (500..600).for_each(|at| intent.mark(Mark::Stripe(2 * at)));
        intent.mark(Mark::Stripe(2000));
        intent.mark(Mark::Region(100));
        let read = Intent::decode(&intent.encode(ARRAY), ARRAY).unwrap();
        assert_eq!(read.doubts(), intent.doubts());
        let listed = |mark: &&Mark| matches!(mark, Mark::Stripe(_));
        assert_eq!(read.marks().iter().filter(listed).count(), 21);
        for mark in intent.marks() {
            let region = Mark::Region(mark.region(10));
            assert!(
                read.marks().contains(mark) || read.marks().contains(&region),
                "{mark:?}"
            );
        }
    }
}
