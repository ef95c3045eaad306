//! `sensors`: size and speed of a store by the number of its sensors, with bundles and without.
//!
//! The engine alone stores the same rows twice, with small blocks in bundles and with every block of its own. Every
//! cell runs in its own process.

use super::embedded::register;
use crate::latency::median;
use crate::process::{Usage, bytes_of, in_own_process};
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use crate::workload::{Gauge, SENSORS_PER_HOST, tags, time};
use anyhow::{Context, Result, ensure};
use clap::Args;
use seiner_engine::{Bundling, Durability, Engine, Interval, Options, Query, Selector, Step};
use seiner_model::{SourceId, SourceKey};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// Settings of `sensors`.
#[derive(Args)]
pub struct SensorsSettings {
    /// Share of the sources and values, for a quick look; bounds apply to 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Run one cell in this process and print its measurements (used by the benchmark itself)
    #[arg(long, hide = true)]
    cell: Option<String>,
}

/// Number of sources with a number of rows each.
#[derive(Clone, Copy)]
struct Cell {
    name: &'static str,
    sources: u32,
    rows: u32,
    /// Maximum bytes per sample on disk, with bundles.
    bound: f64,
    /// Memory of the store in bytes.
    memory: u64,
    /// Size B of its blocks in bytes. `None`: that of a new store.
    block_bytes: Option<u32>,
    /// Duration of a tick of 10 s, for sensors at their pace. `None`: as fast as possible.
    tick: Option<Duration>,
}

/// Size B of small blocks in bytes, and the rows of such a block.
const SMALL_BLOCK: u32 = 512;
const SMALL_ROWS: u32 = 255;
/// Ticks after which a silent source is sealed: 600 s.
const IDLE_TICKS: u32 = 60;

impl Cell {
    const fn new(name: &'static str, sources: u32, rows: u32, bound: f64) -> Cell {
        Cell {
            name,
            sources,
            rows,
            bound,
            memory: MEMORY,
            block_bytes: None,
            tick: None,
        }
    }

    /// Returns the tick at which a source begins. Sensors at their pace begin one after the other, while the first ones
    /// fill a block.
    fn begin(&self, source: u32, sources: u32) -> u32 {
        match self.tick {
            Some(_) => (u64::from(source) * u64::from(SMALL_ROWS) / u64::from(sources)) as u32,
            None => 0,
        }
    }

    /// Returns the number of ticks in which all sources send all their rows.
    fn ticks(&self) -> u32 {
        self.rows + self.tick.map_or(0, |_| SMALL_ROWS)
    }

    /// Returns the options of the store.
    fn options(&self, bundles: bool) -> Options {
        let usual = Options::default();
        Options {
            durability: Durability::Memory,
            memory: self.memory,
            block_bytes: self.block_bytes.unwrap_or(usual.block_bytes),
            idle_seal: self.tick.map_or(usual.idle_seal, |tick| tick * IDLE_TICKS),
            bundles: match bundles {
                true => Bundling::Smaller,
                false => Bundling::Never,
            },
            extra_writes: 0.0,
            ..usual
        }
    }
}

const CELLS: [Cell; 7] = [
    Cell::new("a", 4_000, 2_500, 0.80),
    Cell::new("b", 100_000, 100, 0.82),
    Cell::new("c", 1_000_000, 10, 0.95),
    Cell::new("two-rows", 1_000_000, 2, 1.30),
    Cell::new("one-row", 1_000_000, 1, 1.75),
    Cell {
        block_bytes: Some(SMALL_BLOCK),
        tick: Some(Duration::from_millis(40)),
        ..Cell::new("paced", 2_000, 700, 0.90)
    },
    Cell {
        memory: 64 << 20,
        block_bytes: Some(SMALL_BLOCK),
        ..Cell::new("history", 2_000, 20_000, 0.85)
    },
];

/// Memory of the store in bytes.
const MEMORY: u64 = 1 << 30;
/// Samples per batch.
const BATCH: usize = 10_000;
/// Number of series whose means are computed.
const MEANS: u32 = 100;

/// Measurements of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    cell: String,
    bundles: bool,
    samples: u64,
    /// Bytes of all segments after the flush.
    segment_bytes: u64,
    /// Bytes of the directory, with the names of the sources.
    directory_bytes: u64,
    /// Processor time of appends, seconds.
    append_cpu_s: f64,
    /// Processor time of the flush, seconds.
    flush_cpu_s: f64,
    /// Largest resident set, bytes.
    peak_rss_bytes: u64,
    /// Time of reading one series, median of 20 series, ms.
    one_series_ms: f64,
    /// Time of the means of 100 series, ms.
    means_ms: f64,
    /// Time of the latest samples of all sources, seconds.
    latest_s: f64,
    /// Time of reading all samples, seconds.
    scan_s: f64,
}

impl Measured {
    fn per_sample(&self) -> f64 {
        self.segment_bytes as f64 / self.samples as f64
    }
}

/// Time of selecting sources by a regular expression.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PatternTime {
    pattern: String,
    /// Number of values of the tag.
    values: u32,
    /// Number of selected sources.
    selected: usize,
    /// Time of the first selection, ms.
    first_ms: f64,
    /// Median time, ms.
    median_ms: f64,
}

/// Name of the cell with regular expressions.
const PATTERNS: &str = "patterns";
/// Number of values of the tag whose values are examined.
const VALUES: u32 = 1_000_000;
/// Number of selections by each expression.
const REPEATS: usize = 9;
/// Regular expressions by name. The one without a text consists of the values of 20 sources.
const PATTERN_CASES: [(&str, Option<&str>); 7] = [
    ("host-12.*", Some("host-12.*")),
    (".*42", Some(".*42")),
    ("host-(1¦2¦3)5.*", Some("host-(1|2|3)5.*")),
    ("20 values", None),
    ("(?i)HOST-12.*", Some("(?i)HOST-12.*")),
    (".*[13579]", Some(".*[13579]")),
    (".+", Some(".+")),
];

const PURPOSE: &str = "The engine in a process of its own. The load: one field, f64 gauges with one or two decimals, \
    a row of every source per tick of 10 s, in batches of 10,000. Sizes are those right after a flush, before any \
    merge, without a journal. Stores have 1 GiB of memory, that of `history` 64 MiB. Blocks of `paced` and `history` \
    have 512 bytes. The sensors of `paced` begin at different ticks, and a tick takes 40 ms. Bundles: blocks with few \
    rows are encoded together. Blocks: each block is encoded alone.";

/// Runs the benchmark.
pub fn run(settings: &SensorsSettings, places: &OutputPaths) -> Result<()> {
    if let Some(name) = &settings.cell {
        if name == PATTERNS {
            let found = patterns(settings.scale, &places.output)?;
            println!("{}", serde_json::to_string(&found)?);
            return Ok(());
        }
        let (name, bundles) = name
            .split_once('/')
            .context("a cell has a name and a form")?;
        let found = CELLS.iter().find(|cell| cell.name == name);
        let found = found.with_context(|| format!("unknown cell {name}"))?;
        let measured = measure(found, bundles == "bundles", settings.scale, &places.output)?;
        println!("{}", serde_json::to_string(&measured)?);
        return Ok(());
    }
    let mut report = Report::new("sensors", PURPOSE);
    std::fs::create_dir_all(&places.output)?;
    let mut measured = Vec::new();
    for cell in &CELLS {
        for form in ["bundles", "blocks"] {
            let name = format!("{}/{form}", cell.name);
            let case = ["sensors", "--cell", &name];
            let one: Measured = in_own_process(&places.output, case, settings.scale)?;
            eprintln!(
                "{} as {form}: {:.3} bytes a sample",
                cell.name,
                one.per_sample()
            );
            measured.push(one);
        }
    }
    let case = ["sensors", "--cell", PATTERNS];
    let patterns: Vec<PatternTime> = in_own_process(&places.output, case, settings.scale)?;
    report
        .versions
        .insert("seiner-engine".into(), env!("CARGO_PKG_VERSION").into());
    report.tables.push(table(&measured));
    report.tables.push(pattern_table(&patterns));
    report.checks = CELLS.iter().map(|cell| check(cell, &measured)).collect();
    report.checks.extend(latest_checks(&measured));
    report.checks.push(pattern_check(&patterns));
    report.measured = json!({
        "scale": settings.scale,
        "memory_bytes": MEMORY,
        "cells": measured,
        "patterns": patterns,
    });
    report.finish(places)
}

fn measure(cell: &Cell, bundles: bool, scale: f64, output: &Path) -> Result<Measured> {
    let sources = ((f64::from(cell.sources) * scale) as u32).max(SENSORS_PER_HOST);
    let folder = tempfile::tempdir_in(output)?;
    let directory = folder.path().join("data");
    let engine = Engine::open_directory(&directory, cell.options(bundles))?;
    let ids = register(&engine, sources)?;
    let mut gauges: Vec<Gauge> = (0..sources).map(Gauge::new).collect();
    let (mut append_cpu_s, mut sum) = (0.0, 0.0);
    let start = Instant::now();
    for tick in 0..cell.ticks() {
        let sends = |source: &u32| {
            let begin = cell.begin(*source, sources);
            (begin..begin + cell.rows).contains(&tick)
        };
        let senders: Vec<u32> = (0..sources).filter(sends).collect();
        let of_senders = senders.iter().map(|&source| ids[source as usize]);
        let sender_ids: Vec<SourceId> = of_senders.collect();
        let times = senders
            .iter()
            .map(|source| time(source / SENSORS_PER_HOST, tick));
        let times: Vec<i64> = times.collect();
        let values = senders
            .iter()
            .map(|&source| gauges[source as usize].value());
        let values: Vec<f64> = values.collect();
        sum += values.iter().sum::<f64>();
        let before = Usage::own()?;
        let batches = sender_ids
            .chunks(BATCH)
            .zip(times.chunks(BATCH))
            .zip(values.chunks(BATCH));
        for ((ids, times), values) in batches {
            engine.append_samples("value", ids, times, values)?;
        }
        append_cpu_s += Usage::own()?.cpu_s - before.cpu_s;
        if let Some(pause) = cell.tick {
            let next = pause * (tick + 1);
            std::thread::sleep(next.saturating_sub(start.elapsed()));
        }
    }
    let before = Usage::own()?;
    engine.flush()?;
    let after = Usage::own()?;
    let samples = u64::from(sources) * u64::from(cell.rows);
    let mut measured = Measured {
        cell: cell.name.to_string(),
        bundles,
        samples,
        segment_bytes: bytes_of(&directory, "segment-")?,
        directory_bytes: bytes_of(&directory, "")?,
        append_cpu_s,
        flush_cpu_s: after.cpu_s - before.cpu_s,
        peak_rss_bytes: after.peak_rss,
        one_series_ms: one_series(&engine, sources)?,
        means_ms: means(&engine, sources)?,
        latest_s: 0.0,
        scan_s: 0.0,
    };
    let start = Instant::now();
    let latest = engine.latest_samples(&query("gauge")?).count();
    measured.latest_s = start.elapsed().as_secs_f64();
    ensure!(
        latest == sources as usize,
        "{latest} latest samples of {sources} sources"
    );
    let start = Instant::now();
    let (count, found) = total(&engine)?;
    measured.scan_s = start.elapsed().as_secs_f64();
    ensure!(
        count == samples,
        "the store returns {count} of {samples} samples"
    );
    ensure!(
        (found - sum).abs() <= sum.abs() * 1e-9,
        "the sum of all values is {found}, not {sum}"
    );
    engine.close()?;
    Ok(measured)
}

/// Returns the times of selecting sources by regular expressions. Each source has another value of the tag.
fn patterns(scale: f64, output: &Path) -> Result<Vec<PatternTime>> {
    let sources = ((f64::from(VALUES) * scale) as u32).max(1);
    let folder = tempfile::tempdir_in(output)?;
    let options = Options {
        durability: Durability::Memory,
        memory: MEMORY,
        ..Options::default()
    };
    let engine = Engine::open_directory(&folder.path().join("data"), options)?;
    for source in 0..sources {
        let key = SourceKey::new("gauge", [("host", format!("host-{source}"))])?;
        engine.register(&key)?;
    }
    let literals: Vec<String> = (0..20)
        .map(|nth| format!("host-{}", sources / 20 * nth))
        .collect();
    let literals = literals.join("|");
    let mut found = Vec::new();
    for (name, pattern) in PATTERN_CASES {
        let text = pattern.unwrap_or(&literals);
        let selector = format!("gauge{{host=~\"{text}\"}}");
        let (mut times, mut selected) = (Vec::new(), 0);
        for _ in 0..REPEATS {
            let start = Instant::now();
            selected = engine.sources(&Selector::parse(&selector)?)?.len();
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        found.push(PatternTime {
            pattern: name.to_string(),
            values: sources,
            selected,
            first_ms: times[0],
            median_ms: median(times).context("each pattern was measured")?,
        });
    }
    engine.close()?;
    Ok(found)
}

fn pattern_table(patterns: &[PatternTime]) -> Table {
    let columns = [
        "expression",
        "values",
        "selected",
        "first, ms",
        "median, ms",
    ];
    let title = "Selection of sources by a regular expression over the values of a tag";
    let mut table = Table::new(title, &columns);
    for one in patterns {
        table.rows.push(vec![
            format!("`{}`", one.pattern),
            one.values.to_string(),
            one.selected.to_string(),
            cell(Some(one.first_ms)),
            cell(Some(one.median_ms)),
        ]);
    }
    table
}

/// Returns the check of the slowest expression.
fn pattern_check(patterns: &[PatternTime]) -> Check {
    let times = patterns.iter().map(|one| one.median_ms);
    Check::new(
        format!("slowest regular expression over {VALUES} values"),
        times.reduce(f64::max),
        Relation::AtMost,
        Some(50.0),
        "ms",
    )
}

/// Returns the checks of the latest samples of a million sources.
fn latest_checks(measured: &[Measured]) -> impl Iterator<Item = Check> + '_ {
    let million = measured.iter().filter(|one| one.cell == "c");
    million.map(|one| {
        let form = if one.bundles { "bundles" } else { "blocks" };
        Check::new(
            format!("latest samples of (c) as {form}"),
            Some(one.latest_s),
            Relation::AtMost,
            Some(1.0),
            "s",
        )
    })
}

fn query(selector: &str) -> Result<Query> {
    Ok(Query {
        selector: Selector::parse(selector)?,
        fields: None,
        interval: Interval::new(i64::MIN, i64::MAX),
    })
}

/// Returns the selector of a source.
fn selector_of(source: u32) -> String {
    let tags = tags(source / SENSORS_PER_HOST, source % SENSORS_PER_HOST);
    let tags = tags.map(|(name, value)| format!("{name}=\"{value}\""));
    format!("gauge{{{}}}", tags.join(","))
}

/// Returns the median time of reading one series, in ms.
fn one_series(engine: &Engine, sources: u32) -> Result<f64> {
    let mut times = Vec::new();
    for nth in 0..20 {
        let query = query(&selector_of((sources / 20 * nth + 7) % sources))?;
        let start = Instant::now();
        for series in engine.select(&query)? {
            series?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    median(times).context("twenty series were read")
}

/// Returns the time of the means of 100 neighbouring series, in ms: the sensors of a host.
fn means(engine: &Engine, sources: u32) -> Result<f64> {
    let [(tag, host), ..] = tags(sources / SENSORS_PER_HOST / 2, 0);
    let query = query(&format!("gauge{{{tag}=\"{host}\"}}"))?;
    let start = Instant::now();
    let count = engine
        .aggregate(&query, Step::Whole)?
        .filter(|series| series.is_ok())
        .count();
    ensure!(count == MEANS as usize, "{count} means of {MEANS}");
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Returns the number and the sum of all samples.
fn total(engine: &Engine) -> Result<(u64, f64)> {
    let (mut count, mut sum) = (0, 0.0);
    for series in engine.aggregate(&query("gauge")?, Step::Whole)? {
        for bucket in series?.buckets {
            count += bucket.count;
            sum += bucket.sum;
        }
    }
    Ok((count, sum))
}

fn table(measured: &[Measured]) -> Table {
    let columns = [
        "cell",
        "form",
        "samples, M",
        "bytes a sample",
        "with names",
        "append, CPU ns a sample",
        "flush, CPU ns a sample",
        "largest RSS, MiB",
        "one series, ms",
        "100 means, ms",
        "latest of all, s",
        "all samples, s",
    ];
    let mut table = Table::new("Size and speed by the number of sources", &columns);
    for one in measured {
        let per_sample = |value: f64| cell(Some(value / one.samples as f64));
        table.rows.push(vec![
            one.cell.clone(),
            if one.bundles { "bundles" } else { "blocks" }.to_string(),
            cell(Some(one.samples as f64 / 1e6)),
            format!("{:.3}", one.per_sample()),
            per_sample(one.directory_bytes as f64),
            per_sample(one.append_cpu_s * 1e9),
            per_sample(one.flush_cpu_s * 1e9),
            cell(Some(one.peak_rss_bytes as f64 / f64::from(1 << 20))),
            cell(Some(one.one_series_ms)),
            cell(Some(one.means_ms)),
            cell(Some(one.latest_s)),
            cell(Some(one.scan_s)),
        ]);
    }
    table
}

fn check(cell: &Cell, measured: &[Measured]) -> Check {
    let found = measured
        .iter()
        .find(|one| one.bundles && one.cell == cell.name);
    Check::new(
        format!(
            "bytes a sample of ({}), {} × {}",
            cell.name, cell.sources, cell.rows
        ),
        found.map(Measured::per_sample),
        Relation::AtMost,
        Some(cell.bound),
        "bytes a sample",
    )
}
