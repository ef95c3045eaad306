//! What a store tells about itself.

/// The state of a store at one moment. Bytes and counts since it was opened, unless said otherwise.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Sources registered, ever.
    pub sources: u64,
    /// Series (source, field) registered, ever.
    pub series: u64,
    /// Rows accepted.
    pub rows_accepted: u64,
    /// Samples accepted.
    pub samples_accepted: u64,
    /// Rows refused.
    pub rows_rejected: u64,
    /// Samples accepted that a crash now would lose.
    pub unsynced_samples: u64,
    /// Their bytes in the journal's staging area or, without a journal, in buffers.
    pub unsynced_bytes: u64,
    /// How long ago the oldest of them was accepted, ns.
    pub unsynced_age_ns: u64,
    /// Rows in buffers, not yet in a block.
    pub buffered_rows: u64,
    /// Memory that buffers take.
    pub buffer_bytes: u64,
    /// Memory that names, tags and the look-up of sources take.
    pub dictionary_bytes: u64,
    /// Memory accounted for altogether.
    pub memory_used: u64,
    /// The budget for it.
    pub memory_budget: u64,
    /// Journal on disk now.
    pub journal_bytes: u64,
    /// Journal files on disk now.
    pub journal_files: u64,
    /// Bytes written to the journal.
    pub journal_written: u64,
    /// Syncs of the journal.
    pub journal_syncs: u64,
    /// Sealed segments now.
    pub segments: u64,
    /// Bytes of sealed segments now.
    pub segment_bytes: u64,
    /// Bytes written to segments.
    pub segment_written: u64,
    /// Blocks sealed.
    pub blocks_sealed: u64,
    /// Their bytes.
    pub block_bytes_sealed: u64,
    /// Samples in them.
    pub samples_sealed: u64,
    /// Segments set aside because they are damaged.
    pub damaged_segments: u64,
    /// Why the store refuses writes, if it does.
    pub poisoned: Option<String>,
}

/// A sealed segment.
#[derive(Clone, Debug)]
pub struct SegmentInfo {
    /// Its number, ascending in the order of sealing.
    pub number: u64,
    /// Its file.
    pub file: String,
    /// Its bytes, footer included.
    pub bytes: u64,
    /// How many blocks it holds.
    pub blocks: u64,
    /// How many rows.
    pub rows: u64,
    /// The earliest time in it, ns.
    pub first_time: i64,
    /// The latest time in it, ns.
    pub last_time: i64,
}

/// What start-up found.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Sealed segments that serve.
    pub segments: u64,
    /// Files set aside, and why.
    pub set_aside: Vec<(String, String)>,
    /// Journal files read.
    pub journal_files: u64,
    /// Journal bytes read.
    pub journal_bytes: u64,
    /// Rows brought back from the journal.
    pub rows_replayed: u64,
    /// Rows in the journal that sealed segments hold already.
    pub rows_skipped: u64,
    /// Bytes of a last journal record that cannot be read: torn while the power went, and then never
    /// acknowledged as durable, or damaged since.
    pub torn_bytes: u64,
    /// Segments that do not serve because they are damaged, those set aside earlier included.
    pub damaged_segments: u64,
    /// Whether everything is to be sealed at once, because a journal file has to be set aside.
    pub(crate) needs_settling: bool,
    /// How long it took, ns.
    pub took_ns: u64,
}

impl std::fmt::Display for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} segments, {} rows replayed from {} journal bytes ({} already in segments) in {} ms",
            self.segments,
            self.rows_replayed,
            self.journal_bytes,
            self.rows_skipped,
            self.took_ns / 1_000_000
        )?;
        if self.torn_bytes > 0 {
            write!(
                f,
                "; the last journal record ({} bytes) was torn",
                self.torn_bytes
            )?;
        }
        for (file, why) in &self.set_aside {
            write!(f, "; {file} set aside: {why}")?;
        }
        Ok(())
    }
}
