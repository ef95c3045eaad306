//! Names: maps the bytes of a source's name to its number and reads the name only once.
//!
//! A name is identified by 96 bits of a keyed hash of its bytes. The key is chosen when the store
//! is opened, so an attacker cannot search for two names with the same hash. Among a million names,
//! the probability of any collision is below 10⁻¹⁷. Several names may lead to the same source:
//! another order of the tags, or another notation. The canonical name of every source is present,
//! so an absent canonical name belongs to a new source.

use super::directory::Directory;
use crate::prefetch::prefetch;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Hash of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameHash {
    high: u64,
    low: u32,
}

/// Entry of the table: the high word of the hash, then the low half word of the hash and the source
/// number plus one. A free entry is zero.
type Entry = [u64; 2];

const FREE: Entry = [0; 2];

/// Entries of one cache line, filled from the front. A look-up reads the next line only if this one is full,
/// which the prefetch of one line then does not cover: with three of four entries used, about one look-up in ten.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([Entry; LINE]);

/// Entries per cache line.
const LINE: usize = 4;

fn entry(hash: NameHash, source: u32) -> Entry {
    [
        hash.high,
        u64::from(hash.low) << 32 | (u64::from(source) + 1),
    ]
}

/// Source numbers by hash of the name, in segments of bounded size with open addressing.
pub struct Names {
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

    /// Returns the line at which the search for an entry with this word begins.
    #[inline]
    fn line(&self, high: u64) -> usize {
        (((high & 0xFFFF_FFFF) * self.lines.len() as u64) >> 32) as usize
    }

    #[inline]
    fn find(&self, hash: NameHash) -> Option<u32> {
        let mut at = self.line(hash.high);
        loop {
            for [high, word] in self.lines[at].0 {
                if word as u32 == 0 {
                    return None;
                }
                if high == hash.high && (word >> 32) as u32 == hash.low {
                    return Some(word as u32 - 1);
                }
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

    /// Returns the used entries.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.lines.iter().flat_map(|line| &line.0);
        entries.filter(|entry| **entry != FREE)
    }

    /// Returns whether the segment is three quarters full. Shorter probe sequences keep look-ups
    /// fast.
    fn is_full(&self) -> bool {
        (self.used + 1) * 4 > self.lines.len() * LINE * 3
    }

    fn put(&mut self, entry: Entry) {
        let mut at = self.line(entry[0]);
        loop {
            let mut entries = self.lines[at].0.iter_mut();
            if let Some(free) = entries.find(|entry| **entry == FREE) {
                *free = entry;
                self.used += 1;
                return;
            }
            at = self.next(at);
        }
    }

    /// Moves the entries into a table of another length.
    fn resize(&mut self, lines: usize) {
        let before = std::mem::replace(self, Segment::new(lines));
        before.entries().for_each(|&entry| self.put(entry));
    }

    /// Removes and returns the entries that have this directory bit set.
    fn halve(&mut self, bit: u32) -> Segment {
        let length = LARGEST / 8 * 5;
        let (mut without, mut with) = (Segment::new(length), Segment::new(length));
        for &entry in self.entries() {
            let half = match directory_bits(entry[0]) & bit {
                0 => &mut without,
                _ => &mut with,
            };
            if half.is_full() {
                half.resize(half.lines.len() / 4 * 5);
            }
            half.put(entry);
        }
        *self = without;
        with
    }

    fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }
}

/// Returns the hash bits that select the segment. Other bits select the position in the segment.
#[inline]
fn directory_bits(high: u64) -> u32 {
    (high >> 32) as u32
}

impl Names {
    /// Creates an empty table. Hashes depend on the seed.
    pub fn new(seed: u64) -> Names {
        let segment = Segment::new(SMALLEST);
        Names {
            bytes: segment.bytes(),
            directory: Directory::new(segment),
            seed,
        }
    }

    /// Returns the seed of the hashes, so that hashes can be computed elsewhere.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Prefetches the position of a hash.
    #[inline]
    pub fn prefetch(&self, hash: NameHash) {
        let segment = self.directory.segment(directory_bits(hash.high));
        prefetch(&segment.lines[segment.line(hash.high)]);
    }

    /// Returns the source with a name of this hash.
    #[inline]
    pub fn find(&self, hash: NameHash) -> Option<u32> {
        self.directory.segment(directory_bits(hash.high)).find(hash)
    }

    /// Adds the hash of an unknown name of this source.
    pub fn insert(&mut self, hash: NameHash, source: u32) {
        let bits = directory_bits(hash.high);
        if self.directory.segment(bits).is_full() {
            self.grow(bits);
        }
        self.directory.segment_mut(bits).put(entry(hash, source));
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
        self.bytes + self.directory.memory()
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
            assert_eq!(names.memory(), counted + names.directory.memory());
        }
        assert!(names.memory() < count as usize * 28, "{}", names.memory());
        let segments = names.directory.segments();
        let longest = segments.map(|segment| segment.lines.len()).max();
        assert!(
            longest <= Some(LARGEST),
            "an insert moves a segment: {longest:?}"
        );
    }
}
