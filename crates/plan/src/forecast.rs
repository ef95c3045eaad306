//! What a configuration does with a demand: arithmetic only.

use crate::calibration::{Calibration, buffer_limit};
use crate::demand::Demand;

/// Um, the fill up to which nothing is merged: the latest, where journal and merge take little.
pub const LATEST_UM: f64 = 0.95;
/// The earliest.
pub const EARLIEST_UM: f64 = 0.6;
/// Segments that a merge writes before it frees those that it read.
pub const MERGE_SEGMENTS: f64 = 2.0;
/// Bytes that a store takes beside its sources: staging, pieces on their way, the open segment's lists.
pub const FIXED_MEMORY: f64 = 4.0 * 1024.0 * 1024.0;
/// The share of the journal that is full when sources that pin its oldest files are sealed: sealing
/// begins at three quarters and goes through all sources while the next files fill.
pub const JOURNAL_FILL: f64 = 0.7;
/// Buffers are squeezed when they reach this share of what the budget leaves them.
const BUFFER_FILL: f64 = 0.875;
/// The file system's own writes for large sequential files, over the bytes written: the benchmarks of
/// the repository saw 1.00 to 1.01.
pub const FILE_SYSTEM: f64 = 1.01;
/// What is in use beside sources and buffers: staging, the journal's next batch, the open segment's lists.
/// Fitted to what `seiner plan --prove-all` measured of stores with few sensors.
const FIXED_IN_USE: f64 = 2.75 * 1024.0 * 1024.0;
/// A buffer is a slot of memory that doubles when it is full, from one cache line on.
const SMALLEST_SLOT: f64 = 64.0;
/// A start of an empty store, s.
const EMPTY_START_S: f64 = 0.03;
/// Footers read at a start, segments a second.
const FOOTERS_PER_S: f64 = 2000.0;
/// Seconds in a day.
pub const DAY_S: f64 = 86_400.0;

/// What is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// B.
    pub block_bytes: f64,
    /// R.
    pub segment_bytes: f64,
    /// The store's budget of memory.
    pub memory: f64,
    /// The journal's bound.
    pub journal_bytes: f64,
    /// Seconds after which a silent source is sealed.
    pub idle_seal_s: f64,
    /// C: what the store may take.
    pub budget: f64,
    /// Um: the share of it from which on segments are merged.
    pub merge_from: f64,
    /// Logs written side by side, each with what dies at about the same time.
    pub lanes: u32,
}

/// What ends the filling of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// B is reached.
    Block,
    /// The memory is.
    Memory,
    /// The journal is.
    Journal,
}

/// What comes of it.
#[derive(Clone, Copy, Debug)]
pub struct Forecast {
    /// Rows of a block.
    pub rows: f64,
    /// What bounds them.
    pub bound: Bound,
    /// Bytes of segments for a row.
    pub disk_row: f64,
    /// Bytes of journal for a row.
    pub journal_row: f64,
    /// Memory in use.
    pub memory: f64,
    /// D: bytes of segments when samples of the whole time are there.
    pub kept_bytes: f64,
    /// V: their share of the budget.
    pub live: f64,
    /// The least budget with which the log planes.
    pub least_budget: f64,
    /// Lanes that are being filled: one a lifetime.
    pub open_lanes: f64,
    /// Bytes a second of segments.
    pub segments_per_s: f64,
    /// Bytes a second of journal.
    pub journal_per_s: f64,
    /// Bytes a second that reach the devices, file system and parity included.
    pub device_per_s: f64,
    /// The largest R with which the log planes, bytes; below 0 there is none.
    pub planing_segment: f64,
    /// Seconds of a start after an orderly end.
    pub start_s: f64,
    /// Seconds of a start after a crash.
    pub crash_start_s: f64,
}

impl Forecast {
    /// Computes it.
    pub fn make(demand: &Demand, calibration: &Calibration, choice: &Choice) -> Forecast {
        let (rows, bound) = rows_of_a_block(demand, calibration, choice);
        let disk_row = calibration.disk_row(rows);
        let journal_row = calibration.journal_row(rows);
        let per_s = demand.rows_per_s();
        let kept_bytes = disk_row * per_s * demand.mean_keep_s();
        let parity = demand
            .raid
            .map_or(1.0, |raid| raid.members as f64 / raid.data_members() as f64);
        let open_lanes = demand.lifetimes.len() as f64;
        let (segments_per_s, journal_per_s) = (disk_row * per_s, journal_row * per_s);
        let used = demand.sensors
            * (calibration.source_bytes + fullest(demand, calibration, choice, rows));
        let replay_s = replay_s(
            calibration,
            choice.journal_bytes * JOURNAL_FILL,
            journal_row,
        );
        let start_s = start_s(kept_bytes.min(choice.budget) / choice.segment_bytes);
        Forecast {
            rows,
            bound,
            disk_row,
            journal_row,
            memory: (FIXED_IN_USE + used).min(choice.memory),
            kept_bytes,
            live: if choice.budget > 0.0 {
                kept_bytes / choice.budget
            } else {
                f64::INFINITY
            },
            least_budget: (kept_bytes
                + choice.journal_bytes
                + (open_lanes + MERGE_SEGMENTS) * choice.segment_bytes)
                / LATEST_UM,
            open_lanes,
            segments_per_s,
            journal_per_s,
            device_per_s: (segments_per_s + journal_per_s) * FILE_SYSTEM * parity,
            planing_segment: (choice.budget * choice.merge_from
                - kept_bytes
                - choice.journal_bytes)
                / open_lanes,
            start_s,
            crash_start_s: start_s + replay_s,
        }
    }

    /// Whether segments die whole, so that merging costs nothing: R ≤ (C/n)·(Um − V) less the
    /// journal's part, with n logs that are being filled (*Riak*, planing).
    pub fn planes(&self, choice: &Choice) -> bool {
        choice.segment_bytes <= self.planing_segment
    }

    /// How many times larger R could be before segments stop to die whole; below 1 they do not.
    pub fn margin(&self, choice: &Choice) -> f64 {
        self.planing_segment / choice.segment_bytes
    }

    /// Bytes written to the device over bytes of samples (a time and a value, 16 bytes).
    pub fn amplification(&self, demand: &Demand) -> f64 {
        self.device_per_s / (demand.samples_per_s() * 16.0)
    }
}

/// Seconds of a start with so many segments and no journal.
pub fn start_s(segments: f64) -> f64 {
    EMPTY_START_S + segments / FOOTERS_PER_S
}

/// Seconds to read so much journal back: its rows go the way of any others, without the port.
pub fn replay_s(calibration: &Calibration, journal_bytes: f64, journal_row: f64) -> f64 {
    journal_bytes / journal_row / calibration.rows_per_s
}

/// Memory of a source whose buffer is about to be sealed, bytes. Sources of one rate that were started
/// together fill together, so that all of them take this at the same time.
fn fullest(demand: &Demand, calibration: &Calibration, choice: &Choice, rows: f64) -> f64 {
    // The first row of a buffer stands there in full: a time and the values.
    let first = 8.0 * (1.0 + demand.fields as f64);
    let limit = buffer_limit(choice.block_bytes, demand.fields);
    let filled = (first + rows * calibration.row_bytes).min(limit);
    let slot = (filled / SMALLEST_SLOT).log2().ceil().max(0.0).exp2();
    calibration.memory_source(1.0) + (slot - 1.0) * SMALLEST_SLOT
}

/// How many rows a block gets, and why no more.
fn rows_of_a_block(demand: &Demand, calibration: &Calibration, choice: &Choice) -> (f64, Bound) {
    let by_block = buffer_limit(choice.block_bytes, demand.fields) / calibration.row_bytes;
    let by_journal =
        choice.journal_bytes * JOURNAL_FILL / (demand.sensors * calibration.journal_row(64.0));
    let by_memory = rows_in_memory(demand, calibration, choice.memory);
    let mut least = (by_block, Bound::Block);
    for (rows, bound) in [(by_memory, Bound::Memory), (by_journal, Bound::Journal)] {
        if rows < least.0 {
            least = (rows, bound);
        }
    }
    (least.0.max(1.0), least.1)
}

/// The rows at which buffers in all stages of filling take what the budget leaves them.
fn rows_in_memory(demand: &Demand, calibration: &Calibration, memory: f64) -> f64 {
    let room = (memory - FIXED_MEMORY - demand.sensors * calibration.source_bytes) * BUFFER_FILL;
    let (mut low, mut high) = (1.0, 100_000.0);
    for _ in 0..40 {
        let middle = f64::sqrt(low * high);
        if demand.sensors * calibration.memory_source(middle) <= room {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
