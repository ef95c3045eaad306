//! `core`: the engine's memory with millions of sources, the latency of appends while they are
//! registered, and the memory of queries over a year of samples.
//!
//! Every case runs in its own process, because the peak of resident memory is counted per process.

mod merging;
mod rows;
mod year;

pub use self::rows::Canonical;
use self::rows::{BATCH, BESIDE, Names};
use self::year::Year;

use crate::process::Usage;
use crate::report::{Check, OutputPaths, Relation, Report, Table, short};
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use seiner_engine::{Engine, Error, Options, Query, Step};
use seiner_model::{Interval, Selector};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Settings of `core`.
#[derive(Args)]
pub struct CoreSettings {
    /// Parts to run, separated by commas; all if none is given
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Share of the sources and of the memory, for a quick look; bounds apply to 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Samples per source before and after the crash
    #[arg(long, default_value_t = 4)]
    samples: u32,
    /// Run one case in this process and print its measurements (used by the benchmark itself)
    #[arg(long, hide = true)]
    case: Option<String>,
}

/// Part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Peak of the resident memory in every phase
    Memory,
    /// Peak of the resident memory while segments are merged and dropped
    Merging,
    /// Latency of appends that register sources
    Registration,
    /// Memory of queries over a year of ten fields at 1 Hz
    Queries,
}

struct Case {
    part: Part,
    name: &'static str,
    sources: u32,
    memory: u64,
}

const CASES: [Case; 4] = [
    Case {
        part: Part::Memory,
        name: "memory-2M",
        sources: 2_000_000,
        memory: 1 << 30,
    },
    Case {
        part: Part::Memory,
        name: "memory-5M",
        sources: 5_000_000,
        memory: 2 << 30,
    },
    Case {
        part: Part::Merging,
        name: "merging-1M",
        sources: 1_000_000,
        memory: 512 << 20,
    },
    Case {
        part: Part::Registration,
        name: "registration-5M",
        sources: 5_000_000,
        memory: 2 << 30,
    },
];

/// Name of the case of [`Part::Queries`].
const YEAR: &str = "year";
/// Rounds of rows in a phase of [`Part::Merging`]: four rings of the fastest sources.
const MERGING_ROUNDS: u32 = 64;
/// Bound of the 99.9th percentile of acknowledgements, ms.
const LONGEST_MS: f64 = 50.0;
/// Maximum time until a dropped store releases its directory.
const PATIENCE: Duration = Duration::from_secs(300);

/// Measurements of a phase.
#[derive(Serialize, Deserialize)]
struct Phase {
    name: String,
    wall_s: f64,
    cpu_s: f64,
    peak_rss_bytes: u64,
    /// Bytes that the engine itself accounts for at the end of the phase; `None` if the engine was closed.
    accounted_bytes: Option<u64>,
}

/// Measurements of a case.
#[derive(Serialize, Deserialize)]
struct Measured {
    case: String,
    sources: u32,
    memory_bytes: u64,
    rejected: usize,
    phases: Vec<Phase>,
    /// Number of segments that were merged.
    merged: u64,
    dropped: u64,
    /// Latency of an append in ms: p50, p99, p99.9, maximum.
    append_ms: Option<[f64; 4]>,
    /// Processor time of the appending thread in an append, in ms. Other programs do not affect it.
    append_cpu_ms: Option<[f64; 4]>,
}

const PURPOSE: &str = "Millions of sources. A name has a measurement and four tags: two shared by many sources, a host shared by ten, one \
    unique. The sources are registered through the engine's `append` in batches of 1,000 rows, in a process of its own. Memory: \
    the peak of the resident memory (VmHWM, reset before each phase) while sources are registered, after a flush, \
    after a stop without closing (recovery), in a query of everything, after closing and starting again. \
    Merging: the same peak while a million sources of six rates overwrite rings of 16 rows in a small budget. \
    Registration: the latency of each append in which all rows are of new sources. \
    Queries: a year of ten fields at 1 Hz, read whole from a store with 128 MiB: by one reader, by 8 readers at a time, and with \
    rows that came late.";

/// Runs the benchmark.
pub fn run(settings: &CoreSettings, places: &OutputPaths) -> Result<()> {
    if let Some(name) = &settings.case {
        std::fs::create_dir_all(&places.output)?;
        if name == YEAR {
            let year = year::measure(settings.scale, &places.output)?;
            println!("{}", serde_json::to_string(&year)?);
            return Ok(());
        }
        let case = CASES
            .iter()
            .find(|case| case.name == name)
            .with_context(|| format!("unknown case {name}"))?;
        let measured = measure(case, settings, &places.output)?;
        println!("{}", serde_json::to_string(&measured)?);
        return Ok(());
    }
    std::fs::create_dir_all(&places.output)?;
    let mut report = Report::new("core", PURPOSE);
    let wanted = |part| settings.only.is_empty() || settings.only.contains(&part);
    let mut measured: Vec<Measured> = Vec::new();
    for case in CASES.iter().filter(|case| wanted(case.part)) {
        measured.push(in_own_process(case.name, settings, places)?);
    }
    let year: Option<Year> = wanted(Part::Queries)
        .then(|| in_own_process(YEAR, settings, places))
        .transpose()?;
    report
        .versions
        .insert("seiner-engine".into(), env!("CARGO_PKG_VERSION").into());
    report.notes.push(format!(
        "scale {}, {} samples per source before and after the crash, default options except for the memory",
        settings.scale, settings.samples
    ));
    report.tables = tables(&measured);
    report.tables.extend(year.as_ref().map(year::table));
    report.checks = measured.iter().flat_map(checks).collect();
    report.checks.extend(year.iter().flat_map(year::checks));
    report.measured = json!({ "scale": settings.scale, "cases": measured, "year": year });
    report.finish(places)
}

fn in_own_process<T: DeserializeOwned>(
    case: &str,
    settings: &CoreSettings,
    places: &OutputPaths,
) -> Result<T> {
    let (scale, samples) = (settings.scale.to_string(), settings.samples.to_string());
    let output = Command::new(std::env::current_exe()?)
        .arg("--output")
        .arg(&places.output)
        .args(["core", "--case", case])
        .args(["--scale", &scale, "--samples", &samples])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "{case} failed");
    serde_json::from_slice(&output.stdout).context("a case printed no JSON")
}

fn measure(case: &Case, settings: &CoreSettings, output: &Path) -> Result<Measured> {
    seiner_platform::memory::bound_allocator();
    std::fs::create_dir_all(output)?;
    let folder = tempfile::tempdir_in(output)?;
    let path = folder.path().join("data");
    let sources = (f64::from(case.sources) * settings.scale) as u32 / BATCH * BATCH;
    let memory = (case.memory as f64 * settings.scale) as u64;
    let options = match case.part {
        Part::Merging => merging::options(memory, sources)?,
        _ => Options {
            memory,
            ..Options::default()
        },
    };
    let mut measured = Measured {
        case: case.name.to_string(),
        sources,
        memory_bytes: memory,
        rejected: 0,
        phases: Vec::new(),
        merged: 0,
        dropped: 0,
        append_ms: None,
        append_cpu_ms: None,
    };
    let mut engine = None;
    let mut phase = |name: &str, engine: &mut Option<Arc<Engine>>, work: &mut Work<'_>| {
        measured.phases.push(observe(name, engine, work)?);
        let last = &measured.phases[measured.phases.len() - 1];
        eprintln!(
            "{} {name}: {:.0} MiB at most, {:.1} s",
            case.name,
            last.peak_rss_bytes as f64 / f64::from(1 << 20),
            last.wall_s
        );
        anyhow::Ok(())
    };
    let (mut latencies, mut rejected) = (Latencies::default(), 0);
    phase("registration", &mut engine, &mut |engine| {
        let opened = Engine::open_directory(&path, options.clone())?;
        rejected += append(&opened, sources, 0, &mut latencies)?;
        *engine = Some(opened);
        Ok(())
    })?;
    if case.part == Part::Memory {
        let mut ignored = Latencies::default();
        let rounds = 1..i64::from(settings.samples);
        phase("ingest", &mut engine, &mut |engine| {
            for round in rounds.clone() {
                rejected += append(opened(engine)?, sources, round, &mut ignored)?;
            }
            Ok(())
        })?;
        phase("flush", &mut engine, &mut |engine| {
            Ok(opened(engine)?.flush()?)
        })?;
        phase("ingest after the flush", &mut engine, &mut |engine| {
            for round in rounds.clone() {
                let round = round + i64::from(settings.samples);
                rejected += append(opened(engine)?, sources, round, &mut ignored)?;
            }
            Ok(opened(engine)?.commit()?)
        })?;
        engine = None;
        phase("recovery", &mut engine, &mut |engine| {
            *engine = Some(reopen(&path, &options)?);
            Ok(())
        })?;
        phase("query of everything", &mut engine, &mut |engine| {
            let count = count(opened(engine)?)?;
            let rounds = u64::from(settings.samples) * 2 - 1;
            let expected = u64::from(sources) * rounds;
            ensure!(
                count == expected || rejected > 0,
                "{count} samples instead of {expected}"
            );
            Ok(())
        })?;
        phase("closing", &mut engine, &mut |engine| {
            Ok(engine.take().context("the store is open")?.close()?)
        })?;
        phase("start", &mut engine, &mut |engine| {
            *engine = Some(reopen(&path, &options)?);
            Ok(())
        })?;
    }
    if case.part == Part::Merging {
        let mut rounds = 1..1;
        for name in ["first rounds", "overwriting", "overwriting again"] {
            rounds = rounds.end..rounds.end + MERGING_ROUNDS;
            phase(name, &mut engine, &mut |engine| {
                rejected += merging::append(opened(engine)?, sources, rounds.clone())?;
                Ok(())
            })?;
        }
        let status = opened(&engine)?.status();
        engine = None;
        phase("recovery", &mut engine, &mut |engine| {
            *engine = Some(reopen(&path, &options)?);
            Ok(())
        })?;
        phase("query of everything", &mut engine, &mut |engine| {
            count(opened(engine)?).map(drop)
        })?;
        (measured.merged, measured.dropped) = (status.segments_merged, status.segments_dropped);
    }
    if let Some(engine) = engine {
        engine.close()?;
    }
    measured.rejected = rejected;
    if case.part == Part::Registration {
        measured.append_ms = Some(quantiles(latencies.wall_ms));
        measured.append_cpu_ms = Some(quantiles(latencies.cpu_ms));
    }
    Ok(measured)
}

/// Returns the number of samples in a store.
fn count(engine: &Engine) -> Result<u64> {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let mut count = 0;
    for series in engine.aggregate(&query, Step::Whole)? {
        let buckets = series?.buckets;
        count += buckets.iter().map(|bucket| bucket.count).sum::<u64>();
    }
    Ok(count)
}

/// Latencies of appends.
#[derive(Default)]
struct Latencies {
    wall_ms: Vec<f64>,
    cpu_ms: Vec<f64>,
}

/// Returns p50, p99, p99.9 and the maximum.
fn quantiles(mut latencies: Vec<f64>) -> [f64; 4] {
    latencies.sort_by(f64::total_cmp);
    let last = latencies.len().saturating_sub(1) as f64;
    [0.5, 0.99, 0.999, 1.0].map(|share| latencies[(last * share).ceil() as usize])
}

/// Returns the processor time of this thread, in ms.
fn cpu_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

type Work<'w> = dyn FnMut(&mut Option<Arc<Engine>>) -> Result<()> + 'w;

fn opened(engine: &Option<Arc<Engine>>) -> Result<&Arc<Engine>> {
    engine.as_ref().context("the store is open")
}

/// Runs a phase. Memory peaks before the phase do not count.
fn observe(name: &str, engine: &mut Option<Arc<Engine>>, work: &mut Work<'_>) -> Result<Phase> {
    std::fs::write("/proc/self/clear_refs", "5").context("resetting the peak of the memory")?;
    let (before, start) = (Usage::own()?, Instant::now());
    work(engine)?;
    let after = Usage::own()?;
    Ok(Phase {
        name: name.to_string(),
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: after.cpu_s - before.cpu_s,
        peak_rss_bytes: after.peak_rss,
        accounted_bytes: engine.as_ref().map(|engine| engine.status().memory_used),
    })
}

/// Opens a store again. Waits until its last user has released the directory.
fn reopen(path: &Path, options: &Options) -> Result<Arc<Engine>> {
    let start = Instant::now();
    loop {
        match Engine::open_directory(path, options.clone()) {
            Err(Error::Io { error, .. })
                if error.kind() == std::io::ErrorKind::WouldBlock && start.elapsed() < PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return Ok(other?),
        }
    }
}

/// Appends a row to every source and notes each append's latency in ms. Returns the number of
/// rejected rows.
fn append(engine: &Engine, sources: u32, round: i64, latencies: &mut Latencies) -> Result<usize> {
    let (mut rejected, mut names) = (0, Names::default());
    let value =
        |source: u32| f64::from(source.wrapping_mul(7).wrapping_add(round as u32) % 1000) / 10.0;
    for first in (0..sources).step_by(BATCH as usize) {
        names.fill(first..first + BATCH)?;
        let batch = names.batch(round, value);
        let (start, cpu_before) = (Instant::now(), cpu_ms());
        rejected += engine.append(&Canonical, &batch)?.rejected_total;
        latencies.cpu_ms.push(cpu_ms() - cpu_before);
        latencies.wall_ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(rejected)
}

fn tables(measured: &[Measured]) -> Vec<Table> {
    let mib = |bytes: u64| short(bytes as f64 / f64::from(1 << 20));
    let columns = [
        "case",
        "phase",
        "peak, MiB",
        "accounted, MiB",
        "wall, s",
        "CPU, s",
    ];
    let mut phases = Table::new("Memory by phase", &columns);
    for case in measured {
        phases.rows.extend(case.phases.iter().map(|phase| {
            vec![
                case.case.clone(),
                phase.name.clone(),
                mib(phase.peak_rss_bytes),
                phase.accounted_bytes.map_or("-".into(), mib),
                short(phase.wall_s),
                short(phase.cpu_s),
            ]
        }));
    }
    let mut appends = Table::new(
        "Appends of 1,000 new sources, ms",
        &["case", "figure", "p50", "p99", "p99.9", "longest"],
    );
    for case in measured {
        let kinds = [
            ("latency", case.append_ms),
            ("processor time", case.append_cpu_ms),
        ];
        for (kind, latencies) in kinds {
            let Some(latencies) = latencies else { continue };
            let cells = latencies.iter().map(|&latency| short(latency));
            let row = [case.case.clone(), kind.to_string()]
                .into_iter()
                .chain(cells);
            appends.rows.push(row.collect());
        }
    }
    vec![phases, appends]
}

fn checks(measured: &Measured) -> Vec<Check> {
    let mib = f64::from(1 << 20);
    let rejected = Check::new(
        format!("{}: sources rejected", measured.case),
        Some(measured.rejected as f64),
        Relation::AtMost,
        Some(0.0),
        "",
    );
    let bounds = match measured.append_ms {
        Some([_, _, most, _]) => vec![Check::new(
            format!("{}: p99.9 of an append", measured.case),
            Some(most),
            Relation::AtMost,
            Some(LONGEST_MS),
            "ms",
        )],
        None => measured
            .phases
            .iter()
            .map(|phase| {
                Check::new(
                    format!("{}: resident memory, {}", measured.case, phase.name),
                    Some(phase.peak_rss_bytes as f64 / mib),
                    Relation::AtMost,
                    Some((measured.memory_bytes + BESIDE) as f64 / mib),
                    "MiB",
                )
            })
            .collect(),
    };
    bounds.into_iter().chain([rejected]).collect()
}
