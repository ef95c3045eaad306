//! `cluster-balance`: load of ports whose clients are skewed, and of ports that leave and return.

use crate::cluster::ledger::{Load, Record, Verdict, Writer, verify};
use crate::cluster::{PortSettings, Ports, hand_over, loopback_places, start_nodes};
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use anyhow::Result;
use clap::Args;
use seiner_cassandra::local::Options;
use seiner_chart::{Axis, Figure, LineSeries, any_colour, svg};
use serde::Serialize;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Number of ports.
const PORTS: usize = 3;
/// Interval between two looks at the rates.
const LOOK: Duration = Duration::from_millis(500);
/// Looks over which a rate is taken.
const WINDOW: usize = 6;
/// Distance from the mean that counts as balanced.
const BALANCED: f64 = 0.15;

/// Settings of `cluster-balance`.
#[derive(Args)]
pub struct ClusterBalanceSettings {
    /// Number of writers. Ten of twelve begin at the first port, and one at each of the others
    #[arg(long, default_value_t = 36)]
    writers: usize,
    /// Rows per second of each writer
    #[arg(long, default_value_t = 500.0)]
    rate: f64,
    /// Seconds of each of the three phases
    #[arg(long, default_value_t = 25)]
    phase: u64,
    /// Number of nodes of Cassandra
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Path of our server
    #[arg(long, default_value = "target/release/seiner")]
    seiner: PathBuf,
}

/// Rates of the ports at one moment.
#[derive(Clone, Debug, Serialize)]
struct Look {
    /// Seconds since the begin.
    at_s: f64,
    /// Acknowledged rows per second of each port, as the writers see them.
    rates: Vec<f64>,
}

/// Part of the run, with the ports that should share the load.
#[derive(Clone, Debug, Serialize)]
struct Phase {
    name: &'static str,
    from_s: f64,
    to_s: f64,
    ports: Vec<usize>,
}

const PURPOSE: &str = "Writers with the same rate are connected to three ports, ten times as many to the first one as to \
    each of the others, and follow the ports' advice. Then the second port is stopped in good order, and starts again. \
    A rate is the mean of three seconds, as the writers see it. Balanced means that all ports are within 15 % of the mean. \
    In the end, every acknowledged row is looked for at every port.";

/// Runs the benchmark.
pub fn run(settings: &ClusterBalanceSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("cluster-balance", PURPOSE);
    fs::create_dir_all(&places.output)?;
    let folder = tempfile::tempdir_in(&places.output)?;
    let nodes = start_nodes(Options::new(settings.nodes, folder.path().join("nodes")))?;
    let port_settings = PortSettings {
        program: settings.seiner.clone(),
        keyspace: "balance".to_string(),
        replicas: settings.nodes.min(3),
        arguments: [
            "--handover",
            "10s",
            "--memory",
            "64 MiB",
            "--replica-sync",
            "none",
        ]
        .map(String::from)
        .to_vec(),
    };
    let mut ports = Ports::start(
        port_settings,
        &nodes,
        settings.nodes,
        loopback_places(PORTS)?,
        folder.path(),
    )?;
    let load = Load {
        sources: 10,
        rows: 10,
        rate: Some(settings.rate),
        follows: true,
    };
    let writers = (0..settings.writers).map(|number| {
        let port = match number % 12 {
            10 => 1,
            11 => 2,
            _ => 0,
        };
        Writer::start(number, load, ports.addresses(), port)
    });
    let writers: Vec<Writer> = writers.collect();
    let mut watch = Watch::new(&writers);
    let phase = Duration::from_secs(settings.phase);
    let mut phases = vec![watch.phase("skewed", phase, &[0, 1, 2])];
    thread::scope(|scope| {
        // The port hands over while the writers move.
        let leaving = scope.spawn(|| ports.stop(1));
        phases.push(watch.phase("port 2 has left", phase, &[0, 2]));
        leaving.join().expect("a stop does not panic")
    })?;
    ports.begin(1)?;
    phases.push(watch.phase("port 2 has returned", phase, &[0, 1, 2]));
    let looks = watch.looks;
    let records = writers.into_iter().map(Writer::finish);
    let records: Vec<Record> = records.collect::<Result<_>>()?;
    let verdicts = ports
        .addresses()
        .into_iter()
        .map(|port| verify(port, &records));
    let verdicts: Vec<Verdict> = verdicts.collect::<Result<_>>()?;
    for address in ports.addresses() {
        hand_over(address)?;
    }
    let after = verify(ports.addresses()[0], &records)?;
    ports.stop_all()?;
    report.notes.push(format!(
        "{} writers of {} rows per second, {} nodes of Cassandra, three ports, on this machine",
        settings.writers, settings.rate, settings.nodes
    ));
    report.tables.push(table(&looks, &phases));
    let svg = places.output.join("cluster-balance.svg");
    fs::write(&svg, picture(&looks))?;
    report
        .notes
        .push(format!("Rates over time: `{}`", svg.display()));
    report.checks = checks(&looks, &phases, &verdicts, after);
    report.measured =
        json!({ "looks": looks, "phases": phases, "verdicts": verdicts, "after_handover": after });
    report.finish(places)
}

/// Observer of the writers.
struct Watch<'w> {
    writers: &'w [Writer],
    start: Instant,
    /// Acknowledged rows of each writer at the last look.
    rows: Vec<u64>,
    looks: Vec<Look>,
}

impl<'w> Watch<'w> {
    fn new(writers: &'w [Writer]) -> Watch<'w> {
        Watch {
            writers,
            start: Instant::now(),
            rows: vec![0; writers.len()],
            looks: Vec::new(),
        }
    }

    /// Looks at the rates for some time.
    fn phase(&mut self, name: &'static str, length: Duration, ports: &[usize]) -> Phase {
        let from = self.start.elapsed();
        while self.start.elapsed() < from + length {
            let before = Instant::now();
            thread::sleep(LOOK);
            let mut rates = vec![0.0; PORTS];
            for (writer, known) in self.writers.iter().zip(&mut self.rows) {
                let rows = writer.rows();
                rates[writer.port()] += (rows - *known) as f64 / before.elapsed().as_secs_f64();
                *known = rows;
            }
            self.looks.push(Look {
                at_s: self.start.elapsed().as_secs_f64(),
                rates,
            });
        }
        Phase {
            name,
            from_s: from.as_secs_f64(),
            to_s: self.start.elapsed().as_secs_f64(),
            ports: ports.to_vec(),
        }
    }
}

/// Returns the largest distance of a port's rate from the mean, as a share of it, over the last looks up to one.
fn imbalance(looks: &[Look], at: usize, ports: &[usize]) -> f64 {
    let window = &looks[(at + 1).saturating_sub(WINDOW)..=at];
    let rate = |port: &usize| window.iter().map(|look| look.rates[*port]).sum::<f64>();
    let rates: Vec<f64> = ports.iter().map(rate).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let far = rates.iter().map(|rate| (rate / mean.max(1e-9) - 1.0).abs());
    far.fold(0.0, f64::max)
}

/// Returns the seconds from the begin of a phase until all later looks are balanced, and the largest distance after it.
fn balance_of(looks: &[Look], phase: &Phase) -> (Option<f64>, Option<f64>) {
    let within = |look: &Look| look.at_s > phase.from_s && look.at_s <= phase.to_s;
    let inside = (0..looks.len()).filter(|at| within(&looks[*at]));
    let distances: Vec<(f64, f64)> = inside
        .map(|at| {
            (
                looks[at].at_s - phase.from_s,
                imbalance(looks, at, &phase.ports),
            )
        })
        .collect();
    let balanced = distances
        .iter()
        .rev()
        .take_while(|(_, far)| *far <= BALANCED);
    let balanced: Vec<&(f64, f64)> = balanced.collect();
    let most = balanced.iter().map(|(_, far)| *far).reduce(f64::max);
    (balanced.last().map(|(at, _)| *at), most)
}

fn table(looks: &[Look], phases: &[Phase]) -> Table {
    let mut table = Table::new(
        "Phases",
        &[
            "phase",
            "balanced after, s",
            "largest distance from the mean after that, %",
        ],
    );
    for phase in phases {
        let (after, most) = balance_of(looks, phase);
        table.rows.push(vec![
            phase.name.to_string(),
            cell(after),
            cell(most.map(|most| most * 100.0)),
        ]);
    }
    table
}

fn checks(looks: &[Look], phases: &[Phase], verdicts: &[Verdict], after: Verdict) -> Vec<Check> {
    let mut checks: Vec<Check> = phases
        .iter()
        .map(|phase| {
            let name = format!("{}: all ports within 15 % after", phase.name);
            Check::new(
                &name,
                balance_of(looks, phase).0,
                Relation::AtMost,
                Some(10.0),
                "s",
            )
        })
        .collect();
    let all = || verdicts.iter().chain([&after]);
    let sum = |of: &dyn Fn(&Verdict) -> u64| Some(all().map(of).sum::<u64>() as f64);
    checks.push(Check::new(
        "acknowledged rows that were not found, at all ports and after a handover",
        sum(&|verdict| verdict.lost),
        Relation::AtMost,
        Some(0.0),
        "rows",
    ));
    checks.push(Check::new(
        "rows that were found twice or wrong",
        sum(&|verdict| verdict.repeated + verdict.wrong),
        Relation::AtMost,
        Some(0.0),
        "rows",
    ));
    let acknowledged = after.acknowledged as f64 / 1e6;
    checks.push(Check::new(
        "acknowledged rows",
        Some(acknowledged),
        Relation::AtLeast,
        Some(1.0),
        "M",
    ));
    checks
}

/// Draws the rates over time.
fn picture(looks: &[Look]) -> String {
    let line = |port: usize| {
        let points = looks.iter().map(|look| (look.at_s, look.rates[port]));
        LineSeries::new(format!("port {}", port + 1), points.collect())
    };
    let figure = Figure::Lines {
        title: "Load of the ports".to_string(),
        caption: "Ten of twelve writers begin at port 1. Port 2 leaves, and returns.".to_string(),
        x: Axis::linear("seconds"),
        y: Axis::linear("acknowledged rows per second"),
        series: (0..PORTS).map(line).collect(),
    };
    svg::standalone(&figure, any_colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_balanced_when_no_later_look_is_not() {
        let look = |at_s: f64, rates: [f64; 3]| Look {
            at_s,
            rates: rates.to_vec(),
        };
        let mut looks: Vec<Look> = Vec::new();
        for at in 0..20 {
            let rates = match at {
                0..=5 => [300.0, 0.0, 0.0],
                _ => [100.0, 95.0, 105.0],
            };
            looks.push(look(f64::from(at), rates));
        }
        let phase = Phase {
            name: "x",
            from_s: -1.0,
            to_s: 100.0,
            ports: vec![0, 1, 2],
        };
        let (after, most) = balance_of(&looks, &phase);
        // The rate of a look is the mean of six: the look at 11 s is the first without an unbalanced one.
        assert_eq!(after, Some(12.0));
        assert!(most.is_some_and(|most| most < 0.06), "{most:?}");
        looks.push(look(20.0, [900.0, 0.0, 0.0]));
        assert_eq!(balance_of(&looks, &phase).0, None);
    }
}
