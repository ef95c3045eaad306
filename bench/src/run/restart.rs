//! `restart`: time until a server answers after a stop or a kill, and the data that survive.

use crate::client::Connection;
use crate::dataset::Dataset;
use crate::feed::{Acknowledged, feed};
use crate::latency::median;
use crate::peer::seiner::Seiner;
use crate::peer::victoria::Victoria;
use crate::peer::{self, Peer, Question};
use crate::process::{Server, drop_page_cache};
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use crate::workload::{SENSORS_PER_HOST, Workload};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Settings of `restart`.
#[derive(Args)]
pub struct RestartSettings {
    /// Number of repetitions per case; medians are reported
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Share of the samples to load, for a quick look; bounds apply to 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Number of connections, each for its own share of the hosts
    #[arg(long, default_value_t = 2)]
    agents: u32,
    /// Lines per request body
    #[arg(long, default_value_t = 10_000)]
    lines: u64,
    /// Path of our server
    #[arg(long, default_value = "target/release/seiner")]
    seiner: PathBuf,
}

/// Way in which the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum End {
    /// Stopped by SIGTERM after the load. The page cache is dropped before the start.
    Stopped,
    /// Killed when four fifths were acknowledged, while all connections were sending.
    KilledAtFullLoad,
    /// Killed at the acknowledgement of the last body.
    KilledAtLastAcknowledgement,
}

const ENDS: [End; 3] = [
    End::Stopped,
    End::KilledAtFullLoad,
    End::KilledAtLastAcknowledgement,
];

/// One end and the start after it.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    server: &'static str,
    end: End,
    /// Time from the start of the process to the first answer to a query over HTTP.
    first_answer_s: f64,
    /// True if the first answer was as complete as later ones.
    first_answer_complete: bool,
    page_cache_dropped: bool,
    /// Number of samples acknowledged before the end.
    acknowledged: u64,
    /// Number of acknowledged samples that the server returns after the start.
    survived: u64,
    /// Samples per second during the load.
    rate: f64,
}

const PURPOSE: &str = "Workload (a), 10 M samples over HTTP. Then the server ends and starts again on the same folder. \
    The measured time is from the start of the process to the first good answer to a query for one series over its whole \
    range. The client records the acknowledged rows. Survived is the sum, over all series, of the lesser of stored \
    and acknowledged samples. The machine keeps running, so the benchmark shows a crash of the program, not a power cut.";

/// Runs the benchmark.
pub fn run(settings: &RestartSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("restart", PURPOSE);
    let workload = Workload::named('a')
        .context("workload a")?
        .scaled(settings.scale);
    let dataset = Dataset::prepare(
        &places.output.join("data"),
        &workload,
        settings.agents,
        settings.lines,
    )?;
    let all: [Box<dyn Peer>; 2] = [
        Box::new(Seiner::new(&settings.seiner)),
        Box::new(Victoria::default()),
    ];
    let mut peers = Vec::new();
    for peer in all {
        match peer.version() {
            Ok(version) => {
                report.versions.insert(peer.name().to_string(), version);
                peers.push(peer);
            }
            Err(error) => report
                .notes
                .push(format!("{} left out: {error}", peer.name())),
        }
    }
    ensure!(!peers.is_empty(), "none of the servers can be run");
    let mut measured = Vec::new();
    for _ in 0..settings.repeat {
        for end in ENDS {
            for peer in &peers {
                let one = measure(peer.as_ref(), &dataset, end, &places.output)
                    .with_context(|| format!("{}, {}", peer.name(), end.describe()))?;
                eprintln!(
                    "{}, {}: {:.3} s",
                    one.server,
                    end.describe(),
                    one.first_answer_s
                );
                measured.push(one);
            }
        }
    }
    report.notes.push(format!(
        "{}, {} repetitions, {} connections, bodies of {} lines",
        workload.describe(),
        settings.repeat,
        settings.agents,
        settings.lines
    ));
    if measured
        .iter()
        .any(|one| one.end == End::Stopped && !one.page_cache_dropped)
    {
        report.notes.push(
            "**The page cache could not be dropped (that needs root): the start was not cold**"
                .into(),
        );
    }
    report.notes.extend(
        measured
            .iter()
            .filter(|one| !one.first_answer_complete)
            .map(|one| {
                format!(
                    "{}, {}: the first answer lacked samples that came later",
                    one.server,
                    one.end.describe()
                )
            }),
    );
    report.tables.push(table(&measured));
    report.checks = checks(&measured);
    report.measured = json!({ "scale": settings.scale, "runs": measured });
    report.finish(places)
}

impl End {
    fn describe(self) -> &'static str {
        match self {
            End::Stopped => "stopped, cold start",
            End::KilledAtFullLoad => "kill -9 at full load",
            End::KilledAtLastAcknowledgement => "kill -9 at the last acknowledgement",
        }
    }
}

fn measure(peer: &dyn Peer, dataset: &Dataset, end: End, output: &Path) -> Result<Measured> {
    let workload = &dataset.workload;
    let folder = tempfile::tempdir_in(output)?;
    let server = peer::start(peer, folder.path())?;
    peer.prepare(&mut Connection::open(server.address)?)?;
    let acknowledged = Acknowledged::new(dataset.agents.len());
    let rate = load_until(peer, server, dataset, end, &acknowledged)?;
    let page_cache_dropped = end == End::Stopped && drop_page_cache();
    let expected = if end == End::Stopped {
        workload.ticks as usize
    } else {
        0
    };
    let start = Instant::now();
    let mut server = peer.spawn(folder.path())?;
    let mut values = 0;
    server.wait_until(|address| match first_answer(peer, address, workload) {
        Some(answered) if answered >= expected => {
            values = answered;
            true
        }
        _ => false,
    })?;
    let first_answer_s = start.elapsed().as_secs_f64();
    let stored = peer.stored_by_source(&mut Connection::open(server.address)?, workload)?;
    Ok(Measured {
        server: peer.name(),
        end,
        first_answer_s,
        first_answer_complete: stored.get(&(0, 0)).copied().unwrap_or(0) == values as u64,
        page_cache_dropped,
        acknowledged: acknowledged.total(),
        survived: survived(
            workload,
            &stored,
            &acknowledged,
            dataset.agents.len() as u32,
        ),
        rate,
    })
}

/// Loads the server and ends it in the given way. Returns the samples per second.
fn load_until(
    peer: &dyn Peer,
    mut server: Server,
    dataset: &Dataset,
    end: End,
    acknowledged: &Acknowledged,
) -> Result<f64> {
    let address = server.address;
    let start = Instant::now();
    thread::scope(|scope| {
        let sender = scope.spawn(|| feed(address, peer.write_target(), dataset, acknowledged));
        if end == End::KilledAtFullLoad {
            while acknowledged.total() < dataset.workload.lines() * 4 / 5 && !sender.is_finished() {
                thread::sleep(Duration::from_micros(200));
            }
            server.kill()?;
            let rate = acknowledged.total() as f64 / start.elapsed().as_secs_f64();
            let load = sender.join().expect("the sender does not panic");
            ensure!(
                load.is_err(),
                "the load ended before the server was killed; use a larger scale"
            );
            return Ok(rate);
        }
        sender.join().expect("the sender does not panic")?;
        let rate = acknowledged.total() as f64 / start.elapsed().as_secs_f64();
        match end {
            End::KilledAtLastAcknowledgement => server.kill()?,
            _ => server.stop()?,
        }
        Ok(rate)
    })
}

/// Returns the number of values in the answer to a query for one series; `None` without an answer.
fn first_answer(peer: &dyn Peer, address: SocketAddr, workload: &Workload) -> Option<usize> {
    let mut connection = Connection::open(address).ok()?;
    let target = peer.target(Question::Series { host: 0, sensor: 0 }, workload);
    let answer = connection.get(&target).ok()?.text().ok()?;
    peer.values(&answer).ok()
}

/// Returns the number of acknowledged samples that still exist.
fn survived(
    workload: &Workload,
    stored: &HashMap<(u32, u32), u64>,
    acknowledged: &Acknowledged,
    agents: u32,
) -> u64 {
    let hosts_of = |agent: u32| (workload.hosts() + agents - 1 - agent) / agents;
    stored
        .iter()
        .map(|(&(host, sensor), &stored)| {
            let agent = host % agents;
            let lines = acknowledged.by_agent(agent as usize);
            let per_tick = u64::from(hosts_of(agent) * SENSORS_PER_HOST);
            let place = u64::from(host / agents * SENSORS_PER_HOST + sensor);
            stored.min(lines / per_tick + u64::from(place < lines % per_tick))
        })
        .sum()
}

fn of(measured: &[Measured], server: &str, end: End) -> Vec<Measured> {
    measured
        .iter()
        .filter(|one| one.server == server && one.end == end)
        .cloned()
        .collect()
}

fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new(
        "Starts",
        &[
            "server",
            "end before",
            "first answer, s",
            "slowest, s",
            "M samples acknowledged",
            "lost, at most",
            "lost, in ms of the load",
        ],
    );
    let mut servers: Vec<&str> = measured.iter().map(|one| one.server).collect();
    servers.dedup();
    servers.sort_unstable();
    servers.dedup();
    for server in servers {
        for end in ENDS {
            let runs = of(measured, server, end);
            let lost = |one: &Measured| (one.acknowledged - one.survived) as f64;
            let most = |figure: &dyn Fn(&Measured) -> f64| runs.iter().map(figure).reduce(f64::max);
            table.rows.push(vec![
                server.to_string(),
                end.describe().to_string(),
                cell(median(runs.iter().map(|one| one.first_answer_s))),
                cell(most(&|one| one.first_answer_s)),
                cell(median(runs.iter().map(|one| one.acknowledged as f64 / 1e6))),
                cell(most(&lost)),
                cell(most(&|one| lost(one) / one.rate * 1e3)),
            ]);
        }
    }
    table
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let time = |end| {
        median(
            of(measured, "Seiner", end)
                .iter()
                .map(|one| one.first_answer_s),
        )
    };
    let cold = of(measured, "Seiner", End::Stopped)
        .iter()
        .all(|one| one.page_cache_dropped);
    vec![
        Check::new(
            "10 M samples: cold start to the first answer",
            time(End::Stopped).filter(|_| cold),
            Relation::Below,
            Some(0.5),
            "s",
        ),
        Check::new(
            "10 M samples: first answer after kill -9 at full load",
            time(End::KilledAtFullLoad),
            Relation::Below,
            Some(2.0),
            "s",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_acknowledged_samples_count_as_survivors() {
        // Five hosts, two agents: the first has hosts 0, 2, 4, and 300 lines a tick.
        let workload = Workload {
            name: "t",
            sources: 500,
            fields: 1,
            ticks: 10,
            first_tick: 0,
            counters: false,
        };
        let acknowledged = Acknowledged::new(2);
        acknowledged.add(0, 750);
        acknowledged.add(1, 200);
        let all: HashMap<(u32, u32), u64> = (0..5)
            .flat_map(|host| (0..100).map(move |sensor| ((host, sensor), 10)))
            .collect();
        assert_eq!(survived(&workload, &all, &acknowledged, 2), 950);
        let stored = HashMap::from([((0, 0), 2), ((2, 49), 10), ((2, 50), 10), ((1, 3), 10)]);
        // Acknowledged of these: 3, 3, 2, 1.
        assert_eq!(
            survived(&workload, &stored, &acknowledged, 2),
            2 + 3 + 2 + 1
        );
    }
}
