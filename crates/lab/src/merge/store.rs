//! A store that is overwritten continuously: this project's engine on real files, with a simulated
//! clock that advances with each row.
//!
//! The bytes written, dropped and merged follow from the load alone. Only measured seconds depend
//! on the machine.

use super::disk::RepeatableDisk;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::sensors::register;
use anyhow::Context;
use seiner_engine::{
    Class, Classes, Durability, Engine, Error as EngineError, Keep, LogStatus, MergePolicy,
    Options, Status,
};
use seiner_model::SourceId;
use seiner_platform::sim::SimClock;
use seiner_platform::{Clock, Directory};
use seiner_random::SplitMixRng;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Rows per batch.
const BATCH: usize = 1024;
/// Rows of all sensors per second of the store's clock.
const ROWS_A_SECOND: u64 = 100_000;
/// Number of rows stored before each cell to measure the bytes of a row in a block.
const PROBE_ROWS: usize = 100_000;
/// Number of blocks that each sensor keeps.
const RING: f64 = 50.0;

/// Parameters of a store and its load, with the symbols of the papers.
#[derive(Clone, Copy, Debug)]
pub struct StoreLoad {
    /// Disk budget, C, in bytes.
    pub budget: u64,
    /// Live share of the budget to reach, V.
    pub v: f64,
    /// Bytes of a segment, R.
    pub segment_bytes: u64,
    /// Bytes of a block before compression, B.
    pub block_bytes: u32,
    /// Fill at which merging begins, Um.
    pub merge_from: f64,
    /// Standard deviation of the logarithm of the sensors' rates.
    pub sigma: f64,
    /// Merge policy.
    pub policy: MergePolicy,
    /// Number of lanes.
    pub lanes: u32,
    /// Seed of all pseudo-random numbers.
    pub seed: u64,
}

impl StoreLoad {
    /// Number of sensors, S, for which rings of [`RING`] blocks fill V of the budget; at least 16.
    pub fn sensors(&self) -> u64 {
        let ring = RING * f64::from(self.block_bytes);
        ((self.budget as f64 * self.v / ring) as u64).max(16)
    }

    fn options(&self, classes: Classes) -> Options {
        Options {
            durability: Durability::Memory,
            memory: 96 << 20,
            block_bytes: self.block_bytes,
            segment_bytes: self.segment_bytes,
            disk: Some(self.budget),
            merge_from: self.merge_from,
            policy: self.policy,
            lanes: self.lanes,
            extra_writes: 0.0,
            idle_seal: Duration::from_secs(1 << 30),
            classes,
            ..Options::default()
        }
    }

    /// Returns a ring rule that keeps V of the budget live if a row takes `row_bytes`.
    fn classes(&self, row_bytes: f64) -> Result<Classes> {
        let live_rows = self.budget as f64 * self.v / row_bytes;
        // A ring keeps up to one additional block, and half a block on average.
        let block_rows = f64::from(self.block_bytes) / row_bytes;
        let rows = live_rows / self.sensors() as f64 - block_rows / 2.0;
        let ring = Class {
            name: "ring".to_string(),
            keep: Keep {
                rows: Some(rows.max(1.0) as u64),
                ..Keep::default()
            },
            ..Class::forever()
        };
        Ok(Classes::new(vec![ring])?)
    }
}

/// Changes of the store's counters during one [`LoadedStore::feed`].
#[derive(Clone, Copy, Debug, Default)]
pub struct IntervalCounts {
    /// Bytes of blocks stored.
    pub stored: u64,
    /// Bytes of blocks rewritten by merges.
    pub merged: u64,
    /// Bytes written to segments, with their indexes.
    pub written: u64,
    /// Number of segments dropped without being read.
    pub dropped: u64,
    /// Number of segments merged.
    pub merges: u64,
    /// Seconds of wall-clock time.
    pub work_s: f64,
    /// Seconds for which writers were delayed, on the store's clock.
    pub wait_s: f64,
    /// Mean D of the merged segments; NaN if none were merged.
    pub mean_dead: f64,
}

/// A store under load.
pub struct LoadedStore {
    engine: Engine,
    clock: SimClock,
    sources: Vec<SourceId>,
    /// Cumulative shares of the rows: element i is the share of the sensors 0 to i.
    shares: Vec<f64>,
    rng: SplitMixRng,
    /// Time of the next row. Rows advance by a constant step even if writers are delayed. Rings
    /// count rows; gaps in time would make rows larger and so raise V.
    next: i64,
    decided: i64,
}

impl LoadedStore {
    /// Measures the size of a row in an empty directory, then opens a store there.
    ///
    /// # Errors
    /// The store cannot be opened or fails, or the user stopped the run.
    pub fn start(load: &StoreLoad, directory: &Path, interrupt: &Interrupt) -> Result<LoadedStore> {
        let probe = directory.join("probe");
        let row_bytes = row_bytes(load, &probe, interrupt)?;
        std::fs::remove_dir_all(&probe)?;
        let options = load.options(load.classes(row_bytes)?);
        let store = directory.join("store");
        LoadedStore::open(load, options, &store, load.sensors(), interrupt)
    }

    fn open(
        load: &StoreLoad,
        options: Options,
        directory: &Path,
        sensors: u64,
        interrupt: &Interrupt,
    ) -> Result<LoadedStore> {
        std::fs::create_dir(directory)?;
        let clock = SimClock::new(0);
        let disk = Directory::open(directory).context("the store's directory was not opened")?;
        let disk = Arc::new(RepeatableDisk(disk));
        let engine = Engine::open(disk, Arc::new(clock.clone()), options)?;
        let sources = register(&engine, sensors, interrupt)?;
        let mut rng = SplitMixRng::new(load.seed);
        let mut sum = 0.0;
        let shares: Vec<f64> = (0..sensors)
            .map(|_| {
                sum += rng.lognormal(load.sigma);
                sum
            })
            .collect();
        Ok(LoadedStore {
            engine,
            clock,
            sources,
            shares: shares.into_iter().map(|share| share / sum).collect(),
            rng,
            next: 0,
            decided: i64::MIN,
        })
    }

    /// Stores rows until `bytes` more bytes of blocks are sealed. Returns `None` if the store
    /// rejects rows before that.
    ///
    /// # Errors
    /// The store fails, or the user stopped the run.
    pub fn feed(&mut self, bytes: u64, interrupt: &Interrupt) -> Result<Option<IntervalCounts>> {
        let before = self.engine.status();
        let (began, clock) = (crate::time::now(), self.clock.monotonic());
        let mut rows = 0;
        let mut last = before.clone();
        while last.block_bytes_sealed - before.block_bytes_sealed < bytes {
            interrupt.check()?;
            for _ in 0..8 {
                if !self.batch()? {
                    return Ok(None);
                }
                rows += BATCH as u64;
            }
            last = self.engine.status();
        }
        let passed = self.clock.monotonic() - clock;
        let own = rows * 1_000_000_000 / ROWS_A_SECOND;
        Ok(Some(IntervalCounts {
            stored: last.block_bytes_sealed - before.block_bytes_sealed,
            merged: last.merge_written - before.merge_written,
            written: last.segment_written - before.segment_written,
            dropped: last.segments_dropped - before.segments_dropped,
            merges: last.segments_merged - before.segments_merged,
            work_s: began.elapsed().as_secs_f64(),
            wait_s: passed.saturating_sub(own) as f64 / 1e9,
            mean_dead: self.mean_dead(),
        }))
    }

    /// Appends a batch of rows of randomly drawn sensors. Returns false if the store is full.
    fn batch(&mut self) -> Result<bool> {
        let step = 1_000_000_000 / ROWS_A_SECOND as i64;
        let mut sources = Vec::with_capacity(BATCH);
        let mut values = Vec::with_capacity(BATCH);
        for _ in 0..BATCH {
            let place = self.rng.unit();
            let sensor = self.shares.partition_point(|share| *share < place);
            sources.push(self.sources[sensor.min(self.sources.len() - 1)]);
            values.push(f64::from_bits(self.rng.next_u64() >> 2));
        }
        let times: Vec<i64> = (0..BATCH as i64)
            .map(|row| self.next + row * step)
            .collect();
        self.next += BATCH as i64 * step;
        self.clock.advance(BATCH as u64 * step as u64);
        let taken = self
            .engine
            .append_samples("value", &sources, &times, &values);
        match taken {
            Ok(_) => {}
            Err(EngineError::Full { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        while self.engine.step()? {}
        Ok(true)
    }

    /// Mean D of the segments merged since the last call, over the decisions that the engine still
    /// lists; NaN if there are none.
    fn mean_dead(&mut self) -> f64 {
        let records = self.engine.decisions();
        let new = records.iter().filter(|record| record.at > self.decided);
        let victims: Vec<f64> = new
            .flat_map(|record| record.decision.merge.iter().map(|victim| victim.dead_share))
            .collect();
        self.decided = records.last().map_or(self.decided, |record| record.at);
        victims.iter().sum::<f64>() / victims.len() as f64
    }

    /// Returns the state of the log.
    pub fn log(&self) -> LogStatus {
        self.engine.log()
    }

    fn status(&self) -> Status {
        self.engine.status()
    }
}

/// Measures the bytes of a row in a block.
fn row_bytes(load: &StoreLoad, directory: &Path, interrupt: &Interrupt) -> Result<f64> {
    let options = Options {
        disk: None,
        ..load.options(Classes::default())
    };
    let sensors = load.sensors().min(200);
    let mut running = LoadedStore::open(load, options, directory, sensors, interrupt)?;
    for _ in 0..PROBE_ROWS / BATCH {
        interrupt.check()?;
        running.batch()?;
    }
    running.engine.flush()?;
    let status = running.status();
    Ok(status.block_bytes_sealed as f64 / status.samples_sealed.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_keep_the_live_share_and_repeat_their_counts() {
        let load = StoreLoad {
            budget: 16 << 20,
            v: 0.6,
            segment_bytes: 64 << 10,
            block_bytes: 4096,
            merge_from: 0.95,
            sigma: 0.5,
            policy: MergePolicy::default(),
            lanes: 8,
            seed: 1,
        };
        let run = || {
            let home = tempfile::tempdir().unwrap();
            let interrupt = Interrupt::default();
            let mut running = LoadedStore::start(&load, home.path(), &interrupt).unwrap();
            let counts = running.feed(40 << 20, &interrupt).unwrap().unwrap();
            (running.log().fill.v(), counts)
        };
        let (v, first) = run();
        assert!((0.45..0.75).contains(&v), "{v}");
        assert!(first.dropped > 0);
        let (_, second) = run();
        assert_eq!(
            (first.stored, first.merged, first.dropped),
            (second.stored, second.merged, second.dropped)
        );
    }

    #[test]
    fn an_overloaded_store_ends_the_measurement_without_counts() {
        let load = StoreLoad {
            budget: 8 << 20,
            v: 0.93,
            segment_bytes: 128 << 10,
            block_bytes: 4096,
            merge_from: 0.95,
            sigma: 1.0,
            policy: "fifo".parse().unwrap(),
            lanes: 32,
            seed: 1,
        };
        let home = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        let mut running = LoadedStore::start(&load, home.path(), &interrupt).unwrap();
        assert!(running.feed(200 << 20, &interrupt).unwrap().is_none());
    }
}
