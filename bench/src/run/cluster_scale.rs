//! `cluster-scale`: cost per node and sample, from one node to five.

use crate::cluster::layers::Layers;
use crate::cluster::{PortSettings, Ports, hand_over, loopback_places, start_nodes};
use crate::feed::feed_share;
use crate::latency::median;
use crate::report::{Check, OutputPaths, Relation, Report, Table, short};
use crate::workload::Workload;
use anyhow::Result;
use clap::Args;
use seiner_cassandra::local::{LocalCluster, Options};
use seiner_chart::{Axis, Figure, LineSeries, any_colour, svg};
use serde::Serialize;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Time over which the processor time of idle processes is measured.
const IDLE: Duration = Duration::from_secs(10);
/// Lines of a body.
const LINES: u64 = 10_000;

/// Settings of `cluster-scale`.
#[derive(Args)]
pub struct ClusterScaleSettings {
    /// Largest number of nodes, each with a port
    #[arg(long, default_value_t = 5)]
    nodes: usize,
    /// Copies of each row
    #[arg(long, default_value_t = 1)]
    replicas: usize,
    /// Sources of each port
    #[arg(long, default_value_t = 40_000)]
    sources: u32,
    /// Samples of each source in a round
    #[arg(long, default_value_t = 50)]
    ticks: u32,
    /// Number of measured rounds; medians are reported
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Path of our server
    #[arg(long, default_value = "target/release/seiner")]
    seiner: PathBuf,
}

/// Cost of a round with some nodes.
#[derive(Clone, Debug, Serialize)]
struct Round {
    nodes: usize,
    samples: u64,
    wall_s: f64,
    layers: Layers,
    /// Processor time of ports, drivers and nodes that did nothing, in CPU-seconds per second.
    idle: f64,
}

impl Round {
    /// Returns the processor time of all layers per million samples, without that of idle processes.
    fn cpu_per_million(&self) -> f64 {
        (self.layers.cpu_s() - self.idle * self.wall_s) / self.samples as f64 * 1e6
    }

    fn bytes_per_million(&self) -> f64 {
        self.layers.bytes() as f64 / self.samples as f64 * 1e6
    }
}

const PURPOSE: &str = "Each node of Cassandra has a port, and each port gets the same load, whatever the number of nodes. \
    So the load grows with the nodes, and the cost of a million samples should not. Wall time on one machine proves \
    nothing; the figures are CPU-seconds of all processes, without the processor time that the same processes use when \
    idle, and bytes to the device.";

/// Runs the benchmark.
pub fn run(settings: &ClusterScaleSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("cluster-scale", PURPOSE);
    fs::create_dir_all(&places.output)?;
    let mut rounds = Vec::new();
    for count in settings.replicas.max(1)..=settings.nodes {
        rounds.extend(measure(settings, count, &places.output)?);
    }
    report.notes.push(format!(
        "{} copies; {} sources for each port, {} samples of each per round; {} rounds after one that warms up; medians",
        settings.replicas, settings.sources, settings.ticks, settings.rounds
    ));
    report.tables.push(table(&rounds));
    let svg = places.output.join("cluster-scale.svg");
    fs::write(&svg, picture(&rounds))?;
    report.notes.push(format!("Chart: `{}`", svg.display()));
    report.checks = vec![
        check("CPU-seconds", spread(&rounds, Round::cpu_per_million)),
        check("device bytes", spread(&rounds, Round::bytes_per_million)),
    ];
    report.measured = json!({ "rounds": rounds });
    report.finish(places)
}

/// Measures all rounds with some nodes.
fn measure(settings: &ClusterScaleSettings, count: usize, output: &Path) -> Result<Vec<Round>> {
    let folder = tempfile::tempdir_in(output)?;
    let nodes = start_nodes(Options::new(count, folder.path().join("nodes")))?;
    let port_settings = PortSettings {
        program: settings.seiner.clone(),
        keyspace: "scale".to_string(),
        replicas: settings.replicas,
        arguments: [
            "--handover",
            "1h",
            "--memory",
            "256 MiB",
            "--replica-sync",
            "none",
        ]
        .map(String::from)
        .to_vec(),
    };
    let mut ports = Ports::start(
        port_settings,
        &nodes,
        count,
        loopback_places(count)?,
        folder.path(),
    )?;
    let layers = |ports: &Ports| {
        let servers = (0..count).filter_map(|port| ports.server(port));
        Layers::read(servers, &nodes, count)
    };
    let mut rounds = Vec::new();
    for number in 0..=settings.rounds {
        let before = layers(&ports)?;
        thread::sleep(IDLE);
        let idle = (layers(&ports)? - before).cpu_s() / IDLE.as_secs_f64();
        let (before, start) = (layers(&ports)?, Instant::now());
        let samples = load(settings, &ports, number)?;
        flush(&nodes, count)?;
        let round = Round {
            nodes: count,
            samples,
            wall_s: start.elapsed().as_secs_f64(),
            layers: layers(&ports)? - before,
            idle,
        };
        eprintln!(
            "{count} nodes: {} CPU-s per M samples, and {} CPU-s per s when idle",
            short(round.cpu_per_million()),
            short(idle)
        );
        // The first round warms Java up.
        if number > 0 {
            rounds.push(round);
        }
    }
    ports.stop_all()?;
    Ok(rounds)
}

/// Loads all ports at the same time, and hands their rows over. Returns the samples.
fn load(settings: &ClusterScaleSettings, ports: &Ports, round: u32) -> Result<u64> {
    let addresses = ports.addresses();
    let count = addresses.len() as u32;
    let workload = Workload {
        name: "scale",
        sources: settings.sources * count,
        fields: 1,
        ticks: settings.ticks,
        first_tick: round * settings.ticks,
        counters: false,
    };
    thread::scope(|scope| {
        let loads = addresses.iter().enumerate().map(|(port, address)| {
            let workload = &workload;
            scope.spawn(move || {
                let share = (port as u32, count);
                feed_share(*address, "/write", workload, share, LINES)?;
                hand_over(*address)
            })
        });
        let loads: Vec<_> = loads.collect();
        loads
            .into_iter()
            .try_for_each(|load| load.join().expect("a load does not panic"))
    })?;
    Ok(workload.samples())
}

/// Brings all rows of all nodes into files.
fn flush(nodes: &LocalCluster, count: usize) -> Result<()> {
    for node in 1..=count {
        nodes.tool(node, &["flush"])?;
    }
    Ok(())
}

/// Returns the median of a figure for a number of nodes.
fn median_of(rounds: &[Round], nodes: usize, figure: impl Fn(&Round) -> f64) -> Option<f64> {
    median(
        rounds
            .iter()
            .filter(|round| round.nodes == nodes)
            .map(figure),
    )
}

fn counts(rounds: &[Round]) -> Vec<usize> {
    let mut counts: Vec<usize> = rounds.iter().map(|round| round.nodes).collect();
    counts.dedup();
    counts
}

/// Returns the distance between the largest and the smallest median, as a share of the smallest, in percent.
fn spread(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> Option<f64> {
    let medians = counts(rounds)
        .into_iter()
        .map(|nodes| median_of(rounds, nodes, &figure));
    let medians: Vec<f64> = medians.collect::<Option<_>>()?;
    let most = medians.iter().copied().reduce(f64::max)?;
    let least = medians.iter().copied().reduce(f64::min)?;
    Some((most / least - 1.0) * 100.0)
}

fn check(what: &str, value: Option<f64>) -> Check {
    let name = format!("{what} per million samples: largest number of nodes against smallest cost");
    Check::new(&name, value, Relation::AtMost, Some(10.0), "% more")
}

fn table(rounds: &[Round]) -> Table {
    let mut table = Table::new(
        "Cost of a million samples",
        &[
            "nodes and ports",
            "CPU-s",
            "ports, CPU-s",
            "drivers, CPU-s",
            "nodes, CPU-s",
            "idle, CPU-s per s",
            "MB",
        ],
    );
    for nodes in counts(rounds) {
        let figure = |of: &dyn Fn(&Round) -> f64| {
            median_of(rounds, nodes, of).map_or("–".to_string(), short)
        };
        let million = |round: &Round, value: f64| value / round.samples as f64 * 1e6;
        table.rows.push(vec![
            nodes.to_string(),
            figure(&Round::cpu_per_million),
            figure(&|round| million(round, round.layers.port_cpu_s)),
            figure(&|round| million(round, round.layers.driver_cpu_s)),
            figure(&|round| million(round, round.layers.nodes_cpu_s)),
            figure(&|round| round.idle),
            figure(&|round| round.bytes_per_million() / 1e6),
        ]);
    }
    table
}

/// Draws the cost over the number of nodes.
fn picture(rounds: &[Round]) -> String {
    let points = |figure: &dyn Fn(&Round) -> f64| {
        let points = counts(rounds).into_iter();
        points
            .filter_map(|nodes| Some((nodes as f64, median_of(rounds, nodes, figure)?)))
            .collect()
    };
    let figure = Figure::Lines {
        title: "Cost of a million samples".to_string(),
        caption: "A level line means that nodes can be added without an end.".to_string(),
        x: Axis::linear("nodes, each with a port"),
        y: Axis::linear("CPU-seconds, or bytes per sample"),
        series: vec![
            LineSeries::new("CPU-seconds", points(&Round::cpu_per_million)),
            LineSeries::new(
                "bytes per sample",
                points(&|round| round.bytes_per_million() / 1e6),
            ),
        ],
    };
    svg::standalone(&figure, any_colour)
}
