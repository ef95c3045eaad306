//! Counters since a store was opened, as plain numbers.

/// Counts of what the head accepted and refused, and of what the journal took.
#[derive(Default)]
pub struct Accepted {
    /// Rows accepted.
    pub rows: u64,
    /// Values accepted.
    pub samples: u64,
    /// Rows refused.
    pub rejected: u64,
    /// Refused rows that were too old for their class as they came.
    pub too_old: u64,
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

/// Counts of what joined the log, and of what the jobs did with it.
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
    /// Segments dropped, merged ones included.
    pub segments_dropped: u64,
    /// Segments merged.
    pub segments_merged: u64,
    /// Bytes of blocks that merges wrote again.
    pub merge_written: u64,
    /// Bytes of blocks that were written again for the sake of reads alone.
    pub extra_written: u64,
    /// Bytes that merges read.
    pub merge_read: u64,
    /// Blocks that merges coalesced into larger blocks.
    pub coalesced_blocks: u64,
    /// Rows that merges left out because later ones overwrite them.
    pub overwritten_rows: u64,
    /// Bytes that merges saved by compressing harder.
    pub recompressed_bytes: u64,
    /// Approximate bytes shed because the budget was exhausted.
    pub shed_bytes: u64,
    /// Blocks that a merge found damaged.
    pub damaged_blocks: u64,
}
