//! Pairs: a tag with a value, each kept once, with the sources that have it.

use roaring::RoaringBitmap;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// A pair's list of sources is a source's number, or with this bit the number of a bitmap.
const BITMAP: u32 = 1 << 31;
const NONE: u32 = u32::MAX;

/// The pairs of tags and values.
#[derive(Default)]
pub struct Pairs {
    tags: Vec<Tag>,
    tag_numbers: HashMap<String, u32, foldhash::fast::FixedState>,
    /// The tag of each pair.
    tag_of: Vec<u32>,
    /// Where each pair's value ends in `values`.
    ends: Vec<u32>,
    values: Vec<u8>,
    /// The sources of each pair: none, one, or a bitmap.
    lists: Vec<u32>,
    bitmaps: Vec<RoaringBitmap>,
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
        let tag = *self.tag_numbers.get(tag)?;
        self.number(tag, value)
    }

    fn number(&self, tag: u32, value: &str) -> Option<u32> {
        let hash = self.hasher.hash_one((tag, value.as_bytes()));
        let same = |&pair: &u32| {
            self.tag_of[pair as usize] == tag
                && value_of(&self.ends, &self.values, pair) == value.as_bytes()
        };
        self.numbers.find(hash, same).copied()
    }

    /// The number of a pair, which is added where it is new.
    pub fn intern(&mut self, tag: &str, value: &str) -> u32 {
        let tag = match self.tag_numbers.get(tag) {
            Some(&number) => number,
            None => {
                let number = self.tags.len() as u32;
                self.tags.push(Tag {
                    name: tag.to_string(),
                    pairs: Vec::new(),
                });
                self.tag_numbers.insert(tag.to_string(), number);
                number
            }
        };
        if let Some(pair) = self.number(tag, value) {
            return pair;
        }
        let pair = self.tag_of.len() as u32;
        self.values.extend_from_slice(value.as_bytes());
        self.ends.push(
            u32::try_from(self.values.len()).expect("tag values take less than 4 GiB of memory"),
        );
        self.tag_of.push(tag);
        self.lists.push(NONE);
        self.tags[tag as usize].pairs.push(pair);
        let (ends, values, tag_of, hasher) = (&self.ends, &self.values, &self.tag_of, &self.hasher);
        let hash = hasher.hash_one((tag, value.as_bytes()));
        self.numbers.insert_unique(hash, pair, |&other| {
            hasher.hash_one((tag_of[other as usize], value_of(ends, values, other)))
        });
        pair
    }

    /// Notes that a source, whose number is larger than all before, has the pair.
    pub fn add_source(&mut self, pair: u32, source: u32) {
        let list = &mut self.lists[pair as usize];
        match *list {
            NONE => *list = source,
            number if number & BITMAP == 0 => {
                *list = BITMAP | self.bitmaps.len() as u32;
                self.bitmaps.push(
                    RoaringBitmap::from_sorted_iter([number, source]).expect("numbers ascend"),
                );
            }
            number => {
                // Appending would look for the largest number first, which costs more than finding the place.
                self.bitmaps[(number & !BITMAP) as usize].insert(source);
            }
        }
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
            number if number & BITMAP == 0 => {
                sources.insert(number);
            }
            number => *sources |= &self.bitmaps[(number & !BITMAP) as usize],
        }
    }

    /// Whether a pair has one of these sources.
    pub fn meets(&self, pair: u32, sources: &RoaringBitmap) -> bool {
        match self.lists[pair as usize] {
            NONE => false,
            number if number & BITMAP == 0 => sources.contains(number),
            number => !self.bitmaps[(number & !BITMAP) as usize].is_disjoint(sources),
        }
    }

    /// The pairs of a tag.
    pub fn of_tag(&self, tag: &str) -> impl Iterator<Item = u32> + '_ {
        let tag = self
            .tag_numbers
            .get(tag)
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
        // A bitmap holds 16 bits a source and some words of its own.
        let bitmaps = self.bitmaps.len() * 96 + self.bitmaps.len().min(self.tag_of.len()) * 32;
        words * 4 + self.values.capacity() + of_tags + self.numbers.capacity() * 5 + bitmaps
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
