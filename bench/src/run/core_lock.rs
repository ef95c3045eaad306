//! `core-lock`: hold times of the engine's lock with a million sources, and the speed of one heavy
//! query on one core and on two.
//!
//! Each part runs in its own process.

use crate::process::Usage;
use crate::report::{Check, Places, Relation, Report, Table, cell};
use crate::workload::{PERIOD, SENSORS_PER_HOST, START, tags};
use anyhow::{Context, Result, ensure};
use clap::Args;
use seiner_engine::{Durability, Engine, Holds, Options, Query, Step};
use seiner_model::{Batch, Cell, Interval, KeyError, Notation, Row, Selector, SourceKey, Value};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Settings of `core-lock`.
#[derive(Args)]
pub struct Settings {
    /// Parts to run, separated by commas: lock, query; all if none is given
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Share of the sources and samples, for a quick look; bounds apply to 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Run one case in this process and print its measurements (used by the benchmark itself)
    #[arg(long, hide = true)]
    case: Option<String>,
}

/// Store with many sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    name: &'static str,
    sources: u32,
    /// Number of samples per source.
    samples: u32,
    /// Memory setting of the engine, bytes.
    memory: u64,
}

const CASES: [Case; 1] = [Case {
    name: "lock",
    sources: 1_000_000,
    samples: 20,
    memory: 512 << 20,
}];
/// Name of the case with one heavy query.
const QUERY: &str = "query";
const QUERY_ROWS: u32 = 4_000_000;
const QUERY_FIELDS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
const QUERY_MEMORY: u64 = 256 << 20;
/// Number of rows per batch, as a server delivers them.
const BATCH: u32 = 1_000;
/// Maximum memory of one heavy query, bytes.
const QUERY_SHARE: u64 = 64 << 20;
/// Bound of the 99.99th percentile of hold times, ms.
const LONGEST_HOLD_MS: f64 = 1.0;
/// Minimum speed of a heavy query on two cores, relative to one.
const SPEED_UP: f64 = 1.7;

const PURPOSE: &str = "How long the engine's lock is held with a million sources, each in batches of 1,000 rows: \
    while they are registered (first sample of each source), appended to, settled, read, and closed. Then one heavy \
    query of a source with ten fields, on one core and on two: the best of three.";

/// Measurements of a phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Phase {
    name: String,
    wall_s: f64,
    /// Maximum memory of the process during the phase, bytes.
    peak_rss: u64,
    /// Waits of batches, ms: median, 99 %, 99.9 %, maximum; `None` without batches.
    waits_ms: Option<[f64; 4]>,
    holds: u64,
    /// Hold times of the lock, ms: 99 %, 99.9 %, 99.99 %.
    holds_ms: [f64; 3],
}

/// Measurements of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    case: String,
    sources: u32,
    memory: u64,
    phases: Vec<Phase>,
    /// Longest hold of the lock, ms, and the place in the source code where it was taken.
    longest_hold_ms: f64,
    longest_hold_at: String,
    /// Number of samples that were appended and that a final query counted.
    samples: u64,
    counted: u64,
}

/// Measurements of the heavy query.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct HeavyQuery {
    samples: u64,
    one_core_s: f64,
    two_cores_s: Option<f64>,
    /// Maximum memory that the query added to the process, bytes.
    added_rss: u64,
}

/// Runs the benchmark.
pub fn run(settings: &Settings, places: &Places) -> Result<()> {
    if let Some(name) = &settings.case {
        let text = match name.as_str() {
            QUERY => serde_json::to_string(&measure_query(settings.scale, &places.output)?)?,
            name => {
                let case = CASES.iter().find(|case| case.name == name);
                let case = case.with_context(|| format!("there is no case {name}"))?;
                serde_json::to_string(&measure(&case.scaled(settings.scale), &places.output)?)?
            }
        };
        println!("{text}");
        return Ok(());
    }
    std::fs::create_dir_all(&places.output)?;
    let names = CASES.iter().map(|case| case.name).chain([QUERY]);
    for name in &settings.only {
        ensure!(
            names.clone().any(|known| known == name),
            "there is no case {name}"
        );
    }
    let is_wanted =
        |name: &str| settings.only.is_empty() || settings.only.iter().any(|one| one == name);
    let mut measured: Vec<Measured> = Vec::new();
    for case in CASES.iter().filter(|case| is_wanted(case.name)) {
        eprintln!(
            "{}: {} sources",
            case.name,
            case.scaled(settings.scale).sources
        );
        let text = in_own_process(case.name, settings, places)?;
        measured.push(serde_json::from_slice(&text).context("a case answered no JSON")?);
    }
    let mut query: Option<HeavyQuery> = None;
    if is_wanted(QUERY) {
        eprintln!("{QUERY}");
        let text = in_own_process(QUERY, settings, places)?;
        query = Some(serde_json::from_slice(&text).context("the query answered no JSON")?);
    }
    let mut report = Report::new("core-lock", PURPOSE);
    report.notes.push(format!(
        "scale {}; durability: interval, 100 ms",
        settings.scale
    ));
    report.notes.extend(measured.iter().map(|one| {
        format!(
            "{}: longest hold of the lock {:.2} ms, taken at {}; {} of {} samples are found",
            one.case, one.longest_hold_ms, one.longest_hold_at, one.counted, one.samples
        )
    }));
    report.tables.push(table(&measured));
    report.checks = checks(&measured, query.as_ref());
    report.measured = json!({ "scale": settings.scale, "cases": measured, "query": query });
    report.finish(places)
}

impl Case {
    fn scaled(self, scale: f64) -> Case {
        let part = |whole: f64| (whole * scale) as u64;
        Case {
            sources: (part(f64::from(self.sources)) as u32).max(BATCH),
            memory: part(self.memory as f64).max(8 << 20),
            ..self
        }
    }
}

fn in_own_process(name: &str, settings: &Settings, places: &Places) -> Result<Vec<u8>> {
    let output = Command::new(std::env::current_exe()?)
        .arg("--output")
        .arg(&places.output)
        .args([
            "core-lock",
            "--case",
            name,
            "--scale",
            &settings.scale.to_string(),
        ])
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed: {errors}");
    Ok(output.stdout)
}

// ---- many sources

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

fn measure(case: &Case, output: &Path) -> Result<Measured> {
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
    phases.end("settle", &engine)?;
    let mut counted = count(&engine)?;
    phases.end("query", &engine)?;
    // The journal contains rows if the store is left as by a kill.
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
    Ok(Measured {
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
            "a row was refused: {:?}",
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

/// Phases of a case, measured one after the other.
struct Phases {
    began: Instant,
    waits: Vec<f64>,
    holds: Option<Holds>,
    done: Vec<Phase>,
}

impl Phases {
    fn begin() -> Phases {
        reset_peak();
        Phases {
            began: Instant::now(),
            waits: Vec::new(),
            holds: None,
            done: Vec::new(),
        }
    }

    fn end(&mut self, name: &str, engine: &Engine) -> Result<()> {
        let all = engine.lock_holds();
        // A store that was opened again counts from zero.
        let before = self
            .holds
            .take()
            .filter(|before| before.count() <= all.count());
        let holds = before.map_or_else(|| all.clone(), |before| all.since(&before));
        self.done.push(Phase {
            name: name.to_string(),
            wall_s: self.began.elapsed().as_secs_f64(),
            peak_rss: Usage::own()?.peak_rss,
            waits_ms: waits(std::mem::take(&mut self.waits)),
            holds: holds.count(),
            holds_ms: [0.99, 0.999, 0.9999].map(|part| milliseconds(holds.quantile(part))),
        });
        self.holds = Some(all);
        reset_peak();
        self.began = Instant::now();
        Ok(())
    }
}

/// Resets the kernel's peak of memory. If the kernel does not support it, later peaks are those of
/// all phases.
fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns the median, 99 %, 99.9 % and the maximum.
fn waits(mut waits: Vec<f64>) -> Option<[f64; 4]> {
    waits.sort_by(f64::total_cmp);
    let last = waits.len().checked_sub(1)?;
    Some([0.5, 0.99, 0.999, 1.0].map(|part| waits[(last as f64 * part).ceil() as usize]))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

// ---- one heavy query

fn measure_query(scale: f64, output: &Path) -> Result<HeavyQuery> {
    let folder = tempfile::tempdir_in(output)?;
    let options = Options {
        memory: QUERY_MEMORY,
        ..Options::default()
    };
    let engine = Engine::open_directory(&folder.path().join("data"), options)?;
    let key = SourceKey::new("machine", [("id", "1")])?;
    let source = engine.register(&key)?;
    let rows = ((f64::from(QUERY_ROWS) * scale) as u32).max(10_000);
    append_columns(&engine, source, rows)?;
    engine.flush()?;
    let before = Usage::own()?.rss;
    reset_peak();
    // First without a limit: the engine counts the processors once, at its first query.
    let samples = read_all(&engine)?;
    let two = match on_cores(2, || read_all(&engine)) {
        Ok((two, again)) => {
            ensure!(
                again == samples,
                "{again} samples on two cores, {samples} on all"
            );
            Some(two)
        }
        Err(_) if std::thread::available_parallelism().map_or(1, usize::from) < 2 => None,
        Err(error) => return Err(error),
    };
    let (one, again) = on_cores(1, || read_all(&engine))?;
    ensure!(
        again == samples,
        "{again} samples on one core, {samples} on all"
    );
    let added_rss = Usage::own()?.peak_rss.saturating_sub(before);
    engine.close()?;
    Ok(HeavyQuery {
        samples,
        one_core_s: one,
        two_cores_s: two,
        added_rss,
    })
}

fn append_columns(engine: &Engine, source: seiner_model::SourceId, rows: u32) -> Result<()> {
    const AT_ONCE: u32 = 10_000;
    for first in (0..rows).step_by(AT_ONCE as usize) {
        let some = first..rows.min(first + AT_ONCE);
        let times = some
            .clone()
            .map(|row| START + i64::from(row) * 1_000_000_000);
        let column = |field: u32| {
            let values = some
                .clone()
                .map(|row| f64::from(row.wrapping_mul(2_654_435_761 + field) >> 20) / 16.0);
            seiner_model::FieldColumn {
                present: None,
                values: seiner_model::Column::F64(values.collect()),
            }
        };
        let columns = seiner_model::Columns {
            times: times.collect(),
            fields: (0..QUERY_FIELDS.len() as u32).map(column).collect(),
        };
        engine.append_columns(source, &QUERY_FIELDS, &columns)?;
    }
    Ok(())
}

/// Runs `work` on `cores` processors. Returns the seconds and the result of the fastest of three
/// runs.
fn on_cores<T>(cores: usize, work: impl Fn() -> Result<T>) -> Result<(f64, T)> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let mut set = rustix::thread::CpuSet::new();
    let all = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let chosen: Vec<usize> = all.take(cores).collect();
    ensure!(
        chosen.len() == cores,
        "the process may run on {} processors",
        chosen.len()
    );
    chosen.iter().for_each(|&cpu| set.set(cpu));
    rustix::thread::sched_setaffinity(None, &set)?;
    let mut best: Option<(f64, T)> = None;
    for _ in 0..3 {
        let start = Instant::now();
        let result = work()?;
        let taken = start.elapsed().as_secs_f64();
        if best.as_ref().is_none_or(|(before, _)| taken < *before) {
            best = Some((taken, result));
        }
    }
    rustix::thread::sched_setaffinity(None, &allowed)?;
    best.context("it ran three times")
}

fn read_all(engine: &Engine) -> Result<u64> {
    let query = Query {
        selector: Selector::parse("machine")?,
        fields: None,
        interval: Interval::new(i64::MIN, i64::MAX),
    };
    let mut samples = 0;
    for piece in engine.scan(&query) {
        for field in piece?.fields {
            samples += field.column.map_or(0, |column| column.values.len() as u64);
        }
    }
    Ok(samples)
}

// ---- the report

fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new(
        "Phases",
        &[
            "case",
            "phase",
            "s",
            "RSS MiB",
            "setting MiB",
            "wait p50 ms",
            "p99",
            "p99.9",
            "longest",
            "hold p99.99 ms",
        ],
    );
    for one in measured {
        for phase in &one.phases {
            let wait = |at: usize| cell(phase.waits_ms.map(|waits| waits[at]));
            table.rows.push(vec![
                one.case.clone(),
                phase.name.clone(),
                cell(Some(phase.wall_s)),
                (phase.peak_rss >> 20).to_string(),
                (one.memory >> 20).to_string(),
                wait(0),
                wait(1),
                wait(2),
                wait(3),
                cell(Some(phase.holds_ms[2])),
            ]);
        }
    }
    table
}

fn checks(measured: &[Measured], query: Option<&HeavyQuery>) -> Vec<Check> {
    let case = |name: &str| measured.iter().find(|one| one.case == name);
    let mut checks = Vec::new();
    for phase in ["append", "settle"] {
        let of = case("lock").and_then(|one| one.phases.iter().find(|of| of.name == phase));
        checks.push(Check::new(
            format!("a million sources, {phase}: 99.99 % of the holds of the lock"),
            of.map(|phase| phase.holds_ms[2]),
            Relation::AtMost,
            Some(LONGEST_HOLD_MS),
            "ms",
        ));
    }
    let lost: Option<u64> = (!measured.is_empty()).then(|| {
        measured
            .iter()
            .map(|one| one.samples.abs_diff(one.counted))
            .sum()
    });
    checks.push(Check::new(
        "samples that a query does not find, or finds twice",
        lost.map(|lost| lost as f64),
        Relation::AtMost,
        Some(0.0),
        "samples",
    ));
    checks.push(Check::new(
        "one heavy query, two cores against one",
        query.and_then(|query| Some(query.one_core_s / query.two_cores_s?)),
        Relation::AtLeast,
        Some(SPEED_UP),
        "times as fast",
    ));
    checks.push(Check::new(
        "one heavy query: memory that it adds",
        query.map(|query| (query.added_rss >> 20) as f64),
        Relation::AtMost,
        Some((QUERY_SHARE >> 20) as f64),
        "MiB",
    ));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_case_finds_all_its_samples_and_has_every_phase() {
        let output = tempfile::tempdir().unwrap();
        let case = CASES[0].scaled(0.002);
        assert_eq!((case.sources, case.memory), (2_000, 8 << 20));
        let measured = measure(&case, output.path()).unwrap();
        assert_eq!(
            measured.samples,
            u64::from(case.sources * (case.samples + 1))
        );
        assert_eq!(measured.counted, measured.samples);
        let names: Vec<&str> = measured
            .phases
            .iter()
            .map(|phase| phase.name.as_str())
            .collect();
        let expected = [
            "register",
            "append",
            "settle",
            "query",
            "append more",
            "start",
            "close",
        ];
        assert_eq!(names, expected);
        let checks = checks(&[measured], None);
        assert!(checks[0].value.is_some() && checks.iter().any(|check| check.value.is_none()));
    }

    #[test]
    fn the_heavy_query_reads_every_sample() {
        let output = tempfile::tempdir().unwrap();
        let query = measure_query(0.001, output.path()).unwrap();
        assert_eq!(query.samples, 10_000 * QUERY_FIELDS.len() as u64);
    }

    #[test]
    fn waits_are_told_by_rank() {
        assert_eq!(waits(Vec::new()), None);
        let found = waits((1..=1000).map(f64::from).collect()).unwrap();
        assert_eq!(found, [501.0, 991.0, 1000.0, 1000.0]);
    }
}
