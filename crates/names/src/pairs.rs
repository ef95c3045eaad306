//! Pairs of tag and value of a writer, each stored once.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Pairs of tag and value, by number.
pub struct Pairs {
    /// Tag and value of each pair.
    texts: Vec<u8>,
    pairs: Vec<Pair>,
    numbers: HashTable<u32>,
    state: FixedState,
}

#[derive(Clone, Copy)]
struct Pair {
    start: usize,
    tag: u16,
    value: u16,
}

impl Pairs {
    /// Creates an empty table with a secret seed.
    pub fn new(seed: u64) -> Pairs {
        Pairs {
            texts: Vec::new(),
            pairs: Vec::new(),
            numbers: HashTable::new(),
            state: FixedState::with_seed(seed),
        }
    }

    /// Returns the number of a pair. A new one gets the next number.
    pub fn intern(&mut self, tag: &[u8], value: &[u8]) -> u32 {
        let Pairs {
            texts,
            pairs,
            numbers,
            state,
        } = self;
        let hash = state.hash_one((tag, value));
        let is_same = |number: &u32| split(texts, pairs[*number as usize]) == (tag, value);
        if let Some(number) = numbers.find(hash, is_same) {
            return *number;
        }
        let number = u32::try_from(pairs.len()).expect("a writer has fewer than 2^32 pairs");
        let limit = "the length of a key is limited";
        pairs.push(Pair {
            start: texts.len(),
            tag: u16::try_from(tag.len()).expect(limit),
            value: u16::try_from(value.len()).expect(limit),
        });
        texts.extend_from_slice(tag);
        texts.extend_from_slice(value);
        numbers.insert_unique(hash, number, |number| {
            state.hash_one(split(texts, pairs[*number as usize]))
        });
        number
    }

    /// Returns the tag and the value of a pair.
    pub fn get(&self, number: u32) -> (&[u8], &[u8]) {
        split(&self.texts, self.pairs[number as usize])
    }

    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns the numbers of all pairs, sorted by tag and value.
    pub fn sorted(&self) -> Vec<u32> {
        let mut sorted: Vec<u32> = (0..self.len() as u32).collect();
        // A stable sort is fast where values arrived in their order.
        sorted.sort_by(|a, b| self.get(*a).cmp(&self.get(*b)));
        sorted
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.texts.capacity()
            + self.pairs.capacity() * size_of::<Pair>()
            + self.numbers.allocation_size()
    }
}

fn split(texts: &[u8], pair: Pair) -> (&[u8], &[u8]) {
    let middle = pair.start + usize::from(pair.tag);
    let end = middle + usize::from(pair.value);
    (&texts[pair.start..middle], &texts[middle..end])
}
