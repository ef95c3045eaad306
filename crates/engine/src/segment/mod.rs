//! Segments: runs of blocks, written once, with an index of their own at the end.

pub mod files;
pub mod footer;
pub mod list;
pub mod open;
pub mod sealed;
pub mod tally;

use seiner_model::Interval;

/// Writes to a volume begin and end at multiples of this.
pub const ALIGNMENT: usize = 4096;

/// Where a block lies, and what of it is known without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The source.
    pub source: u32,
    /// The block's number.
    pub number: u64,
    /// The first time in it, ns.
    pub first: i64,
    /// The last time in it, ns.
    pub last: i64,
    /// Where it begins in the segment, in bytes.
    pub offset: u32,
    /// Its bytes.
    pub len: u32,
    /// Its rows.
    pub rows: u32,
    /// Rows that the source has had up to the end of this block, ever, with those that later rows at the
    /// same time replaced: tells which blocks of a ring are past its end without listing them all.
    pub ordinal: u64,
    /// The number of the first block that was gathered in this one; its own number in one that was
    /// sealed as it is. It has all that is live of the source's blocks from this one to its own.
    pub since: u64,
    /// Rows that the source had had before the first of these blocks.
    pub before: u64,
    /// Whether it begins before a block does that the source had earlier, and may overwrite that one.
    pub late: bool,
}

impl Entry {
    /// Returns the interval of its times.
    pub fn span(&self) -> Interval {
        Interval::new(self.first, self.last)
    }
}

/// Leaves out the blocks of a source that lie in others; of blocks that lie in each other the first
/// stays. What is left is in the order of its numbers.
pub fn uncover<T>(blocks: &mut Vec<T>, entry: impl Fn(&T) -> &Entry) {
    let key = |block: &T| {
        let entry = entry(block);
        (std::cmp::Reverse(entry.number), entry.since)
    };
    blocks.sort_by_key(key);
    let mut since = u64::MAX;
    blocks.retain(|block| {
        let entry = entry(block);
        let covered = since <= entry.since;
        since = since.min(entry.since);
        !covered
    });
    blocks.reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(blocks: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let entry = |&(since, number): &(u64, u64)| Entry {
            since,
            number,
            ..Entry::default()
        };
        let mut entries: Vec<Entry> = blocks.iter().map(entry).collect();
        uncover(&mut entries, |entry| entry);
        entries
            .iter()
            .map(|entry| (entry.since, entry.number))
            .collect()
    }

    #[test]
    fn what_others_cover_is_left_out() {
        assert_eq!(left(&[(3, 3), (1, 1), (3, 3)]), [(1, 1), (3, 3)]);
        assert_eq!(left(&[(1, 1), (1, 4), (4, 4), (6, 6)]), [(1, 4), (6, 6)]);
        // Neither of two that overlap has all of the other.
        assert_eq!(left(&[(2, 6), (1, 4)]), [(1, 4), (2, 6)]);
        assert_eq!(left(&[(2, 6), (1, 4), (1, 6)]), [(1, 6)]);
    }
}
