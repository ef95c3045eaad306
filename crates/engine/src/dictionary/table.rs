//! Segments of the table of names: numbers of names in open addressing, by the hashes of the names.

use super::hashes::Hashes;
use super::name_hash::NameHash;

/// Place of a slot: the number of a name plus one. Zero if the slot is free.
type Slot = u32;

const FREE: Slot = 0;
/// Slots per cache line.
pub const LINE: usize = 12;
/// Tags per cache line: one for each slot, and four that fill the line.
const TAGS: usize = 16;

/// Slots of one cache line with their tags, filled from the front. A look-up reads the next line only if this one is
/// full, which the prefetch of one line then does not cover.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Line {
    slots: [Slot; LINE],
    tags: [u8; TAGS],
}

impl Line {
    const EMPTY: Line = Line {
        slots: [FREE; LINE],
        tags: [0; TAGS],
    };

    #[inline]
    fn is_full(&self) -> bool {
        self.slots[LINE - 1] != FREE
    }

    /// Returns the first number with this tag that `holds` accepts.
    #[inline]
    fn find(&self, tag: u8, holds: impl Fn(u32) -> bool) -> Option<u32> {
        // Without branches: where a tag is in its line cannot be predicted.
        let mut equal = 0_u32;
        for (index, &found) in self.tags.iter().enumerate() {
            equal |= u32::from(found == tag) << index;
        }
        equal &= (1 << LINE) - 1;
        while equal != 0 {
            let slot = self.slots[equal.trailing_zeros() as usize];
            if slot != FREE && holds(slot - 1) {
                return Some(slot - 1);
            }
            equal &= equal - 1;
        }
        None
    }

    /// Returns the numbers in the used slots.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        let used = self.slots.iter().filter(|slot| **slot != FREE);
        used.map(|slot| slot - 1)
    }

    /// Puts a number into the first free slot. Returns false if there is none.
    #[inline]
    fn put(&mut self, tag: u8, number: u32) -> bool {
        let Some(free) = self.slots.iter().position(|slot| *slot == FREE) else {
            return false;
        };
        (self.slots[free], self.tags[free]) = (number + 1, tag);
        true
    }

    /// Removes the number in a slot. Those behind it move up.
    fn take_out(&mut self, slot: usize) {
        self.slots[slot..].rotate_left(1);
        self.tags[slot..LINE].rotate_left(1);
        self.slots[LINE - 1] = FREE;
    }
}

/// Initial lines of a segment. A segment grows by a quarter at a time.
pub const SMALLEST: usize = 8;
/// Number of lines at which a full segment is split.
pub const LARGEST: usize = 1024;
/// Number of lines by which hashes are fetched ahead while a segment is moved.
const LINES_AHEAD: usize = 2;

/// Part of the table with open addressing.
pub struct Segment {
    /// Lines of the segment.
    pub lines: Box<[Line]>,
    used: usize,
}

impl Segment {
    /// Creates a segment with so many lines.
    pub fn new(lines: usize) -> Segment {
        Segment {
            lines: vec![Line::EMPTY; lines].into_boxed_slice(),
            used: 0,
        }
    }

    /// Returns the line at which the search for a hash begins.
    #[inline]
    pub fn line(&self, hash: NameHash) -> usize {
        ((u64::from(hash.place()) * self.lines.len() as u64) >> 32) as usize
    }

    /// Returns the first number with the tag of a hash that `holds` accepts.
    #[inline]
    pub fn find(&self, hash: NameHash, holds: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.line(hash);
        loop {
            let line = &self.lines[at];
            if let Some(number) = line.find(hash.tag(), &holds) {
                return Some(number);
            }
            if !line.is_full() {
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

    /// Returns whether the segment is seven eighths full. Fewer free slots would make probe sequences
    /// longer.
    pub fn is_full(&self) -> bool {
        (self.used + 1) * 8 > self.lines.len() * LINE * 7
    }

    /// Adds a number. The segment is not full.
    pub fn put(&mut self, hash: NameHash, number: u32) {
        let mut at = self.line(hash);
        while !self.lines[at].put(hash.tag(), number) {
            at = self.next(at);
        }
        self.used += 1;
    }

    /// Removes the number of a hash. The numbers that did not fit in its line, or in a line behind it,
    /// move up.
    pub fn remove(&mut self, hash: NameHash, number: u32, hashes: &Hashes) {
        let mut at = self.line(hash);
        while !self.lines[at].numbers().any(|found| found == number) {
            assert!(self.lines[at].is_full(), "the name exists");
            at = self.next(at);
        }
        self.used -= 1;
        let mut hole = (at, number);
        while let Some(moved) = self.take_out(hole, hashes) {
            hole = moved;
        }
    }

    /// Removes a number from a line. If the line was full, a number that a search finds behind it takes
    /// its place, and the line and the number are returned from where it is removed next.
    fn take_out(&mut self, (at, number): (usize, u32), hashes: &Hashes) -> Option<(usize, u32)> {
        let lines = self.lines.len();
        let line = &mut self.lines[at];
        let slot = line.numbers().position(|found| found == number);
        let was_full = line.is_full();
        line.take_out(slot.expect("the name exists"));
        if !was_full {
            return None;
        }
        let distance = |from: usize, to: usize| (to + lines - from) % lines;
        let mut behind = self.next(at);
        while behind != at {
            let begins_before = |number: &u32| {
                let home = self.line(hashes.of(*number));
                distance(home, behind) >= distance(at, behind)
            };
            let moved = self.lines[behind].numbers().find(begins_before);
            if let Some(moved) = moved {
                self.lines[at].put(hashes.of(moved).tag(), moved);
                return Some((behind, moved));
            }
            if !self.lines[behind].is_full() {
                break;
            }
            behind = self.next(behind);
        }
        None
    }

    /// Calls a function with all numbers and their hashes, which are fetched ahead.
    fn each(&self, hashes: &Hashes, mut put: impl FnMut(NameHash, u32)) {
        for (index, line) in self.lines.iter().enumerate() {
            if let Some(ahead) = self.lines.get(index + LINES_AHEAD) {
                ahead.numbers().for_each(|number| hashes.prefetch(number));
            }
            line.numbers()
                .for_each(|number| put(hashes.of(number), number));
        }
    }

    /// Moves the numbers into a table of another length.
    pub fn resize(&mut self, lines: usize, hashes: &Hashes) {
        let before = std::mem::replace(self, Segment::new(lines));
        before.each(hashes, |hash, number| self.put(hash, number));
    }

    /// Removes and returns the numbers of hashes that have this directory bit set.
    pub fn halve(&mut self, bit: u32, hashes: &Hashes) -> Segment {
        let length = LARGEST / 8 * 5;
        let (mut without, mut with) = (Segment::new(length), Segment::new(length));
        self.each(hashes, |hash, number| {
            let half = match hash.place() & bit {
                0 => &mut without,
                _ => &mut with,
            };
            if half.is_full() {
                half.resize(half.lines.len() / 4 * 5, hashes);
            }
            half.put(hash, number);
        });
        *self = without;
        with
    }

    /// Returns the memory used, in bytes.
    pub fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }
}
