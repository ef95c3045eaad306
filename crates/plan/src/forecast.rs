//! What a configuration does with a demand: arithmetic only.

use crate::calibration::Calibration;
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
/// Sources that are sealed last have so many times the mean's rows by then.
const JOURNAL_SPREAD: f64 = 1.1;
/// Buffers that reach what the budget leaves them are sealed down to this share of it.
const BUFFER_FILL: f64 = 0.875;
/// They stand in between on average.
const MEAN_FILL: f64 = (1.0 + BUFFER_FILL) / 2.0;
/// The file system's own writes for large sequential files, over the bytes written: the benchmarks of
/// the repository saw 1.00 to 1.01.
pub const FILE_SYSTEM: f64 = 1.01;
/// What is in use beside sources and buffers: staging, the journal's next batch, the open segment's lists.
/// Fitted to what `seiner plan --prove-all` measured of stores with few sensors.
const FIXED_IN_USE: f64 = 2.25 * 1024.0 * 1024.0;
/// Memory of a sealed block, bytes: of every 256, the index has 16 bytes in memory and the rest on disk.
const INDEX_ENTRY: f64 = 16.0 / 256.0;
/// Footers read at a start, segments a second.
const FOOTERS_PER_S: f64 = 2000.0;
/// A row that is read from the journal and found in a segment, over one that is put into a buffer: fitted to what
/// `seiner plan --prove-all` measured.
const SKIPPED: f64 = 0.6;
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
    /// Blocks kept when samples of the whole time are there.
    pub blocks: f64,
    /// What their index takes of the memory, bytes.
    pub index_bytes: f64,
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
        let fullest = fullest_rows(rows, bound);
        let disk_row = calibration.disk_row(rows);
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
        // How many of them are in a segment by then is not foretold: none, the longest start.
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
            memory: memory(demand, calibration, fullest, blocks * INDEX_ENTRY).min(choice.memory),
            blocks,
            index_bytes: blocks * INDEX_ENTRY,
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
            start_s: start.seconds(calibration),
            crash_start_s: crash.seconds(calibration),
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

/// What a start has to read.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Sensors: their names.
    pub sensors: f64,
    /// Segments: a file each.
    pub segments: f64,
    /// Blocks: their places in the segments' indexes.
    pub blocks: f64,
    /// Rows of the journal that are in no segment.
    pub journal_rows: f64,
    /// Rows of the journal whose blocks were sealed meanwhile.
    pub skipped_rows: f64,
    /// Blocks that they are of.
    pub journal_blocks: f64,
}

impl Start {
    /// Seconds of a processor. A block that begins in the journal may be in a segment by now, whose index
    /// says so.
    pub fn seconds(&self, calibration: &Calibration) -> f64 {
        calibration.empty_s
            + self.segments / FOOTERS_PER_S
            + self.sensors * calibration.name_s
            + self.blocks * calibration.entry_s
            + (self.journal_rows + self.skipped_rows * SKIPPED) * calibration.replay_s
            + self.journal_blocks * (calibration.begin_s + calibration.entry_s)
    }
}

/// The most rows of a buffer where blocks have so many on average.
fn fullest_rows(rows: f64, bound: Bound) -> f64 {
    match bound {
        Bound::Journal => rows * JOURNAL_SPREAD,
        Bound::Block | Bound::Memory => rows,
    }
}

/// Memory in use when the fullest buffers have so many rows and the index takes so much, bytes. Sources of one rate
/// that were started together fill together, so that all buffers are full at the same time.
fn memory(demand: &Demand, calibration: &Calibration, rows: f64, index_bytes: f64) -> f64 {
    let buffer = calibration.held_buffer_bytes(rows, demand.fields);
    FIXED_IN_USE + index_bytes + demand.sensors * (calibration.source_bytes + buffer)
}

/// The memory with which buffers never end for want of it: as [`memory`], with what the engine keeps free
/// of it, bytes.
pub fn ample_memory(demand: &Demand, calibration: &Calibration, forecast: &Forecast) -> f64 {
    let rows = fullest_rows(forecast.rows, forecast.bound);
    let buffer = calibration.held_buffer_bytes(rows, demand.fields) / BUFFER_FILL;
    FIXED_MEMORY + forecast.index_bytes + demand.sensors * (calibration.source_bytes + buffer)
}

/// How many rows a block gets, and why no more.
fn rows_of_a_block(demand: &Demand, calibration: &Calibration, choice: &Choice) -> (f64, Bound) {
    let by_block = calibration.rows_of(choice.block_bytes, demand.fields);
    let by_journal = rows_in_journal(demand, calibration, choice.journal_bytes);
    let by_memory = rows_in_memory(demand, calibration, choice);
    let mut least = (by_block, Bound::Block);
    for (rows, bound) in [(by_memory, Bound::Memory), (by_journal, Bound::Journal)] {
        if rows < least.0 {
            least = (rows, bound);
        }
    }
    (least.0.max(1.0), least.1)
}

/// The rows of each sensor that the journal holds when it is full. The first row of a block takes more of
/// it than the others, so that the fewer a block has the more each takes.
fn rows_in_journal(demand: &Demand, calibration: &Calibration, journal_bytes: f64) -> f64 {
    let each = journal_bytes * JOURNAL_FILL / demand.sensors;
    most_rows(|rows| rows * calibration.journal_row(rows) <= each)
}

/// The most rows of which something is true that is true of all fewer.
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

/// The rows at which buffers in all stages of filling take what the budget leaves them. What the index
/// takes of it depends on the rows in turn, and settles.
fn rows_in_memory(demand: &Demand, calibration: &Calibration, choice: &Choice) -> f64 {
    const TURNS: usize = 6;
    let names = FIXED_MEMORY + demand.sensors * calibration.source_bytes;
    let in_room = |index: f64| {
        let each = (choice.memory - names - index) * MEAN_FILL / demand.sensors;
        most_rows(|rows| calibration.mean_buffer_bytes(rows, demand.fields) <= each)
    };
    let index = |rows: f64| {
        let kept = demand.rows_per_s() * demand.mean_keep_s();
        kept.min(choice.budget / calibration.disk_row(rows)) / rows * INDEX_ENTRY
    };
    (0..TURNS).fold(in_room(0.0), |rows, _| in_room(index(rows)))
}
