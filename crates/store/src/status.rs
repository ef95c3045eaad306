//! Status of a store.

use crate::class::Class;
use seiner_merge::{Decision, Fill, Lane, Memory, MergePolicy, SegmentStat};
use std::time::Duration;

/// Status of a store at one moment. Counts and bytes are those since the store was opened, unless
/// stated otherwise.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Registered sources.
    pub sources: u64,
    /// Registered levels of sources. Each level uses as much memory as a source.
    pub levels: u64,
    /// Registered series (source and field).
    pub series: u64,
    /// Rows accepted.
    pub rows_accepted: u64,
    /// Samples accepted.
    pub samples_accepted: u64,
    /// Rows rejected.
    pub rows_rejected: u64,
    /// Rejected rows that were too old for their class on arrival.
    pub rows_too_old: u64,
    /// Accepted samples that a crash now would lose.
    pub unsynced_samples: u64,
    /// Bytes of these samples in the journal's staging area or, without a journal, in buffers.
    pub unsynced_bytes: u64,
    /// Age of the oldest of these samples, ns.
    pub unsynced_age_ns: u64,
    /// Rows in buffers, not yet in a block.
    pub buffered_rows: u64,
    /// Bytes of memory of the buffers.
    pub buffer_bytes: u64,
    /// Bytes of memory of names, tags and the look-up of sources.
    pub dictionary_bytes: u64,
    /// Total bytes of memory in use.
    pub memory_used: u64,
    /// Memory budget, bytes.
    pub memory_budget: u64,
    /// Bytes of the journal on disk now.
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
    /// Bytes of sealed blocks.
    pub block_bytes_sealed: u64,
    /// Samples in sealed blocks.
    pub samples_sealed: u64,
    /// Segments set aside because they are damaged, and damaged blocks that merges found.
    pub damaged_segments: u64,
    /// All losses so far, including acknowledged losses.
    pub losses: u64,
    /// Lost rows, as far as their number is known.
    pub lost_rows: u64,
    /// Losses that are not acknowledged.
    pub losses_unacknowledged: u64,
    /// Sources that lost their names because they had no data left.
    pub sources_forgotten: u64,
    /// Sources that got the number of a forgotten one.
    pub numbers_reused: u64,
    /// Sources whose tags are in names files now, and no longer in memory.
    pub sources_filed: u64,
    /// Filed sources whose names are not in memory either.
    pub sources_dormant: u64,
    /// Dormant sources that were used again, and were found in names files.
    pub sources_recalled: u64,
    /// Bytes of names files on disk now.
    pub names_bytes: u64,
    /// Segments dropped, including merged segments.
    pub segments_dropped: u64,
    /// Segments merged.
    pub segments_merged: u64,
    /// Bytes of blocks that merges rewrote.
    pub merge_written: u64,
    /// Bytes of blocks that were rewritten only to speed up reads.
    pub extra_written: u64,
    /// Bytes that may still be rewritten for that purpose now.
    pub extra_left: u64,
    /// Bytes that merges read.
    pub merge_read: u64,
    /// Blocks that merges coalesced into larger blocks.
    pub coalesced_blocks: u64,
    /// Rows that merges omitted because later rows overwrite them.
    pub overwritten_rows: u64,
    /// Bytes that merges saved by recompression.
    pub recompressed_bytes: u64,
    /// Approximate bytes that were dropped because the budget was used up.
    pub shed_bytes: u64,
    /// Time that writers waited because the budget was nearly used up, or for space, ns.
    pub waited_ns: u64,
    /// Samples that were replaced by a roll-up level because of their age.
    pub aged_samples: u64,
    /// Rows written to roll-up levels.
    pub level_rows: u64,
    /// Reason why roll-up levels cannot be made, so that samples stay beyond their age.
    pub rollup_blocked: Option<String>,
    /// Segments that are being written.
    pub open_segments: u64,
    /// Bytes in these segments so far, including bytes in memory that are not written yet.
    pub open_segment_bytes: u64,
    /// Bytes of the disk that count as used now: `disk_files` and `disk_allotted`.
    pub disk_used: u64,
    /// Bytes of the files, including space that was reserved for the journal and open segments.
    pub disk_files: u64,
    /// Bytes allotted to future files, mostly to the journal up to its bound.
    pub disk_allotted: u64,
    /// Bytes of the disk that may be used; [`u64::MAX`] if unknown.
    pub disk_budget: u64,
    /// Bytes of live blocks on the disk: in sealed segments as of the last liveness scans, and in
    /// segments that are being written.
    pub live_bytes: u64,
    /// Lead of the host's clock over the time that passed while the store ran, ns, after a jump that the store does not
    /// accept; otherwise 0.
    pub clock_held_ns: u64,
    /// Lead of the time that the store has seen over the host's clock, ns; 0 in a store without ages.
    pub clock_behind_ns: u64,
    /// Error after which the store rejects writes until it is opened again.
    pub poisoned: Option<String>,
    /// Other obstacles to writing.
    pub trouble: Trouble,
}

/// Segment with the statistics that merge policies use.
#[derive(Clone, Copy, Debug)]
pub struct SegmentStatus {
    /// Statistics. All bytes of a segment that is being written are live.
    pub stat: SegmentStat,
    /// True for a segment that is being written.
    pub open: bool,
}

/// Retention class with its sources and bytes.
#[derive(Clone, Debug)]
pub struct ClassStatus {
    /// Rules of the class.
    pub class: Class,
    /// Length of a step, ns. `None` if this is not a level. The name of a level begins with the name of its class.
    pub step_ns: Option<u64>,
    /// Number of sources.
    pub sources: u64,
    /// Bytes of live blocks on the disk. The sum over all classes is [`Status::live_bytes`].
    pub live: u64,
    /// Time before which rows are hidden, ns; `i64::MIN` if no rows are hidden.
    pub hidden_before: i64,
}

/// Log of a store at one moment.
#[derive(Clone, Debug)]
pub struct LogStatus {
    /// Wall time, ns.
    pub now: i64,
    /// Fill of the store, from which U, Um, V and H follow.
    pub fill: Fill,
    /// Bytes of the used space that are in files. The rest is allotted to future files.
    pub files: u64,
    /// Bytes of a segment, R.
    pub segment_bytes: u64,
    /// Merge policy.
    pub policy: MergePolicy,
    /// Memory of the policy.
    pub memory: Memory,
    /// Lanes, which determine the blocks that share a segment.
    pub lanes: Vec<Lane>,
    /// Segments, by number.
    pub segments: Vec<SegmentStatus>,
    /// Classes, in the order of precedence.
    pub classes: Vec<ClassStatus>,
    /// Bytes of blocks sealed since the store was opened.
    pub sealed: u64,
    /// Bytes of blocks that merges have rewritten since then.
    pub merged: u64,
    /// Bytes of blocks that were rewritten only to speed up reads.
    pub extra_written: u64,
    /// Bytes that may still be rewritten for that purpose now.
    pub extra_left: u64,
    /// Blocks that merges have coalesced into larger blocks since then.
    pub coalesced_blocks: u64,
    /// Rows that merges have omitted since then because later rows overwrite them.
    pub overwritten_rows: u64,
    /// Bytes that merges have saved since then by recompression.
    pub recompressed_bytes: u64,
}

impl LogStatus {
    /// Returns the bytes written per byte of sealed blocks, without the journal.
    pub fn write_amplification(&self) -> f64 {
        (self.sealed + self.merged) as f64 / (self.sealed.max(1)) as f64
    }

    /// Returns whether the store is planing: segments die whole, so that no merge is needed at
    /// present.
    pub fn is_planing(&self) -> bool {
        self.fill.hunger() <= 0.0 || self.merged == 0
    }
}

/// Accepted data that can no longer be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Name of the missing or damaged file.
    pub file: String,
    /// Description of the damage.
    pub what: String,
    /// Number of lost rows; `None` if unknown.
    pub rows: Option<u64>,
    /// True if `rows` is an upper bound, because some of the rows may be in segments.
    pub at_most: bool,
    /// First and last time of the rows, ns, if they are known.
    pub times: Option<(i64, i64)>,
    /// Wall time of the discovery, ns.
    pub found_at: i64,
}

impl Loss {
    /// Returns whether an answer for these times may lack rows. A loss with unknown times affects
    /// every answer.
    pub fn concerns(&self, interval: &seiner_model::Interval) -> bool {
        self.times
            .is_none_or(|(first, last)| interval.start <= last && first <= interval.end)
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}; ", self.file, self.what)?;
        match (self.rows, self.at_most) {
            (Some(1), false) => write!(f, "1 row is lost"),
            (Some(rows), false) => write!(f, "{rows} rows are lost"),
            (Some(rows), true) => write!(f, "at most {rows} rows are lost"),
            (None, _) => write!(f, "an unknown number of rows is lost"),
        }
    }
}

/// Obstacles to writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Error of the journal. Acknowledged rows wait in memory.
    pub journal: Option<String>,
    /// Error of the segments.
    pub segments: Option<String>,
    /// Reason why writers are rejected: the budget is used up.
    pub full: Option<String>,
    /// True if writers are slowed because the budget is nearly used up.
    pub throttled: bool,
    /// True if data were dropped before their time in the last ten minutes, to free space.
    pub shedding: bool,
    /// True if new sources are rejected because their names would use the memory of rows.
    pub no_new_sources: bool,
}

/// Decision of a merge policy.
#[derive(Clone, Debug)]
pub struct DecisionRecord {
    /// Wall time of the decision, ns.
    pub at: i64,
    /// Victims and dropped segments, with the reasons.
    pub decision: Decision,
}

/// Failures that an acknowledged row survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// An acknowledged row is on disk and survives a power cut. Costs a sync, which all threads that
    /// wait at the same time share.
    Sync,
    /// The journal is written and synced at this interval. A crash loses at most the rows that were
    /// accepted within one interval, and during the interrupted sync.
    Interval(Duration),
    /// There is no journal. A crash loses all rows that are not in a sealed segment yet. Halves the written bytes.
    Memory,
}
