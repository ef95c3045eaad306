//! A store with a million sources, in the phases of its life.

use super::phases::{Phase, Phases, milliseconds};
use crate::workload::{PERIOD, SENSORS_PER_HOST, START, tags};
use anyhow::{Result, ensure};
use seiner_engine::{Durability, Engine, Options, Query, Step};
use seiner_model::{Batch, Cell, Interval, KeyError, Notation, Row, Selector, SourceKey, Value};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// Number of rows per batch, as a server delivers them.
const BATCH: u32 = 1_000;

/// Store with many sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub name: &'static str,
    pub sources: u32,
    /// Number of samples per source.
    pub samples: u32,
    /// Memory setting of the engine, bytes.
    pub memory: u64,
}

pub(super) const CASES: [Case; 1] = [Case {
    name: "lock",
    sources: 1_000_000,
    samples: 20,
    memory: 512 << 20,
}];

/// Measurements of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ManySources {
    pub case: String,
    pub sources: u32,
    pub memory: u64,
    pub phases: Vec<Phase>,
    /// Longest hold of the lock, ms, and the place in the source code where it was taken.
    pub longest_hold_ms: f64,
    pub longest_hold_at: String,
    /// Number of samples that were appended and that a final query counted.
    pub samples: u64,
    pub counted: u64,
}

impl Case {
    /// Returns the case with a share of its sources and memory.
    pub(super) fn scaled(self, scale: f64) -> Case {
        let part = |whole: f64| (whole * scale) as u64;
        Case {
            sources: (part(f64::from(self.sources)) as u32).max(BATCH),
            memory: part(self.memory as f64).max(8 << 20),
            ..self
        }
    }
}

/// Names in the form of line protocol.
struct Canonical;

impl Notation for Canonical {
    fn id(&self) -> u32 {
        SourceKey::NOTATION
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        let name =
            std::str::from_utf8(name).map_err(|error| KeyError::Notation(error.to_string()))?;
        let (measurement, tags) = name.split_once(',').unwrap_or((name, ""));
        let tags = tags
            .split_terminator(',')
            .filter_map(|tag| tag.split_once('='));
        SourceKey::new(measurement, tags)
    }
}

/// Measures a case in all its phases.
pub(super) fn measure(case: &Case, output: &Path) -> Result<ManySources> {
    let folder = tempfile::tempdir_in(output)?;
    let data = folder.path().join("data");
    let options = Options {
        memory: case.memory,
        durability: Durability::Interval(Duration::from_millis(100)),
        ..Options::default()
    };
    let mut phases = Phases::begin();
    let engine = Engine::open_directory(&data, options.clone())?;
    let mut samples = 0;
    for tick in 0..case.samples {
        samples += append_tick(&engine, case, tick, &mut phases.waits)?;
        if tick == 0 {
            phases.end("register", &engine)?;
        }
    }
    phases.end("append", &engine)?;
    engine.flush()?;
    phases.end("flush", &engine)?;
    let mut counted = count(&engine)?;
    phases.end("query", &engine)?;
    // These rows stay in the journal, because the store is dropped as by a kill.
    samples += append_tick(&engine, case, case.samples, &mut Vec::new())?;
    engine.commit()?;
    let holds = engine.lock_holds();
    phases.end("append more", &engine)?;
    drop(engine);
    let engine = open_again(&data, &options)?;
    phases.end("start", &engine)?;
    counted = counted.max(count(&engine)?);
    engine.close()?;
    phases.end("close", &engine)?;
    Ok(ManySources {
        case: case.name.to_string(),
        sources: case.sources,
        memory: case.memory,
        phases: phases.done,
        longest_hold_ms: milliseconds(holds.longest),
        longest_hold_at: holds
            .longest_at
            .map_or_else(String::new, ToString::to_string),
        samples,
        counted,
    })
}

/// Opens a store that another engine releases when its current work ends.
fn open_again(data: &Path, options: &Options) -> Result<std::sync::Arc<Engine>> {
    let start = Instant::now();
    loop {
        match Engine::open_directory(data, options.clone()) {
            Err(seiner_engine::Error::Io { error, .. })
                if error.kind() == std::io::ErrorKind::WouldBlock
                    && start.elapsed() < Duration::from_secs(60) =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return Ok(opened?),
        }
    }
}

/// Appends a sample to each source and records the duration of each batch, in ms.
fn append_tick(engine: &Engine, case: &Case, tick: u32, waits: &mut Vec<f64>) -> Result<u64> {
    let time = START + i64::from(tick) * PERIOD;
    let mut names: Vec<String> = Vec::new();
    let mut samples = 0;
    for first in (0..case.sources).step_by(BATCH as usize) {
        names.clear();
        let sources = first..case.sources.min(first + BATCH);
        names.extend(sources.clone().map(|source| {
            let [host, region, sensor] = tags(source / SENSORS_PER_HOST, source % SENSORS_PER_HOST);
            let tag = |(name, value): (&str, String)| format!(",{name}={value}");
            format!("gauge{}{}{}", tag(host), tag(region), tag(sensor))
        }));
        let cells: Vec<Cell<'_>> = sources
            .map(|source| Cell {
                field: b"value",
                value: Value::F64(f64::from((source * 31 + tick * 7) % 1000) / 8.0),
            })
            .collect();
        let rows = names.iter().enumerate().map(|(row, name)| Row {
            name: name.as_bytes(),
            time,
            first_cell: row as u32,
            cells: 1,
        });
        let batch = Batch {
            rows: rows.collect(),
            cells,
        };
        let start = Instant::now();
        let receipt = engine.append(&Canonical, &batch)?;
        waits.push(milliseconds(start.elapsed()));
        ensure!(
            receipt.rejected_total == 0,
            "a row was rejected: {:?}",
            receipt.rejected.first()
        );
        samples += receipt.samples as u64;
    }
    Ok(samples)
}

fn count(engine: &Engine) -> Result<u64> {
    let query = Query {
        selector: Selector::parse("gauge")?,
        fields: None,
        interval: Interval::new(i64::MIN, i64::MAX),
    };
    let mut count = 0;
    for series in engine.aggregate(&query, Step::Whole)? {
        count += series?
            .buckets
            .iter()
            .map(|bucket| bucket.count)
            .sum::<u64>();
    }
    Ok(count)
}
