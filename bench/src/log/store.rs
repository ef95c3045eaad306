//! Stores that are overwritten continuously, on real files with a clock of their own.
//!
//! Time advances with each row, independent of the machine. The background work of a store runs
//! between batches. So the bytes that are written, dropped and merged depend only on the load, and
//! counts of bytes are exact. Seconds are the program's working time plus the delays of writers.

use super::counts::{IntervalCounts, difference};
use super::load::{Lifetimes, ROWS_A_SECOND, RowSizes, StoreLoad};
use super::stream::Feed;
use crate::process::Usage;
use anyhow::{Context, Result};
use seiner_engine::{Classes, Durability, Engine, Error, LogStatus, Options, Status};
use seiner_platform::sim::SimClock;
use seiner_platform::{Clock, Directory, SystemClock};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between rows of a store with threads, ns. The store takes longer per row, so no row is in
/// the future.
pub const STEP: i64 = 200;

/// Store under load on a simulated clock.
pub struct SteppedStore {
    pub load: StoreLoad,
    engine: Engine,
    clock: SimClock,
    /// Time between rows, ns.
    step: i64,
    /// Time of the next row.
    time: i64,
    feed: Feed,
    decided: i64,
    _folder: tempfile::TempDir,
}

impl SteppedStore {
    /// Opens an empty store in a new folder under `output`.
    pub fn start(load: &StoreLoad, output: &Path) -> Result<SteppedStore> {
        let measured = measure(load, 1_000_000_000 / ROWS_A_SECOND as i64)?;
        SteppedStore::open(load, load.options(load.classes(measured)?), output)
    }

    fn open(load: &StoreLoad, options: Options, output: &Path) -> Result<SteppedStore> {
        let folder = tempfile::tempdir_in(output)?;
        let clock = SimClock::new(0);
        let disk = Directory::open(folder.path())?;
        let engine = Engine::open(Arc::new(disk), Arc::new(clock.clone()), options)?;
        let feed = Feed::new(load, &engine)?;
        Ok(SteppedStore {
            load: load.clone(),
            time: clock.now(),
            engine,
            clock,
            step: 1_000_000_000 / ROWS_A_SECOND as i64,
            feed,
            decided: i64::MIN,
            _folder: folder,
        })
    }

    /// Feeds the store until `bytes` more bytes are stored.
    pub fn feed(&mut self, bytes: u64) -> Result<IntervalCounts> {
        let before = self.engine.status();
        let written = Usage::own()?.written;
        let (began, clock) = (Instant::now(), self.clock.monotonic());
        let mut rows = 0;
        let mut last = before.clone();
        while last.block_bytes_sealed - before.block_bytes_sealed < bytes {
            for _ in 0..16 {
                rows += self.batch()? as u64;
            }
            last = self.engine.status();
        }
        let passed = self.clock.monotonic() - clock;
        let own = rows * 1_000_000_000 / ROWS_A_SECOND;
        let mut counts = difference(&before, &last);
        counts.rows = rows;
        counts.kernel_written = Usage::own()?.written - written;
        counts.work_s = began.elapsed().as_secs_f64();
        counts.wait_s = passed.saturating_sub(own) as f64 / 1e9;
        counts.mean_d = self.mean_d();
        Ok(counts)
    }

    /// Feeds a batch. Returns the number of rows.
    fn batch(&mut self) -> Result<usize> {
        let rows = self.load.values.batch();
        let span = rows as i64 * self.step;
        // Rings keep rows by count, so their rows get even times, even if the writer waits. Gaps
        // between times would add bytes per row, and longer waits would raise the live bytes.
        let time = match self.load.lifetimes {
            Lifetimes::Rings { .. } => self.time,
            Lifetimes::Ages { .. } => self.clock.now(),
        };
        self.time += span;
        self.clock.advance(span as u64);
        match self.feed.batch(&self.engine, time, self.step) {
            Ok(()) => {}
            Err(error @ Error::Full { .. }) => {
                return Err(error).with_context(|| format!("{:?}", self.load));
            }
            Err(error) => return Err(error.into()),
        }
        while self.engine.step()? {}
        Ok(rows)
    }

    /// Returns the mean D of the segments merged since the last call. Only merges that the engine
    /// still lists are included.
    fn mean_d(&mut self) -> Option<f64> {
        let records = self.engine.decisions();
        let new = records.iter().filter(|record| record.at > self.decided);
        let victims: Vec<f64> = new
            .flat_map(|record| record.decision.merge.iter().map(|victim| victim.dead_share))
            .collect();
        self.decided = records.last().map_or(self.decided, |record| record.at);
        (!victims.is_empty()).then(|| victims.iter().sum::<f64>() / victims.len() as f64)
    }

    pub fn log(&self) -> LogStatus {
        self.engine.log()
    }
}

/// Store with its threads, on the system's clock. Rows are fed at full speed.
pub struct ThreadedStore {
    engine: Arc<Engine>,
    /// Time of the next row.
    time: i64,
    feed: Feed,
    measured: RowSizes,
    folder: tempfile::TempDir,
}

impl ThreadedStore {
    /// Opens an empty store in a new folder under `output`. The rings are those of `budget`, which
    /// may differ from the store's own budget. `journal`: bytes of the journal, with interval
    /// durability.
    pub fn start(
        load: &StoreLoad,
        budget: u64,
        journal: Option<u64>,
        output: &Path,
    ) -> Result<ThreadedStore> {
        let live = StoreLoad {
            budget,
            ..load.clone()
        };
        let measured = measure(&live, STEP)?;
        let mut options = load.options(live.classes(measured)?);
        if let Some(bytes) = journal {
            options.durability = Durability::Interval(Duration::from_millis(100));
            options.journal_bytes = bytes;
        }
        let folder = tempfile::tempdir_in(output)?;
        let engine = Engine::open_directory(folder.path(), options)?;
        let feed = Feed::new(load, &engine)?;
        Ok(ThreadedStore {
            engine,
            time: SystemClock::new().now(),
            feed,
            measured,
            folder,
        })
    }

    /// Feeds rows at full speed until `bytes` more bytes are stored.
    pub fn feed(&mut self, bytes: u64) -> Result<()> {
        self.feed_within(Duration::MAX, bytes).map(drop)
    }

    /// Feeds rows at full speed. Stops after `patience` at the latest, because a store may delay its
    /// writers. Returns the bytes stored per second.
    pub fn feed_within(&mut self, patience: Duration, bytes: u64) -> Result<f64> {
        let began = Instant::now();
        let before = self.status().block_bytes_sealed;
        loop {
            // Feeds many batches between two queries, because a query of the stored bytes examines all
            // segments.
            for _ in 0..256 {
                self.batch()?;
                if began.elapsed() > patience {
                    break;
                }
            }
            let stored = self.status().block_bytes_sealed - before;
            if stored >= bytes || began.elapsed() > patience {
                return Ok(stored as f64 / began.elapsed().as_secs_f64());
            }
        }
    }

    /// Appends a batch of rows.
    pub fn batch(&mut self) -> Result<()> {
        self.feed.batch(&self.engine, self.time, STEP)?;
        self.time += self.feed.batch_rows() as i64 * STEP;
        Ok(())
    }

    pub fn log(&self) -> LogStatus {
        self.engine.log()
    }

    pub fn status(&self) -> Status {
        self.engine.status()
    }

    /// Returns the measured bytes per row in blocks.
    pub fn row_bytes(&self) -> f64 {
        self.measured.row_bytes
    }

    /// Returns the folder of the store's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for ThreadedStore {
    fn drop(&mut self) {
        // The folder is removed next, so the threads must stop writing to it.
        if let Err(error) = self.engine.close() {
            eprintln!("closing the store: {error}");
        }
    }
}

/// Measures the size of rows in blocks if all sources have the same rate. The live rows contain as
/// many rows of fast sources as of slow sources.
fn measure(load: &StoreLoad, step: i64) -> Result<RowSizes> {
    let folder = tempfile::tempdir()?;
    let probe = StoreLoad {
        lifetimes: match load.lifetimes {
            Lifetimes::Rings { .. } => Lifetimes::Rings { sigma: 0.0 },
            ages => ages,
        },
        budget: 1 << 40,
        ..load.clone()
    };
    let mut store = SteppedStore::open(&probe, probe.options(Classes::default()), folder.path())?;
    store.step = step;
    let rows = probe.values.probe_rows(probe.block_bytes) * probe.sources as usize;
    for _ in 0..rows / probe.values.batch() {
        store.batch()?;
    }
    let status = store.engine.status();
    let sealed = status.samples_sealed.max(1) as f64;
    Ok(RowSizes {
        row_bytes: status.block_bytes_sealed as f64 / sealed,
        block_rows: sealed / status.blocks_sealed.max(1) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_engine::MergePolicy;

    #[test]
    fn a_store_under_load_has_about_the_configured_live_share() {
        let folder = tempfile::tempdir().unwrap();
        let load = StoreLoad::rings(16 << 20, 0.6, 0.5, MergePolicy::default());
        let mut store = SteppedStore::start(&load, folder.path()).unwrap();
        let counts = store.feed(40 << 20).unwrap();
        let v = store.log().fill.v();
        assert!((0.5..0.7).contains(&v), "{v}");
        assert!(
            counts.segments_dropped > 0 && counts.kernel_written > 0,
            "{counts:?}"
        );
    }
}
