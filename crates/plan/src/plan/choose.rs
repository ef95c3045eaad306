//! B, R, memory and journal: the smallest that are nearly as good as the best.

use crate::calibration::{Calibration, buffer_limit};
use crate::demand::Demand;
use crate::forecast::{Choice, EARLIEST_UM, Forecast, JOURNAL_FILL, LATEST_UM, MERGE_SEGMENTS};

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
/// The store gets this share of the memory, the page cache the other.
pub const MEMORY_SHARE: f64 = 0.5;
/// A start after a crash should not take longer, s.
const PATIENCE_S: f64 = 10.0;
/// Blocks larger than needed for this much of the best compression are not worth their memory.
const NEARLY: f64 = 1.02;

/// Lanes of a store, whatever its lifetimes: those that nothing goes to cost nothing.
const LANES: u32 = 32;

/// B, R, memory, journal, budget and Um.
pub fn choose(demand: &Demand, calibration: &Calibration) -> Choice {
    let memory = (demand.ram * MEMORY_SHARE).max(32.0 * MIB);
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
    // A small budget has no room for a journal of the usual size.
    let least_journal = (budget / 32.0).clamp(MIB, 64.0 * MIB);
    // The journal must hold what buffers hold, as far as a start may take to read it.
    let most = (calibration.rows_per_s * calibration.journal_row(64.0) * PATIENCE_S / JOURNAL_FILL)
        .min(budget / 20.0)
        .max(least_journal);
    let journal = |block_bytes: f64| {
        let rows = buffer_limit(block_bytes, demand.fields) / calibration.row_bytes;
        let needed = rows * demand.sensors * calibration.journal_row(rows) / JOURNAL_FILL * 1.1;
        round_up(needed.clamp(least_journal, most), MIB)
    };
    let choices: Vec<Choice> = [1.0, 2.0, 4.0, 8.0, 16.0]
        .map(|kib| with(kib * KIB, journal(kib * KIB)))
        .to_vec();
    let best = choices.iter().map(disk_row).fold(f64::MAX, f64::min);
    let smallest = choices
        .iter()
        .find(|choice| disk_row(choice) <= best * NEARLY);
    let chosen = *smallest.expect("the best one is nearly the best");
    Choice {
        memory: round_up(
            needed_memory(demand, calibration, &chosen).min(chosen.memory),
            16.0 * MIB,
        ),
        ..chosen
    }
}

/// No more than buffers that fill would take, with a quarter to spare.
fn needed_memory(demand: &Demand, calibration: &Calibration, choice: &Choice) -> f64 {
    let forecast = Forecast::make(demand, calibration, choice);
    (forecast.memory * 1.25).max(64.0 * MIB)
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
