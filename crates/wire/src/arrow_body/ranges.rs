//! Rows of a record batch as ranges: the rows of a source usually follow each other.

use std::ops::Range;

/// Rows in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Ranges of rows. None is empty, and none begins where another ends.
    ranges: Vec<Range<u32>>,
    len: usize,
}

impl Rows {
    /// Adds a range of rows behind all others.
    pub fn push(&mut self, range: Range<u32>) {
        self.len += range.len();
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ if range.is_empty() => {}
            _ => self.ranges.push(range),
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the row at a position.
    pub fn get(&self, mut at: usize) -> Option<u32> {
        for range in &self.ranges {
            match at.checked_sub(range.len()) {
                Some(behind) => at = behind,
                None => return Some(range.start + at as u32),
            }
        }
        None
    }

    /// Returns the rows.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.ranges().flatten()
    }

    /// Returns the ranges, as indices.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let ranges = self.ranges.iter();
        ranges.map(|range| range.start as usize..range.end as usize)
    }

    /// Returns the items of the rows.
    pub fn of<T: Copy, V>(&self, items: &[T], convert: impl Fn(T) -> V) -> Vec<V> {
        let mut found = Vec::with_capacity(self.len);
        for range in self.ranges() {
            found.extend(items[range].iter().map(|item| convert(*item)));
        }
        found
    }
}

impl Extend<u32> for Rows {
    /// Adds rows in ascending order behind all others.
    fn extend<I: IntoIterator<Item = u32>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.push(row..row + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_follow_each_other_are_one_range() {
        let mut rows = Rows::default();
        rows.extend([3, 4, 5, 9, 11, 12]);
        assert_eq!(rows.ranges().collect::<Vec<_>>(), [3..6, 9..10, 11..13]);
        assert_eq!(rows.len(), 6);
        assert!(rows.iter().eq([3, 4, 5, 9, 11, 12]));
        let got = (0..7).map(|at| rows.get(at));
        assert!(got.eq([Some(3), Some(4), Some(5), Some(9), Some(11), Some(12), None]));
        let items: Vec<usize> = (0..20).collect();
        assert_eq!(rows.of(&items, |item| item * 2), [6, 8, 10, 18, 22, 24]);
        let mut none = Rows::default();
        none.push(7..7);
        assert!(none.is_empty() && none.get(0).is_none() && none.ranges().next().is_none());
    }
}
