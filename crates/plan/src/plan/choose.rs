//! Choice of B, R, memory and journal: the values that need least memory with nearly the best results.

use crate::calibration::Calibration;
use crate::demand::Demand;
use crate::forecast::{
    Choice, EARLIEST_UM, Forecast, JOURNAL_FILL, LATEST_UM, MERGE_SEGMENTS, ample_memory,
};

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
/// Share of the machine's memory for the store; the page cache gets the rest.
pub const MEMORY_SHARE: f64 = 0.5;
/// Minimum memory of a store in bytes.
const LEAST_MEMORY: f64 = 32.0 * MIB;
/// Maximum time in seconds for reading the journal back at a start after a crash.
pub const PATIENCE_S: f64 = 10.0;
/// Number of rows of each sensor for which the journal always has space, even if reading them back
/// takes longer than [`PATIENCE_S`].
const FEW_ROWS: f64 = 4.0;
/// Maximum share of the journal in the budget.
const JOURNAL_SHARE: f64 = 0.05;
/// Ratio to the best compression up to which blocks are preferred that need less memory: large blocks need it for
/// buffers, and small ones for the index.
const NEARLY: f64 = 1.02;

/// Number of lanes of every store; lanes without data cost nothing.
const LANES: u32 = 32;

/// Chooses B, R, memory, journal, budget and Um.
pub fn choose(demand: &Demand, calibration: &Calibration) -> Choice {
    let memory = most_memory(demand);
    let segment = segment(demand);
    let budget = demand.budget();
    let with = |block_bytes: f64, journal_bytes: f64| Choice {
        block_bytes,
        segment_bytes: segment,
        memory,
        journal_bytes,
        idle_seal_s: demand.idle_seal_s(),
        budget,
        merge_from: merge_from(budget, segment, journal_bytes),
        lanes: LANES,
    };
    let most = most_journal(demand, calibration).bytes();
    // A small budget has no space for a journal of the usual size, and a slow processor cannot read it back in time.
    let least = (budget / 32.0).clamp(MIB, 64.0 * MIB).min(most);
    let journal = |block_bytes: f64| {
        let rows = calibration.rows_of(block_bytes, demand.fields);
        let needed = rows * demand.sensors * calibration.journal_row(rows) / JOURNAL_FILL * 1.1;
        round_up(needed.clamp(least, most), MIB)
    };
    // Choices with the bytes of a row and the memory that they need.
    let choices = [1.0, 2.0, 4.0, 8.0, 16.0].map(|kib| {
        let choice = with(kib * KIB, journal(kib * KIB));
        let forecast = Forecast::make(demand, calibration, &choice);
        let ample = ample_memory(demand, calibration, &forecast);
        (choice, forecast.disk_row, ample)
    });
    let rows = choices.iter().map(|(_, disk_row, _)| *disk_row);
    let best = rows.fold(f64::MAX, f64::min);
    let nearly = { choices.into_iter() }.filter(|(_, disk_row, _)| *disk_row <= best * NEARLY);
    let (chosen, _, ample) = nearly
        .min_by(|(.., a), (.., b)| a.total_cmp(b))
        .expect("the best choice is within its own limit");
    // A quarter is reserved for added sensors and for sensors that send more often.
    Choice {
        memory: round_up((ample * 1.25).max(64.0 * MIB), 16.0 * MIB).min(memory),
        ..chosen
    }
}

/// Returns the maximum memory of the store in bytes: half of the machine's; the page cache gets the rest.
pub fn most_memory(demand: &Demand) -> f64 {
    (demand.ram * MEMORY_SHARE).max(LEAST_MEMORY)
}

/// Limit of the journal's size in bytes, with the reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JournalLimit {
    /// Largest journal that a start reads back within [`PATIENCE_S`], in bytes.
    Patience(f64),
    /// A few rows of each sensor, in bytes. Reading them back takes longer than [`PATIENCE_S`].
    Least(f64),
    /// Maximum share of the budget, in bytes.
    Budget(f64),
}

impl JournalLimit {
    /// Returns the limit in bytes.
    pub fn bytes(self) -> f64 {
        match self {
            JournalLimit::Patience(bytes)
            | JournalLimit::Least(bytes)
            | JournalLimit::Budget(bytes) => bytes,
        }
    }
}

/// Returns the limit of the journal. The journal must hold the contents of the buffers, up to the size that a start
/// reads back in time.
pub fn most_journal(demand: &Demand, calibration: &Calibration) -> JournalLimit {
    // Every sensor has a block in the journal. The remaining time is for rows.
    let starts = calibration.starts;
    let blocks_s = demand.sensors * (starts.begin_s + starts.entry_s);
    let rows = (PATIENCE_S - blocks_s).max(0.0) / starts.replay_s.max(f64::MIN_POSITIVE);
    let each = (rows / demand.sensors).max(FEW_ROWS);
    let needed = demand.sensors * each * calibration.journal_row(each) / JOURNAL_FILL;
    let share = demand.budget() * JOURNAL_SHARE;
    if needed > share {
        JournalLimit::Budget(share.max(MIB))
    } else if each > FEW_ROWS {
        JournalLimit::Patience(needed.max(MIB))
    } else {
        JournalLimit::Least(needed.max(MIB))
    }
}

/// Returns Um: as late as possible while the space above Um suffices for the journal and the output
/// of a merge.
fn merge_from(budget: f64, segment: f64, journal: f64) -> f64 {
    let above = (journal + MERGE_SEGMENTS * segment) / budget.max(1.0);
    let um = (1.0 - above).clamp(EARLIEST_UM, LATEST_UM);
    (um * 100.0).floor() / 100.0
}

/// Returns R: small enough to plane with a wide margin, large enough to keep the number of segments low.
fn segment(demand: &Demand) -> f64 {
    let lanes = demand.lifetimes.len() as f64;
    let share = demand.budget() * (1.0 - LATEST_UM) / 8.0 / lanes;
    let stripe = demand
        .raid
        .map_or(1.0 * MIB, |raid| (raid.stripe() as f64).max(1.0 * MIB));
    round_up(share.clamp(MIB, 256.0 * MIB), stripe)
}

fn round_up(value: f64, unit: f64) -> f64 {
    (value / unit).ceil() * unit
}
