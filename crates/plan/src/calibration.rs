//! What the engine does with samples of a kind, tried out in memory on a small scale: bytes on disk by
//! the rows of a block, bytes of journal, memory, processor time.

use crate::demand::{Clockwork, Demand, Values};
use crate::load::Load;
use seiner_engine::{Durability, Engine, Options};
use seiner_platform::SystemClock;
use seiner_platform::sim::SimDisk;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows of a block that are tried.
const ROWS: [u64; 6] = [1, 4, 16, 64, 256, 1024];
/// Values put into each trial, about.
const TRIAL: u64 = 200_000;
/// Sources of a trial: enough that the pages of memory and of footers are full.
const SOURCES: std::ops::RangeInclusive<u64> = 256..=8192;
/// Sources of the trial of the rate: enough that they do not all fit into a cache.
const MANY: u64 = 20_000;

/// What the engine does with samples of a kind.
#[derive(Clone, Debug)]
pub struct Calibration {
    points: Vec<Point>,
    /// Encoded bytes of a row in a buffer.
    pub row_bytes: f64,
    /// Bytes of a footer for a block.
    pub footer_bytes: f64,
    /// Memory of a source without rows, bytes: names and look-up.
    pub source_bytes: f64,
    /// Rows a second that one processor appends.
    pub rows_per_s: f64,
    /// Whether bytes on disk were corrected by what a store's own blocks take.
    pub is_measured: bool,
}

/// A trial with so many rows a block.
#[derive(Clone, Copy, Debug)]
struct Point {
    rows: f64,
    disk_row: f64,
    journal_row: f64,
    memory_source: f64,
}

impl Calibration {
    /// Tries it out; takes a second or two of an optimised program.
    ///
    /// # Errors
    /// When the engine fails in memory: a fault of ours.
    pub fn make(demand: &Demand) -> anyhow::Result<Calibration> {
        let points = ROWS
            .iter()
            .map(|rows| trial(demand, *rows))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let (rows_per_s, source_bytes) = rate(demand)?;
        Ok(Calibration {
            points,
            row_bytes: row_bytes(demand)?,
            footer_bytes: footer_bytes(demand)?,
            source_bytes,
            rows_per_s,
            is_measured: false,
        })
    }

    /// Takes what blocks of so many rows really take for a row, bytes: all blocks are scaled alike, and
    /// so is what a row takes in a buffer.
    pub fn measured(&mut self, rows: f64, block_row: f64) {
        let tried = self.disk_row(rows) - self.footer_bytes / rows;
        let factor = block_row / tried.max(f64::MIN_POSITIVE);
        for point in &mut self.points {
            point.disk_row *= factor;
        }
        self.row_bytes *= factor;
        self.is_measured = true;
    }

    fn between(&self, rows: f64, of: impl Fn(&Point) -> f64) -> f64 {
        let at = self.points.partition_point(|point| point.rows < rows);
        match at {
            0 => of(&self.points[0]),
            at if at == self.points.len() => of(&self.points[at - 1]),
            at => {
                let (low, high) = (&self.points[at - 1], &self.points[at]);
                let share = (rows / low.rows).ln() / (high.rows / low.rows).ln();
                of(low) + share * (of(high) - of(low))
            }
        }
    }

    /// Bytes of segments for a row, in blocks of so many rows, footers included.
    pub fn disk_row(&self, rows: f64) -> f64 {
        // A block is a part that every block has, and a part for each row: between two trials it is
        // the block, not the row, that is linear.
        let at = self
            .points
            .partition_point(|point| point.rows < rows)
            .clamp(1, self.points.len() - 1);
        let (low, high) = (&self.points[at - 1], &self.points[at]);
        let (small, large) = (low.disk_row * low.rows, high.disk_row * high.rows);
        let block = small + (large - small) * (rows - low.rows) / (high.rows - low.rows);
        (block.max(0.0) + self.footer_bytes) / rows
    }

    /// Bytes of journal for a row: the first of a block costs more than the others.
    pub fn journal_row(&self, rows: f64) -> f64 {
        self.between(rows, |point| point.journal_row)
    }

    /// Memory of a source with buffers sealed at so many rows, mean over their filling, bytes.
    pub fn memory_source(&self, rows: f64) -> f64 {
        let parts = 8;
        let filled = |part: u32| {
            self.between(
                (rows * (f64::from(part) + 0.5) / f64::from(parts)).max(1.0),
                |point| point.memory_source,
            )
        };
        (0..parts).map(filled).sum::<f64>() / f64::from(parts)
    }
}

fn options(durability: Durability) -> Options {
    Options {
        durability,
        memory: 4 << 30,
        block_bytes: 65_536,
        journal_bytes: 4 << 30,
        idle_seal: Duration::from_secs(86_400),
        ..Options::default()
    }
}

fn in_memory(disk: &SimDisk, durability: Durability) -> anyhow::Result<Engine> {
    Ok(Engine::open(
        Arc::new(disk.clone()),
        Arc::new(SystemClock::new()),
        options(durability),
    )?)
}

fn load(engine: &Engine, demand: &Demand, sources: u64) -> anyhow::Result<Load> {
    Load::register(
        engine,
        sources,
        demand.fields,
        demand.every_s,
        demand.values,
        demand.clockwork,
    )
}

fn trial(demand: &Demand, rows: u64) -> anyhow::Result<Point> {
    let sources = (TRIAL / (rows * demand.fields)).clamp(*SOURCES.start(), *SOURCES.end());
    let engine = in_memory(
        &SimDisk::new(1),
        Durability::Interval(Duration::from_secs(60)),
    )?;
    let mut load = load(&engine, demand, sources)?;
    let before = engine.status();
    for _ in 0..rows {
        load.round(&engine)?;
    }
    engine.commit()?;
    let filled = engine.status();
    engine.settle()?;
    let settled = engine.status();
    let all = (sources * rows) as f64;
    Ok(Point {
        rows: rows as f64,
        disk_row: settled.block_bytes_sealed as f64 / all,
        journal_row: (filled.journal_written - before.journal_written) as f64 / all,
        memory_source: (filled.buffer_bytes - before.buffer_bytes) as f64 / sources as f64,
    })
}

/// Fills one block: its limit over its rows is what a row takes.
fn row_bytes(demand: &Demand) -> anyhow::Result<f64> {
    let limit = 16_384;
    let options = Options {
        block_bytes: limit,
        ..options(Durability::Memory)
    };
    let engine = Engine::open(
        Arc::new(SimDisk::new(1)),
        Arc::new(SystemClock::new()),
        options,
    )?;
    let mut load = load(&engine, demand, 1)?;
    let mut rows = 0u64;
    while engine.status().blocks_sealed == 0 && rows < 65_535 {
        rows += load.round(&engine)?;
    }
    Ok(buffer_limit(f64::from(limit), demand.fields) / rows as f64)
}

/// Bytes at which a source's buffer is sealed: B for every four fields.
pub fn buffer_limit(block_bytes: f64, fields: u64) -> f64 {
    (block_bytes * (fields / 4).max(1) as f64).min(f64::from(256u32 << 10))
}

/// Rows a second, best of three; and the memory of a source.
fn rate(demand: &Demand) -> anyhow::Result<(f64, f64)> {
    let engine = in_memory(&SimDisk::new(1), Durability::Memory)?;
    let empty = engine.status();
    let mut load = load(&engine, demand, MANY)?;
    let registered = engine.status();
    let mut best: f64 = 0.0;
    for _ in 0..3 {
        let start = Instant::now();
        let rows = load.round(&engine)?;
        best = best.max(rows as f64 / start.elapsed().as_secs_f64());
    }
    let source = (registered.memory_used - empty.memory_used) as f64 / MANY as f64;
    Ok((best, source))
}

/// What a segment has beside its blocks, for each of them.
fn footer_bytes(demand: &Demand) -> anyhow::Result<f64> {
    let engine = in_memory(&SimDisk::new(1), Durability::Memory)?;
    let mut load = load(&engine, demand, *SOURCES.end())?;
    load.round(&engine)?;
    engine.settle()?;
    let status = engine.status();
    Ok((status.segment_bytes - status.block_bytes_sealed) as f64 / status.blocks_sealed as f64)
}

/// The kinds of samples in words.
pub fn in_words(values: Values, clockwork: Clockwork) -> String {
    let values = match values {
        Values::Decimals => "decimals that change a little",
        Values::Counters => "rising whole numbers",
        Values::Floats => "floats with all digits",
    };
    let clockwork = match clockwork {
        Clockwork::Regular => "at regular times",
        Clockwork::Jittered => "some milliseconds early or late",
    };
    format!("{values}, {clockwork}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::Observed;

    #[test]
    fn a_stores_own_blocks_correct_what_was_tried() {
        let mut calibration = Calibration {
            points: [1.0, 100.0]
                .map(|rows| Point {
                    rows,
                    disk_row: 10.0,
                    journal_row: 5.0,
                    memory_source: 100.0,
                })
                .to_vec(),
            row_bytes: 8.0,
            footer_bytes: 0.0,
            source_bytes: 100.0,
            rows_per_s: 1e6,
            is_measured: false,
        };
        let mut observed = Observed {
            sources: 10.0,
            series: 20.0,
            rows_per_s: 1.0,
            samples_sealed: 200.0 * 50.0 * 2.0,
            blocks_sealed: 50.0,
            block_bytes_sealed: 200.0 * 50.0 * 20.0,
        };
        observed.correct(&mut calibration);
        assert!(!calibration.is_measured, "50 blocks are too few");
        observed.samples_sealed *= 4.0;
        observed.blocks_sealed *= 4.0;
        observed.block_bytes_sealed *= 4.0;
        observed.correct(&mut calibration);
        assert!(calibration.is_measured);
        assert!((calibration.disk_row(200.0) - 20.0).abs() < 1e-9);
        assert!((calibration.row_bytes - 16.0).abs() < 1e-9);
    }
}
