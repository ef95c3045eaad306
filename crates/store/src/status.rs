//! What a store tells about itself.

use crate::class::Class;
use seiner_merge::{Decision, Fill, Kind as MergePolicy, Lane, Memory, SegmentStat};
use std::time::Duration;

/// The state of a store at one moment. Bytes and counts since it was opened, unless said otherwise.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Sources registered, ever.
    pub sources: u64,
    /// Levels of sources registered, ever: each takes the room in memory of a source.
    pub levels: u64,
    /// Series (source, field) registered, ever.
    pub series: u64,
    /// Rows accepted.
    pub rows_accepted: u64,
    /// Samples accepted.
    pub samples_accepted: u64,
    /// Rows refused.
    pub rows_rejected: u64,
    /// Those of them that were too old for their class as they came.
    pub rows_too_old: u64,
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
    /// Segments set aside because they are damaged, and damaged blocks that merges found.
    pub damaged_segments: u64,
    /// Losses ever, acknowledged ones included.
    pub losses: u64,
    /// Rows in them, as far as their number is known.
    pub lost_rows: u64,
    /// Losses that nobody acknowledged.
    pub losses_unacknowledged: u64,
    /// Segments dropped, merged ones included.
    pub segments_dropped: u64,
    /// Segments merged.
    pub segments_merged: u64,
    /// Bytes of blocks that merges wrote again.
    pub merge_written: u64,
    /// Those of them that were written for the sake of reads alone.
    pub extra_written: u64,
    /// How many more may be, now.
    pub extra_left: u64,
    /// Bytes that merges read.
    pub merge_read: u64,
    /// Blocks that merges gathered in larger ones.
    pub gathered_blocks: u64,
    /// Rows that merges left out, for later ones overwrite them.
    pub overwritten_rows: u64,
    /// Bytes that merges saved by compressing harder.
    pub squeezed_bytes: u64,
    /// Bytes that were let go because the budget was used up, about.
    pub shed_bytes: u64,
    /// Time that writers were made to wait because the budget was nearly used up, or until there was
    /// room, ns.
    pub waited_ns: u64,
    /// Samples that were too old and went into a coarser level.
    pub aged_samples: u64,
    /// Rows that were written to coarser levels.
    pub level_rows: u64,
    /// Why samples stay beyond their age, if coarser levels cannot be made of them.
    pub ageing_waits: Option<String>,
    /// Segments that are being written.
    pub open_segments: u64,
    /// Bytes in them so far, those included that wait in memory to be written.
    pub open_segment_bytes: u64,
    /// What the store counts as taken on the disk now: `disk_files` and `disk_allotted`.
    pub disk_used: u64,
    /// Bytes of its files, with the room that the journal and open segments were given ahead.
    pub disk_files: u64,
    /// Bytes allotted to files to come, mostly to the journal up to its bound.
    pub disk_allotted: u64,
    /// What it may take; [`u64::MAX`] if nobody knows.
    pub disk_budget: u64,
    /// Bytes of live blocks on the disk: of sealed segments as of the last surveys, and in segments that
    /// are being written.
    pub live_bytes: u64,
    /// How far the host's clock is ahead of the time that passed while the store ran, ns, when it jumped so far
    /// that the store does not believe it; 0 when it does.
    pub clock_held_ns: u64,
    /// How far the time that the store has seen is ahead of the host's clock, ns; 0 in a store without ages.
    pub clock_behind_ns: u64,
    /// Why the store refuses writes until it is opened again, if it does.
    pub poisoned: Option<String>,
    /// What else is in the way of writing.
    pub trouble: Trouble,
}

/// A segment, as the merge sees it.
#[derive(Clone, Copy, Debug)]
pub struct SegmentStatus {
    /// What policies look at; of a segment that is being written, all is live.
    pub stat: SegmentStat,
    /// Whether it is being written.
    pub open: bool,
}

/// A retention class and what it has.
#[derive(Clone, Debug)]
pub struct ClassStatus {
    /// Its rules.
    pub class: Class,
    /// The length of a step, ns, where it is a level of the class that its name begins with.
    pub step_ns: Option<u64>,
    /// Its sources.
    pub sources: u64,
    /// Bytes of its live blocks on the disk. All classes together have what the store has.
    pub live: u64,
    /// Rows before this time are hidden, ns; `i64::MIN` if none are.
    pub hidden_before: i64,
}

/// The log of a store at one moment.
#[derive(Clone, Debug)]
pub struct LogStatus {
    /// Wall time, ns.
    pub now: i64,
    /// Room: U, Um, V, H follow from it.
    pub fill: Fill,
    /// The part of the used room that lies in files; the rest is allotted to files to come.
    pub files: u64,
    /// R.
    pub segment_bytes: u64,
    /// The policy.
    pub policy: MergePolicy,
    /// What it remembers.
    pub memory: Memory,
    /// Which blocks go together.
    pub lanes: Vec<Lane>,
    /// Segments, by number.
    pub segments: Vec<SegmentStatus>,
    /// Classes, in the order in which they are asked.
    pub classes: Vec<ClassStatus>,
    /// Bytes of blocks sealed since the store was opened.
    pub sealed: u64,
    /// Bytes of blocks that merges wrote again since.
    pub merged: u64,
    /// Those of them that were written for the sake of reads alone.
    pub extra_written: u64,
    /// How many more may be, now.
    pub extra_left: u64,
    /// Blocks that merges gathered in larger ones since.
    pub gathered_blocks: u64,
    /// Rows that merges left out since, for later ones overwrite them.
    pub overwritten_rows: u64,
    /// Bytes that merges saved since by compressing harder.
    pub squeezed_bytes: u64,
}

impl LogStatus {
    /// Bytes written for each byte of blocks sealed, the journal apart.
    pub fn write_amplification(&self) -> f64 {
        (self.sealed + self.merged) as f64 / (self.sealed.max(1)) as f64
    }

    /// Whether segments die whole: nothing needs to be merged, or there is no need to yet.
    pub fn is_planing(&self) -> bool {
        self.fill.hunger() <= 0.0 || self.merged == 0
    }
}

/// Data that was accepted and cannot be read any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The file that is missing or damaged.
    pub file: String,
    /// The damage.
    pub what: String,
    /// Rows lost; `None` where nothing says how many.
    pub rows: Option<u64>,
    /// Whether `rows` is a bound: some of the rows may be in segments.
    pub at_most: bool,
    /// First and last time of the rows, ns, if they are known.
    pub times: Option<(i64, i64)>,
    /// Wall time at which it was found, ns.
    pub found_at: i64,
}

impl Loss {
    /// Returns whether an answer about these times may lack rows. Times that are unknown may be any.
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

/// What is in the way of writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Why the journal cannot be written: acknowledged rows wait in memory.
    pub journal: Option<String>,
    /// Why segments cannot be written.
    pub segments: Option<String>,
    /// Why writers are refused: the budget is used up.
    pub full: Option<String>,
    /// Whether writers are slowed, for the budget is nearly used up.
    pub throttled: bool,
    /// Whether data was let go before its time in the last ten minutes, to make room.
    pub shedding: bool,
    /// Whether new sources are refused, for their names would take the memory of rows.
    pub no_new_sources: bool,
}

/// What was decided, when, and what came of it.
#[derive(Clone, Debug)]
pub struct Record {
    /// Wall time, ns.
    pub at: i64,
    /// Victims and drops, and why.
    pub decision: Decision,
}

/// When an acknowledged row survives what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Acknowledged means on disk: survives a power cut. Costs a flush of the disk, shared by
    /// all who wait for one at the same time.
    Sync,
    /// The journal is written and synced this often: a crash loses at most this much, and what
    /// was accepted while the flush that it interrupted ran.
    Interval(Duration),
    /// No journal: a crash loses all that is not in a sealed segment yet. Halves what is written.
    Memory,
}
