//! `cluster-compaction`: bytes that one node of Cassandra writes per byte of rows, with time windows and with our
//! strategy.

mod figures;
mod side;

use crate::cluster::start_nodes;
use crate::process::Usage;
use crate::report::{Check, OutputPaths, Relation, Report, Table, short};
use anyhow::Result;
use clap::Args;
use figures::Counters;
use seiner_cassandra::Compaction;
use seiner_cassandra::local::{LocalCluster, Options};
use seiner_chart::{Axis, Figure, LineSeries, any_colour, svg};
use seiner_random::SplitMixRng;
use serde::Serialize;
use serde_json::json;
use side::{Reads, Side};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which both tables get rows.
const STEP: Duration = Duration::from_millis(500);
/// Steps between two looks at the disk.
const LOOK: u32 = 4;
/// Bytes in a MiB.
const MIB: f64 = (1 << 20) as f64;

/// Settings of `cluster-compaction`.
#[derive(Args)]
pub struct ClusterCompactionSettings {
    /// Minutes of load
    #[arg(long, default_value_t = 8.0)]
    minutes: f64,
    /// MiB per second that each of the two tables gets
    #[arg(long, default_value_t = 6.0)]
    rate: f64,
    /// Bytes of a value, about those of a bundle
    #[arg(long, default_value_t = 65_536)]
    value: usize,
    /// Life of a row, in seconds. Dead files go after two lives: the grace of deletions is one
    #[arg(long, default_value_t = 60)]
    life: u64,
    /// Window of the tables, in seconds. Whole minutes
    #[arg(long, default_value_t = 60)]
    window: u64,
    /// Memory for rows that are not in files yet, in MiB. A file has about a quarter of it
    #[arg(long, default_value_t = 256)]
    memtables: u32,
}

/// State of the disk at one moment.
#[derive(Clone, Debug, Serialize)]
struct Look {
    /// Seconds since the begin.
    at_s: f64,
    /// Bytes and number of files of each table.
    bytes: Vec<u64>,
    files: Vec<usize>,
}

/// Outcome of one table.
#[derive(Clone, Debug, Serialize)]
struct Outcome {
    name: &'static str,
    user_bytes: u64,
    counters: Counters,
    reads: Reads,
    /// Mean of the disk space after the first file died, and the maximum.
    mean_bytes: f64,
    most_bytes: u64,
    most_files: usize,
}

impl Outcome {
    /// Returns bytes of SSTables written per byte of rows.
    fn amplification(&self) -> f64 {
        self.counters.written() as f64 / self.user_bytes.max(1) as f64
    }
}

const PURPOSE: &str = "One node of Cassandra, one copy. Two tables get the same rows in turn: one has time windows, one \
    has the strategy of this project, which drops files that died whole and merges none. All rows live for the same \
    time, and several generations die during the run. Counted are the bytes of all files that the node wrote for a \
    table, flushes and compactions, per byte of rows. The commit log is shared and costs one more byte.";

/// Runs the benchmark.
pub fn run(settings: &ClusterCompactionSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("cluster-compaction", PURPOSE);
    fs::create_dir_all(&places.output)?;
    let folder = tempfile::tempdir_in(&places.output)?;
    let nodes = start_nodes(Options {
        memtables_mib: settings.memtables,
        ..Options::new(1, folder.path().join("nodes"))
    })?;
    let (life, window) = (settings.life, settings.window);
    let spec = side::spec(Duration::from_secs(life), Duration::from_secs(window));
    let mut sides = Vec::new();
    for (name, compaction) in [
        ("time windows", Compaction::Windows),
        ("fisherman", Compaction::Fisherman),
    ] {
        sides.push(Side::create(
            name,
            compaction,
            &nodes,
            folder.path(),
            &spec,
        )?);
    }
    let before = node_bytes(&nodes)?;
    let looks = load(settings, &mut sides)?;
    // Rows that are too young to expire during the reads.
    let latest = settings.rate * MIB / settings.value as f64 * life as f64 / 2.0;
    let latest = (latest as u64).max(1);
    let mut reads = Vec::new();
    for side in &sides {
        reads.push(side.reads(latest, settings.value)?);
    }
    for side in &sides {
        nodes.tool(1, &["flush", side.keyspace])?;
    }
    let device = node_bytes(&nodes)? - before;
    let mut outcomes = Vec::new();
    for (number, (side, reads)) in sides.iter().zip(reads).enumerate() {
        let counters = Counters::read(&nodes, side.keyspace)?;
        outcomes.push(outcome(side, counters, reads, number, &looks, life));
    }
    let user: u64 = sides.iter().map(|side| side.user_bytes).sum();
    report.notes.push(format!(
        "{} MiB/s of values of {} bytes for each table, for {} minutes; life {life} s, grace {life} s, windows of \
         {window} s; {} MiB for rows in memory",
        settings.rate, settings.value, settings.minutes, settings.memtables
    ));
    report.notes.push(format!(
        "The node wrote {} bytes to the device per byte of rows, both tables, commit log and system tables together",
        short(device as f64 / user.max(1) as f64)
    ));
    let svg = places.output.join("cluster-compaction.svg");
    fs::write(&svg, picture(&looks, &sides))?;
    report
        .notes
        .push(format!("Disk space over time: `{}`", svg.display()));
    report.tables.push(table(&outcomes));
    report.checks = checks(&outcomes, life, settings.minutes);
    report.measured = json!({ "outcomes": outcomes, "looks": looks, "device_bytes": device });
    report.finish(places)
}

/// Returns the bytes that the node wrote to the device.
fn node_bytes(nodes: &LocalCluster) -> Result<u64> {
    let process = nodes.process(1).unwrap_or_default();
    Ok(Usage::of(process as i32)?.written)
}

/// Writes to both tables in turn.
fn load(settings: &ClusterCompactionSettings, sides: &mut [Side]) -> Result<Vec<Look>> {
    let rows = settings.rate * MIB * STEP.as_secs_f64() / settings.value as f64;
    let rows = (rows.round() as usize).max(1);
    let steps = (settings.minutes * 60.0 / STEP.as_secs_f64()).ceil() as u32;
    let mut random = SplitMixRng::new(7);
    let mut value = vec![0; settings.value];
    let mut looks = Vec::new();
    let start = Instant::now();
    for step in 0..steps {
        random.fill(&mut value);
        // Both tables are first equally often.
        let first = step as usize % sides.len();
        for turn in 0..sides.len() {
            sides[(first + turn) % 2].write(rows, &value)?;
        }
        if step % LOOK == 0 {
            let sizes: Vec<(u64, usize)> = sides.iter().map(Side::disk).collect();
            looks.push(Look {
                at_s: start.elapsed().as_secs_f64(),
                bytes: sizes.iter().map(|(bytes, _)| *bytes).collect(),
                files: sizes.iter().map(|(_, files)| *files).collect(),
            });
        }
        if step % 120 == 0 {
            let megabytes = looks
                .last()
                .map(|look| look.bytes.iter().map(|of| of >> 20));
            let megabytes: Vec<u64> = megabytes.into_iter().flatten().collect();
            eprintln!("{:.0} s: {megabytes:?} MiB", start.elapsed().as_secs_f64());
        }
        // A node that is slower than the load makes the run longer.
        let next = STEP * (step + 1);
        thread::sleep(next.saturating_sub(start.elapsed()));
    }
    Ok(looks)
}

fn outcome(
    side: &Side,
    counters: Counters,
    reads: Reads,
    number: usize,
    looks: &[Look],
    life: u64,
) -> Outcome {
    let later = looks
        .iter()
        .filter(|look| look.at_s > 2.0 * life as f64)
        .map(|look| look.bytes[number]);
    let later: Vec<u64> = later.collect();
    Outcome {
        name: side.name,
        user_bytes: side.user_bytes,
        counters,
        reads,
        mean_bytes: later.iter().sum::<u64>() as f64 / later.len().max(1) as f64,
        most_bytes: later.into_iter().max().unwrap_or_default(),
        most_files: looks
            .iter()
            .map(|look| look.files[number])
            .max()
            .unwrap_or_default(),
    }
}

fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        "Tables",
        &[
            "compaction",
            "rows, MB",
            "flushed, MB",
            "compacted, MB",
            "bytes written per byte",
            "compactions that wrote",
            "drops of dead files",
            "disk space, mean, MB",
            "disk space, maximum, MB",
            "files, maximum",
            "read p50, ms",
            "read p99, ms",
        ],
    );
    let mb = |bytes: f64| short(bytes / 1e6);
    for outcome in outcomes {
        let counters = &outcome.counters;
        table.rows.push(vec![
            outcome.name.to_string(),
            mb(outcome.user_bytes as f64),
            mb(counters.flushed as f64),
            mb(counters.compacted as f64),
            short(outcome.amplification()),
            counters.merges.to_string(),
            counters.drops.to_string(),
            mb(outcome.mean_bytes),
            mb(outcome.most_bytes as f64),
            outcome.most_files.to_string(),
            short(outcome.reads.p50_ms),
            short(outcome.reads.p99_ms),
        ]);
    }
    table
}

fn checks(outcomes: &[Outcome], life: u64, minutes: f64) -> Vec<Check> {
    let [windows, fisherman] = outcomes else {
        return Vec::new();
    };
    vec![
        Check::new(
            "bytes of files written per byte of rows, fisherman",
            Some(fisherman.amplification()),
            Relation::AtMost,
            Some(1.2),
            "bytes",
        ),
        Check::new(
            "bytes of files written per byte of rows, fisherman, against time windows",
            Some(fisherman.amplification()),
            Relation::Below,
            Some(windows.amplification()),
            "bytes",
        ),
        Check::new(
            "disk space, mean, fisherman, against time windows",
            Some(fisherman.mean_bytes / 1e6),
            Relation::AtMost,
            Some(windows.mean_bytes / 1e6),
            "MB",
        ),
        Check::new(
            "drops of dead files, fisherman",
            Some(fisherman.counters.drops as f64),
            Relation::AtLeast,
            Some(3.0),
            "drops",
        ),
        Check::new(
            "generations that died during the run",
            Some(minutes * 60.0 / (2 * life) as f64),
            Relation::AtLeast,
            Some(3.0),
            "generations",
        ),
        Check::new(
            "latest rows that were not read",
            Some((windows.reads.missing + fisherman.reads.missing) as f64),
            Relation::AtMost,
            Some(0.0),
            "rows",
        ),
    ]
}

/// Draws the disk space over time.
fn picture(looks: &[Look], sides: &[Side]) -> String {
    let line = |(number, side): (usize, &Side)| {
        let points = looks
            .iter()
            .map(|look| (look.at_s, look.bytes[number] as f64 / 1e6));
        LineSeries::new(side.name.to_string(), points.collect())
    };
    let figure = Figure::Lines {
        title: "Disk space of a table".to_string(),
        caption: "Rows arrive at a constant rate, and live for the same time.".to_string(),
        x: Axis::linear("seconds"),
        y: Axis::linear("MB"),
        series: sides.iter().enumerate().map(line).collect(),
    };
    svg::standalone(&figure, any_colour)
}
