//! B, R, memory and journal: the smallest that are nearly as good as the best.

use crate::calibration::Calibration;
use crate::demand::Demand;
use crate::forecast::{
    Choice, EARLIEST_UM, Forecast, JOURNAL_FILL, LATEST_UM, MERGE_SEGMENTS, ample_memory,
};

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
/// The store gets this share of the memory, the page cache the other.
pub const MEMORY_SHARE: f64 = 0.5;
/// No store is given less.
const LEAST_MEMORY: f64 = 32.0 * MIB;
/// Reading the journal back at a start after a crash should not take longer, s.
pub const PATIENCE_S: f64 = 10.0;
/// Rows of each sensor for which the journal has room, whatever it takes to read it back.
const FEW_ROWS: f64 = 4.0;
/// The journal takes no more of the budget.
const JOURNAL_SHARE: f64 = 0.05;
/// Blocks larger than needed for this much of the best compression are not worth their memory.
const NEARLY: f64 = 1.02;

/// Lanes of a store, whatever its lifetimes: those that nothing goes to cost nothing.
const LANES: u32 = 32;

/// B, R, memory, journal, budget and Um.
pub fn choose(demand: &Demand, calibration: &Calibration) -> Choice {
    let memory = most_memory(demand);
    let segment = segment(demand);
    let budget = demand.budget();
    let with = |block_bytes: f64, journal_bytes: f64| Choice {
        block_bytes,
        segment_bytes: segment,
        memory,
        journal_bytes,
        // Nobody is silent who speaks at least once in three intervals.
        idle_seal_s: (demand.every_s * 3.0).max(600.0),
        budget,
        merge_from: merge_from(budget, segment, journal_bytes),
        lanes: LANES,
    };
    let disk_row = |choice: &Choice| Forecast::make(demand, calibration, choice).disk_row;
    let most = most_journal(demand, calibration).bytes();
    // A small budget has no room for a journal of the usual size, nor has a slow processor the time.
    let least = (budget / 32.0).clamp(MIB, 64.0 * MIB).min(most);
    let journal = |block_bytes: f64| {
        let rows = calibration.rows_of(block_bytes, demand.fields);
        let needed = rows * demand.sensors * calibration.journal_row(rows) / JOURNAL_FILL * 1.1;
        round_up(needed.clamp(least, most), MIB)
    };
    let choices: Vec<Choice> = [1.0, 2.0, 4.0, 8.0, 16.0]
        .map(|kib| with(kib * KIB, journal(kib * KIB)))
        .to_vec();
    let best = choices.iter().map(disk_row).fold(f64::MAX, f64::min);
    let smallest = choices
        .iter()
        .find(|choice| disk_row(choice) <= best * NEARLY);
    let chosen = *smallest.expect("the best one is nearly the best");
    let forecast = Forecast::make(demand, calibration, &chosen);
    // A quarter to spare: sensors are added, and not all send alike.
    let ample = ample_memory(demand, calibration, &forecast) * 1.25;
    Choice {
        memory: round_up(ample.max(64.0 * MIB), 16.0 * MIB).min(memory),
        ..chosen
    }
}

/// What the store may have of the machine's memory: half, and the page cache the other.
pub fn most_memory(demand: &Demand) -> f64 {
    (demand.ram * MEMORY_SHARE).max(LEAST_MEMORY)
}

/// What bounds the journal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JournalLimit {
    /// It is read back in [`PATIENCE_S`]: bytes.
    Patience(f64),
    /// A few rows of each sensor, though reading them back takes longer: bytes.
    Least(f64),
    /// Its share of the budget: bytes.
    Budget(f64),
}

impl JournalLimit {
    /// Bytes.
    pub fn bytes(self) -> f64 {
        match self {
            JournalLimit::Patience(bytes)
            | JournalLimit::Least(bytes)
            | JournalLimit::Budget(bytes) => bytes,
        }
    }
}

/// The largest journal: it must hold what buffers hold, as far as a start may take to read it.
pub fn most_journal(demand: &Demand, calibration: &Calibration) -> JournalLimit {
    // Every sensor has a block there; what is left of the time reads their rows.
    let blocks_s = demand.sensors * (calibration.begin_s + calibration.entry_s);
    let rows = (PATIENCE_S - blocks_s).max(0.0) / calibration.replay_s.max(f64::MIN_POSITIVE);
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

/// Um: as late as the room allows that the journal and the output of a merge take above it.
fn merge_from(budget: f64, segment: f64, journal: f64) -> f64 {
    let above = (journal + MERGE_SEGMENTS * segment) / budget.max(1.0);
    let um = (1.0 - above).clamp(EARLIEST_UM, LATEST_UM);
    (um * 100.0).floor() / 100.0
}

/// R: small enough to plane with a wide margin, large enough that there are not too many.
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
