//! Names: maps the bytes of a source's name to its number and reads the name only once.
//!
//! A name is identified by 96 bits of a keyed hash of its bytes. The key is chosen when the store
//! is opened, so an attacker cannot search for two names with the same hash. Among a million names,
//! the probability of any collision is below 10⁻¹⁷. Several names may lead to the same source:
//! another order of the tags, or another notation. The canonical name of every source is present,
//! so an absent canonical name belongs to a new source.
//!
//! The entries of all names form a list in the order of registration. A hash table contains their
//! numbers. Clients usually send their series in the same order again and again. Therefore the
//! name after the previous one is compared first: its entry is in the cache, whereas a position in
//! the table is not.

use super::directory::Directory;
use super::pages::Pages;
use crate::prefetch::prefetch;
use roaring::RoaringBitmap;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Hash of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameHash {
    high: u64,
    low: u32,
}

/// Source of an entry without a name.
const NOBODY: u32 = u32::MAX;

/// Entry of a name: the hash and the source.
struct Entry {
    high: u64,
    low: u32,
    source: u32,
}

impl Entry {
    #[inline]
    fn is_of(&self, hash: NameHash) -> bool {
        self.high == hash.high && self.low == hash.low && self.source != NOBODY
    }
}

/// Slot of the table: 32 bits of the hash, then the number of the name plus one. A free slot is zero.
type Slot = u64;

const FREE: Slot = 0;

/// Slots of one cache line, filled from the front. A look-up reads the next line only if this one is full,
/// which the prefetch of one line then does not cover.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([Slot; LINE]);

/// Slots per cache line.
const LINE: usize = 8;

/// Names of sources: their entries, and a hash table of their numbers in segments of bounded size
/// with open addressing.
pub struct Names {
    /// Entries in the order in which they were added. A new name takes the place of a removed one.
    entries: Pages<Entry>,
    /// Entries without a name.
    free: RoaringBitmap,
    directory: Directory<Segment>,
    /// Bytes of the segments.
    bytes: usize,
    seed: u64,
}

/// Initial lines of a segment. A segment grows by a quarter at a time.
const SMALLEST: usize = 16;
/// Number of lines at which a full segment is split.
const LARGEST: usize = 1024;

struct Segment {
    lines: Box<[Line]>,
    used: usize,
}

impl Segment {
    fn new(lines: usize) -> Segment {
        Segment {
            lines: vec![Line([FREE; LINE]); lines].into_boxed_slice(),
            used: 0,
        }
    }

    /// Returns the line at which the search for a mark begins.
    #[inline]
    fn line(&self, mark: u32) -> usize {
        ((u64::from(mark) * self.lines.len() as u64) >> 32) as usize
    }

    /// Returns the first number with this mark that `holds` accepts.
    #[inline]
    fn find(&self, mark: u32, holds: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.line(mark);
        loop {
            let line = &self.lines[at].0;
            // Without branches: where a mark is in its line cannot be predicted.
            let mut equal = 0;
            for (index, &slot) in line.iter().enumerate() {
                equal |= u32::from(mark_of(slot) == mark) << index;
            }
            while equal != 0 {
                let slot = line[equal.trailing_zeros() as usize];
                if slot != FREE && holds(slot as u32 - 1) {
                    return Some(slot as u32 - 1);
                }
                equal &= equal - 1;
            }
            if line[LINE - 1] == FREE {
                return None;
            }
            at = self.next(at);
        }
    }

    /// Returns the line after a line. The first line follows the last.
    #[inline]
    fn next(&self, line: usize) -> usize {
        match line + 1 {
            after if after == self.lines.len() => 0,
            after => after,
        }
    }

    /// Returns the used slots.
    fn slots(&self) -> impl Iterator<Item = Slot> {
        let slots = self.lines.iter().flat_map(|line| line.0);
        slots.filter(|&slot| slot != FREE)
    }

    /// Returns whether the segment is seven eighths full. Fewer free slots would make probe sequences
    /// longer.
    fn is_full(&self) -> bool {
        (self.used + 1) * 8 > self.lines.len() * LINE * 7
    }

    fn put(&mut self, slot: Slot) {
        let mut at = self.line(mark_of(slot));
        loop {
            let mut slots = self.lines[at].0.iter_mut();
            if let Some(free) = slots.find(|slot| **slot == FREE) {
                *free = slot;
                self.used += 1;
                return;
            }
            at = self.next(at);
        }
    }

    /// Removes a slot. The slots that did not fit in its line, or in a line behind it, move up.
    fn remove(&mut self, slot: Slot) {
        let mut at = self.line(mark_of(slot));
        while !self.lines[at].0.contains(&slot) {
            assert!(self.lines[at].0[LINE - 1] != FREE, "the slot exists");
            at = self.next(at);
        }
        self.used -= 1;
        let mut hole = (at, slot);
        while let Some(moved) = self.take_out(hole) {
            hole = moved;
        }
    }

    /// Removes a slot from a line. If the line was full, a slot that a search finds behind it takes
    /// its place, and the line and the slot are returned from where it is removed next.
    fn take_out(&mut self, (at, slot): (usize, Slot)) -> Option<(usize, Slot)> {
        let lines = self.lines.len();
        let line = &mut self.lines[at].0;
        let place = line
            .iter()
            .position(|&found| found == slot)
            .expect("the slot exists");
        let was_full = line[LINE - 1] != FREE;
        line[place..].rotate_left(1);
        line[LINE - 1] = FREE;
        if !was_full {
            return None;
        }
        let distance = |from: usize, to: usize| (to + lines - from) % lines;
        let mut behind = self.next(at);
        while behind != at {
            let slots = self.lines[behind].0;
            let begins_before = |slot: &&Slot| {
                let home = self.line(mark_of(**slot));
                distance(home, behind) >= distance(at, behind)
            };
            let used = slots.iter().filter(|slot| **slot != FREE);
            if let Some(&moved) = used.clone().find(begins_before) {
                self.lines[at].0[LINE - 1] = moved;
                return Some((behind, moved));
            }
            if slots[LINE - 1] == FREE {
                break;
            }
            behind = self.next(behind);
        }
        None
    }

    /// Moves the slots into a table of another length.
    fn resize(&mut self, lines: usize) {
        let before = std::mem::replace(self, Segment::new(lines));
        before.slots().for_each(|slot| self.put(slot));
    }

    /// Removes and returns the slots that have this directory bit set.
    fn halve(&mut self, bit: u32) -> Segment {
        let length = LARGEST / 8 * 5;
        let (mut without, mut with) = (Segment::new(length), Segment::new(length));
        for slot in self.slots() {
            let half = match mark_of(slot) & bit {
                0 => &mut without,
                _ => &mut with,
            };
            if half.is_full() {
                half.resize(half.lines.len() / 4 * 5);
            }
            half.put(slot);
        }
        *self = without;
        with
    }

    fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }
}

/// Returns the bits of a hash that its slot contains. The lowest of them select the segment, and the
/// highest the line in the segment.
#[inline]
fn mark(hash: NameHash) -> u32 {
    hash.high as u32
}

#[inline]
fn mark_of(slot: Slot) -> u32 {
    (slot >> 32) as u32
}

impl Names {
    /// Creates an empty table. Hashes depend on the seed.
    pub fn new(seed: u64) -> Names {
        let segment = Segment::new(SMALLEST);
        Names {
            entries: Pages::default(),
            free: RoaringBitmap::new(),
            bytes: segment.bytes(),
            directory: Directory::new(segment),
            seed,
        }
    }

    /// Returns the seed of the hashes, so that hashes can be computed elsewhere.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Prefetches the position of a hash in the table.
    #[inline]
    pub fn prefetch(&self, hash: NameHash) {
        let segment = self.directory.segment(mark(hash));
        prefetch(&segment.lines[segment.line(mark(hash))]);
    }

    /// Prefetches the entry of a hash, whose position in the table was prefetched before.
    #[inline]
    pub fn prefetch_entry(&self, hash: NameHash) {
        let segment = self.directory.segment(mark(hash));
        if let Some(number) = segment.find(mark(hash), |_| true) {
            prefetch(self.entries.get(number as usize));
        }
    }

    /// Returns the number of the name with this hash.
    #[inline]
    pub fn number(&self, hash: NameHash) -> Option<u32> {
        let segment = self.directory.segment(mark(hash));
        let is_of = |number| self.entries.get(number as usize).is_of(hash);
        segment.find(mark(hash), is_of)
    }

    /// Returns the source of the name with a number.
    #[inline]
    pub fn source(&self, number: u32) -> u32 {
        self.entries.get(number as usize).source
    }

    /// Returns whether the name with a number exists and has this hash.
    #[inline]
    pub fn is_at(&self, number: u32, hash: NameHash) -> bool {
        (number as usize) < self.entries.len() && self.entries.get(number as usize).is_of(hash)
    }

    /// Returns the source with a name of this hash.
    #[inline]
    pub fn find(&self, hash: NameHash) -> Option<u32> {
        self.number(hash).map(|number| self.source(number))
    }

    /// Adds the hash of an unknown name of this source.
    pub fn insert(&mut self, hash: NameHash, source: u32) {
        let mark = mark(hash);
        if self.directory.segment(mark).is_full() {
            self.grow(mark);
        }
        let NameHash { high, low } = hash;
        let entry = Entry { high, low, source };
        let number = match self.free.min() {
            Some(free) => {
                self.free.remove(free);
                *self.entries.get_mut(free as usize) = entry;
                free
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("memory ends before the numbers")
            }
        };
        let slot = u64::from(mark) << 32 | u64::from(number + 1);
        self.directory.segment_mut(mark).put(slot);
    }

    /// Returns the number of entries, with or without a name.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the numbers in a range whose names belong to one of these sources.
    pub fn numbers_of(
        &self,
        range: Range<u32>,
        sources: &RoaringBitmap,
    ) -> impl Iterator<Item = (u32, u32)> {
        let numbered = range.map(|number| (self.source(number), number));
        numbered.filter(|(source, _)| *source != NOBODY && sources.contains(*source))
    }

    /// Removes the name with a number.
    pub fn remove(&mut self, number: u32) {
        let entry = self.entries.get_mut(number as usize);
        let mark = entry.high as u32;
        entry.source = NOBODY;
        self.free.insert(number);
        let slot = u64::from(mark) << 32 | u64::from(number + 1);
        self.directory.segment_mut(mark).remove(slot);
    }

    #[cold]
    fn grow(&mut self, bits: u32) {
        let (directory, bytes) = (&mut self.directory, &mut self.bytes);
        *bytes -= directory.segment(bits).bytes();
        if directory.segment(bits).lines.len() >= LARGEST {
            directory.split(bits, |segment, bit| {
                let other = segment.halve(bit);
                *bytes += other.bytes();
                other
            });
        }
        let segment = directory.segment_mut(bits);
        if segment.is_full() {
            let larger = (segment.lines.len() * 5).div_ceil(4);
            // The last size before a split is exactly the full size, regardless of rounding.
            segment.resize(if larger > LARGEST / 8 * 7 && larger < LARGEST * 9 / 8 {
                LARGEST
            } else {
                larger
            });
        }
        *bytes += segment.bytes();
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.entries.memory() + self.bytes + self.directory.memory() + self.free.serialized_size()
    }
}

/// Returns the hash of a name in a notation.
#[inline]
pub fn hash_name(seed: u64, notation: u32, name: &[u8]) -> NameHash {
    let hash = xxh3_128_with_seed(
        name,
        seed ^ u64::from(notation).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    );
    NameHash {
        high: (hash >> 64) as u64,
        low: hash as u32,
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
            assert_eq!(
                names.memory(),
                counted
                    + names.directory.memory()
                    + names.entries.memory()
                    + names.free.serialized_size()
            );
        }
        assert!(names.memory() < count as usize * 28, "{}", names.memory());
        let segments = names.directory.segments();
        let longest = segments.map(|segment| segment.lines.len()).max();
        assert!(
            longest <= Some(LARGEST),
            "an insert moves a segment: {longest:?}"
        );
    }

    #[test]
    fn names_with_equal_marks_are_distinguished() {
        let mut names = Names::new(7);
        let hash = |number: u32| NameHash {
            high: u64::from(number % 10) << 32 | 5,
            low: number / 10,
        };
        (0..100).for_each(|number| names.insert(hash(number), number));
        assert!((0..100).all(|number| names.find(hash(number)) == Some(number)));
        assert_eq!(names.find(hash(100)), None);
    }

    #[test]
    fn names_are_numbered_in_the_order_of_insertion() {
        let mut names = Names::new(7);
        assert!(!names.is_at(0, hash(0)));
        for (number, source) in [(0, 0), (1, 0), (2, 1)] {
            names.insert(hash(number), source);
            assert_eq!(names.number(hash(number)), Some(number));
            assert!(names.is_at(number, hash(number)));
            assert_eq!(names.source(number), source);
        }
        assert!(!names.is_at(1, hash(2)));
        assert!(!names.is_at(3, hash(3)));
    }

    /// Searches stop at a line with a free slot, so a removal must not leave one before a slot that
    /// did not fit in its own line.
    #[test]
    fn names_are_found_after_others_were_removed() {
        let mut names = Names::new(7);
        // Marks of four lines only, so that lines overflow.
        let hash = |number: u32| NameHash {
            high: u64::from(number) << 32 | u64::from(number % 4) << 30 | u64::from(number % 3),
            low: number,
        };
        let mut present = Vec::new();
        for number in 0..20_000_u32 {
            names.insert(hash(number), number);
            present.push(number);
            if number % 3 > 0 {
                let at = (number as usize * 7919) % present.len();
                let gone = present.swap_remove(at);
                names.remove(names.number(hash(gone)).expect("it was found before"));
            }
            if number % 1_000 == 999 {
                for &number in &present {
                    assert_eq!(names.find(hash(number)), Some(number));
                }
            }
        }
        let listed = RoaringBitmap::from_iter(0..20_000);
        let mut found: Vec<u32> = names
            .numbers_of(0..names.len() as u32, &listed)
            .map(|(source, _)| source)
            .collect();
        found.sort_unstable();
        present.sort_unstable();
        assert_eq!(found, present);
        let gone = (0..20_000).filter(|number| present.binary_search(number).is_err());
        assert!(gone.map(hash).all(|hash| names.find(hash).is_none()));
        assert!(
            names.len() < 8_000,
            "places are used again: {}",
            names.len()
        );
    }
}
