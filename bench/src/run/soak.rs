//! `soak`: a small volume, nearly full, overwritten hundreds of times.

use crate::log::load::{Load, Served, Values};
use crate::process::DiskUse;
use crate::report::{Check, Places, Relation, Report, Table, cell};
use anyhow::Result;
use clap::Args;
use seiner_engine::MergePolicy;
use serde::Serialize;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What `soak` runs.
#[derive(Args)]
pub struct Settings {
    /// The volume, in MiB
    #[arg(long, default_value_t = 2048)]
    volume: u64,
    /// How often the volume is stored; the figure demanded is 200
    #[arg(long, default_value_t = 3.0)]
    turns: f64,
    /// The live share of the volume
    #[arg(long, default_value_t = 0.9)]
    live: f64,
}

/// How often the directory is measured.
const SAMPLE: Duration = Duration::from_millis(20);
/// Um.
const MERGE_FROM: f64 = 0.97;
/// Rows and blocks are so large that the disk has to work more than the processor.
const TEXT_BYTES: u32 = 4096;
const BLOCK_BYTES: u32 = 64 << 10;
/// Points of the table.
const POINTS: u32 = 20;

/// How things stood at one moment.
#[derive(Clone, Debug, Serialize)]
struct Point {
    /// How often the volume was stored.
    turns: f64,
    u: f64,
    v: f64,
    /// MB of blocks a second since the point before.
    rate: f64,
    /// Blocks written for each stored so far.
    written: f64,
}

const PURPOSE: &str = "One store with its threads, the system's clock and a disk budget, interval durability. Rings of 50 \
    blocks of 64 KiB, lognormal rates (σ = 0.5), rows of a random text of 4 KiB each, so that much is written for little work of \
    the processor; overwritten at full speed. What the directory takes (the blocks that the \
    file system gave, every file in it) is added up fifty times a second by a thread of its own.";

/// Runs it.
pub fn run(settings: &Settings, places: &Places) -> Result<()> {
    let mut report = Report::new("soak", PURPOSE);
    std::fs::create_dir_all(&places.output)?;
    let budget = settings.volume << 20;
    let load = Load {
        merge_from: MERGE_FROM,
        values: Values::Texts(TEXT_BYTES),
        ..Load::rings(budget, settings.live, 0.5, MergePolicy::default()).with_blocks(BLOCK_BYTES)
    };
    let mut store = Served::start(&load, budget, true, &places.output)?;
    let folder = store.folder().to_path_buf();
    let (stop, most, samples) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let mut points = Vec::new();
    let mut failed = None;
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                most.fetch_max(DiskUse::of(&folder).allocated, Ordering::Relaxed);
                samples.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(SAMPLE);
            }
        });
        let part = (budget as f64 * settings.turns / f64::from(POINTS)) as u64;
        for _ in 0..POINTS {
            let start = Instant::now();
            if let Err(error) = store.feed(part) {
                failed = Some(format!("{error:#}"));
                break;
            }
            points.push(point(
                &store,
                budget,
                part as f64 / start.elapsed().as_secs_f64() / 1e6,
            ));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let status = store.status();
    let most = most.into_inner();
    report.notes.push(format!(
        "volume {} MiB, V = {}, Um = {MERGE_FROM}; {:.0} s; the directory was measured {} times{}",
        settings.volume,
        settings.live,
        began.elapsed().as_secs_f64(),
        samples.into_inner(),
        failed
            .as_ref()
            .map_or(String::new(), |why| format!("; failed: {why}"))
    ));
    report.tables.push(table(&points));
    let stored = status.block_bytes_sealed as f64 / budget as f64;
    let least_u = points
        .iter()
        .skip(points.len() / 2)
        .map(|point| point.u)
        .fold(1.0, f64::min);
    report.checks = vec![
        Check::new(
            "times that the volume was stored",
            Some(stored),
            Relation::AtLeast,
            Some(200.0),
            "",
        ),
        Check::new(
            "the most that the directory took, of its budget",
            Some(most as f64 / budget as f64),
            Relation::AtMost,
            Some(1.0),
            "",
        ),
        Check::new(
            "used share in the second half, at least",
            Some(least_u),
            Relation::AtLeast,
            Some(0.95),
            "",
        ),
        Check::new(
            "batches that were not acknowledged",
            Some(f64::from(u8::from(failed.is_some()))),
            Relation::AtMost,
            Some(0.0),
            "",
        ),
    ];
    report.measured = json!({ "budget": budget, "most": most, "points": points, "failed": failed });
    report.finish(places)
}

fn point(store: &Served, budget: u64, rate: f64) -> Point {
    let (log, status) = (store.log(), store.status());
    Point {
        turns: status.block_bytes_sealed as f64 / budget as f64,
        u: log.fill.u(),
        v: log.fill.v(),
        rate,
        written: log.write_amplification(),
    }
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "How it went",
        &[
            "stored, of the volume",
            "U",
            "V",
            "MB/s",
            "written per byte stored (blocks)",
        ],
    );
    for point in points {
        let figures = [point.turns, point.u, point.v, point.rate, point.written];
        table
            .rows
            .push(figures.map(|figure| cell(Some(figure))).to_vec());
    }
    table
}
