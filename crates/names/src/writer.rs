//! Writer: collects sources in memory and writes them to a file.

use crate::hashes::{hash_name, stored_bits};
use crate::layout::Origin;
use crate::name::put_name;
use crate::output::Output;
use crate::pairs::Pairs;
use crate::terms::NUMBERS;
use roaring::RoaringBitmap;
use seiner_platform::File;
use std::io;

/// Sources in memory that become a names file.
pub struct Writer {
    origin: Origin,
    pairs: Pairs,
    sources: Vec<u32>,
    /// Pairs of all sources: the measurement as a tag with an empty name, then the tags.
    members: Vec<u32>,
    /// End of the pairs of each source.
    ends: Vec<usize>,
}

impl Writer {
    /// Creates an empty writer of a file with this origin.
    pub fn new(origin: Origin) -> Writer {
        Writer {
            origin,
            pairs: Pairs::new(origin.seed),
            sources: Vec::new(),
            members: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Adds a source. The measurement and the tags are those of a [`SourceKey`], in its order.
    ///
    /// # Panics
    /// If the number is not greater than the numbers before.
    ///
    /// [`SourceKey`]: seiner_model::SourceKey
    pub fn push<'t>(
        &mut self,
        source: u32,
        measurement: &[u8],
        tags: impl ExactSizeIterator<Item = (&'t [u8], &'t [u8])>,
    ) {
        let is_next = self.sources.last().is_none_or(|last| *last < source);
        assert!(is_next, "the numbers of sources ascend");
        let end = self.members.len();
        let mut before = self.members_of(self.sources.len().wrapping_sub(1)).start;
        self.members.reserve(1 + tags.len());
        let mut add = |tag: &[u8], value: &[u8]| {
            // Most pairs are those of the source before.
            let same = self.members[before..end].first().copied();
            let same = same.filter(|pair| self.pairs.get(*pair) == (tag, value));
            let pair = same.unwrap_or_else(|| self.pairs.intern(tag, value));
            self.members.push(pair);
            before = end.min(before + 1);
        };
        add(b"", measurement);
        tags.for_each(|(tag, value)| add(tag, value));
        self.sources.push(source);
        self.ends.push(self.members.len());
    }

    /// Returns the range of the pairs of a source in `members`. Empty if there is no such source.
    fn members_of(&self, index: usize) -> std::ops::Range<usize> {
        let start = match index.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or(0),
            None => 0,
        };
        start..self.ends.get(index).copied().unwrap_or(start)
    }

    /// Returns whether there is no source.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns the number of sources.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Returns the memory used, in bytes, about. Writing takes about as much again.
    pub fn memory(&self) -> usize {
        self.pairs.memory()
            + (self.sources.capacity() + self.members.capacity()) * 4
            + self.ends.capacity() * size_of::<usize>()
    }

    /// Writes the whole file, without a sync, and returns its length in bytes.
    ///
    /// # Errors
    /// If the disk returns an error.
    pub fn write(self, file: &dyn File) -> io::Result<u64> {
        let sources = RoaringBitmap::from_sorted_iter(self.sources.iter().copied())
            .expect("the numbers of sources ascend");
        let mut output = Output::new(file, &self.origin, sources);
        let hashes = self.write_names(&mut output)?;
        self.write_terms(&mut output)?;
        for (hash, number) in hashes {
            output.hash(hash, number)?;
        }
        output.finish()
    }

    /// Writes the names, and returns their hashes, sorted.
    fn write_names(&self, output: &mut Output<'_>) -> io::Result<Vec<(u64, u32)>> {
        let mut hashes = Vec::with_capacity(self.len());
        let mut name = Vec::new();
        for (index, &source) in self.sources.iter().enumerate() {
            let members = &self.members[self.members_of(index)];
            let measurement = self.pairs.get(members[0]).1;
            let tags = members[1..].iter().map(|pair| self.pairs.get(*pair));
            name.clear();
            put_name(measurement, tags, &mut name);
            output.name(source, &name)?;
            hashes.push((stored_bits(hash_name(self.origin.seed, &name)), source));
        }
        output.end_names()?;
        hashes.sort_unstable();
        Ok(hashes)
    }

    fn write_terms(&self, output: &mut Output<'_>) -> io::Result<()> {
        // Sorts the sources by their pairs: first counts the sources of a pair, then places each source.
        let mut ends = vec![0usize; self.pairs.len()];
        self.members
            .iter()
            .for_each(|pair| ends[*pair as usize] += 1);
        let mut end = 0;
        for place in &mut ends {
            end += std::mem::replace(place, end);
        }
        let mut listed = vec![0; self.members.len()];
        for (index, &source) in self.sources.iter().enumerate() {
            for &pair in &self.members[self.members_of(index)] {
                let place = &mut ends[pair as usize];
                listed[*place] = source;
                *place += 1;
            }
        }
        for pair in self.pairs.sorted() {
            let start = pair
                .checked_sub(1)
                .map_or(0, |before| ends[before as usize]);
            let sources = &listed[start..ends[pair as usize]];
            let (tag, value) = self.pairs.get(pair);
            if sources.len() <= NUMBERS {
                output.term_of_numbers(tag, value, sources)?;
            } else {
                let set = RoaringBitmap::from_sorted_iter(sources.iter().copied());
                output.term_of_set(tag, value, set.expect("the numbers of sources ascend"))?;
            }
        }
        output.end_terms()
    }
}
