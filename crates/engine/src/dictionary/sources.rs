//! The sources of one pair, added in the order of their numbers.

use roaring::RoaringBitmap;
use std::ops::Range;

/// Bytes of a container of the bitmap beside its numbers, with what the heap adds.
const CONTAINER: usize = 64;
/// A container with more numbers holds bits.
const LIST: usize = 4096;

/// Sources, the latest of them as a run: sources of the same host mostly come one after the
/// other, and most pairs of a source are those of the one before.
pub struct Sources {
    /// All but those in `run`.
    settled: RoaringBitmap,
    /// The latest, without gaps.
    run: Range<u32>,
}

impl Sources {
    /// Two sources, ascending.
    pub fn new(first: u32, second: u32) -> Sources {
        let mut sources = Sources {
            settled: RoaringBitmap::new(),
            run: first..first + 1,
        };
        sources.push(second);
        sources
    }

    /// Adds a source whose number is larger than all before. Answers how many bytes the list
    /// takes more, about.
    #[inline]
    pub fn push(&mut self, source: u32) -> usize {
        // A container of the bitmap has 2¹⁶ numbers. A run ends where one does, so that no
        // container begins with a range: it would stay a list of ranges, however many came.
        if source == self.run.end && source & 0xFFFF != 0 {
            self.run.end += 1;
            0
        } else {
            let begins = self.run.start & 0xFFFF_0000 != source & 0xFFFF_0000;
            let bytes = self.settle();
            self.run = source..source + 1;
            bytes
                + if begins || self.settled.len() == 1 {
                    CONTAINER
                } else {
                    0
                }
        }
    }

    /// Answers how many bytes the bitmap takes more, about.
    fn settle(&mut self) -> usize {
        // Not by appending: that looks for the largest number first, which costs more than
        // finding the place.
        self.settled.insert(self.run.start);
        if self.run.len() > 1 {
            self.settled.insert_range(self.run.start + 1..self.run.end);
        }
        // A list of numbers, and with more of them than this, a bit for each that may be.
        match self.settled.len() as usize {
            numbers if numbers < LIST => 2 * self.run.len().min(LIST),
            _ => self.run.len() / 8 + 1,
        }
    }

    /// Adds them to others.
    pub fn add_to(&self, sources: &mut RoaringBitmap) {
        *sources |= &self.settled;
        sources.insert_range(self.run.clone());
    }

    /// Whether one of them is among `sources`.
    pub fn meets(&self, sources: &RoaringBitmap) -> bool {
        sources.range_cardinality(self.run.clone()) > 0 || !self.settled.is_disjoint(sources)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_come_in_runs_and_alone() {
        let across = 65_530..65_550;
        let alone = (70_000..90_000).step_by(3);
        let all: Vec<u32> = [3, 5, 6, 7]
            .into_iter()
            .chain(across)
            .chain(alone)
            .chain(131_000..200_000)
            .collect();
        let mut sources = Sources::new(all[0], all[1]);
        for (index, &source) in all.iter().enumerate().skip(2) {
            sources.push(source);
            if index % 997 == 0 || index < 40 {
                let mut found = RoaringBitmap::from_iter([1]);
                sources.add_to(&mut found);
                assert!(found.iter().skip(1).eq(all[..=index].iter().copied()));
            }
        }
        for source in [
            0, 3, 4, 5, 65_536, 70_000, 70_001, 131_000, 199_999, 200_000,
        ] {
            let one = RoaringBitmap::from_iter([source]);
            assert_eq!(sources.meets(&one), all.contains(&source), "{source}");
        }
    }
}
