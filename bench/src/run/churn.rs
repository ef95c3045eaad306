//! `churn`: sensors that come and go.
//!
//! The engine alone, with its journal, on a real disk and a simulated clock. Each minute some sources begin and as many
//! end. Each lives for an hour, and so do its samples. Names, memory, disk, start and queries must stay as they are.

use crate::process::{Usage, bytes_of};
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use crate::run::core::Canonical;
use crate::workload::START;
use anyhow::{Context, Result, ensure};
use clap::Args;
use seiner_engine::{Class, Classes, Engine, Interval, Options, Query, Selector};
use seiner_model::{Batch, Cell, Value};
use seiner_platform::Directory;
use seiner_platform::sim::SimClock;
use serde::Serialize;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Settings of `churn`.
#[derive(Args)]
pub struct ChurnSettings {
    /// Sources that begin in a minute
    #[arg(long, default_value_t = 500)]
    sources: u64,
    /// Hours, each the lifetime of a source
    #[arg(long, default_value_t = 200)]
    lifetimes: u64,
    /// Memory of the store, MiB
    #[arg(long, default_value_t = 32)]
    memory: u64,
}

const MIB: f64 = 1_048_576.0;
/// Minutes that a source lives, and between two of its rows.
const LIFE: u64 = 60;
const EVERY: u64 = 10;
const MINUTE_NS: u64 = 60_000_000_000;
/// Rows per batch.
const BATCH: usize = 1_000;
/// Measurements in a run.
const MARKS: u64 = 8;

const PURPOSE: &str = "The engine in this process, without threads of its own: its jobs run after each simulated \
    minute. A source has a name that no other source ever has, sends a row with one field every ten minutes, and ends \
    after an hour. The only retention class keeps an hour. At each mark, the store is closed and opened again.";

/// Figures at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
struct Mark {
    hours: u64,
    /// Sources so far.
    begun: u64,
    sources: u64,
    dictionary_bytes: u64,
    memory_bytes: u64,
    rss_bytes: u64,
    disk_bytes: u64,
    catalog_bytes: u64,
    start_ms: f64,
    query_ms: f64,
    rejected: u64,
    /// Processor time since the mark before, per row.
    cpu_ns_a_row: f64,
}

/// Runs the benchmark.
pub fn run(settings: &ChurnSettings, places: &OutputPaths) -> Result<()> {
    let directory = places.output.join("churn-data");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory)?;
    let marks = measure(settings, &directory)?;
    std::fs::remove_dir_all(&directory)?;
    let mut report = Report::new("churn", PURPOSE);
    report
        .versions
        .insert("seiner-engine".into(), env!("CARGO_PKG_VERSION").into());
    report.tables.push(table(&marks));
    report.checks = checks(&marks)?;
    report.measured = json!({
        "sources_a_minute": settings.sources,
        "lifetimes": settings.lifetimes,
        "memory_mib": settings.memory,
        "marks": marks,
    });
    report.finish(places)
}

fn open(settings: &ChurnSettings, directory: &Path, clock: &SimClock) -> Result<Engine> {
    let mut class = Class::forever();
    class.keep.age = Some(Duration::from_secs(LIFE * 60));
    let options = Options {
        memory: settings.memory << 20,
        classes: Classes::new(vec![class])?,
        ..Options::default()
    };
    let disk = Arc::new(Directory::open(directory)?);
    Ok(Engine::open(disk, Arc::new(clock.clone()), options)?)
}

fn measure(settings: &ChurnSettings, directory: &Path) -> Result<Vec<Mark>> {
    let clock = SimClock::new(START);
    let mut engine = open(settings, directory, &clock)?;
    let minutes = settings.lifetimes * LIFE;
    let (mut marks, mut cpu, mut rows) = (Vec::new(), Usage::own()?.cpu_s, 0);
    let mut rejected = 0;
    for minute in 0..minutes {
        let time = START + (minute * MINUTE_NS) as i64;
        for begun in (0..LIFE).step_by(EVERY as usize) {
            if let Some(begun) = minute.checked_sub(begun) {
                let count = settings.sources;
                rejected += append(&engine, begun * count..(begun + 1) * count, time)?;
                rows += count;
            }
        }
        engine.commit()?;
        clock.advance(MINUTE_NS);
        while engine.step()? {}
        if (minute + 1) * MARKS / minutes > minute * MARKS / minutes {
            let spent = Usage::own()?.cpu_s - cpu;
            let (before, rss_bytes) = (engine.status(), Usage::own()?.rss);
            engine.close()?;
            drop(engine);
            let start = Instant::now();
            engine = open(settings, directory, &clock)?;
            let start_ms = start.elapsed().as_secs_f64() * 1e3;
            // The source may be one of the rejected ones.
            let query_ms = match rejected {
                0 => query(&engine, minute * settings.sources)?,
                _ => f64::NAN,
            };
            let mark = Mark {
                hours: (minute + 1) / LIFE,
                begun: (minute + 1) * settings.sources,
                sources: before.sources,
                dictionary_bytes: before.dictionary_bytes,
                memory_bytes: before.memory_used,
                rss_bytes,
                disk_bytes: bytes_of(directory, "")?,
                catalog_bytes: bytes_of(directory, "catalog")?,
                start_ms,
                query_ms,
                rejected,
                cpu_ns_a_row: spent * 1e9 / rows as f64,
            };
            eprintln!("{mark:?}");
            marks.push(mark);
            (cpu, rows) = (Usage::own()?.cpu_s, 0);
        }
    }
    Ok(marks)
}

/// Appends a row of each source. Returns the number of rejected rows.
fn append(engine: &Engine, sources: std::ops::Range<u64>, time: i64) -> Result<u64> {
    let names: Vec<String> = sources.map(name).collect();
    let mut rejected = 0;
    for names in names.chunks(BATCH) {
        let mut batch = Batch::new();
        for (index, name) in names.iter().enumerate() {
            let cell = Cell {
                field: b"value",
                value: Value::F64((index % 100) as f64 / 10.0),
            };
            batch.push(name.as_bytes(), time, [cell]);
        }
        rejected += engine.append(&Canonical, &batch)?.rejected_total as u64;
    }
    Ok(rejected)
}

/// Returns the canonical name of a source: of a pod that exists once, on one of a thousand nodes.
fn name(source: u64) -> String {
    let node = source % 1_000;
    let pod = source.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    format!("restarts,node=node-{node:03},pod=web-{pod:011x}-{source}")
}

/// Returns the time of a query for one source, ms: the median of nine.
fn query(engine: &Engine, source: u64) -> Result<f64> {
    let name = name(source);
    let (_, pod) = name.rsplit_once("pod=").context("a name has a pod")?;
    let query = Query {
        selector: Selector::parse(&format!("restarts{{pod={pod:?}}}"))?,
        fields: None,
        interval: Interval::ALL,
    };
    let mut times = Vec::new();
    for _ in 0..9 {
        let start = Instant::now();
        let found = engine.select(&query)?.count();
        times.push(start.elapsed().as_secs_f64() * 1e3);
        ensure!(found == 1, "{found} series of {name}");
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn table(marks: &[Mark]) -> Table {
    let columns = [
        "hours",
        "sources so far, M",
        "sources",
        "names, MiB",
        "memory of the store, MiB",
        "RSS, MiB",
        "disk, MiB",
        "catalog, both files, MiB",
        "start, ms",
        "one series, ms",
        "rejected",
        "CPU-ns a row",
    ];
    let mut table = Table::new("Sources that live for an hour", &columns);
    for mark in marks {
        let mib = |bytes: u64| cell(Some(bytes as f64 / MIB));
        table.rows.push(vec![
            mark.hours.to_string(),
            cell(Some(mark.begun as f64 / 1e6)),
            mark.sources.to_string(),
            mib(mark.dictionary_bytes),
            mib(mark.memory_bytes),
            mib(mark.rss_bytes),
            mib(mark.disk_bytes),
            mib(mark.catalog_bytes),
            cell(Some(mark.start_ms)),
            cell(Some(mark.query_ms)),
            mark.rejected.to_string(),
            cell(Some(mark.cpu_ns_a_row)),
        ]);
    }
    table
}

/// Compares the mean of the last three marks with that of the three before the last three.
fn checks(marks: &[Mark]) -> Result<Vec<Check>> {
    let late = marks
        .len()
        .checked_sub(6)
        .context("a run has eight marks")?;
    let growth = |of: fn(&Mark) -> f64| {
        let sum = |marks: &[Mark]| marks.iter().map(of).sum::<f64>();
        Some(sum(&marks[late + 3..]) / sum(&marks[late..late + 3]))
    };
    let flat = |name: &str, of: fn(&Mark) -> f64, most: f64| {
        let name = format!("growth of {name}");
        Check::new(name, growth(of), Relation::AtMost, Some(most), "times")
    };
    let rejected = marks.last().map(|mark| mark.rejected as f64);
    Ok(vec![
        Check::new("rejected", rejected, Relation::AtMost, Some(0.0), "rows"),
        flat("names", |mark| mark.dictionary_bytes as f64, 1.05),
        flat("resident memory", |mark| mark.rss_bytes as f64, 1.1),
        flat("disk", |mark| mark.disk_bytes as f64, 1.1),
        flat("the start", |mark| mark.start_ms, 1.3),
        flat("a query", |mark| mark.query_ms, 1.3),
    ])
}
