//! Sources of one pair, added in the order of their numbers.

use roaring::RoaringBitmap;
use std::ops::Range;

/// Bytes of a bitmap container beside its numbers, including the overhead of the heap.
const CONTAINER: usize = 64;
/// Maximum numbers in a container that stores a list. A container with more numbers stores bits.
const LIST: usize = 4096;

/// Set of sources whose latest numbers are stored as a run. Sources of the same host usually follow
/// each other, and a source has most of its pairs in common with the previous source.
pub struct Sources {
    /// Sources before those in `run`.
    closed: RoaringBitmap,
    /// Latest sources, without gaps.
    run: Range<u32>,
}

impl Sources {
    /// Creates a set of two sources, ascending.
    pub fn new(first: u32, second: u32) -> Sources {
        let mut sources = Sources {
            closed: RoaringBitmap::new(),
            run: first..first + 1,
        };
        sources.push(second);
        sources
    }

    /// Adds a source whose number is larger than all earlier numbers. Returns the approximate
    /// growth of the list in bytes.
    #[inline]
    pub fn push(&mut self, source: u32) -> usize {
        // A container of the bitmap has 2¹⁶ numbers. A run ends at the end of a container, so that
        // no container begins with a range: such a container would stay a list of ranges, however
        // many numbers were added.
        if source == self.run.end && source & 0xFFFF != 0 {
            self.run.end += 1;
            0
        } else {
            let begins = self.run.start & 0xFFFF_0000 != source & 0xFFFF_0000;
            let bytes = self.close_run();
            self.run = source..source + 1;
            bytes
                + if begins || self.closed.len() == 1 {
                    CONTAINER
                } else {
                    0
                }
        }
    }

    /// Moves the run into the bitmap. Returns the approximate growth of the bitmap in bytes.
    fn close_run(&mut self) -> usize {
        // Appending searches for the largest number first, which costs more than finding the
        // position.
        self.closed.insert(self.run.start);
        if self.run.len() > 1 {
            self.closed.insert_range(self.run.start + 1..self.run.end);
        }
        // A container stores a list of numbers, or above the limit one bit for each possible
        // number.
        match self.closed.len() as usize {
            numbers if numbers < LIST => 2 * self.run.len().min(LIST),
            _ => self.run.len() / 8 + 1,
        }
    }

    /// Adds this set to `sources`.
    pub fn add_to(&self, sources: &mut RoaringBitmap) {
        *sources |= &self.closed;
        sources.insert_range(self.run.clone());
    }

    /// Returns whether this set and `sources` have a source in common.
    pub fn meets(&self, sources: &RoaringBitmap) -> bool {
        sources.range_cardinality(self.run.clone()) > 0 || !self.closed.is_disjoint(sources)
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
