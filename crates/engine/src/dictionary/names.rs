//! Names: maps the bytes of a source's name to its number and reads the name only once.
//!
//! A name is identified by 96 bits of a keyed hash of its bytes. The key is chosen when the store
//! is opened, so an attacker cannot search for two names with the same hash. Among a million names,
//! the probability of any collision is below 10⁻¹⁷. The canonical name of every source is present
//! unless the source is *dormant*, so an absent canonical name belongs to a new or to a dormant
//! source. Names files contain the names of dormant sources ([`super::filed`]). Other names may lead
//! to the same source: another order of the tags, or another notation.
//!
//! A canonical name has the number of its source. Other names are numbered from [`OTHER`] on. A hash
//! table contains the numbers. Clients usually send their series in the same order again and again.
//! Therefore the name after the previous one is compared first: its hash is in the cache, whereas a
//! position in the table is not.

use super::directory::Directory;
pub use super::hashes::OTHER;
use super::hashes::{Hashes, Other};
pub use super::name_hash::{NameHash, hash_name};
use super::table::{LARGEST, LINE, SMALLEST, Segment};
use crate::prefetch::prefetch;
use roaring::RoaringBitmap;

/// Names of sources: their hashes, and a hash table of their numbers in segments of bounded size
/// with open addressing.
pub struct Names {
    hashes: Hashes,
    /// Places of removed names in the list of other names.
    free: RoaringBitmap,
    directory: Directory<Segment>,
    /// Bytes of the segments.
    bytes: usize,
    seed: u64,
}

impl Names {
    /// Creates an empty table. Hashes depend on the seed.
    pub fn new(seed: u64) -> Names {
        let segment = Segment::new(SMALLEST);
        Names {
            hashes: Hashes::default(),
            free: RoaringBitmap::new(),
            bytes: segment.bytes(),
            directory: Directory::new(segment),
            seed,
        }
    }

    /// Gives an empty table the size for so many names, which are then added without moves of others.
    pub fn make_space(&mut self, names: u32) {
        let slots = names as usize * 5 / 4;
        let depth = (slots / (LARGEST * LINE))
            .checked_ilog2()
            .map_or(0, |depth| depth + 1);
        let lines = (slots >> depth).div_ceil(LINE).max(SMALLEST);
        self.directory.begin(depth as u8, || Segment::new(lines));
        self.bytes = self.directory.segment(0).bytes() << depth;
    }

    /// Returns the seed of the hashes, so that hashes can be computed elsewhere.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Prefetches the position of a hash in the table.
    #[inline]
    pub fn prefetch(&self, hash: NameHash) {
        let segment = self.directory.segment(hash.place());
        prefetch(&segment.lines[segment.line(hash)]);
    }

    /// Prefetches the stored hash of a name, whose position in the table was prefetched before.
    #[inline]
    pub fn prefetch_entry(&self, hash: NameHash) {
        let segment = self.directory.segment(hash.place());
        if let Some(number) = segment.find(hash, |_| true) {
            self.hashes.prefetch(number);
        }
    }

    /// Returns the number of the name with this hash.
    #[inline]
    pub fn number(&self, hash: NameHash) -> Option<u32> {
        let segment = self.directory.segment(hash.place());
        segment.find(hash, |number| self.hashes.of(number) == hash)
    }

    /// Returns the source of the name with a number.
    #[inline]
    pub fn source(&self, number: u32) -> u32 {
        match number & OTHER {
            0 => number,
            _ => self.hashes.others.get((number & !OTHER) as usize).source,
        }
    }

    /// Returns whether the name with a number exists and has this hash.
    #[inline]
    pub fn is_at(&self, number: u32, hash: NameHash) -> bool {
        self.hashes.is_at(number, hash)
    }

    /// Returns whether a source has a canonical name.
    pub fn has_canonical(&self, source: u32) -> bool {
        self.hashes.canonical.get(source) != NameHash::NONE
    }

    /// Returns the number of sources with a canonical name.
    pub fn sources(&self) -> u32 {
        self.hashes.canonical.names()
    }

    /// Returns the source with a name of this hash.
    #[inline]
    pub fn find(&self, hash: NameHash) -> Option<u32> {
        self.number(hash).map(|number| self.source(number))
    }

    /// Adds the hash of the canonical name of a source that has none.
    ///
    /// # Panics
    /// If the number of the source is [`OTHER`] or higher.
    pub fn insert(&mut self, hash: NameHash, source: u32) {
        assert!(source < OTHER, "memory ends before the numbers");
        self.hashes.canonical.insert(source, hash);
        self.put(hash, source);
    }

    /// Adds the hash of another, unknown name of a source.
    pub fn insert_other(&mut self, hash: NameHash, source: u32) {
        let others = &mut self.hashes.others;
        let other = Other { hash, source };
        let index = match self.free.min() {
            Some(free) => {
                self.free.remove(free);
                *others.get_mut(free as usize) = other;
                free
            }
            None => {
                others.push(other);
                others.len() as u32 - 1
            }
        };
        assert!(index < OTHER, "memory ends before the numbers");
        self.put(hash, OTHER | index);
    }

    fn put(&mut self, hash: NameHash, number: u32) {
        let place = hash.place();
        if self.directory.segment(place).is_full() {
            self.grow(place);
        }
        self.directory.segment_mut(place).put(hash, number);
    }

    /// Lists the names of some sources, as pairs of source and number, from the number `cursor` on. Returns the cursor
    /// of the next call, unless all names were examined. A call examines up to `most` names.
    pub fn list(
        &self,
        cursor: u32,
        most: u32,
        sources: &RoaringBitmap,
        found: &mut Vec<(u32, u32)>,
    ) -> Option<u32> {
        let Hashes { canonical, others } = &self.hashes;
        let (kind, len) = match cursor & OTHER {
            0 => (0, canonical.end()),
            _ => (OTHER, others.len() as u32),
        };
        let first = cursor & !OTHER;
        let end = len.min(first.saturating_add(most));
        let numbers = (first..end).map(|index| kind | index);
        let named = numbers.map(|number| (self.source(number), number));
        found.extend(named.filter(|&(source, number)| {
            sources.contains(source) && self.hashes.of(number) != NameHash::NONE
        }));
        match (kind, end < len) {
            (_, true) => Some(kind | end),
            (0, false) => Some(OTHER),
            _ => None,
        }
    }

    /// Removes the name with a number.
    pub fn remove(&mut self, number: u32) {
        let hash = self.hashes.of(number);
        let segment = self.directory.segment_mut(hash.place());
        segment.remove(hash, number, &self.hashes);
        self.hashes.remove(number);
        if number & OTHER != 0 {
            self.free.insert(number & !OTHER);
        }
    }

    #[cold]
    fn grow(&mut self, place: u32) {
        let (directory, bytes, hashes) = (&mut self.directory, &mut self.bytes, &self.hashes);
        *bytes -= directory.segment(place).bytes();
        if directory.segment(place).lines.len() >= LARGEST {
            directory.split(place, |segment, bit| {
                let other = segment.halve(bit, hashes);
                *bytes += other.bytes();
                other
            });
        }
        let segment = directory.segment_mut(place);
        if segment.is_full() {
            let larger = (segment.lines.len() * 5).div_ceil(4);
            // The last size before a split is exactly the full size, regardless of rounding.
            let larger = match larger > LARGEST / 8 * 7 && larger < LARGEST * 9 / 8 {
                true => LARGEST,
                false => larger,
            };
            segment.resize(larger, hashes);
        }
        *bytes += segment.bytes();
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.hashes.memory() + self.bytes + self.directory.memory() + self.free.serialized_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u32) -> NameHash {
        hash_name(7, 1, &number.to_le_bytes())
    }

    #[test]
    fn names_are_found_at_any_number() {
        let mut names = Names::new(7);
        let small = names.memory();
        assert!(small <= 2 << 10, "{small}");
        let mut count = 0;
        for until in [1, 47, 48, 49, 3_000, 3_500, 200_000] {
            (count..until).for_each(|number| names.insert(hash(number), number));
            count = until;
            assert!((0..count).all(|number| names.find(hash(number)) == Some(number)));
            assert!((count..count + 1_000).all(|number| names.find(hash(number)).is_none()));
            let counted: usize = names.directory.segments().map(Segment::bytes).sum();
            assert_eq!(names.bytes, counted);
        }
        assert!(names.memory() < count as usize * 21, "{}", names.memory());
        let segments = names.directory.segments();
        let longest = segments.map(|segment| segment.lines.len()).max();
        assert!(
            longest <= Some(LARGEST),
            "an insert moves a segment: {longest:?}"
        );
    }

    #[test]
    fn a_table_with_space_for_its_names_does_not_grow() {
        for count in [0, 1, 40, 9_000, 10_500, 300_000] {
            let mut names = Names::new(7);
            names.make_space(count);
            let before = names.bytes;
            assert!(
                before <= (count as usize * 7).max(SMALLEST * 64),
                "{before} for {count}"
            );
            (0..count).for_each(|number| names.insert(hash(number), number));
            assert_eq!(names.bytes, before, "{count}");
            (count..count * 2).for_each(|number| names.insert(hash(number), number));
            assert!((0..count * 2).all(|number| names.find(hash(number)) == Some(number)));
            let counted: usize = names.directory.segments().map(Segment::bytes).sum();
            assert_eq!(names.bytes, counted);
        }
    }

    #[test]
    fn names_with_equal_places_are_distinguished() {
        let mut names = Names::new(7);
        let hash = |number: u32| NameHash([5, number % 10, number / 10]);
        (0..100).for_each(|number| names.insert(hash(number), number));
        assert!((0..100).all(|number| names.find(hash(number)) == Some(number)));
        assert_eq!(names.find(hash(100)), None);
    }

    #[test]
    fn names_of_a_kind_are_numbered_in_the_order_of_insertion() {
        let mut names = Names::new(7);
        assert!(!names.is_at(0, hash(0)));
        names.insert(hash(0), 0);
        names.insert_other(hash(1), 0);
        // The sources between have no name.
        names.insert(hash(2), 3);
        names.insert_other(hash(3), 3);
        for (number, at, source) in [(0, 0, 0), (1, OTHER, 0), (2, 3, 3), (3, OTHER + 1, 3)] {
            assert_eq!(names.number(hash(number)), Some(at));
            assert!(names.is_at(at, hash(number)));
            assert_eq!(names.source(at), source);
        }
        assert!(!names.is_at(1, hash(2)));
        assert!(!names.is_at(4, hash(3)));
        assert!(!names.is_at(OTHER + 2, hash(3)));
    }

    #[test]
    fn all_names_of_a_source_are_listed() {
        let mut names = Names::new(7);
        (0..50).for_each(|number| names.insert(hash(number), number));
        (0..50).for_each(|number| names.insert_other(hash(100 + number), number % 10));
        names.remove(7);
        names.remove(OTHER + 3);
        let sources = RoaringBitmap::from_iter([3, 7, 60]);
        let mut found = Vec::new();
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            cursor = names.list(from, 16, &sources, &mut found);
        }
        let of_three = [3, OTHER + 13, OTHER + 23, OTHER + 33, OTHER + 43].map(|at| (3, at));
        let of_seven = [7, 17, 27, 37, 47].map(|at| (7, OTHER + at));
        found.sort_unstable();
        assert_eq!(found, [of_three, of_seven].concat());
        names.insert_other(hash(200), 9);
        assert_eq!(names.number(hash(200)), Some(OTHER + 3), "it is used again");
    }

    /// Searches stop at a line with a free slot, so a removal must not leave one before a slot that
    /// did not fit in its own line.
    #[test]
    fn names_are_found_after_others_were_removed() {
        let mut names = Names::new(7);
        // Places of four lines only, so that lines overflow.
        let hash = |number: u32| NameHash([((number % 4) << 30) | (number % 3), number, number]);
        let (mut present, mut free) = (Vec::new(), Vec::new());
        let mut sources = 0..;
        for number in 0..20_000_u32 {
            let source = free.pop().or_else(|| sources.next()).unwrap();
            names.insert(hash(number), source);
            present.push((number, source));
            if number % 3 > 0 {
                let at = (number as usize * 7919) % present.len();
                let (gone, source) = present.swap_remove(at);
                assert_eq!(names.number(hash(gone)), Some(source));
                names.remove(source);
                free.push(source);
            }
            if number % 1_000 == 999 {
                for &(number, source) in &present {
                    assert_eq!(names.find(hash(number)), Some(source));
                }
            }
        }
        let mut all: Vec<u32> = present.iter().map(|(number, _)| *number).collect();
        all.sort_unstable();
        let gone = (0..20_000).filter(|number| all.binary_search(number).is_err());
        assert!(gone.map(hash).all(|hash| names.find(hash).is_none()));
    }
}
