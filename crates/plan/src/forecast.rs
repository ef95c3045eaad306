//! Forecast of a configuration for a demand: arithmetic only.

use crate::buffer::are_few;
use crate::calibration::Calibration;
use crate::demand::Demand;
use crate::registry::Registry;
use crate::trial::Starts;

/// Latest fill at which merging begins, Um. Applies if journal and merge need little space.
pub const LATEST_UM: f64 = 0.95;
/// Earliest fill at which merging begins, Um.
pub const EARLIEST_UM: f64 = 0.6;
/// Number of segments that a merge writes before it frees the segments that it read.
pub const MERGE_SEGMENTS: f64 = 2.0;
/// Memory of a store in addition to its sources, in bytes: staging, pieces in flight, the lists of open segments.
pub const FIXED_MEMORY: f64 = 4.0 * 1024.0 * 1024.0;
/// Fill of the journal when the sources that pin its oldest files are sealed. Sealing begins at three quarters and
/// goes through all sources while the next files fill.
pub const JOURNAL_FILL: f64 = 0.7;
/// Rows of the sources that are sealed last, relative to the mean.
const JOURNAL_SPREAD: f64 = 1.1;
/// Share of the memory for names, index and buffers. The engine keeps an eighth free, and an eighth for the log.
const KEPT_SHARE: f64 = 0.75;
/// Share of the memory limit at which sealing ends after buffers reached the limit.
const BUFFER_FILL: f64 = 0.875;
/// Mean of buffer memory over the limit, between the limit and [`BUFFER_FILL`].
const MEAN_FILL: f64 = (1.0 + BUFFER_FILL) / 2.0;
/// Memory in bytes that a store takes from buffers while rows arrive at full speed: rows on their way to the journal, and
/// blocks on their way to the log. A small store needs no less.
const BUSY: f64 = 9.0 * 1024.0 * 1024.0;
/// Memory in use over the limit when buffers are sealed because memory is short: an eighth is free, and the log uses a
/// part of the eighth that is kept for it.
const SHORT_FILL: f64 = 0.81;
/// Bytes that the file system writes per byte of large sequential files; the repository's benchmarks measured 1.00 to
/// 1.01.
pub const FILE_SYSTEM: f64 = 1.01;
/// Memory in use in addition to sources and buffers, in bytes: staging, the journal's next batch, the lists of open
/// segments. Fitted to measurements of `seiner plan --prove-all` for stores with few sensors.
const FIXED_IN_USE: f64 = 5.0 * 1024.0 * 1024.0;
/// Memory of a page of the index in bytes; the rest is on disk.
const INDEX_PAGE: f64 = 16.0;
/// Blocks of a page of the index: in segments with bundles, and in others.
const PAGE_BLOCKS: (f64, f64) = (1024.0, 256.0);
/// Maximum rows of a block in a bundle.
const BUNDLED_ROWS: f64 = 255.0;
/// Number of footers that a start reads per second.
const FOOTERS_PER_S: f64 = 2000.0;
/// Cost of a journal row that is in a segment already, relative to a row that is put into a buffer. Fitted to
/// measurements of `seiner plan --prove-all`.
const SKIPPED: f64 = 0.6;

/// A configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Block size in bytes, B.
    pub block_bytes: f64,
    /// Segment size in bytes, R.
    pub segment_bytes: f64,
    /// Memory budget of the store in bytes.
    pub memory: f64,
    /// Maximum bytes of the journal.
    pub journal_bytes: f64,
    /// Seconds after which the buffer of a silent source is sealed.
    pub idle_seal_s: f64,
    /// Disk budget in bytes, C.
    pub budget: f64,
    /// Share of the budget at which merging of segments begins, Um.
    pub merge_from: f64,
    /// Number of lanes: logs written side by side, each with data that dies at about the same time.
    pub lanes: u32,
}

/// Reason why buffers are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The block size B is reached.
    Block,
    /// The memory limit is reached.
    Memory,
    /// The journal is full.
    Journal,
}

/// Forecast of the store's behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Forecast {
    /// Rows per block.
    pub rows: f64,
    /// Limit of the rows per block.
    pub bound: Bound,
    /// Bytes of segments per row.
    pub disk_row: f64,
    /// Bytes of journal per row.
    pub journal_row: f64,
    /// Memory in use, in bytes.
    pub memory: f64,
    /// Memory of the names and figures of all sensors.
    pub registry: Registry,
    /// Number of blocks kept once the store has samples of the whole retention time.
    pub blocks: f64,
    /// Memory of the index of these blocks, in bytes.
    pub index_bytes: f64,
    /// Bytes of segments once the store has samples of the whole retention time, D.
    pub kept_bytes: f64,
    /// Share of these bytes in the budget, V.
    pub live: f64,
    /// Minimum budget in bytes with which the log planes.
    pub least_budget: f64,
    /// Number of lanes being filled: one per retention class.
    pub open_lanes: f64,
    /// Bytes of segments written per second.
    pub segments_per_s: f64,
    /// Bytes of journal written per second.
    pub journal_per_s: f64,
    /// Bytes per second that reach the devices, file system and parity included.
    pub device_per_s: f64,
    /// Largest segment size in bytes with which the log planes; 0 or less if there is no such size.
    pub planing_segment: f64,
    /// Seconds of a start after an orderly shutdown.
    pub start_s: f64,
    /// Seconds of a start after a crash.
    pub crash_start_s: f64,
}

impl Forecast {
    /// Computes the forecast.
    pub fn make(demand: &Demand, calibration: &Calibration, choice: &Choice) -> Forecast {
        let registry = Registry::of(demand, calibration, choice.memory);
        let (rows, bound) = rows_of_a_block(demand, calibration, choice, &registry);
        let starts = starts(calibration, rows, bound);
        let disk_row = disk_row(calibration, rows, bound);
        let journal_row = calibration.journal_row(rows);
        let per_s = demand.rows_per_s();
        let kept_bytes = disk_row * per_s * demand.mean_keep_s();
        let parity = demand
            .raid
            .map_or(1.0, |raid| raid.members as f64 / raid.data_members() as f64);
        let open_lanes = demand.lifetimes.len() as f64;
        let (segments_per_s, journal_per_s) = (disk_row * per_s, journal_row * per_s);
        let kept = kept_bytes.min(choice.budget);
        let blocks = kept / disk_row / rows;
        let start = Start {
            sensors: demand.sensors,
            segments: kept / choice.segment_bytes,
            blocks,
            journal_rows: 0.0,
            skipped_rows: 0.0,
            journal_blocks: 0.0,
        };
        // Some of these rows may be in a segment when the store starts. The forecast assumes that none are, which
        // gives the longest start.
        let journal_rows = choice.journal_bytes * JOURNAL_FILL / journal_row;
        let crash = Start {
            journal_rows,
            journal_blocks: journal_rows / rows,
            ..start
        };
        Forecast {
            rows,
            bound,
            disk_row,
            journal_row,
            memory: {
                // If buffers of their own take more, blocks become small.
                let buffers = buffers(demand, calibration, rows, bound);
                let sources = demand.sensors * registry.each;
                let in_use = FIXED_IN_USE + blocks * index_entry(rows) + sources + buffers;
                in_use.min(choice.memory * SHORT_FILL)
            },
            registry,
            blocks,
            index_bytes: blocks * index_entry(rows),
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
            start_s: start.seconds(&starts),
            crash_start_s: crash.seconds(&starts),
        }
    }

    /// Returns true if segments die whole, so that merging costs nothing: `R ≤ (C·(Um − V) − J)/n`,
    /// with n lanes being filled and J bytes of journal (*Riak* §4.2, planing).
    pub fn planes(&self, choice: &Choice) -> bool {
        choice.segment_bytes <= self.planing_segment
    }

    /// Returns the factor by which R could grow before segments no longer die whole. Below 1, the log does not plane.
    pub fn margin(&self, choice: &Choice) -> f64 {
        self.planing_segment / choice.segment_bytes
    }

    /// Returns the bytes written to devices per byte of samples (16 bytes for a time and a value).
    pub fn amplification(&self, demand: &Demand) -> f64 {
        self.device_per_s / (demand.samples_per_s() * 16.0)
    }
}

/// Amounts that a start has to read.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Number of sensors, for their names.
    pub sensors: f64,
    /// Number of segments, one file each.
    pub segments: f64,
    /// Number of blocks, for their index entries.
    pub blocks: f64,
    /// Number of journal rows that are in no segment.
    pub journal_rows: f64,
    /// Number of journal rows with their blocks in a segment.
    pub skipped_rows: f64,
    /// Number of blocks to which the rows of the journal belong.
    pub journal_blocks: f64,
}

impl Start {
    /// Returns the processor time in seconds. For a block that begins in the journal, the start also searches the
    /// index, because the block may be in a segment already.
    pub fn seconds(&self, costs: &Starts) -> f64 {
        costs.empty_s
            + self.segments / FOOTERS_PER_S
            + self.sensors * costs.name_s
            + self.blocks * costs.entry_s
            + (self.journal_rows + self.skipped_rows * SKIPPED) * costs.replay_s
            + self.journal_blocks * (costs.begin_s + costs.entry_s)
    }
}

/// Returns the processor time of the parts of a start, if blocks have so many rows for this reason.
pub fn starts(calibration: &Calibration, rows: f64, bound: Bound) -> Starts {
    let is_small = bound == Bound::Memory && are_few(rows, calibration.row_bytes);
    let small = calibration.small_starts.filter(|_| is_small);
    small.unwrap_or(calibration.starts)
}

/// Returns the rows of the fullest buffer if blocks have `rows` rows on average.
fn fullest_rows(rows: f64, bound: Bound) -> f64 {
    match bound {
        Bound::Journal => rows * JOURNAL_SPREAD,
        Bound::Block | Bound::Memory => rows,
    }
}

/// Returns the bytes of segments per row. If memory is short, blocks that begin and end at different rows are sealed
/// together, and each block of a bundle states where it begins and ends.
fn disk_row(calibration: &Calibration, rows: f64, bound: Bound) -> f64 {
    let ends = match bound {
        Bound::Memory if rows <= BUNDLED_ROWS => 2.0 * rows.log2() / 8.0,
        Bound::Memory | Bound::Journal | Bound::Block => 0.0,
    };
    calibration.disk_row(rows) + ends / rows
}

/// Returns the memory of a sealed block of `rows` rows in bytes.
fn index_entry(rows: f64) -> f64 {
    match rows <= BUNDLED_ROWS {
        true => INDEX_PAGE / PAGE_BLOCKS.0,
        false => INDEX_PAGE / PAGE_BLOCKS.1,
    }
}

/// Returns the memory of all buffers in bytes when they are sealed. Assumes sources of one rate that start together, so
/// that all buffers are full at the same time.
fn buffers(demand: &Demand, calibration: &Calibration, rows: f64, bound: Bound) -> f64 {
    let rows = fullest_rows(rows, bound);
    demand.sensors * calibration.held_buffer_bytes(rows, demand.fields)
}

/// Returns the smallest memory in bytes with which the engine never seals buffers for lack of memory. It is the memory
/// in use, plus the part that the engine keeps free.
pub fn ample_memory(demand: &Demand, calibration: &Calibration, forecast: &Forecast) -> f64 {
    let in_memory = Registry::of(demand, calibration, f64::INFINITY);
    let sources = demand.sensors * in_memory.each;
    let buffers = buffers(demand, calibration, forecast.rows, forecast.bound);
    FIXED_MEMORY + (forecast.index_bytes + sources + buffers) / KEPT_SHARE
}

/// Returns the rows per block and the limit that determines them.
fn rows_of_a_block(
    demand: &Demand,
    calibration: &Calibration,
    choice: &Choice,
    registry: &Registry,
) -> (f64, Bound) {
    let by_block = calibration.rows_of(choice.block_bytes, demand.fields);
    let by_journal = rows_in_journal(demand, calibration, choice.journal_bytes);
    let by_memory = rows_in_memory(demand, calibration, choice, registry);
    let mut least = (by_block, Bound::Block);
    for (rows, bound) in [(by_memory, Bound::Memory), (by_journal, Bound::Journal)] {
        if rows < least.0 {
            least = (rows, bound);
        }
    }
    (least.0.max(1.0), least.1)
}

/// Returns the rows of each sensor that a full journal holds. The first row of a block takes more bytes than other
/// rows, so the mean bytes per row depend on the result.
fn rows_in_journal(demand: &Demand, calibration: &Calibration, journal_bytes: f64) -> f64 {
    let each = journal_bytes * JOURNAL_FILL / demand.sensors;
    most_rows(|rows| rows * calibration.journal_row(rows) <= each)
}

/// Returns the largest number of rows for which a monotone condition holds.
fn most_rows(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (1.0, 100_000.0);
    for _ in 0..40 {
        let middle = f64::sqrt(low * high);
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Returns the rows per block at which buffers in all stages of filling take the available memory. The memory of the
/// index also depends on the rows, so the function iterates until the result converges.
fn rows_in_memory(
    demand: &Demand,
    calibration: &Calibration,
    choice: &Choice,
    registry: &Registry,
) -> f64 {
    const TURNS: usize = 6;
    let sources = demand.sensors * registry.each;
    let in_space = |index: f64| {
        let busy = BUSY.min(choice.memory / 8.0);
        let space = (choice.memory * KEPT_SHARE - busy - sources - index) * MEAN_FILL;
        let each = space / demand.sensors;
        most_rows(|rows| calibration.mean_buffer_bytes(rows, demand.fields) <= each)
    };
    let index = |rows: f64| {
        let kept = demand.rows_per_s() * demand.mean_keep_s();
        kept.min(choice.budget / calibration.disk_row(rows)) / rows * index_entry(rows)
    };
    (0..TURNS).fold(in_space(0.0), |rows, _| in_space(index(rows)))
}
