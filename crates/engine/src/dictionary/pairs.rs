//! Pairs: each tag with a value, stored once, with the sources that have it.

use super::directory::Directory;
use super::free::Free;
use super::pages::{Pages, Runs};
use super::sources::Sources;
use crate::maps::HashMap;
use hashbrown::HashTable;
use roaring::RoaringBitmap;
use std::hash::BuildHasher;

/// Flag in the source list of a pair. Without it, the list is the number of a single source; with
/// it, an index into `many`.
const MANY: u32 = 1 << 31;
const NONE: u32 = u32::MAX;
/// Least bytes of a pair beside its value: its tag, the end of its value, its list, its number among those of the tag.
const PAIR: usize = 16;

/// Pairs of tags and values.
#[derive(Default)]
pub struct Pairs {
    tags: Vec<Tag>,
    tag_numbers: HashMap<Box<[u8]>, u32>,
    /// Tag of each pair.
    tag_of: Pages<u32>,
    /// Value of each pair.
    values: Runs,
    /// Source list of each pair: none, one, or many.
    lists: Pages<u32>,
    many: Pages<Sources>,
    /// Lists in `many` that no pair uses.
    free_lists: Vec<u32>,
    /// Bytes of pairs without sources.
    spare: usize,
    /// Approximate heap bytes of the lists in `many`.
    listed: usize,
    /// Bytes of the pair lists of the tags.
    tagged: usize,
    numbers: Numbers,
    hasher: foldhash::fast::FixedState,
}

struct Tag {
    name: String,
    /// Pairs of the tag, with or without sources.
    pairs: Pages<u32>,
    /// Pairs without sources. Another value of the tag may get the number of one of them.
    free: Free,
}

/// Numbers of pairs by hash, in segments of bounded size.
struct Numbers {
    directory: Directory<HashTable<u32>>,
    /// Bytes of the segments.
    bytes: usize,
}

/// Number of pairs at which a segment is split. A table of 4096 places takes no more pairs.
const LARGEST: usize = 3584;

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            directory: Directory::new(HashTable::new()),
            bytes: 0,
        }
    }
}

/// Returns the hash bits that select the segment. Other bits select the position in the segment.
#[inline]
fn directory_bits(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Numbers {
    fn find(&self, hash: u64, same: impl Fn(&u32) -> bool) -> Option<u32> {
        let segment = self.directory.segment(directory_bits(hash));
        segment.find(hash, same).copied()
    }

    /// Adds a pair that is not in the table.
    fn insert(&mut self, hash: u64, pair: u32, hash_of: impl Fn(&u32) -> u64) {
        let bits = directory_bits(hash);
        let bytes = &mut self.bytes;
        let segment = self.directory.segment(bits);
        *bytes -= segment.allocation_size();
        if segment.len() >= LARGEST && segment.len() == segment.capacity() {
            self.directory.split(bits, |segment, bit| {
                // One more than half, so that a slightly larger half also fits.
                let capacity = segment.len() / 2 + 1;
                let (mut without, mut with) = (
                    HashTable::with_capacity(capacity),
                    HashTable::with_capacity(capacity),
                );
                for &pair in segment.iter() {
                    let hash = hash_of(&pair);
                    let half = match directory_bits(hash) & bit {
                        0 => &mut without,
                        _ => &mut with,
                    };
                    half.insert_unique(hash, pair, &hash_of);
                }
                *segment = without;
                *bytes += with.allocation_size();
                with
            });
        }
        let segment = self.directory.segment_mut(bits);
        segment.insert_unique(hash, pair, hash_of);
        *bytes += segment.allocation_size();
    }

    /// Removes a pair.
    fn remove(&mut self, hash: u64, pair: u32) {
        let segment = self.directory.segment_mut(directory_bits(hash));
        if let Ok(found) = segment.find_entry(hash, |&other| other == pair) {
            found.remove();
        }
    }

    fn memory(&self) -> usize {
        self.bytes + self.directory.memory()
    }
}

impl Pairs {
    /// Returns the number of a pair, if it exists.
    pub fn find(&self, tag: &str, value: &str) -> Option<u32> {
        let tag = *self.tag_numbers.get(tag.as_bytes())?;
        let hash = self.hasher.hash_one((tag, value.as_bytes()));
        let same = |&pair: &u32| {
            *self.tag_of.get(pair as usize) == tag && self.values.get(pair) == value.as_bytes()
        };
        self.numbers.find(hash, same)
    }

    /// Returns the number of a pair of texts, and adds the pair if it is new. `like` is a pair that
    /// probably has the same tag.
    pub fn intern(&mut self, tag: &[u8], value: &[u8], like: Option<u32>) -> u32 {
        let like = like.map(|pair| *self.tag_of.get(pair as usize));
        let tag = like
            .filter(|&like| self.tags[like as usize].name.as_bytes() == tag)
            .unwrap_or_else(|| self.intern_tag(tag));
        let (tag_of, values, hasher) = (&self.tag_of, &self.values, &self.hasher);
        let same = |&pair: &u32| *tag_of.get(pair as usize) == tag && values.get(pair) == value;
        let hash = hasher.hash_one((tag, value));
        if let Some(known) = self.numbers.find(hash, same) {
            return known;
        }
        let free = self.tags[tag as usize].free.take(value.len());
        let pair = free.unwrap_or(tag_of.len() as u32);
        self.numbers
            .insert(hash, pair, |&other| match other == pair {
                false => hasher.hash_one((*tag_of.get(other as usize), values.get(other))),
                true => hash,
            });
        if free.is_some() {
            self.spare -= PAIR + self.values.capacity(pair);
            self.values.replace(pair, value);
            return pair;
        }
        self.values.push(value);
        self.tag_of.push(tag);
        self.lists.push(NONE);
        let of_tag = &mut self.tags[tag as usize].pairs;
        self.tagged -= of_tag.memory();
        of_tag.push(pair);
        self.tagged += of_tag.memory();
        pair
    }

    fn intern_tag(&mut self, tag: &[u8]) -> u32 {
        if let Some(&number) = self.tag_numbers.get(tag) {
            return number;
        }
        let number = self.tags.len() as u32;
        self.tags.push(Tag {
            name: str::from_utf8(tag).expect("tags are text").to_string(),
            pairs: Pages::default(),
            free: Free::default(),
        });
        self.tag_numbers.insert(tag.into(), number);
        number
    }

    /// Adds a source to the list of a pair, which does not contain it.
    #[inline]
    pub fn add_source(&mut self, pair: u32, source: u32) {
        let list = self.lists.get_mut(pair as usize);
        match *list {
            NONE => *list = source,
            number if number & MANY == 0 => {
                let mut sources = Sources::new(number);
                self.listed += sources.push(source);
                if let Some(free) = self.free_lists.pop() {
                    *self.many.get_mut(free as usize) = sources;
                    *list = MANY | free;
                } else {
                    *list = MANY | self.many.len() as u32;
                    self.many.push(sources);
                }
            }
            number => self.listed += self.many.get_mut((number & !MANY) as usize).push(source),
        }
    }

    /// Removes a source from the list of a pair. A pair without sources is removed.
    pub fn remove_source(&mut self, pair: u32, source: u32) {
        let list = self.lists.get_mut(pair as usize);
        if *list & MANY != 0 {
            let number = *list & !MANY;
            let sources = self.many.get_mut(number as usize);
            let (grown, freed) = sources.remove(source);
            self.listed = self.listed + grown - freed;
            if !sources.is_empty() {
                return;
            }
            self.free_lists.push(number);
        }
        *list = NONE;
        let tag = *self.tag_of.get(pair as usize);
        let hash = self.hasher.hash_one((tag, self.values.get(pair)));
        self.numbers.remove(hash, pair);
        self.values.replace(pair, &[]);
        let capacity = self.values.capacity(pair);
        self.spare += PAIR + capacity;
        self.tags[tag as usize].free.put(pair, capacity);
    }

    /// Returns tag and value of a pair as bytes of UTF-8 text.
    #[inline]
    pub fn bytes(&self, pair: u32) -> (&[u8], &[u8]) {
        let tag = &self.tags[*self.tag_of.get(pair as usize) as usize];
        (tag.name.as_bytes(), self.values.get(pair))
    }

    /// Returns tag and value of a pair.
    pub fn text(&self, pair: u32) -> (&str, &str) {
        (
            &self.tags[*self.tag_of.get(pair as usize) as usize].name,
            self.value(pair),
        )
    }

    fn value(&self, pair: u32) -> &str {
        std::str::from_utf8(self.values.get(pair)).expect("values were text")
    }

    /// Returns the sources of a pair.
    pub fn sources(&self, pair: u32) -> RoaringBitmap {
        let mut sources = RoaringBitmap::new();
        self.add_to(pair, &mut sources);
        sources
    }

    /// Adds the sources of a pair to `sources`.
    pub fn add_to(&self, pair: u32, sources: &mut RoaringBitmap) {
        match *self.lists.get(pair as usize) {
            NONE => {}
            number if number & MANY == 0 => {
                sources.insert(number);
            }
            number => self.many.get((number & !MANY) as usize).add_to(sources),
        }
    }

    /// Returns the number of sources of a pair.
    pub fn count(&self, pair: u32) -> u64 {
        match *self.lists.get(pair as usize) {
            NONE => 0,
            number if number & MANY == 0 => 1,
            number => self.many.get((number & !MANY) as usize).len(),
        }
    }

    /// Adds those sources of a pair to `sources` that are among `others`, and maybe more of its sources.
    pub fn add_common(&self, pair: u32, others: &RoaringBitmap, sources: &mut RoaringBitmap) {
        let list = *self.lists.get(pair as usize);
        // Adding a short list takes less time than looking up its sources.
        match self.count(pair) > others.len() {
            true => *sources |= self.many.get((list & !MANY) as usize).common(others),
            false => self.add_to(pair, sources),
        }
    }

    /// Returns the source of a pair with a single source.
    pub fn single(&self, pair: u32) -> Option<u32> {
        let number = *self.lists.get(pair as usize);
        (number & MANY == 0).then_some(number)
    }

    /// Returns whether a pair has one of these sources.
    pub fn meets(&self, pair: u32, sources: &RoaringBitmap) -> bool {
        match *self.lists.get(pair as usize) {
            NONE => false,
            number if number & MANY == 0 => sources.contains(number),
            number => self.many.get((number & !MANY) as usize).meets(sources),
        }
    }

    /// Returns the pairs of a tag.
    pub fn of_tag(&self, tag: &str) -> impl Iterator<Item = u32> + '_ {
        let tag = self
            .tag_numbers
            .get(tag.as_bytes())
            .map(|&number| &self.tags[number as usize]);
        let pairs = tag.into_iter().flat_map(|tag| tag.pairs.iter().copied());
        pairs.filter(|&pair| *self.lists.get(pair as usize) != NONE)
    }

    /// Returns the number of values of a tag, including values without sources.
    pub fn values(&self, tag: &str) -> usize {
        let tag = self.tag_numbers.get(tag.as_bytes());
        tag.map_or(0, |&number| self.tags[number as usize].pairs.len())
    }

    /// Returns the names of all tags.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(|tag| tag.name.as_str())
    }

    /// Returns whether few more values can be added.
    pub fn is_full(&self) -> bool {
        self.values.is_full()
    }

    /// Returns the bytes of pairs and lists without sources, which new values use first.
    pub fn spare(&self) -> usize {
        self.spare + self.free_lists.len() * size_of::<Sources>()
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.tag_of.memory()
            + self.values.memory()
            + self.lists.memory()
            + self.many.memory()
            + self.listed
            + self.tagged
            + self.tags.iter().map(|tag| tag.free.memory()).sum::<usize>()
            + self.free_lists.capacity() * 4
            + self.numbers.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_and_segments_of_their_table_stay_small() {
        let mut pairs = Pairs::default();
        let value = |number: u32| format!("value-{number}");
        for number in 0..60_000 {
            assert_eq!(pairs.intern(b"tag", value(number).as_bytes(), None), number);
        }
        for number in 0..60_000 {
            assert_eq!(pairs.find("tag", &value(number)), Some(number));
            assert_eq!(
                pairs.intern(b"tag", value(number).as_bytes(), Some(0)),
                number
            );
        }
        assert_eq!(pairs.find("tag", &value(60_000)), None);
        let segments = || pairs.numbers.directory.segments();
        assert_eq!(segments().map(HashTable::len).sum::<usize>(), 60_000);
        assert!(segments().all(|segment| segment.len() <= LARGEST));
        let bytes: usize = segments().map(HashTable::allocation_size).sum();
        assert_eq!(pairs.numbers.bytes, bytes);
        (0..60_000).for_each(|pair| pairs.add_source(pair, pair));
        assert!(pairs.of_tag("tag").eq(0..60_000));
    }
}
