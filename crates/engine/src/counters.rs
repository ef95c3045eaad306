//! Counters of a store, as plain numbers.

/// Counters since the store was opened.
#[derive(Default)]
pub struct Counters {
    /// Rows accepted.
    pub rows: u64,
    /// Values accepted.
    pub samples: u64,
    /// Rows refused.
    pub rejected: u64,
    /// Those of them that were too old for their class as they came.
    pub too_old: u64,
    /// Blocks sealed.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Their values.
    pub block_samples: u64,
    /// Bytes written to segments.
    pub segment_written: u64,
    /// Bytes written to the journal.
    pub journal_written: u64,
    /// Segments dropped, merged ones included.
    pub segments_dropped: u64,
    /// Segments merged.
    pub segments_merged: u64,
    /// Bytes of blocks that merges wrote again.
    pub merge_written: u64,
    /// Those of them that were written for the sake of reads alone.
    pub extra_written: u64,
    /// Bytes that merges read.
    pub merge_read: u64,
    /// Blocks that merges gathered in larger ones.
    pub gathered_blocks: u64,
    /// Rows that merges left out because later ones overwrite them.
    pub overwritten_rows: u64,
    /// Bytes that merges saved by compressing harder.
    pub squeezed_bytes: u64,
    /// Bytes that were let go because the budget was used up, about.
    pub shed_bytes: u64,
    /// Time that writers were made to wait for room, ns.
    pub waited_ns: u64,
    /// Blocks that a merge found damaged.
    pub damaged_blocks: u64,
    /// Samples that went into a coarser level.
    pub aged_samples: u64,
    /// Rows of coarser levels, and the values in them.
    pub level_rows: u64,
    pub level_samples: u64,
}
