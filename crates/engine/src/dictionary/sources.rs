//! Sources of one pair, usually added in the order of their numbers.

use roaring::RoaringBitmap;
use std::ops::Range;

/// Bytes of a bitmap container beside its numbers, including the overhead of the heap.
const CONTAINER: usize = 64;
/// Bytes of a bitmap without containers.
const BITMAP: usize = 32;
/// Maximum numbers in a container that stores a list. A container with more numbers stores bits.
const LIST: usize = 4096;

/// Set of sources whose latest numbers are stored as a run. Sources of the same host usually follow
/// each other, and a source has most of its pairs in common with the previous source.
pub struct Sources {
    /// Sources that are not in the run. `None` if there are none: most pairs have one run.
    closed: Option<Box<RoaringBitmap>>,
    /// First of the sources that were added last, without gaps, in one container of the bitmap. If the run is empty, the
    /// source that was removed last.
    first: u32,
    /// Number of these sources. Another run begins when it is full.
    run: u16,
    /// Number of the closed sources in the container of `first`.
    beside: u16,
}

impl Sources {
    /// Creates a set of one source.
    pub fn new(source: u32) -> Sources {
        Sources {
            closed: None,
            first: source,
            run: 1,
            beside: 0,
        }
    }

    /// Returns the sources that were added last.
    fn run(&self) -> Range<u32> {
        self.first..self.first + u32::from(self.run)
    }

    /// Adds a source that is not in the set. Returns the approximate growth of the list in bytes.
    #[inline]
    pub fn push(&mut self, source: u32) -> usize {
        // A container of the bitmap has 2¹⁶ numbers. A run ends at the end of a container, so that
        // no container begins with a range: such a container would stay a list of ranges, however
        // many numbers were added.
        if source == self.run().end && source & 0xFFFF != 0 && self.run != 0 && self.run != u16::MAX
        {
            self.run += 1;
            return 0;
        }
        let run = self.run();
        let bytes = self.close_run();
        // Counting the numbers of a container takes longer than adding one.
        self.beside = match !run.is_empty() && run.start >> 16 == source >> 16 {
            true => self.beside + run.len() as u16,
            false => self.numbers_beside(source) as u16,
        };
        (self.first, self.run) = (source, 1);
        bytes
    }

    /// Moves the run into the bitmap. Returns the approximate growth of the bitmap in bytes.
    fn close_run(&mut self) -> usize {
        let run = self.run();
        if run.is_empty() {
            return 0;
        }
        let before = u64::from(self.beside);
        // Appending to a container of bits searches for its largest number first, which costs more than finding the
        // position. In a list, the largest number is the last.
        let is_list = before < LIST as u64;
        let bitmap = match self.closed {
            Some(_) => 0,
            None => BITMAP,
        };
        let closed = self.closed.get_or_insert_default();
        if !is_list || closed.try_push(run.start).is_err() {
            closed.insert(run.start);
        }
        if run.len() > 1 {
            closed.insert_range(run.start + 1..run.end);
        }
        bitmap + container_bytes(before + run.len() as u64) - container_bytes(before)
    }

    /// Returns the number of sources in the container of a source.
    fn numbers_beside(&self, source: u32) -> u64 {
        let range = source & !0xFFFF..=source | 0xFFFF;
        let closed = self.closed.as_deref();
        closed.map_or(0, |closed| closed.range_cardinality(range))
    }

    /// Removes a source from the set. Returns the approximate bytes by which the list grows and
    /// shrinks.
    pub fn remove(&mut self, source: u32) -> (usize, usize) {
        let mut grown = 0;
        let is_beside = self.first >> 16 == source >> 16;
        // Counting the sources of a container takes longer than removing one.
        let noted = (self.run == 0 && is_beside).then_some(u64::from(self.beside));
        if self.run > 0 && is_beside {
            grown = self.close_run();
            self.run = 0;
        }
        let before = noted.unwrap_or_else(|| self.numbers_beside(source));
        let Some(closed) = &mut self.closed else {
            return (grown, 0);
        };
        let removed = u64::from(closed.remove(source));
        if self.run == 0 {
            (self.first, self.beside) = (source, (before - removed) as u16);
        }
        let mut freed = container_bytes(before) - container_bytes(before - removed);
        if closed.is_empty() {
            self.closed = None;
            freed += BITMAP;
        }
        (grown, freed)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.run == 0 && self.closed.is_none()
    }

    /// Adds this set to `sources`.
    pub fn add_to(&self, sources: &mut RoaringBitmap) {
        if let Some(closed) = &self.closed {
            *sources |= &**closed;
        }
        sources.insert_range(self.run());
    }

    /// Returns the number of sources.
    pub fn len(&self) -> u64 {
        let closed = self.closed.as_deref().map_or(0, RoaringBitmap::len);
        closed + u64::from(self.run)
    }

    /// Returns the sources that are also in `others`.
    pub fn common(&self, others: &RoaringBitmap) -> RoaringBitmap {
        let mut run = RoaringBitmap::new();
        run.insert_range(self.run());
        run &= others;
        if let Some(closed) = &self.closed {
            run |= &**closed & others;
        }
        run
    }

    /// Returns whether this set and `sources` have a source in common.
    pub fn meets(&self, sources: &RoaringBitmap) -> bool {
        let in_run = sources.range_cardinality(self.run()) > 0;
        let closed = self.closed.as_deref();
        in_run || closed.is_some_and(|closed| !closed.is_disjoint(sources))
    }
}

/// Returns the approximate bytes of a container. It stores a list of numbers, or above the limit one
/// bit for each possible number.
fn container_bytes(numbers: u64) -> usize {
    match numbers as usize {
        0 => 0,
        numbers if numbers <= LIST => CONTAINER + 2 * numbers,
        _ => CONTAINER + 2 * LIST,
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
        let mut sources = Sources::new(all[0]);
        for (index, &source) in all.iter().enumerate().skip(1) {
            sources.push(source);
            if index % 997 == 0 || index < 40 {
                let mut found = RoaringBitmap::from_iter([1]);
                sources.add_to(&mut found);
                assert!(found.iter().skip(1).eq(all[..=index].iter().copied()));
            }
        }
        let mut left: Vec<u32> = all.clone();
        for source in all.iter().copied().filter(|source| source % 7 < 3) {
            sources.remove(source);
        }
        left.retain(|source| source % 7 >= 3);
        let listed = |sources: &Sources| {
            let mut found = RoaringBitmap::new();
            sources.add_to(&mut found);
            found.into_iter().collect::<Vec<u32>>()
        };
        assert_eq!(listed(&sources), left);
        for source in all.iter().copied().filter(|source| source % 7 < 3).rev() {
            sources.push(source);
        }
        assert_eq!(listed(&sources), all);
        for source in [
            0, 3, 4, 5, 65_536, 70_000, 70_001, 131_000, 199_999, 200_000,
        ] {
            let one = RoaringBitmap::from_iter([source]);
            assert_eq!(sources.meets(&one), all.contains(&source), "{source}");
        }
    }

    #[test]
    fn the_bytes_are_those_of_all_containers() {
        let mut sources = Sources::new(0);
        let mut listed = 0;
        let all: Vec<u32> = (1..70_000)
            .filter(|source| source % 100 < 60)
            .chain((70_000..140_000).step_by(3))
            .collect();
        for &source in &all {
            listed += sources.push(source);
        }
        for source in all.iter().copied().filter(|source| source % 7 < 3) {
            let (grown, freed) = sources.remove(source);
            listed = listed + grown - freed;
        }
        for source in [7, 10, 7_000, 65_541, 131_082, 131_085, 139_993] {
            listed += sources.push(source);
        }
        let containers = (0..3).map(|number| number << 16);
        let expected: usize = containers
            .map(|start| container_bytes(sources.numbers_beside(start)))
            .sum();
        assert_eq!(listed, expected + BITMAP);
    }

    #[test]
    fn a_set_without_its_sources_is_empty() {
        let mut sources = Sources::new(9);
        sources.push(10);
        sources.remove(9);
        assert!(!sources.is_empty());
        sources.remove(10);
        assert!(sources.is_empty());
        sources.push(0);
        assert!(!sources.is_empty() && sources.meets(&RoaringBitmap::from_iter([0])));
    }
}
