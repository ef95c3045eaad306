//! Counters of a store since it was opened.

/// Counters of accepted and rejected rows, and of journal bytes.
#[derive(Default)]
pub struct Accepted {
    /// Rows accepted.
    pub rows: u64,
    /// Values accepted.
    pub samples: u64,
    /// Rows rejected.
    pub rejected: u64,
    /// Rejected rows that were too old for their class on arrival.
    pub too_old: u64,
    /// Sources that were forgotten, and sources that got the number of one.
    pub forgotten: u64,
    pub reused: u64,
    /// Dormant sources that were found in names files.
    pub recalled: u64,
    /// Bytes written to the journal.
    pub journal_written: u64,
    /// Time that writers were made to wait for space, ns.
    pub waited_ns: u64,
    /// Samples that went into a roll-up level.
    pub aged_samples: u64,
    /// Rows of roll-up levels.
    pub level_rows: u64,
    /// Values in rows of roll-up levels.
    pub level_samples: u64,
}

/// Counters of the blocks in the log, and of the work of the jobs.
#[derive(Default)]
pub struct Written {
    /// Blocks sealed.
    pub blocks: u64,
    /// Bytes of sealed blocks.
    pub block_bytes: u64,
    /// Values in sealed blocks.
    pub block_samples: u64,
    /// Bytes written to segments.
    pub segment_written: u64,
    /// Segments dropped, including merged segments.
    pub segments_dropped: u64,
    /// Segments merged.
    pub segments_merged: u64,
    /// Bytes of blocks that merges rewrote.
    pub merge_written: u64,
    /// Bytes of blocks that were rewritten only to speed up reads.
    pub extra_written: u64,
    /// Bytes that merges read.
    pub merge_read: u64,
    /// Blocks that merges coalesced into larger blocks.
    pub coalesced_blocks: u64,
    /// Rows that merges omitted because later rows overwrite them.
    pub overwritten_rows: u64,
    /// Bytes that merges saved by recompression.
    pub recompressed_bytes: u64,
    /// Approximate bytes shed because the budget was exhausted.
    pub shed_bytes: u64,
    /// Damaged blocks found by merges.
    pub damaged_blocks: u64,
}
