//! List of the blocks that a query reads.
//!
//! The list of a long interval is long: a year of ten fields at 1 Hz has some 64,000 blocks. It
//! contains only the facts that reading needs, and each segment once.

use crate::query::snapshot::BlockLocation;
use crate::segment::{Entry, uncover};

/// Location of a block that a query does not read, but that may contain other blocks.
const NOWHERE: u32 = u32::MAX;

/// Facts of a block that reading needs.
#[derive(Clone, Copy)]
struct Fact {
    number: u64,
    since: u64,
    first: i64,
    last: i64,
    offset: u32,
    len: u32,
    bundle: u32,
    rows: u32,
    /// Index of the location.
    location: u32,
}

/// Blocks of a source, oldest first, with their locations.
pub(crate) struct Blocks {
    source: u32,
    facts: Vec<Fact>,
    locations: Vec<BlockLocation>,
}

impl Blocks {
    /// Creates an empty list.
    pub fn new(source: u32) -> Blocks {
        Blocks {
            source,
            facts: Vec::new(),
            locations: Vec::new(),
        }
    }

    /// Adds blocks of one location. `is_wanted` returns whether the query reads a block.
    pub fn add(
        &mut self,
        location: BlockLocation,
        entries: &[Entry],
        is_wanted: impl Fn(&Entry) -> bool,
    ) {
        let next = self.locations.len() as u32;
        if entries.iter().any(&is_wanted) {
            // A segment in the list is not deleted while the query runs.
            self.locations.push(location);
        }
        if self.facts.is_empty() {
            // Most lists have a single location. They need no shrinking.
            self.facts.reserve_exact(entries.len());
        }
        self.facts.extend(entries.iter().map(|entry| Fact {
            number: entry.number,
            since: entry.since,
            first: entry.first,
            last: entry.last,
            offset: entry.offset,
            len: entry.len,
            bundle: entry.bundle,
            rows: entry.rows,
            location: match is_wanted(entry) {
                true => next,
                false => NOWHERE,
            },
        }));
    }

    /// Removes blocks that are in two segments because they are being merged, and blocks that the
    /// query does not read.
    pub fn finish(&mut self) {
        uncover(&mut self.facts, |fact| (fact.since, fact.number));
        self.facts.retain(|fact| fact.location != NOWHERE);
        self.facts.shrink_to_fit();
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// Returns the memory of the list in bytes.
    pub fn memory(&self) -> usize {
        let locations = self.locations.capacity() * size_of::<BlockLocation>();
        self.facts.capacity() * size_of::<Fact>() + locations
    }

    /// Returns the entries of all blocks. Facts that only merging needs are missing.
    pub fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        self.facts.iter().map(|fact| self.entry(fact))
    }

    /// Returns the entry of a block.
    pub fn get(&self, block: usize) -> Option<Entry> {
        self.facts.get(block).map(|fact| self.entry(fact))
    }

    /// Returns the entry and the location of a block.
    ///
    /// # Panics
    /// If the list has no such block.
    pub fn at(&self, block: usize) -> (Entry, &BlockLocation) {
        let fact = &self.facts[block];
        (self.entry(fact), &self.locations[fact.location as usize])
    }

    fn entry(&self, fact: &Fact) -> Entry {
        Entry {
            source: self.source,
            number: fact.number,
            since: fact.since,
            first: fact.first,
            last: fact.last,
            offset: fact.offset,
            len: fact.len,
            bundle: fact.bundle,
            rows: fact.rows,
            ..Entry::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::snapshot::Unsealed;
    use seiner_platform::Disk;
    use seiner_platform::sim::SimDisk;
    use std::sync::Arc;

    fn location(name: &str) -> BlockLocation {
        BlockLocation::Open(Arc::new(Unsealed {
            file: SimDisk::new(1).create(name).unwrap(),
            number: 1,
            name: name.to_string(),
            end: Arc::default(),
        }))
    }

    fn entry(since: u64, number: u64) -> Entry {
        Entry {
            source: 3,
            since,
            number,
            first: number as i64,
            last: number as i64 + 1,
            ..Entry::default()
        }
    }

    #[test]
    fn blocks_are_listed_once_in_order_with_their_locations() {
        let mut blocks = Blocks::new(3);
        blocks.add(location("a"), &[entry(5, 5), entry(1, 1)], |_| true);
        blocks.add(location("b"), &[], |_| true);
        blocks.add(location("c"), &[entry(1, 2)], |_| true);
        blocks.finish();
        let numbers: Vec<u64> = blocks.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, [2, 5], "block 1 is in block 2");
        let (found, place) = blocks.at(0);
        assert_eq!(found, entry(1, 2));
        let damage = place.damage(&found, String::new()).to_string();
        assert!(damage.starts_with("c,"), "{damage}");
        assert!(blocks.memory() < 3 * size_of::<Entry>());
    }

    #[test]
    fn a_block_that_is_not_read_still_contains_others() {
        let mut blocks = Blocks::new(3);
        let all = [entry(1, 1), entry(1, 4), entry(6, 6)];
        blocks.add(location("a"), &all, |entry| entry.number != 4);
        blocks.finish();
        assert_eq!((blocks.len(), blocks.get(1)), (1, None));
        assert_eq!(blocks.get(0), Some(entry(6, 6)));
    }
}
