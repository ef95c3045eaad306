//! `cluster-cost`: processor time and device bytes per sample, by layer, and reads, against one row per sample.

use crate::client::Connection;
use crate::cluster::layers::Layers;
use crate::cluster::row_per_sample::RowPerSample;
use crate::cluster::{PortSettings, Ports, hand_over, loopback_places, start_nodes};
use crate::feed::feed_generated;
use crate::latency::median;
use crate::peer::seiner::Seiner;
use crate::peer::{self, Peer, Question};
use crate::process::{Usage, drop_page_cache};
use crate::report::{Check, OutputPaths, Relation, Report, Table, short};
use crate::workload::{SENSORS_PER_HOST, Workload};
use anyhow::{Context, Result, ensure};
use clap::Args;
use seiner_cassandra::local::{LocalCluster, Options};
use seiner_cassandra::{CassandraRows, Replication};
use seiner_random::SplitMixRng;
use serde::Serialize;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// Number of nodes.
const NODES: usize = 3;
/// Connections, and lines of a body.
const AGENTS: u32 = 2;
const LINES: u64 = 10_000;
/// Reads per measurement: warm, and after a restart with an empty page cache.
const WARM_READS: usize = 300;
const COLD_READS: usize = 60;

/// Settings of `cluster-cost`.
#[derive(Args)]
pub struct ClusterCostSettings {
    /// Number of sources of our store
    #[arg(long, default_value_t = 100_000)]
    sources: u32,
    /// Samples of each source in a round
    #[arg(long, default_value_t = 50)]
    ticks: u32,
    /// Part of the sources that the rival gets; its cost per sample does not depend on their number
    #[arg(long, default_value_t = 0.1)]
    rival: f64,
    /// Number of measured rounds; medians are reported
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Path of our server
    #[arg(long, default_value = "target/release/seiner")]
    seiner: PathBuf,
}

/// Cost of one round.
#[derive(Clone, Debug, Serialize)]
struct Round {
    replicas: usize,
    system: &'static str,
    samples: u64,
    /// CPU and bytes of port or client, driver and nodes.
    layers: Layers,
}

/// Times of reads of one source, in ms.
#[derive(Clone, Debug, Serialize)]
struct Reads {
    replicas: usize,
    system: &'static str,
    is_cold: bool,
    /// Samples of an answer.
    samples: usize,
    p50_ms: f64,
    p99_ms: f64,
}

const PURPOSE: &str = "A port of a cluster of three nodes of Cassandra, acknowledged at QUORUM, against a schema with one \
    row per sample as KairosDB has it: written in batches of ten samples of a series through the same driver on the same \
    nodes, without a journal of its own, and with compressed tables. Every round ends with a handover of the port and a \
    flush of all nodes. The embedded store is the same server without a cluster, with `durability = sync`.";

/// Runs the benchmark.
pub fn run(settings: &ClusterCostSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("cluster-cost", PURPOSE);
    fs::create_dir_all(&places.output)?;
    let folder = tempfile::tempdir_in(&places.output)?;
    let nodes = start_nodes(Options::new(NODES, folder.path().join("nodes")))?;
    let (mut rounds, mut reads) = (Vec::new(), Vec::new());
    let mut embedded = Vec::new();
    for replicas in [1, 3] {
        let mut trial = Trial::start(settings, &nodes, replicas, folder.path())?;
        report.notes.push(format!(
            "{replicas} copies: a flush without new samples writes {} MB, which every round includes, and the rival's \
             rounds have fewer samples",
            short(trial.idle()?.bytes() as f64 / 1e6)
        ));
        for round in 0..=settings.rounds {
            for (system, measured) in [
                ("port", trial.port(round)?),
                ("row per sample", trial.rival(round)?),
            ] {
                let (samples, layers) = measured;
                eprintln!(
                    "RF {replicas}, {system}: {} CPU-s per M samples",
                    short(layers.cpu_s() / samples as f64 * 1e6)
                );
                // The first round warms Java up.
                if round > 0 {
                    rounds.push(Round {
                        replicas,
                        system,
                        samples,
                        layers,
                    });
                }
            }
        }
        if replicas == 1 {
            embedded = embedded_costs(settings, &places.output)?;
        }
        reads.extend(trial.reads(false)?);
        for node in 1..=NODES {
            nodes.stop_node(node)?;
            nodes.restart(node)?;
        }
        if drop_page_cache() {
            reads.extend(trial.reads(true)?);
        } else {
            report.notes.push(
                "**The page cache could not be dropped (that needs root): no cold reads**".into(),
            );
        }
        trial.ports.stop_all()?;
    }
    report.notes.push(format!(
        "{} sources, {} samples of each per round for the port, a share of {} of the sources for the rival; {} rounds \
         after one that warms up; medians",
        settings.sources, settings.ticks, settings.rival, settings.rounds
    ));
    let embedded = median(embedded);
    report.tables.push(cost_table(&rounds, embedded));
    report.tables.push(read_table(&reads));
    report.checks = checks(&rounds, embedded);
    report.measured = json!({ "rounds": rounds, "reads": reads, "embedded_cpu_s_per_m": embedded });
    report.finish(places)
}

/// Port and rival on the same nodes.
struct Trial<'n> {
    settings: &'n ClusterCostSettings,
    nodes: &'n LocalCluster,
    replicas: usize,
    ports: Ports,
    rival: RowPerSample,
}

impl<'n> Trial<'n> {
    fn start(
        settings: &'n ClusterCostSettings,
        nodes: &'n LocalCluster,
        replicas: usize,
        folder: &std::path::Path,
    ) -> Result<Trial<'n>> {
        let folder = folder.join(format!("ports{replicas}"));
        fs::create_dir_all(&folder)?;
        let port_settings = PortSettings {
            program: settings.seiner.clone(),
            keyspace: format!("cost{replicas}"),
            replicas,
            arguments: [
                "--handover",
                "1h",
                "--allow-1970",
                "true",
                "--replica-sync",
                "none",
            ]
            .map(String::from)
            .to_vec(),
        };
        let ports = Ports::start(port_settings, nodes, NODES, loopback_places(1)?, &folder)?;
        let rows = CassandraRows::connect(
            nodes.contact(&format!("rival{replicas}")),
            Replication { factor: replicas },
        )?;
        Ok(Trial {
            settings,
            nodes,
            replicas,
            ports,
            rival: RowPerSample::create(rows)?,
        })
    }

    /// Returns the cost of a flush without new samples.
    fn idle(&self) -> Result<Layers> {
        self.flush()?;
        let before = self.layers()?;
        self.flush()?;
        Ok(self.layers()? - before)
    }

    /// Loads a port, hands its rows over, and returns the cost.
    fn port(&self, round: u32) -> Result<(u64, Layers)> {
        let workload = workload(self.settings, self.settings.sources, round);
        let address = self.ports.addresses()[0];
        let before = self.layers()?;
        let target = "/write";
        feed_generated(address, target, &workload, AGENTS, LINES)?;
        hand_over(address)?;
        self.flush()?;
        Ok((workload.samples(), self.layers()? - before))
    }

    /// Loads the rival, and returns the cost. The client counts as the port.
    fn rival(&self, round: u32) -> Result<(u64, Layers)> {
        let sources = (f64::from(self.settings.sources) * self.settings.rival) as u32;
        let sources = sources.div_ceil(SENSORS_PER_HOST) * SENSORS_PER_HOST;
        let workload = workload(self.settings, sources, round);
        let (before, own) = (self.layers()?, Usage::own()?);
        self.rival.load(&workload)?;
        self.flush()?;
        let mut cost = self.layers()? - before;
        cost.port_cpu_s = Usage::own()?.cpu_s - own.cpu_s;
        cost.driver_cpu_s = 0.0;
        Ok((workload.samples(), cost))
    }

    fn layers(&self) -> Result<Layers> {
        Layers::read(self.ports.server(0), self.nodes, NODES)
    }

    /// Brings all rows of all nodes into files.
    fn flush(&self) -> Result<()> {
        for node in 1..=NODES {
            self.nodes.tool(node, &["flush"])?;
        }
        Ok(())
    }

    /// Reads the last round of random sources, from the port and from the rival.
    fn reads(&self, is_cold: bool) -> Result<Vec<Reads>> {
        let workload = workload(self.settings, self.settings.sources, self.settings.rounds);
        let hosts = (f64::from(workload.hosts()) * self.settings.rival) as u32;
        let count = if is_cold { COLD_READS } else { WARM_READS };
        let mut random = SplitMixRng::new(7 + u64::from(is_cold));
        let mut connection = Connection::open(self.ports.addresses()[0])?;
        let seiner = Seiner::new(&self.settings.seiner);
        let (mut port, mut rival) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let host = random.below(u64::from(hosts.max(1))) as u32;
            let sensor = random.below(u64::from(SENSORS_PER_HOST)) as u32;
            let target = seiner.target(Question::Series { host, sensor }, &workload);
            let start = Instant::now();
            let answer = connection.get(&target)?.text()?;
            port.push(start.elapsed().as_secs_f64() * 1e3);
            let found = seiner.values(&answer)?;
            let (from, to) = workload.interval();
            let start = Instant::now();
            let rows = self.rival.read(host, sensor, (from, to + 1))?;
            rival.push(start.elapsed().as_secs_f64() * 1e3);
            ensure!(
                found == workload.ticks as usize && rows == found,
                "host {host}, sensor {sensor}: {found} samples of the port and {rows} of the rival, not {}",
                workload.ticks
            );
        }
        let reads = |system, times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
            Reads {
                replicas: self.replicas,
                system,
                is_cold,
                samples: workload.ticks as usize,
                p50_ms: at(0.5),
                p99_ms: at(0.99),
            }
        };
        Ok(vec![
            reads("port", &mut port),
            reads("row per sample", &mut rival),
        ])
    }
}

/// Returns the workload of a round. Rounds follow each other in time.
fn workload(settings: &ClusterCostSettings, sources: u32, round: u32) -> Workload {
    Workload {
        name: "cost",
        sources,
        fields: 1,
        ticks: settings.ticks,
        first_tick: round * settings.ticks,
        counters: false,
    }
}

/// Returns the CPU-seconds per million samples of the same server without a cluster, one figure for each round. As with
/// the port, a round before them registers the sources.
fn embedded_costs(settings: &ClusterCostSettings, output: &std::path::Path) -> Result<Vec<f64>> {
    let folder = tempfile::tempdir_in(output)?;
    let peer = Seiner {
        durability: "sync",
        ..Seiner::new(&settings.seiner)
    };
    let server = peer::start(&peer, folder.path())?;
    let mut costs = Vec::new();
    for round in 0..=settings.rounds {
        let workload = workload(settings, settings.sources, round);
        let before = server.usage()?.cpu_s;
        let target = peer.write_target();
        feed_generated(server.address, target, &workload, AGENTS, LINES)?;
        hand_over(server.address).context("flushing the embedded store")?;
        let cost = server.usage()?.cpu_s - before;
        if round > 0 {
            costs.push(cost / workload.samples() as f64 * 1e6);
        }
    }
    server.stop()?;
    Ok(costs)
}

/// Returns the median of a figure per million samples.
fn per_million(
    rounds: &[Round],
    replicas: usize,
    system: &str,
    figure: impl Fn(&Layers) -> f64,
) -> Option<f64> {
    let rounds = rounds
        .iter()
        .filter(|round| round.replicas == replicas && round.system == system);
    median(rounds.map(|round| figure(&round.layers) / round.samples as f64 * 1e6))
}

fn cost_table(rounds: &[Round], embedded: Option<f64>) -> Table {
    let mut table = Table::new(
        "Cost of a million samples",
        &[
            "system",
            "copies",
            "port or client, CPU-s",
            "driver, CPU-s",
            "nodes, CPU-s",
            "port, MB",
            "nodes, MB",
        ],
    );
    for replicas in [1, 3] {
        for system in ["port", "row per sample"] {
            let figure = |of: &dyn Fn(&Layers) -> f64| {
                per_million(rounds, replicas, system, of).map_or("–".to_string(), short)
            };
            table.rows.push(vec![
                system.to_string(),
                replicas.to_string(),
                figure(&|layers| layers.port_cpu_s),
                figure(&|layers| layers.driver_cpu_s),
                figure(&|layers| layers.nodes_cpu_s),
                figure(&|layers| layers.port_bytes as f64 / 1e6),
                figure(&|layers| layers.nodes_bytes as f64 / 1e6),
            ]);
        }
    }
    let mut row = vec!["embedded".to_string(), "1".to_string()];
    row.push(embedded.map_or("–".to_string(), short));
    row.extend((0..4).map(|_| "–".to_string()));
    table.rows.push(row);
    table
}

fn read_table(reads: &[Reads]) -> Table {
    let mut table = Table::new(
        "Reads of one source",
        &["system", "copies", "state", "samples", "p50, ms", "p99, ms"],
    );
    for read in reads {
        table.rows.push(vec![
            read.system.to_string(),
            read.replicas.to_string(),
            if read.is_cold { "cold" } else { "warm" }.to_string(),
            read.samples.to_string(),
            short(read.p50_ms),
            short(read.p99_ms),
        ]);
    }
    table
}

fn checks(rounds: &[Round], embedded: Option<f64>) -> Vec<Check> {
    let mut checks = Vec::new();
    for replicas in [1, 3] {
        let ratio = |of: &dyn Fn(&Layers) -> f64| {
            let rival = per_million(rounds, replicas, "row per sample", of);
            Some(rival? / per_million(rounds, replicas, "port", of)?)
        };
        checks.push(Check::new(
            format!("CPU of one row per sample ÷ CPU of the cluster, {replicas} copies"),
            ratio(&Layers::cpu_s),
            Relation::AtLeast,
            Some(20.0),
            "times",
        ));
        checks.push(Check::new(
            format!("device bytes of one row per sample ÷ those of the cluster, {replicas} copies"),
            ratio(&|layers| layers.bytes() as f64),
            Relation::AtLeast,
            Some(10.0),
            "times",
        ));
        let port = per_million(rounds, replicas, "port", |layers| layers.port_cpu_s);
        checks.push(Check::new(
            format!(
                "CPU of the port without the driver ÷ CPU of the embedded store, {replicas} copies"
            ),
            port.zip(embedded).map(|(port, embedded)| port / embedded),
            Relation::AtMost,
            Some(1.5),
            "times",
        ));
    }
    checks
}
