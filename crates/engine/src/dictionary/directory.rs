//! Extendible hashing: a table of segments of bounded size. A full segment is split in two.
//!
//! An insertion moves the entries of at most one segment. The directory has four bytes per segment
//! and grows by doubling: about a thousandth of the table's bytes.

/// Depth from which segments grow instead of being split.
const DEEPEST: u8 = 24;
/// Maximum directory entries per segment. Similar hashes do not make the directory larger.
const SPREAD: usize = 16;

/// Segments of a table, by bits of a hash.
pub struct Directory<T> {
    /// Segment number for each value of the lowest `depth` bits.
    slots: Vec<u32>,
    /// Segments, each with the number of hash bits that its entries have in common.
    segments: Vec<(T, u8)>,
}

impl<T> Directory<T> {
    /// Creates a directory with one segment.
    pub fn new(segment: T) -> Directory<T> {
        Directory {
            slots: vec![0],
            segments: vec![(segment, 0)],
        }
    }

    /// Makes the directory one of 2^`depth` segments, which are empty.
    pub fn begin(&mut self, depth: u8, segment: impl Fn() -> T) {
        self.slots = (0..1 << depth).collect();
        self.segments = (0..1 << depth).map(|_| (segment(), depth)).collect();
    }

    #[inline]
    fn index(&self, bits: u32) -> usize {
        self.slots[bits as usize & (self.slots.len() - 1)] as usize
    }

    /// Returns the segment for these hash bits.
    #[inline]
    pub fn segment(&self, bits: u32) -> &T {
        &self.segments[self.index(bits)].0
    }

    /// Returns the segment for these hash bits, mutably.
    #[inline]
    pub fn segment_mut(&mut self, bits: u32) -> &mut T {
        let index = self.index(bits);
        &mut self.segments[index].0
    }

    /// Returns all segments.
    #[cfg(test)]
    pub fn segments(&self) -> impl Iterator<Item = &T> {
        self.segments.iter().map(|(segment, _)| segment)
    }

    /// Splits the segment for these hash bits. `halve` removes the entries with the given bit set
    /// from a segment, and returns them as a new segment. Returns whether the segment was split. If
    /// not, the segment may grow.
    pub fn split(&mut self, bits: u32, halve: impl FnOnce(&mut T, u32) -> T) -> bool {
        let index = self.index(bits);
        let depth = self.segments[index].1;
        if self.slots.len() == 1 << depth {
            if depth >= DEEPEST || self.slots.len() * 2 > SPREAD * (self.segments.len() + 1) {
                return false;
            }
            self.slots.extend_from_within(..);
        }
        let other = self.segments.len() as u32;
        let segment = halve(&mut self.segments[index].0, 1 << depth);
        self.segments[index].1 = depth + 1;
        self.segments.push((segment, depth + 1));
        let first = bits as usize & ((1 << depth) - 1) | 1 << depth;
        for slot in (first..self.slots.len()).step_by(2 << depth) {
            self.slots[slot] = other;
        }
        true
    }

    /// Returns the bytes of the directory, without the heap memory of the segments.
    pub fn memory(&self) -> usize {
        self.slots.capacity() * 4 + self.segments.capacity() * size_of::<(T, u8)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(directory: &mut Directory<Vec<u32>>, bits: u32) {
        if directory.segment(bits).len() >= 8 {
            directory.split(bits, |segment, bit| {
                segment.extract_if(.., |held| *held & bit != 0).collect()
            });
        }
        directory.segment_mut(bits).push(bits);
    }

    #[test]
    fn segments_that_are_full_are_split() {
        let mut directory = Directory::new(Vec::new());
        let hash = |number: u32| number.wrapping_mul(0x9E37_79B9).swap_bytes();
        (0..10_000).for_each(|number| insert(&mut directory, hash(number)));
        assert!((0..10_000).all(|number| directory.segment(hash(number)).contains(&hash(number))));
        assert!(directory.segments().count() > 1_250);
        assert!(directory.segments().all(|segment| segment.len() <= 16));
        assert_eq!(directory.segments().map(Vec::len).sum::<usize>(), 10_000);
    }

    #[test]
    fn equal_hashes_do_not_enlarge_the_directory() {
        let mut directory = Directory::new(Vec::new());
        (0..1_000).for_each(|_| insert(&mut directory, 0x5555_5555));
        assert!(directory.slots.len() <= 1_000, "{}", directory.slots.len());
        assert_eq!(directory.segment(0x5555_5555).len(), 1_000);
    }
}
