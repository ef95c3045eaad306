//! Pairs: a tag with a value, each kept once, with the sources that have it.

use super::sources::Sources;
use super::thrifty;
use hashbrown::hash_table::Entry;
use roaring::RoaringBitmap;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// A pair's list of sources is a source's number, or with this bit the number of one of `many`.
const MANY: u32 = 1 << 31;
const NONE: u32 = u32::MAX;

/// The pairs of tags and values.
#[derive(Default)]
pub struct Pairs {
    tags: Vec<Tag>,
    tag_numbers: HashMap<Box<[u8]>, u32, foldhash::fast::FixedState>,
    /// The tag of each pair.
    tag_of: Vec<u32>,
    /// Where each pair's value ends in `values`.
    ends: Vec<u32>,
    values: Vec<u8>,
    /// The sources of each pair: none, one, or many.
    lists: Vec<u32>,
    many: Vec<Sources>,
    /// Bytes that those lists have on the heap, about.
    listed: usize,
    numbers: hashbrown::HashTable<u32>,
    hasher: foldhash::fast::FixedState,
}

struct Tag {
    name: String,
    pairs: Vec<u32>,
}

impl Pairs {
    /// The number of a pair, if there is one.
    pub fn find(&self, tag: &str, value: &str) -> Option<u32> {
        let tag = *self.tag_numbers.get(tag.as_bytes())?;
        let hash = self.hasher.hash_one((tag, value.as_bytes()));
        let same = |&pair: &u32| {
            self.tag_of[pair as usize] == tag
                && value_of(&self.ends, &self.values, pair) == value.as_bytes()
        };
        self.numbers.find(hash, same).copied()
    }

    /// The number of a pair of texts, which is added where it is new. It may well have the same
    /// tag as the pair `like`.
    pub fn intern(&mut self, tag: &[u8], value: &[u8], like: Option<u32>) -> u32 {
        let like = like.map(|pair| self.tag_of[pair as usize]);
        let tag = like
            .filter(|&like| self.tags[like as usize].name.as_bytes() == tag)
            .unwrap_or_else(|| self.intern_tag(tag));
        let (tag_of, ends, values, hasher) = (&self.tag_of, &self.ends, &self.values, &self.hasher);
        let same =
            |&pair: &u32| tag_of[pair as usize] == tag && value_of(ends, values, pair) == value;
        let hash_of =
            |&pair: &u32| hasher.hash_one((tag_of[pair as usize], value_of(ends, values, pair)));
        let hash = hasher.hash_one((tag, value));
        let pair = tag_of.len() as u32;
        match self.numbers.entry(hash, same, hash_of) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(place) => place.insert(pair),
        };
        thrifty(&mut self.values, value.len());
        self.values.extend_from_slice(value);
        thrifty(&mut self.ends, 1);
        self.ends.push(
            u32::try_from(self.values.len()).expect("tag values take less than 4 GiB of memory"),
        );
        thrifty(&mut self.tag_of, 1);
        self.tag_of.push(tag);
        thrifty(&mut self.lists, 1);
        self.lists.push(NONE);
        let of_tag = &mut self.tags[tag as usize].pairs;
        thrifty(of_tag, 1);
        of_tag.push(pair);
        pair
    }

    fn intern_tag(&mut self, tag: &[u8]) -> u32 {
        if let Some(&number) = self.tag_numbers.get(tag) {
            return number;
        }
        let number = self.tags.len() as u32;
        self.tags.push(Tag {
            name: str::from_utf8(tag).expect("tags are text").to_string(),
            pairs: Vec::new(),
        });
        self.tag_numbers.insert(tag.into(), number);
        number
    }

    /// Notes that a source, whose number is larger than all before, has the pair.
    #[inline]
    pub fn add_source(&mut self, pair: u32, source: u32) {
        let list = &mut self.lists[pair as usize];
        match *list {
            NONE => *list = source,
            number if number & MANY == 0 => {
                *list = MANY | self.many.len() as u32;
                thrifty(&mut self.many, 1);
                self.many.push(Sources::new(number, source));
            }
            number => self.listed += self.many[(number & !MANY) as usize].push(source),
        }
    }

    /// Tag and value as bytes, which are text.
    #[inline]
    pub fn bytes(&self, pair: u32) -> (&[u8], &[u8]) {
        let tag = &self.tags[self.tag_of[pair as usize] as usize];
        (
            tag.name.as_bytes(),
            value_of(&self.ends, &self.values, pair),
        )
    }

    /// Tag and value.
    pub fn text(&self, pair: u32) -> (&str, &str) {
        (
            &self.tags[self.tag_of[pair as usize] as usize].name,
            self.value(pair),
        )
    }

    fn value(&self, pair: u32) -> &str {
        std::str::from_utf8(value_of(&self.ends, &self.values, pair)).expect("values were text")
    }

    /// The sources of a pair.
    pub fn sources(&self, pair: u32) -> RoaringBitmap {
        let mut sources = RoaringBitmap::new();
        self.add_to(pair, &mut sources);
        sources
    }

    /// Adds the sources of a pair to others.
    pub fn add_to(&self, pair: u32, sources: &mut RoaringBitmap) {
        match self.lists[pair as usize] {
            NONE => {}
            number if number & MANY == 0 => {
                sources.insert(number);
            }
            number => self.many[(number & !MANY) as usize].add_to(sources),
        }
    }

    /// Whether a pair has one of these sources.
    pub fn meets(&self, pair: u32, sources: &RoaringBitmap) -> bool {
        match self.lists[pair as usize] {
            NONE => false,
            number if number & MANY == 0 => sources.contains(number),
            number => self.many[(number & !MANY) as usize].meets(sources),
        }
    }

    /// The pairs of a tag.
    pub fn of_tag(&self, tag: &str) -> impl Iterator<Item = u32> + '_ {
        let tag = self
            .tag_numbers
            .get(tag.as_bytes())
            .map(|&number| &self.tags[number as usize]);
        tag.into_iter().flat_map(|tag| tag.pairs.iter().copied())
    }

    /// The names of all tags.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(|tag| tag.name.as_str())
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        let words = self.tag_of.capacity() + self.ends.capacity() + self.lists.capacity();
        let of_tags: usize = self.tags.iter().map(|tag| tag.pairs.capacity() * 4).sum();
        let lists = self.many.capacity() * size_of::<Sources>() + self.listed;
        words * 4 + self.values.capacity() + of_tags + self.numbers.allocation_size() + lists
    }

    /// Bytes that the table of numbers takes for a moment beside what it has if so many pairs come:
    /// twice as large, it is filled from the old one.
    pub fn growth(&self, pairs: usize) -> usize {
        match self.numbers.len() + pairs > self.numbers.capacity() {
            true => 2 * self.numbers.allocation_size(),
            false => 0,
        }
    }
}

fn value_of<'a>(ends: &[u32], values: &'a [u8], pair: u32) -> &'a [u8] {
    let start = if pair == 0 {
        0
    } else {
        ends[pair as usize - 1]
    };
    &values[start as usize..ends[pair as usize] as usize]
}
