//! Segments: runs of blocks, written once, with their own index at the end.

pub mod files;
pub mod footer;
pub mod list;
pub mod open;
pub mod sealed;
pub mod stats;

use seiner_model::Interval;

/// Alignment of writes to a volume: they begin and end at multiples of this.
pub const ALIGNMENT: usize = 4096;

/// Index entry of a block: its position, and the properties known without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Number of the source.
    pub source: u32,
    /// Number of the block.
    pub number: u64,
    /// First time in the block, ns.
    pub first: i64,
    /// Last time in the block, ns.
    pub last: i64,
    /// Offset of the block in the segment, in bytes. For a block in a bundle, the offset of the
    /// bundle.
    pub offset: u32,
    /// Length of the block in bytes. For a block in a bundle, its share of the bundle's bytes, at
    /// least 1. The shares of all blocks of a bundle add up to its length.
    pub len: u32,
    /// Length of the bundle that contains the block, in bytes. 0 for a block of its own.
    pub bundle: u32,
    /// Number of rows.
    pub rows: u32,
    /// Rows of the source up to the end of this block, since the source was registered. Rows
    /// replaced by later rows at the same time are included. Shows which blocks of a ring are past
    /// its end without a list of all blocks.
    pub ordinal: u64,
    /// Number of the first block that was coalesced into this block, or the block's own number if it
    /// was sealed directly. The block contains all live rows of the source's blocks from `since` to
    /// its own number.
    pub since: u64,
    /// Rows of the source before the first coalesced block.
    pub before: u64,
    /// True if this block begins before an earlier block of the same source begins, and may
    /// therefore overwrite that block.
    pub late: bool,
}

impl Entry {
    /// Returns the interval of the block's times.
    pub fn span(&self) -> Interval {
        Interval::new(self.first, self.last)
    }

    /// Returns whether the block is in a bundle.
    pub fn is_bundled(&self) -> bool {
        self.bundle > 0
    }

    /// Returns the offset and the length of the bytes that contain the block: its own bytes, or the
    /// bundle.
    pub fn extent(&self) -> (u64, u64) {
        let len = match self.bundle {
            0 => self.len,
            bundle => bundle,
        };
        (u64::from(self.offset), u64::from(len))
    }

    /// Returns the number of the first block that was coalesced into this block, and its own number.
    pub fn numbers(&self) -> (u64, u64) {
        (self.since, self.number)
    }
}

/// Removes the blocks of a source that are contained in other blocks. Of blocks that contain each
/// other, the first stays. The remaining blocks are ordered by number. `numbers` returns
/// [`Entry::numbers`] of a block.
pub fn uncover<T>(blocks: &mut Vec<T>, numbers: impl Fn(&T) -> (u64, u64)) {
    blocks.sort_by_key(|block| {
        let (since, number) = numbers(block);
        (std::cmp::Reverse(number), since)
    });
    let mut covered_from = u64::MAX;
    blocks.retain(|block| {
        let (since, _) = numbers(block);
        let is_covered = covered_from <= since;
        covered_from = covered_from.min(since);
        !is_covered
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
        uncover(&mut entries, Entry::numbers);
        entries
            .iter()
            .map(|entry| (entry.since, entry.number))
            .collect()
    }

    #[test]
    fn covered_blocks_are_omitted() {
        assert_eq!(left(&[(3, 3), (1, 1), (3, 3)]), [(1, 1), (3, 3)]);
        assert_eq!(left(&[(1, 1), (1, 4), (4, 4), (6, 6)]), [(1, 4), (6, 6)]);
        // Neither of two overlapping blocks contains the whole other block.
        assert_eq!(left(&[(2, 6), (1, 4)]), [(1, 4), (2, 6)]);
        assert_eq!(left(&[(2, 6), (1, 4), (1, 6)]), [(1, 6)]);
    }
}
