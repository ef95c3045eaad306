//! This project's engine as a store under test.

use super::{Portion, Store};
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::sensors::register;
use crate::write::{SAMPLE_BYTES, StoreKind, Write};
use seiner_engine::{Durability, Engine, Options};
use seiner_model::SourceId;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// This project's engine: every sensor is a source with one field.
pub struct Log {
    engine: Arc<Engine>,
    sources: Vec<SourceId>,
    /// Number of samples per series so far. One counter suffices for all series, because times must
    /// only rise.
    rounds: AtomicU64,
    is_synced: bool,
    lap: u64,
}

/// First time of all series, and step between the samples of a series, ns.
const FIRST_TIME: i64 = 1_700_000_000_000_000_000;
const STEP: i64 = 10_000_000_000;
/// Approximate bytes of a sample in a buffer.
const ENCODED_BYTES: u64 = 3;
/// Minimum number of segments, and of journals, for which the space suffices.
const SEGMENTS: u64 = 16;
const JOURNALS: u64 = 8;
/// Samples per call of the engine.
const ROWS: u64 = 1024;

/// Least size of a segment and of a journal, and the unit to which sizes are rounded, bytes.
const LEAST: u64 = 64 << 10;

/// Returns the lesser of `fits` and `usual`, rounded down, and at least [`LEAST`].
fn share(fits: u64, usual: u64) -> u64 {
    fits.clamp(LEAST, usual) / LEAST * LEAST
}

impl Log {
    /// Makes the store with all sources.
    ///
    /// # Errors
    /// The store cannot be opened, a source is rejected, or the user stopped the run.
    pub fn make(
        kind: StoreKind,
        settings: &Write,
        sensors: u64,
        directories: &[PathBuf],
        interrupt: &Interrupt,
    ) -> Result<Log> {
        let durability = match kind {
            StoreKind::LogOnly => Durability::Memory,
            _ if settings.is_synced => Durability::Sync,
            _ => Durability::Interval(Duration::from_millis(100)),
        };
        let usual = Options::default();
        let mut options = Options {
            durability,
            // In a small space, segments and journal are small too: a segment, the reserve for
            // merging and the journal must fit.
            segment_bytes: share(settings.space_bytes / SEGMENTS, usual.segment_bytes),
            journal_bytes: share(settings.space_bytes / JOURNALS, usual.journal_bytes),
            ..usual
        };
        if settings.memory_bytes > 0 {
            // The other half is for the page cache and this program.
            options.memory = settings.memory_bytes / 2;
        }
        let memory = options.memory;
        let block_bytes = u64::from(options.block_bytes);
        let engine = Engine::open_directory(&directories[0].join("store"), options)?;
        let sources = register(&engine, sensors, interrupt)?;
        // A buffer holds B encoded bytes, or its share of the memory if that is less.
        let buffer = block_bytes.min(memory / sensors.max(1) * 3 / 4);
        let lap = sensors * buffer * SAMPLE_BYTES / ENCODED_BYTES;
        Ok(Log {
            engine,
            sources,
            rounds: AtomicU64::new(0),
            is_synced: settings.is_synced,
            lap,
        })
    }
}

impl Store for Log {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let turn = &self.sources[portion.first as usize..(portion.first + portion.count) as usize];
        // With few sensors, each delivers several samples per call, so that the cost of calls does
        // not dominate.
        let turns = (ROWS / self.sources.len() as u64).max(1);
        let first = self.rounds.fetch_add(turns, Ordering::Relaxed);
        let rows = turns as usize * turn.len();
        let mut sources = Vec::with_capacity(rows);
        let mut times = Vec::with_capacity(rows);
        for round in first..first + turns {
            sources.extend_from_slice(turn);
            times.resize(sources.len(), FIRST_TIME + round as i64 * STEP);
        }
        let words = portion.contents.chunks_exact(8).cycle();
        let values: Vec<f64> = words
            .skip(portion.content / 8)
            .map(value)
            .take(rows)
            .collect();
        let receipt = self
            .engine
            .append_samples("value", &sources, &times, &values)?;
        if self.is_synced {
            self.engine.wait_durable(receipt.position)?;
        }
        Ok(rows as u64 * SAMPLE_BYTES)
    }

    fn stride(&self) -> u64 {
        ROWS
    }

    fn lap_bytes(&self) -> u64 {
        self.lap
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The directory is removed next, so an error of the final flush does not matter.
        let _ = self.engine.close();
    }
}

/// Returns a reading with one decimal, uniform in 0 to 1000. Values are independent, so none helps to
/// predict the next.
fn value(word: &[u8]) -> f64 {
    let bits = u64::from_le_bytes(word.try_into().expect("eight bytes"));
    (bits % 10_000) as f64 / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_space_results_in_small_segments() {
        assert_eq!(share(4 << 20, 64 << 20), 4 << 20);
        assert_eq!(share(400 << 20, 64 << 20), 64 << 20);
        assert_eq!(share(6_250_000, 64 << 20), 95 * LEAST);
        assert_eq!(share(5, 64 << 20), LEAST);
    }
}
