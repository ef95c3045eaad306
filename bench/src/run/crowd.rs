//! `crowd`: very many sensors in a fixed memory.
//!
//! The engine alone, with its journal. Each cell runs in two processes: one registers the sources, stores rows round
//! robin, and ends without closing the store; the next opens it, selects sources, and flushes.

use crate::process::{Usage, bytes_of, in_own_process};
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use crate::workload::{PERIOD, SENSORS_PER_HOST, START, tags};
use anyhow::{Context, Result, ensure};
use clap::Args;
use seiner_engine::{Engine, Options, Selector, SourceId, SourceKey};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Settings of `crowd`.
#[derive(Args)]
pub struct CrowdSettings {
    /// Share of the sources, for a quick look; bounds apply to 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Cell to run. Without it, all run but fifty-million, which takes 4 GiB of memory and some minutes
    #[arg(long)]
    cell: Option<String>,
    /// Run one part of a cell in this process and print its measurements (used by the benchmark itself)
    #[arg(long, hide = true)]
    part: Option<String>,
}

/// Sources in a memory, and bounds.
struct Cell {
    name: &'static str,
    sources: u32,
    /// True if each source has a tag value of its own.
    own_tag: bool,
    /// True if the sources come one after the other, each with a row, are silent, and all send again.
    is_silent: bool,
    /// Memory of the store in bytes.
    memory: u64,
    /// Rows of each source.
    rows: u32,
    /// Maximum resident memory of the process, bytes.
    rss: f64,
    /// Maximum bytes per sample in segments.
    per_sample: f64,
    /// Minimum samples per second of processor time, when all sources are known, millions.
    speed: f64,
}

/// The last cell runs by hand only.
const CELLS: [Cell; 5] = [
    Cell {
        name: "two-million",
        sources: 2_000_000,
        own_tag: false,
        is_silent: false,
        memory: 256 << 20,
        rows: 12,
        rss: 320.0 * MIB,
        per_sample: 1.1,
        speed: 4.0,
    },
    Cell {
        name: "own-tags",
        sources: 2_200_000,
        own_tag: true,
        is_silent: false,
        memory: 256 << 20,
        rows: 6,
        rss: 320.0 * MIB,
        per_sample: 1.2,
        speed: 2.0,
    },
    Cell {
        name: "silent",
        sources: 4_000_000,
        own_tag: true,
        is_silent: true,
        memory: 256 << 20,
        rows: 2,
        rss: 320.0 * MIB,
        per_sample: 1.75,
        speed: 0.05,
    },
    Cell {
        name: "ten-million",
        sources: 10_000_000,
        own_tag: false,
        is_silent: false,
        memory: 1 << 30,
        rows: 6,
        rss: 1.1 * 1024.0 * MIB,
        per_sample: 1.2,
        speed: 3.5,
    },
    Cell {
        name: "fifty-million",
        sources: 50_000_000,
        own_tag: false,
        is_silent: false,
        memory: 4 << 30,
        rows: 3,
        rss: 1.1 * 4096.0 * MIB,
        per_sample: 1.3,
        speed: 3.5,
    },
];

const MIB: f64 = 1_048_576.0;
/// Samples per batch.
const BATCH: u32 = 1_000;
/// Time between batches of new sources that become silent.
const NEW_BATCH: Duration = Duration::from_millis(20);

const PURPOSE: &str = "The engine in processes of its own, default settings but for the memory. The load: one field, \
    f64 gauges with one decimal around a level of their own, a row of every source per tick of 10 s, in batches of \
    1,000, each waiting for the last. In the cells own-tags and silent, each source also has a tag value that no other \
    has. Before, the sources are registered in batches of 1,000; the processor time of creating their keys is measured \
    alone and does not count. In the cell silent, the sources come 50,000 a second, each with a row, and a source may \
    become dormant after some seconds (idle_seal is 8 s). Then each is registered again by its key and gets a second row: \
    these are its known sources. The process ends without closing the store; the next one \
    starts, selects the ten sources of a tag value, and flushes. Resident memory is that of the whole process.";

/// Measurements of the first process.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Loaded {
    sources: u32,
    rejected: u64,
    samples: u64,
    /// Processor time of the registration, seconds, without the creation of the keys.
    register_cpu_s: f64,
    /// Processor time of the rows after the first of each source, seconds.
    known_cpu_s: f64,
    /// Time of a batch of registrations that 99.9 % do not exceed, ms.
    slow_registration_ms: f64,
    /// Time of acknowledgement of a batch that 99.9 % do not exceed, ms.
    slow_batch_ms: f64,
    slowest_batch_ms: f64,
    /// Dormant sources that were found again.
    recalled: u64,
    peak_rss_bytes: u64,
}

/// Measurements of the second process.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Restarted {
    start_s: f64,
    select_first_ms: f64,
    select_again_ms: f64,
    flush_s: f64,
    peak_rss_bytes: u64,
    segment_bytes: u64,
    /// Bytes of names files.
    names_bytes: u64,
    directory_bytes: u64,
}

/// Runs the benchmark.
pub fn run(settings: &CrowdSettings, places: &OutputPaths) -> Result<()> {
    let directory = places.output.join("crowd-data");
    if let Some(part) = &settings.part {
        let (name, part) = part.split_once('/').context("a cell and its part")?;
        let found = CELLS.iter().find(|cell| cell.name == name);
        let found = found.with_context(|| format!("unknown cell {name}"))?;
        let printed = match part {
            "load" => serde_json::to_string(&load(found, settings.scale, &directory)?)?,
            _ => serde_json::to_string(&restart(found, settings.scale, &directory)?)?,
        };
        println!("{printed}");
        // The store stays open: its journal is read by the next process.
        std::process::exit(0);
    }
    let mut report = Report::new("crowd", PURPOSE);
    std::fs::create_dir_all(&places.output)?;
    let mut measured = Vec::new();
    let is_wanted = |cell: &&Cell| match &settings.cell {
        Some(name) => cell.name == name,
        None => cell.sources <= 10_000_000,
    };
    for cell in CELLS.iter().filter(is_wanted) {
        let _ = std::fs::remove_dir_all(&directory);
        let [load, restart] = ["load", "restart"].map(|part| format!("{}/{part}", cell.name));
        let load = ["crowd", "--part", &load];
        let loaded: Loaded = in_own_process(&places.output, load, settings.scale)?;
        eprintln!("{}: {} samples", cell.name, loaded.samples);
        let restart = ["crowd", "--part", &restart];
        let restarted: Restarted = in_own_process(&places.output, restart, settings.scale)?;
        measured.push((cell, loaded, restarted));
    }
    ensure!(!measured.is_empty(), "no cell has this name");
    std::fs::remove_dir_all(&directory)?;
    report
        .versions
        .insert("seiner-engine".into(), env!("CARGO_PKG_VERSION").into());
    report.tables.push(table(&measured));
    report.checks = measured.iter().flat_map(checks).collect();
    let cells = measured.iter().map(
        |(cell, loaded, restarted)| json!({ "cell": cell.name, "loaded": loaded, "restarted": restarted }),
    );
    report.measured = json!({ "scale": settings.scale, "cells": cells.collect::<Vec<_>>() });
    report.finish(places)
}

fn open(cell: &Cell, directory: &Path) -> Result<Arc<Engine>> {
    let options = Options {
        memory: cell.memory,
        ..Options::default()
    };
    let options = match cell.is_silent {
        true => Options {
            idle_seal: Duration::from_secs(8),
            ..options
        },
        false => options,
    };
    Ok(Engine::open_directory(directory, options)?)
}

fn load(cell: &Cell, scale: f64, directory: &Path) -> Result<Loaded> {
    let sources = (f64::from(cell.sources) * scale) as u32 / BATCH * BATCH;
    let before = Usage::own()?.cpu_s;
    for first in (0..sources).step_by(BATCH as usize) {
        std::hint::black_box(keys(cell, first)?);
    }
    let generated_cpu_s = Usage::own()?.cpu_s - before;
    let engine = open(cell, directory)?;
    if cell.is_silent {
        return load_silent(cell, sources, generated_cpu_s, &engine);
    }
    let before = Usage::own()?.cpu_s;
    let mut rejected = 0;
    let mut registrations = Vec::new();
    for first in (0..sources).step_by(BATCH as usize) {
        let keys = keys(cell, first)?;
        let start = Instant::now();
        let found = engine.register_all(&keys.iter().collect::<Vec<_>>())?;
        registrations.push(start.elapsed().as_secs_f32() * 1e3);
        rejected += found.iter().filter(|source| source.is_err()).count() as u64;
    }
    let register_cpu_s = Usage::own()?.cpu_s - before - generated_cpu_s;
    let (mut batches, mut samples, mut known_cpu_s) = (Vec::new(), 0, 0.0);
    for tick in 0..cell.rows {
        let before = Usage::own()?.cpu_s;
        for first in (0..sources).step_by(BATCH as usize) {
            let ids: Vec<SourceId> = (first..first + BATCH).map(SourceId).collect();
            let times = vec![START + i64::from(tick) * PERIOD; ids.len()];
            let values: Vec<f64> = ids.iter().map(|id| value(id.0, tick)).collect();
            let start = Instant::now();
            let receipt = engine.append_samples("value", &ids, &times, &values)?;
            batches.push(start.elapsed().as_secs_f32() * 1e3);
            samples += receipt.samples as u64;
            rejected += receipt.rejected_total as u64;
        }
        if tick > 0 {
            known_cpu_s += Usage::own()?.cpu_s - before;
        }
    }
    engine.commit()?;
    Ok(Loaded {
        sources,
        rejected,
        samples,
        register_cpu_s,
        known_cpu_s,
        slow_registration_ms: slow(&mut registrations),
        slow_batch_ms: slow(&mut batches),
        slowest_batch_ms: batches[batches.len() - 1].into(),
        recalled: engine.status().sources_recalled,
        peak_rss_bytes: Usage::own()?.peak_rss,
    })
}

/// Sorts times, and returns the time that 99.9 % of them do not exceed.
fn slow(times: &mut [f32]) -> f64 {
    times.sort_unstable_by(f32::total_cmp);
    f64::from(times[times.len() * 999 / 1000])
}

/// Registers sources with a row each at a steady rate, and again at full speed when most are dormant.
fn load_silent(cell: &Cell, sources: u32, generated_cpu_s: f64, engine: &Engine) -> Result<Loaded> {
    let (mut samples, mut rejected) = (0, 0);
    let (mut registrations, mut batches) = (Vec::new(), Vec::new());
    let mut cpu_s = [0.0; 2];
    for round in 0..2 {
        let before = Usage::own()?.cpu_s;
        let began = Instant::now();
        for (count, first) in (0..sources).step_by(BATCH as usize).enumerate() {
            if round == 0 {
                let due = NEW_BATCH * count as u32;
                std::thread::sleep(due.saturating_sub(began.elapsed()));
            }
            let keys = keys(cell, first)?;
            let start = Instant::now();
            let found = engine.register_all(&keys.iter().collect::<Vec<_>>())?;
            registrations.push(start.elapsed().as_secs_f32() * 1e3);
            let ids: Vec<SourceId> = found.into_iter().flatten().collect();
            rejected += keys.len() as u64 - ids.len() as u64;
            let times = vec![START + round * PERIOD; ids.len()];
            let values: Vec<f64> = ids.iter().map(|id| value(id.0, round as u32)).collect();
            let start = Instant::now();
            let receipt = engine.append_samples("value", &ids, &times, &values)?;
            batches.push(start.elapsed().as_secs_f32() * 1e3);
            samples += receipt.samples as u64;
            rejected += receipt.rejected_total as u64;
        }
        cpu_s[round as usize] = Usage::own()?.cpu_s - before - generated_cpu_s;
    }
    engine.commit()?;
    Ok(Loaded {
        sources,
        rejected,
        samples,
        register_cpu_s: cpu_s[0],
        known_cpu_s: cpu_s[1],
        slow_registration_ms: slow(&mut registrations),
        slow_batch_ms: slow(&mut batches),
        slowest_batch_ms: batches[batches.len() - 1].into(),
        recalled: engine.status().sources_recalled,
        peak_rss_bytes: Usage::own()?.peak_rss,
    })
}

/// Returns the keys of a batch of sources.
fn keys(cell: &Cell, first: u32) -> Result<Vec<SourceKey>> {
    let keys = (first..first + BATCH).map(|source| {
        let (host, sensor) = (source / SENSORS_PER_HOST, source % SENSORS_PER_HOST);
        let own = format!("{:016x}", mixed(source));
        let own = cell.own_tag.then_some(("serial", own));
        Ok(SourceKey::new(
            "gauge",
            tags(host, sensor).into_iter().chain(own),
        )?)
    });
    keys.collect()
}

/// Returns a number that no other source has, and that does not compress.
fn mixed(source: u32) -> u64 {
    let mixed = (u64::from(source) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Returns the value of a gauge: a level of its own, and noise.
fn value(source: u32, tick: u32) -> f64 {
    let level = source.wrapping_mul(2_654_435_761) >> 22;
    let noise = (source ^ tick.wrapping_mul(0x9E37_79B9)).wrapping_mul(0x85EB_CA6B) >> 16;
    f64::from(level + noise % 11) / 10.0
}

fn restart(cell: &Cell, scale: f64, directory: &Path) -> Result<Restarted> {
    let sources = (f64::from(cell.sources) * scale) as u32 / BATCH * BATCH;
    let start = Instant::now();
    let engine = open(cell, directory)?;
    let start_s = start.elapsed().as_secs_f64();
    let host = sources / SENSORS_PER_HOST / 2;
    let sensors = tags(host, 0).map(|(name, value)| format!("{name}=\"{value}\""));
    // The tag of the host, and ten of its hundred sensors by their number.
    let selector = format!("gauge{{{},{}}}", sensors[0], ten_sensors(host));
    let select = || -> Result<f64> {
        let start = Instant::now();
        let found = engine.sources(&Selector::parse(&selector)?)?.len();
        ensure!(found == 10, "{found} sources of {selector}");
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    let (select_first_ms, select_again_ms) = (select()?, select()?);
    let start = Instant::now();
    engine.flush()?;
    Ok(Restarted {
        start_s,
        select_first_ms,
        select_again_ms,
        flush_s: start.elapsed().as_secs_f64(),
        peak_rss_bytes: Usage::own()?.peak_rss,
        segment_bytes: bytes_of(directory, "segment-")?,
        names_bytes: bytes_of(directory, "names-")?,
        directory_bytes: bytes_of(directory, "")?,
    })
}

/// Returns a condition that ten sensors of a host satisfy.
fn ten_sensors(host: u32) -> String {
    let names: Vec<String> = (0..10)
        .map(|sensor| tags(host, sensor)[2].1.clone())
        .collect();
    format!("{}=~\"{}\"", tags(host, 0)[2].0, names.join("|"))
}

type Measured<'a> = (&'a Cell, Loaded, Restarted);

fn known_speed(loaded: &Loaded) -> f64 {
    let known = loaded.samples.saturating_sub(loaded.sources.into());
    known as f64 / loaded.known_cpu_s / 1e6
}

fn peak_rss(loaded: &Loaded, restarted: &Restarted) -> f64 {
    loaded.peak_rss_bytes.max(restarted.peak_rss_bytes) as f64
}

fn table(measured: &[Measured<'_>]) -> Table {
    let columns = [
        "cell",
        "sources, M",
        "memory, MiB",
        "rows each",
        "rejected",
        "recalled, M",
        "registered per CPU-second, M",
        "samples per CPU-second, M",
        "99.9 % of registrations within, ms",
        "99.9 % of batches within, ms",
        "largest RSS, load, MiB",
        "largest RSS, start and flush, MiB",
        "bytes a sample",
        "with names",
        "names files, bytes a source",
        "start, s",
        "selector, first, ms",
        "again, ms",
        "flush, s",
    ];
    let mut table = Table::new("Very many sources in a fixed memory", &columns);
    for (one, loaded, restarted) in measured {
        let samples = loaded.samples as f64;
        table.rows.push(vec![
            one.name.to_string(),
            cell(Some(f64::from(loaded.sources) / 1e6)),
            cell(Some(one.memory as f64 / MIB)),
            one.rows.to_string(),
            loaded.rejected.to_string(),
            cell(Some(loaded.recalled as f64 / 1e6)),
            cell(Some(
                f64::from(loaded.sources) / loaded.register_cpu_s / 1e6,
            )),
            cell(Some(known_speed(loaded))),
            cell(Some(loaded.slow_registration_ms)),
            cell(Some(loaded.slow_batch_ms)),
            cell(Some(loaded.peak_rss_bytes as f64 / MIB)),
            cell(Some(restarted.peak_rss_bytes as f64 / MIB)),
            format!("{:.3}", restarted.segment_bytes as f64 / samples),
            format!("{:.3}", restarted.directory_bytes as f64 / samples),
            cell(Some(
                restarted.names_bytes as f64 / f64::from(loaded.sources),
            )),
            cell(Some(restarted.start_s)),
            cell(Some(restarted.select_first_ms)),
            cell(Some(restarted.select_again_ms)),
            cell(Some(restarted.flush_s)),
        ]);
    }
    table
}

fn checks((cell, loaded, restarted): &Measured<'_>) -> Vec<Check> {
    use Relation::{AtLeast, AtMost};
    let of = |what: &str, value: f64, relation, bound, unit: &str| {
        let name = format!("{what}, {}", cell.name);
        Check::new(name, Some(value), relation, Some(bound), unit)
    };
    let per_sample = restarted.segment_bytes as f64 / loaded.samples as f64;
    let rss = peak_rss(loaded, restarted) / MIB;
    let mut checks = vec![
        of(
            "rejected",
            loaded.rejected as f64,
            AtMost,
            0.0,
            "sources and samples",
        ),
        of(
            "largest resident memory",
            rss,
            AtMost,
            cell.rss / MIB,
            "MiB",
        ),
        of(
            "bytes a sample",
            per_sample,
            AtMost,
            cell.per_sample,
            "bytes",
        ),
        of(
            "known sources",
            known_speed(loaded),
            AtLeast,
            cell.speed,
            "M samples per CPU-second",
        ),
    ];
    if cell.own_tag {
        checks.extend([of(
            "selector with ten matches, first",
            restarted.select_first_ms,
            AtMost,
            10.0,
            "ms",
        )]);
    }
    if cell.is_silent {
        let recalled = loaded.recalled as f64 / 1e6;
        checks.push(of("recalled", recalled, AtLeast, 1.0, "M sources"));
    }
    if cell.name == "ten-million" {
        let registered = f64::from(loaded.sources) / loaded.register_cpu_s / 1e6;
        checks.extend([
            of(
                "registration",
                registered,
                AtLeast,
                1.0,
                "M sources per CPU-second",
            ),
            of(
                "99.9 % of batches of registrations",
                loaded.slow_registration_ms,
                AtMost,
                50.0,
                "ms",
            ),
            of(
                "99.9 % of batches",
                loaded.slow_batch_ms,
                AtMost,
                50.0,
                "ms",
            ),
            of(
                "start after the process ended",
                restarted.start_s,
                AtMost,
                5.0,
                "s",
            ),
            of(
                "selector with ten matches, first",
                restarted.select_first_ms,
                AtMost,
                10.0,
                "ms",
            ),
            of(
                "the same again",
                restarted.select_again_ms,
                AtMost,
                1.0,
                "ms",
            ),
        ]);
    }
    checks
}
