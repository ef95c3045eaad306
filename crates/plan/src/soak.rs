//! Test of a plan. The engine runs in a directory and receives samples of the demand at full speed.
//! Figures per sensor stay as planned; shared resources are scaled down. The measurements are then
//! compared with the forecast.

use crate::calibration::Calibration;
use crate::demand::{Demand, Lifetime};
use crate::forecast::{Choice, Forecast, Start, starts};
use crate::load::SampleLoad;
use crate::processor::processor_s;
use crate::trial::quickest_start;
use seiner_engine::{Durability, Engine, Options, SegmentInfo};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Usual number of samples of a soak.
pub const SAMPLES: f64 = 24e6;
/// Blocks that every source fills before the measurement.
const WARM_BLOCKS: f64 = 1.5;
/// Maximum factor by which these blocks may have more rows than forecast.
const MOST_WARM: f64 = 6.0;
/// Blocks that every source fills during the measurement.
const BLOCKS: f64 = 2.5;
/// Blocks fed after the measurement, so that buffers are half full when the store is killed.
const LAST_BLOCK: f64 = 0.5;
/// Segment size R of a soak in bytes; small, so that several segments are filled.
const SEGMENT: f64 = 2.0 * 1024.0 * 1024.0;
/// Number of times that the memory in use is sampled during the measurement. The maximum counts.
const LOOKS: u64 = 64;
/// Minimum memory of a soak in bytes. With less memory, the fixed part would dominate.
const LEAST_MEMORY: f64 = 96.0 * 1024.0 * 1024.0;

/// A figure, as forecast and as measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Name of the figure.
    pub name: &'static str,
    /// Forecast value.
    pub forecast: f64,
    /// Measured value.
    pub measured: f64,
}

impl Check {
    /// Returns the error of the forecast as a share of the measured value.
    pub fn error(&self) -> f64 {
        (self.forecast - self.measured) / self.measured
    }
}

/// Result of a soak.
#[derive(Clone, Debug)]
pub struct Soak {
    /// Number of sensors in the soak.
    pub sensors: u64,
    /// Rows of each sensor.
    pub rounds: u64,
    /// Duration of the soak in seconds.
    pub took_s: f64,
    /// Comparison of each figure.
    pub checks: Vec<Check>,
}

/// Returns the engine's options for a configuration.
pub fn options(choice: &Choice, is_synced: bool) -> Options {
    let durability = if is_synced {
        Durability::Sync
    } else {
        Durability::Interval(Duration::from_millis(100))
    };
    let sizes = Options {
        disk: Some(choice.budget as u64),
        merge_from: choice.merge_from,
        lanes: choice.lanes,
        memory: choice.memory as u64,
        block_bytes: choice.block_bytes as u32,
        segment_bytes: choice.segment_bytes as u64,
        journal_bytes: choice.journal_bytes as u64,
        ..Options::default()
    };
    Options {
        durability,
        idle_seal: Duration::from_secs_f64(choice.idle_seal_s),
        ..sizes
    }
}

/// Returns the demand and the configuration with fewer sensors, and with memory and journal in proportion.
fn scaled(demand: &Demand, choice: &Choice, forecast: &Forecast, samples: f64) -> (Demand, Choice) {
    let rounds = forecast.rows * (WARM_BLOCKS + BLOCKS);
    let affordable = samples / (rounds * demand.samples_per_row()) / demand.sensors;
    let least = LEAST_MEMORY / choice.memory;
    let part = affordable.max(least).min(1.0);
    // The index contains the blocks of the soak, not those of the whole retention.
    let demand = Demand {
        sensors: (demand.sensors * part).round().max(1.0),
        lifetimes: Lifetime::of_all(rounds * demand.every_s),
        ..demand.clone()
    };
    let fixed = crate::forecast::FIXED_MEMORY;
    let choice = Choice {
        memory: (choice.memory - fixed).max(0.0) * part + fixed,
        journal_bytes: (choice.journal_bytes * part).max(4.0 * 1024.0 * 1024.0),
        segment_bytes: choice.segment_bytes.min(SEGMENT),
        idle_seal_s: 86_400.0,
        ..*choice
    };
    (demand, choice)
}

/// Tests a plan in a directory that is empty or missing, with about `samples` samples: as many sensors as fill their
/// blocks with them, at most those of the plan. The function calls `is_over` repeatedly and ends early if it returns true.
///
/// # Errors
/// Errors of the engine, or the interruption.
pub fn run(
    demand: &Demand,
    calibration: &Calibration,
    choice: &Choice,
    (directory, samples): (&Path, f64),
    is_over: &dyn Fn() -> bool,
) -> anyhow::Result<Soak> {
    let forecast = Forecast::make(demand, calibration, choice);
    let (demand, choice) = scaled(demand, choice, &forecast, samples);
    let forecast = Forecast::make(&demand, calibration, &choice);
    let options = options(&choice, demand.is_synced);
    let clock = crate::time::now();
    let engine = Engine::open_directory(directory, options.clone())?;
    let mut load = SampleLoad::register(&engine, &demand, demand.sensors as u64)?;
    let mut feed = |rounds: u64| -> anyhow::Result<u64> {
        let mut rows = 0;
        for _ in 0..rounds {
            anyhow::ensure!(!is_over(), "interrupted");
            rows += load.round(&engine)?;
        }
        Ok(rows)
    };
    let rounds = (forecast.rows * BLOCKS).ceil().max(4.0) as u64;
    // The first blocks have more rows, because the log has no figures of their sources yet.
    let most_warm = (forecast.rows * WARM_BLOCKS * MOST_WARM).ceil() as u64;
    let mut warm = 0;
    while warm < most_warm && (engine.status().blocks_sealed as f64) < demand.sensors * WARM_BLOCKS
    {
        feed(1)?;
        warm += 1;
    }
    engine.commit()?;
    let before = engine.status();
    let first = engine.segments().last().map_or(0, |segment| segment.number);
    let mut memory: f64 = 0.0;
    let mut rows = 0;
    for look in 0..LOOKS {
        rows += feed(rounds * (look + 1) / LOOKS - rounds * look / LOOKS)?;
        memory = memory.max(engine.status().memory_used as f64);
    }
    engine.commit()?;
    let after = engine.status();
    let last = engine.segments().last().map_or(0, |segment| segment.number);
    feed((forecast.rows * LAST_BLOCK).ceil() as u64)?;
    engine.commit()?;
    drop(engine);
    let (restart_s, engine) = quickest_start(|| open_after_crash(directory, &options))?;
    let recovery = engine.recovery();
    let journal_rows = recovery.rows_replayed as f64;
    let skipped_rows = recovery.rows_skipped as f64;
    let start = Start {
        sensors: demand.sensors,
        segments: recovery.segments as f64,
        blocks: engine
            .segments()
            .iter()
            .map(|segment| segment.blocks)
            .sum::<u64>() as f64,
        journal_rows,
        skipped_rows,
        journal_blocks: (journal_rows + skipped_rows) / forecast.rows,
    };
    // Counts the segments that were filled during the measurement. A small store filled none; then all segments count.
    engine.flush()?;
    let segments = engine.segments();
    let filled = |segment: &&SegmentInfo| segment.number > first && segment.number <= last;
    let sum = |bytes_and_rows: (u64, u64), segment: &SegmentInfo| {
        (
            bytes_and_rows.0 + segment.bytes,
            bytes_and_rows.1 + segment.rows,
        )
    };
    let (mut bytes, mut kept) = segments.iter().filter(filled).fold((0, 0), sum);
    if kept == 0 {
        (bytes, kept) = segments.iter().fold((0, 0), sum);
    }
    engine.close()?;
    let sealed = (after.samples_sealed - before.samples_sealed) as f64 / demand.samples_per_row();
    let blocks = (after.blocks_sealed - before.blocks_sealed) as f64;
    let per_row = bytes as f64 / kept as f64;
    let journal = (after.journal_written - before.journal_written) as f64 / rows as f64;
    let check = |name, forecast, measured| Check {
        name,
        forecast,
        measured,
    };
    Ok(Soak {
        sensors: demand.sensors as u64,
        rounds: warm + rounds,
        took_s: clock.elapsed().as_secs_f64(),
        checks: vec![
            check("rows of a block", forecast.rows, sealed / blocks),
            check("bytes on disk a row", forecast.disk_row, per_row),
            check("bytes of journal a row", forecast.journal_row, journal),
            check(
                "bytes written a row",
                forecast.disk_row + forecast.journal_row,
                per_row + journal,
            ),
            check("memory in use, bytes", forecast.memory, memory),
            check(
                "start after a crash, s",
                start.seconds(&starts(
                    &calibration.resized(&demand)?,
                    forecast.rows,
                    forecast.bound,
                )),
                restart_s,
            ),
        ],
    })
}

/// Opens a store after its last owner was dropped without closing it. The disk is then in the state that a kill
/// leaves. Retries while threads of the last owner are still running. Returns the processor time of the start in
/// seconds, and the store.
fn open_after_crash(directory: &Path, options: &Options) -> anyhow::Result<(f64, Arc<Engine>)> {
    const TRIES: usize = 500;
    for _ in 0..TRIES {
        let began = processor_s();
        match Engine::open_directory(directory, options.clone()) {
            Err(error) if error.to_string().contains("in use") => {
                crate::time::sleep(Duration::from_millis(10));
            }
            done => {
                let engine = done?;
                return Ok((processor_s() - began, engine));
            }
        }
    }
    anyhow::bail!("the store did not release the directory")
}

/// Returns demands of many kinds, to test the planner itself.
pub fn gallery(machine: &Demand) -> Vec<(&'static str, Demand)> {
    use crate::demand::{Clockwork, Values};
    let of = |sensors: f64, every_s: f64, fields: u64, values, clockwork, ram_gib: f64| Demand {
        sensors,
        every_s,
        fields,
        values,
        clockwork,
        ram: ram_gib * 1024.0 * 1024.0 * 1024.0,
        lifetimes: Lifetime::of_all(30.0 * 86_400.0),
        ..machine.clone()
    };
    vec![
        (
            "a house",
            of(200.0, 10.0, 1, Values::Decimals, Clockwork::Regular, 1.0),
        ),
        (
            "a plant",
            of(20_000.0, 1.0, 1, Values::Decimals, Clockwork::Jittered, 4.0),
        ),
        (
            "servers",
            of(5_000.0, 10.0, 10, Values::Decimals, Clockwork::Regular, 4.0),
        ),
        (
            "meters",
            of(
                1_000_000.0,
                900.0,
                1,
                Values::Counters,
                Clockwork::Regular,
                4.0,
            ),
        ),
        (
            "meters, little memory",
            of(
                1_000_000.0,
                900.0,
                2,
                Values::Counters,
                Clockwork::Regular,
                1.0,
            ),
        ),
        (
            "vehicles",
            of(100_000.0, 5.0, 6, Values::Floats, Clockwork::Jittered, 8.0),
        ),
        (
            "weather",
            of(
                30_000.0,
                60.0,
                8,
                Values::Decimals,
                Clockwork::Jittered,
                2.0,
            ),
        ),
        (
            "a laboratory",
            of(500.0, 0.01, 4, Values::Floats, Clockwork::Regular, 2.0),
        ),
        (
            "routers",
            of(
                300_000.0,
                30.0,
                4,
                Values::Counters,
                Clockwork::Jittered,
                8.0,
            ),
        ),
        (
            "hosts with a hundred sensors each",
            Demand {
                per_host: 100,
                ..of(
                    10_000_000.0,
                    900.0,
                    1,
                    Values::Decimals,
                    Clockwork::Regular,
                    4.0,
                )
            },
        ),
        (
            "ten million meters, little memory",
            of(
                10_000_000.0,
                900.0,
                1,
                Values::Decimals,
                Clockwork::Regular,
                2.0,
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_computes_its_relative_error() {
        let check = Check {
            name: "x",
            forecast: 11.0,
            measured: 10.0,
        };
        assert!((check.error() - 0.1).abs() < 1e-9);
    }
}
