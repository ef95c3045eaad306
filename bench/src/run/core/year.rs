//! The part `queries` of `core`: reads of a whole year of ten fields at 1 Hz. First all rows are in
//! order. Then a late block has rows across the year. Last, many queries run at a time.

use super::rows::{BESIDE, SECOND, START};
use crate::process::Usage;
use crate::report::{Check, Relation, Table, short};
use anyhow::{Context, Result, ensure};
use seiner_engine::{Engine, Options, Query, Step};
use seiner_model::{Column, Columns, FieldColumn, Interval, Selector, SourceId, SourceKey};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;

/// Seconds of a year.
const ROWS: u32 = 31_536_000;
const FIELDS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
/// Memory of the store, bytes: the minimum that `auto` chooses.
const MEMORY: u64 = 128 << 20;
/// Rows per append.
const BATCH: u32 = 10_000;
/// Number of late rows, about as many as in a block.
const LATE_ROWS: u32 = 500;
/// Number of concurrent queries: as many as a server with this memory permits.
const READERS: usize = 8;
/// Allowed memory of one query, bytes.
const ADDED: u64 = 64 << 20;
/// Allowed time with late rows, relative to the time without.
const LATE_FACTOR: f64 = 2.0;

/// Measurements of the year.
#[derive(Serialize, Deserialize)]
pub struct Year {
    /// Memory of the store, bytes.
    pub memory_bytes: u64,
    /// Bytes of the store's segments.
    pub stored_bytes: u64,
    pub readings: Vec<Reading>,
}

/// One way to read the year.
#[derive(Serialize, Deserialize)]
pub struct Reading {
    pub name: String,
    pub samples: u64,
    pub wall_s: f64,
    pub cpu_s: f64,
    /// Resident memory that the reading added at its peak, bytes.
    pub added_rss: u64,
    /// Peak of the resident memory, bytes.
    pub peak_rss: u64,
}

/// Makes the store and reads it. `scale`: share of the year.
pub fn measure(scale: f64, output: &Path) -> Result<Year> {
    seiner_platform::memory::bound_allocator();
    let folder = tempfile::tempdir_in(output)?;
    let options = Options {
        memory: MEMORY,
        ..Options::default()
    };
    let path = folder.path().join("data");
    let engine = Engine::open_directory(&path, options.clone())?;
    let source = engine.register(&SourceKey::new("machine", [("id", "1")])?)?;
    let rows = ((f64::from(ROWS) * scale) as u32).max(BATCH);
    for first in (0..rows).step_by(BATCH as usize) {
        let some = first..rows.min(first + BATCH);
        append(
            &engine,
            source,
            some.map(|row| (row, i64::from(row) * SECOND)),
        )?;
    }
    // Memory that the appends left behind would hide the memory that a query adds.
    engine.close()?;
    drop(engine);
    let engine = Engine::open_directory(&path, options)?;
    let mut readings = Vec::new();
    let samples = u64::from(rows) * FIELDS.len() as u64;
    readings.push(observe("scan", samples, || scan(&engine))?);
    readings.push(observe("daily means", samples, || means(&engine))?);

    let apart = i64::from(rows / LATE_ROWS) * SECOND;
    let late = (0..LATE_ROWS).map(|row| (row, i64::from(row) * apart + SECOND / 2));
    append(&engine, source, late)?;
    engine.flush()?;
    let samples = samples + u64::from(LATE_ROWS) * FIELDS.len() as u64;
    readings.push(observe("scan, late rows", samples, || scan(&engine))?);
    readings.push(observe("daily means, late rows", samples, || {
        means(&engine)
    })?);
    readings.push(observe(
        "8 scans, late rows",
        samples * READERS as u64,
        || many(&engine),
    )?);
    let stored_bytes = engine.status().segment_bytes;
    engine.close()?;
    Ok(Year {
        memory_bytes: MEMORY,
        stored_bytes,
        readings,
    })
}

/// Appends rows of all fields. Each row has a number, and a time relative to the start.
fn append(
    engine: &Engine,
    source: SourceId,
    rows: impl Iterator<Item = (u32, i64)> + Clone,
) -> Result<()> {
    let column = |field: u32| {
        // Slow waves with a little noise, in steps of a sixteenth, like the sensors of a machine.
        let value = |row: u32| {
            let noise = row.wrapping_mul(2_654_435_761).wrapping_add(field) >> 28;
            f64::from(row / (60 + field) % 4096 + noise) / 16.0
        };
        FieldColumn {
            present: None,
            values: Column::F64(rows.clone().map(|(row, _)| value(row)).collect()),
        }
    };
    let columns = Columns {
        times: rows.clone().map(|(_, time)| START + time).collect(),
        fields: (0..FIELDS.len() as u32).map(column).collect(),
    };
    let receipt = engine.append_columns(source, &FIELDS, &columns)?;
    ensure!(receipt.rejected_total == 0, "{:?}", receipt.rejected);
    Ok(())
}

fn query() -> Result<Query> {
    Ok(Query {
        selector: Selector::parse("machine")?,
        fields: None,
        interval: Interval::ALL,
    })
}

/// Returns the number of samples that a scan returns.
fn scan(engine: &Engine) -> Result<u64> {
    let mut samples = 0;
    for piece in engine.scan(&query()?) {
        for field in piece?.fields {
            samples += field.column.map_or(0, |column| column.values.len() as u64);
        }
    }
    Ok(samples)
}

/// Returns the number of samples that daily means count.
fn means(engine: &Engine) -> Result<u64> {
    let day = Step::Every(86_400 * SECOND);
    let mut samples = 0;
    for series in engine.aggregate(&query()?, day)? {
        let buckets = series?.buckets;
        samples += buckets.iter().map(|bucket| bucket.count).sum::<u64>();
    }
    Ok(samples)
}

/// Returns the number of samples that concurrent scans return.
fn many(engine: &Engine) -> Result<u64> {
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(|| scan(engine))).collect();
        let counts = readers
            .into_iter()
            .map(|reader| reader.join().ok().context("a reader panicked")?);
        counts.sum()
    })
}

/// Runs a reading and checks the number of its samples.
fn observe(name: &str, samples: u64, read: impl FnOnce() -> Result<u64>) -> Result<Reading> {
    seiner_platform::memory::trim_allocator();
    std::fs::write("/proc/self/clear_refs", "5").context("resetting the peak of the memory")?;
    let (before, start) = (Usage::own()?, Instant::now());
    let found = read()?;
    let after = Usage::own()?;
    ensure!(
        found == samples,
        "{name}: {found} samples instead of {samples}"
    );
    let reading = Reading {
        name: name.to_string(),
        samples,
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: after.cpu_s - before.cpu_s,
        added_rss: after.peak_rss.saturating_sub(before.rss),
        peak_rss: after.peak_rss,
    };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    eprintln!(
        "year: {name}: {:.1} s, {:.0} MiB more, {:.0} MiB at most",
        reading.wall_s,
        mib(reading.added_rss),
        mib(reading.peak_rss)
    );
    Ok(reading)
}

/// Returns the measurements as a table.
pub fn table(year: &Year) -> Table {
    let columns = [
        "reading",
        "M samples",
        "s",
        "CPU, s",
        "memory added, MiB",
        "peak, MiB",
    ];
    let mut table = Table::new("A year of ten fields at 1 Hz", &columns);
    let mib = |bytes: u64| short(bytes as f64 / f64::from(1 << 20));
    table.rows.extend(year.readings.iter().map(|reading| {
        vec![
            reading.name.clone(),
            short(reading.samples as f64 / 1e6),
            short(reading.wall_s),
            short(reading.cpu_s),
            mib(reading.added_rss),
            mib(reading.peak_rss),
        ]
    }));
    table
}

/// Returns the bounds of the readings.
pub fn checks(year: &Year) -> Vec<Check> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let at_most = |figure: String, value, bound, unit: &str| {
        Check::new(figure, Some(value), Relation::AtMost, Some(bound), unit)
    };
    let mut checks = Vec::new();
    let (all, single) = (&year.readings, year.readings.len() - 1);
    for reading in &all[..single] {
        let figure = format!("a year: added memory, {}", reading.name);
        checks.push(at_most(figure, mib(reading.added_rss), mib(ADDED), "MiB"));
    }
    let figure = format!("a year: resident memory, {}", all[single].name);
    let bound = mib(year.memory_bytes + BESIDE);
    checks.push(at_most(figure, mib(all[single].peak_rss), bound, "MiB"));
    let figure = "a year: processor time of daily means with late rows, relative to without";
    let factor = all[3].cpu_s / all[1].cpu_s.max(0.05);
    checks.push(at_most(figure.to_string(), factor, LATE_FACTOR, ""));
    checks
}
