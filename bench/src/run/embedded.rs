//! `embedded`: the engine without a server, fed columnar batches on one core.
//!
//! Every case runs in its own process. The process and all threads of the engine are pinned to one
//! processor, so a second core or the memory of another case does not affect the figures.

use crate::latency::median;
use crate::process::{Usage, in_own_process};
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use crate::workload::{Gauge, PERIOD, START, Workload, tags};
use anyhow::{Context, Result};
use clap::Args;
use seiner_engine::{Durability, Engine, Options};
use seiner_model::{SourceId, SourceKey};
use seiner_random::SplitMixRng;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// Settings of `embedded`.
#[derive(Args)]
pub struct EmbeddedSettings {
    /// Number of repetitions per case; medians are reported
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Share of the samples to append, for a quick look; bounds apply to 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Run one case in this process and print its measurements (used by the benchmark itself)
    #[arg(long, hide = true)]
    case: Option<String>,
}

/// Method of feeding the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    name: &'static str,
    sources: u32,
    ticks: u32,
    shuffled: bool,
    durability: Durability,
    /// Memory setting of the engine, bytes.
    memory: u64,
}

/// Default memory setting, bytes.
const MEMORY: u64 = 256 << 20;
/// Memory setting for a million sources, bytes. Names, tags and lines take 150 MiB; the rest of the
/// default would not suffice for one block per source.
const MEMORY_FOR_A_MILLION: u64 = 512 << 20;

const INTERVAL: Durability = Durability::Interval(std::time::Duration::from_millis(100));
const CASES: [Case; 4] = [
    Case {
        name: "in-order",
        sources: 4_000,
        ticks: 5_000,
        shuffled: false,
        durability: INTERVAL,
        memory: MEMORY,
    },
    Case {
        name: "in-order-memory",
        sources: 4_000,
        ticks: 5_000,
        shuffled: false,
        durability: Durability::Memory,
        memory: MEMORY,
    },
    Case {
        name: "shuffled",
        sources: 1_000_000,
        ticks: 20,
        shuffled: true,
        durability: INTERVAL,
        memory: MEMORY_FOR_A_MILLION,
    },
    Case {
        name: "shuffled-memory",
        sources: 1_000_000,
        ticks: 20,
        shuffled: true,
        durability: Durability::Memory,
        memory: MEMORY_FOR_A_MILLION,
    },
];
/// Samples per batch.
const BATCH: usize = 10_000;

/// Measurements of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    case: String,
    samples: u64,
    /// Time of appending, without registration and generation.
    wall_s: f64,
    /// Processor time of the process while appending, including the engine's threads.
    cpu_s: f64,
    register_wall_s: f64,
    register_cpu_s: f64,
    /// Growth of the resident set during registration, per source.
    registered_bytes_per_source: f64,
    /// Growth of the resident set after all appends, with open buffers, per source.
    loaded_bytes_per_source: f64,
    peak_rss_bytes: u64,
    stored: u64,
}

const PURPOSE: &str = "The engine in a process of its own, pinned to one core with all its threads. The load: one field, \
    f64 gauges with 1-2 decimals, batches of 10,000 samples made beforehand. In order: every tick goes through all \
    sources in the order they were registered. Shuffled: every tick goes through them in another random order. \
    Rates count appending alone. The seconds of processor time are those of the whole process during the appends.";

/// Runs the benchmark.
pub fn run(settings: &EmbeddedSettings, places: &OutputPaths) -> Result<()> {
    if let Some(name) = &settings.case {
        let case = CASES
            .iter()
            .find(|case| case.name == name)
            .with_context(|| format!("unknown case {name}"))?;
        println!(
            "{}",
            serde_json::to_string(&measure(&case.scaled(settings.scale), &places.output)?)?
        );
        return Ok(());
    }
    let mut report = Report::new("embedded", PURPOSE);
    std::fs::create_dir_all(&places.output)?;
    let mut measured = Vec::new();
    for _ in 0..settings.repeat {
        for case in &CASES {
            let arguments = ["embedded", "--case", case.name];
            let one: Measured = in_own_process(&places.output, arguments, settings.scale)?;
            eprintln!(
                "{}: {} M samples/s",
                one.case,
                cell(Some(one.samples as f64 / one.wall_s / 1e6))
            );
            measured.push(one);
        }
    }
    report
        .versions
        .insert("seiner-engine".into(), env!("CARGO_PKG_VERSION").into());
    report.notes.push(format!(
        "{} repetitions, scale {}, default options, with a memory budget of {} MiB, and of {} MiB for a million sources",
        settings.repeat,
        settings.scale,
        MEMORY >> 20,
        MEMORY_FOR_A_MILLION >> 20
    ));
    report.notes.extend(
        measured
            .iter()
            .filter(|one| one.stored != one.samples)
            .map(|one| {
                format!(
                    "**{}: the engine returns {} of {} samples**",
                    one.case, one.stored, one.samples
                )
            }),
    );
    report.tables.push(table(&measured));
    report.checks = checks(&measured);
    report.measured = json!({ "scale": settings.scale, "memory_budget_bytes": { "default": MEMORY, "a_million": MEMORY_FOR_A_MILLION }, "cases": measured });
    report.finish(places)
}

impl Case {
    fn scaled(self, scale: f64) -> Case {
        let workload = Workload {
            name: self.name,
            sources: self.sources,
            fields: 1,
            ticks: self.ticks,
            first_tick: 0,
            counters: false,
        }
        .scaled(scale);
        Case {
            sources: workload.sources,
            ticks: workload.ticks,
            ..self
        }
    }
}

fn measure(case: &Case, output: &Path) -> Result<Measured> {
    pin_to_one_core()?;
    let batches = batches(case);
    let folder = tempfile::tempdir_in(output)?;
    let options = Options {
        durability: case.durability,
        memory: case.memory,
        ..Options::default()
    };
    let before = Usage::own()?;
    let start = Instant::now();
    let engine = Engine::open_directory(&folder.path().join("data"), options)?;
    let ids = register(&engine, case.sources)?;
    let register_wall_s = start.elapsed().as_secs_f64();
    let registered = Usage::own()?;
    let start = Instant::now();
    let mut samples = 0;
    let mut sources = Vec::with_capacity(BATCH);
    for batch in &batches {
        sources.clear();
        sources.extend(batch.sources.iter().map(|&source| ids[source as usize]));
        samples += engine
            .append_samples("value", &sources, &batch.times, &batch.values)?
            .samples as u64;
    }
    let wall_s = start.elapsed().as_secs_f64();
    let after = Usage::own()?;
    let per_source = |rss: u64| rss.saturating_sub(before.rss) as f64 / f64::from(case.sources);
    engine.flush()?;
    let measured = Measured {
        case: case.name.to_string(),
        samples,
        wall_s,
        cpu_s: after.cpu_s - registered.cpu_s,
        register_wall_s,
        register_cpu_s: registered.cpu_s - before.cpu_s,
        registered_bytes_per_source: per_source(registered.rss),
        loaded_bytes_per_source: per_source(after.rss),
        peak_rss_bytes: after.peak_rss,
        stored: stored(&engine)?,
    };
    engine.close()?;
    Ok(measured)
}

fn pin_to_one_core() -> Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let last = (0..rustix::thread::CpuSet::MAX_CPU)
        .rev()
        .find(|&cpu| allowed.is_set(cpu));
    set.set(last.context("the process may run on no processor")?);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Registers the first sources of the workload.
pub(super) fn register(engine: &Engine, sources: u32) -> Result<Vec<SourceId>> {
    let per_host = crate::workload::SENSORS_PER_HOST;
    (0..sources)
        .map(|source| {
            let key = SourceKey::new("gauge", tags(source / per_host, source % per_host))?;
            Ok(engine.register(&key)?)
        })
        .collect()
}

/// Rows of one call; sources by number.
struct Batch {
    sources: Vec<u32>,
    times: Vec<i64>,
    values: Vec<f64>,
}

fn batches(case: &Case) -> Vec<Batch> {
    let mut gauges: Vec<Gauge> = (0..case.sources).map(Gauge::new).collect();
    let mut order: Vec<u32> = (0..case.sources).collect();
    let mut rng = SplitMixRng::new(1);
    let mut batches = Vec::new();
    for tick in 0..case.ticks {
        if case.shuffled {
            rng.shuffle(&mut order);
        }
        let time = START + i64::from(tick) * PERIOD;
        for sources in order.chunks(BATCH) {
            batches.push(Batch {
                sources: sources.to_vec(),
                times: sources
                    .iter()
                    .map(|&source| time + i64::from(source / 100) * 1_000_000)
                    .collect(),
                values: sources
                    .iter()
                    .map(|&source| gauges[source as usize].value())
                    .collect(),
            });
        }
    }
    batches
}

fn stored(engine: &Engine) -> Result<u64> {
    let query = seiner_engine::Query {
        selector: seiner_model::Selector::parse("gauge")?,
        fields: None,
        interval: seiner_model::Interval::new(i64::MIN, i64::MAX),
    };
    let mut stored = 0;
    for series in engine.aggregate(&query, seiner_engine::Step::Whole)? {
        stored += series?
            .buckets
            .iter()
            .map(|bucket| bucket.count)
            .sum::<u64>();
    }
    Ok(stored)
}

fn figure(measured: &[Measured], case: &str, of: impl Fn(&Measured) -> f64) -> Option<f64> {
    median(measured.iter().filter(|one| one.case == case).map(of))
}

fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new(
        "Appending columnar batches on one core",
        &[
            "case",
            "durability",
            "M samples per s",
            "M samples per CPU-s",
            "registering, M sources per s",
            "bytes a source, registered",
            "bytes a source, loaded",
            "peak RSS, GB (batches included)",
        ],
    );
    for case in &CASES {
        let at = |of: &dyn Fn(&Measured) -> f64| cell(figure(measured, case.name, of));
        let order = if case.shuffled {
            "random order"
        } else {
            "in order"
        };
        table.rows.push(vec![
            format!("{} sources, {order}", case.sources),
            if case.durability == Durability::Memory {
                "memory"
            } else {
                "interval 100 ms"
            }
            .to_string(),
            at(&|one| one.samples as f64 / one.wall_s / 1e6),
            at(&|one| one.samples as f64 / one.cpu_s.max(0.01) / 1e6),
            at(&|one| f64::from(case.sources) / one.register_wall_s / 1e6),
            at(&|one| one.registered_bytes_per_source),
            at(&|one| one.loaded_bytes_per_source),
            at(&|one| one.peak_rss_bytes as f64 / 1e9),
        ]);
    }
    table
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let rate = |case: &str| figure(measured, case, |one| one.samples as f64 / one.wall_s / 1e6);
    [
        (
            "in-order",
            "4,000 sources in order, one core, durability interval",
            30.0,
        ),
        (
            "shuffled",
            "1,000,000 sources in random order, one core, durability interval",
            10.0,
        ),
    ]
    .map(|(case, name, bound)| {
        Check::new(
            name,
            rate(case),
            Relation::AtLeast,
            Some(bound),
            "M samples/s",
        )
    })
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_every_source_once_a_tick() {
        for case in CASES.map(|case| case.scaled(0.0001)) {
            let batches = batches(&case);
            let mut counts = vec![0; case.sources as usize];
            for batch in &batches {
                assert_eq!(
                    (batch.times.len(), batch.values.len()),
                    (batch.sources.len(), batch.sources.len())
                );
                batch
                    .sources
                    .iter()
                    .for_each(|&source| counts[source as usize] += 1);
            }
            assert!(
                counts.iter().all(|&count| count == case.ticks),
                "{}",
                case.name
            );
        }
    }
}
