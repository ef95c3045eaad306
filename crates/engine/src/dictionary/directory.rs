//! Extendible hashing: a table in segments of bounded size, of which a full one is split in two.
//!
//! An insert moves the entries of one segment at most. The directory has four bytes per segment and grows by
//! doubling: some thousandth of the table's bytes.

/// Depth from which segments are not split. They grow instead.
const DEEPEST: u8 = 24;
/// Entries of the directory per segment at most: hashes that are alike do not make it larger.
const SPREAD: usize = 16;

/// The segments of a table, by bits of a hash.
pub struct Directory<T> {
    /// The segment of each value of the lowest `depth` bits.
    slots: Vec<u32>,
    /// Each segment, and of how many bits its entries have the same value.
    segments: Vec<(T, u8)>,
}

impl<T> Directory<T> {
    /// A directory of one segment.
    pub fn new(segment: T) -> Directory<T> {
        Directory {
            slots: vec![0],
            segments: vec![(segment, 0)],
        }
    }

    #[inline]
    fn index(&self, bits: u32) -> usize {
        self.slots[bits as usize & (self.slots.len() - 1)] as usize
    }

    /// The segment of entries with these bits.
    #[inline]
    pub fn segment(&self, bits: u32) -> &T {
        &self.segments[self.index(bits)].0
    }

    /// The segment of entries with these bits, to change.
    #[inline]
    pub fn segment_mut(&mut self, bits: u32) -> &mut T {
        let index = self.index(bits);
        &mut self.segments[index].0
    }

    /// All segments.
    #[cfg(test)]
    pub fn segments(&self) -> impl Iterator<Item = &T> {
        self.segments.iter().map(|(segment, _)| segment)
    }

    /// Splits the segment of entries with these bits: `halve` takes the entries that have the given bit out of a
    /// segment, and returns them as another. Returns whether the segment was split; if not, it may grow.
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

    /// Bytes of memory of the directory, those on the heap of the segments not included.
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
    fn hashes_that_are_alike_do_not_make_the_directory_large() {
        let mut directory = Directory::new(Vec::new());
        (0..1_000).for_each(|_| insert(&mut directory, 0x5555_5555));
        assert!(directory.slots.len() <= 1_000, "{}", directory.slots.len());
        assert_eq!(directory.segment(0x5555_5555).len(), 1_000);
    }
}
