//! `queries`: questions over many series, asked of several servers in turns.

use crate::client::Connection;
use crate::feed::until_taken;
use crate::latency::median;
use crate::peer::analysis::Analysis;
use crate::peer::prometheus::Prometheus;
use crate::peer::questdb::Questdb;
use crate::peer::seiner::Seiner;
use crate::peer::victoria::Victoria;
use crate::peer::{self, Peer};
use crate::process::Server;
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use crate::workload::{Lines, Workload};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Settings of `queries`.
#[derive(Args)]
pub struct QueriesSettings {
    /// Servers, by the first letter: seiner (asked in its own API and in PromQL), victoria-metrics, prometheus, questdb
    #[arg(long, default_value = "svpq")]
    servers: String,
    /// Number of series of gauges; there are a quarter as many counters
    #[arg(long, default_value_t = 4_000)]
    series: u32,
    /// Number of samples of each series
    #[arg(long, default_value_t = 2_500)]
    samples: u32,
    /// Number of series whose latest values are read; 0 leaves this question out
    #[arg(long, default_value_t = 1_000_000)]
    latest: u32,
    /// Number of rounds, in which the servers take turns; a further round before them is not measured
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Milliseconds for which a question is repeated in a turn, at least once
    #[arg(long, default_value_t = 400)]
    turn_ms: u64,
    /// Path of our server
    #[arg(long, default_value = "target/release/seiner")]
    seiner: PathBuf,
    /// QuestDB's jar from Maven Central; without it, QuestDB does not take part
    #[arg(long)]
    questdb: Option<PathBuf>,
}

const PURPOSE: &str = "Servers on loopback, each with the same gauges, counters and tags, flushed. Each question is \
    asked in turns, on one connection; the answer is read completely. The milliseconds are medians over all requests. \
    The processor time is that of the server per request (user and system, all threads).";

/// Lines of one write request.
const LINES: usize = 5_000;
/// Number of connections of a load.
const AGENTS: u32 = 2;

/// Answers of one server to one question.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    server: &'static str,
    question: &'static str,
    request: String,
    /// Milliseconds of each request.
    ms: Vec<f64>,
    /// Milliseconds of processor time per request.
    cpu_ms: f64,
    /// Number of values in the last answer.
    values: usize,
    /// Minimum and maximum number of values in a correct answer.
    expected: (usize, usize),
}

/// Running server with its data.
struct Loaded {
    peer: Box<dyn Peer>,
    server: Server,
    _folder: TempDir,
}

/// Runs the benchmark.
pub fn run(settings: &QueriesSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("queries", PURPOSE);
    std::fs::create_dir_all(&places.output)?;
    let gauges = Workload {
        name: "queries",
        sources: settings.series,
        ticks: settings.samples,
        ..Workload::named('a').context("workload (a)")?
    };
    let counters = Workload::counters(settings.series / 4, settings.samples);
    let mut measured = Vec::new();
    let mut loaded = load_all(settings, &mut report, &[&gauges, &counters], &places.output)?;
    for analysis in Analysis::STEPPED {
        let of = if analysis.is_of_counters() {
            &counters
        } else {
            &gauges
        };
        measured.extend(ask_all(
            &mut loaded,
            analysis,
            of,
            settings,
            &mut report.notes,
        ));
    }
    stop_all(loaded)?;
    if settings.latest > 0 {
        let many = Workload {
            name: "latest",
            sources: settings.latest,
            ticks: 2,
            ..gauges.clone()
        };
        let mut loaded = load_all(settings, &mut report, &[&many], &places.output)?;
        measured.extend(ask_all(
            &mut loaded,
            Analysis::Latest,
            &many,
            settings,
            &mut report.notes,
        ));
        stop_all(loaded)?;
    }
    report.notes.push(format!(
        "{} gauges and {} counters x {} samples every 10 s; latest values of {} gauges",
        gauges.sources, counters.sources, gauges.ticks, settings.latest
    ));
    report.notes.extend(doubts(&measured));
    report.tables.push(table(&measured));
    report.checks = checks(&measured);
    report.measured = json!({ "answers": measured });
    report.finish(places)
}

/// Starts the servers that can run here, and loads the workloads into each of them.
fn load_all(
    settings: &QueriesSettings,
    report: &mut Report,
    workloads: &[&Workload],
    output: &Path,
) -> Result<Vec<Loaded>> {
    let promql = Seiner {
        promql: true,
        ..Seiner::new(&settings.seiner)
    };
    let all: [Box<dyn Peer>; 5] = [
        Box::new(Seiner::new(&settings.seiner)),
        Box::new(promql),
        Box::new(Victoria::default()),
        Box::new(Prometheus),
        Box::new(Questdb {
            jar: settings.questdb.clone(),
        }),
    ];
    let mut loaded = Vec::new();
    for peer in all {
        let letter = peer.name().to_ascii_lowercase().chars().next();
        if !letter.is_some_and(|letter| settings.servers.contains(letter)) {
            continue;
        }
        match peer.version() {
            Ok(version) => {
                report.versions.insert(peer.name().to_string(), version);
            }
            Err(error) => {
                eprintln!("{}: {error}", peer.name());
                report.notes.retain(|note| !note.starts_with(peer.name()));
                report
                    .notes
                    .push(format!("{} took no part: {error}", peer.name()));
                continue;
            }
        }
        loaded.push(load(peer, workloads, output)?);
    }
    if loaded.is_empty() {
        bail!("none of the servers can run here");
    }
    Ok(loaded)
}

fn load(peer: Box<dyn Peer>, workloads: &[&Workload], output: &Path) -> Result<Loaded> {
    let folder = tempfile::tempdir_in(output)?;
    let server = peer::start(peer.as_ref(), folder.path())?;
    let mut connection = Connection::open(server.address)?;
    peer.prepare(&mut connection)?;
    let start = Instant::now();
    thread::scope(|scope| {
        let agents: Vec<_> = (0..AGENTS)
            .map(|agent| {
                let (peer, server) = (&peer, &server);
                scope.spawn(move || send(peer.as_ref(), server, workloads, agent))
            })
            .collect();
        agents
            .into_iter()
            .try_for_each(|agent| agent.join().expect("a thread that sends"))
    })
    .with_context(|| format!("loading {}", peer.name()))
    .with_context(|| server.log_tail())?;
    eprintln!(
        "{}: loaded in {:.0} s",
        peer.name(),
        start.elapsed().as_secs_f64()
    );
    connection = Connection::open(server.address)?;
    peer.flush(&mut connection, folder.path())?;
    for workload in workloads
        .iter()
        .filter(|workload| !workload.counters || peer.name() != "QuestDB")
    {
        let stored = peer.stored(&mut connection, workload)?;
        ensure!(
            stored == workload.samples(),
            "{} returns {stored} of {} samples",
            peer.name(),
            workload.samples()
        );
    }
    Ok(Loaded {
        peer,
        server,
        _folder: folder,
    })
}

/// Sends the lines of an agent. Workloads advance together, because Prometheus rejects samples that are much older than
/// its latest.
fn send(peer: &dyn Peer, server: &Server, workloads: &[&Workload], agent: u32) -> Result<()> {
    let mut connection = Connection::open(server.address)?;
    let ticks = |workload: &Workload| (2 * workload.sources / AGENTS) as usize;
    let mut lines: Vec<(Lines, usize)> = workloads
        .iter()
        .map(|workload| {
            (
                Lines::new(workload, agent, AGENTS),
                ticks(workload).min(LINES),
            )
        })
        .collect();
    let mut text = Vec::new();
    let mut is_complete = false;
    while !is_complete {
        is_complete = true;
        for (lines, count) in &mut lines {
            text.clear();
            if lines.write(*count, &mut text)? == 0 {
                continue;
            }
            is_complete = false;
            let body = peer.body(&text)?;
            until_taken(|| connection.post_with(peer.write_target(), body.headers, &body.bytes))?;
        }
    }
    Ok(())
}

fn stop_all(loaded: Vec<Loaded>) -> Result<()> {
    loaded.into_iter().try_for_each(|one| one.server.stop())
}

/// Asks a question of all servers in turns. A server that rejects it takes no part, with a note.
fn ask_all(
    loaded: &mut [Loaded],
    analysis: Analysis,
    workload: &Workload,
    settings: &QueriesSettings,
    rejections: &mut Vec<String>,
) -> Vec<Measured> {
    let mut measured: Vec<Option<Measured>> = vec![None; loaded.len()];
    for round in 0..=settings.rounds {
        for (one, measured) in loaded.iter_mut().zip(&mut measured) {
            let turn = match turn(one, analysis, workload, settings.turn_ms) {
                Ok(Some(turn)) => turn,
                Ok(None) => continue,
                Err(error) => {
                    let note = format!("{}: {error:#}", analysis.describe());
                    eprintln!("{note}");
                    if !rejections.contains(&note) {
                        rejections.push(note);
                    }
                    continue;
                }
            };
            // The first round fills caches.
            match measured {
                Some(measured) if round > 1 => {
                    measured.cpu_ms += turn.cpu_ms;
                    measured.ms.extend(turn.ms);
                }
                _ => *measured = Some(turn),
            }
        }
    }
    let mut measured: Vec<Measured> = measured.into_iter().flatten().collect();
    for one in &mut measured {
        one.cpu_ms /= one.ms.len() as f64;
        eprintln!(
            "{}, {}: {:.2} ms, {:.2} ms of processor time",
            one.question,
            one.server,
            median(one.ms.clone()).unwrap_or_default(),
            one.cpu_ms
        );
    }
    measured
}

/// Repeats a question for a while. `cpu_ms` of the result is the sum over all requests.
fn turn(
    one: &mut Loaded,
    analysis: Analysis,
    workload: &Workload,
    turn_ms: u64,
) -> Result<Option<Measured>> {
    // Servers close connections that are not used for a while.
    let mut connection = Connection::open(one.server.address)?;
    let before = one.server.usage()?;
    let (start, mut ms, mut answer) = (Instant::now(), Vec::new(), String::new());
    let mut request = String::new();
    while ms.is_empty() || start.elapsed() < Duration::from_millis(turn_ms) {
        let Some(target) = one.peer.analysis(analysis, ms.len(), workload) else {
            return Ok(None);
        };
        request = target;
        let asked = Instant::now();
        answer = connection
            .get(&request)
            .and_then(|response| response.text())
            .with_context(|| format!("{}: {request}", one.peer.name()))?;
        ms.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Some(Measured {
        server: one.peer.name(),
        question: analysis.describe(),
        request,
        ms,
        cpu_ms: (one.server.usage()?.cpu_s - before.cpu_s) * 1e3,
        values: one.peer.values(&answer)?,
        expected: analysis.expected(workload),
    }))
}

fn doubts(measured: &[Measured]) -> impl Iterator<Item = String> {
    measured.iter().filter_map(|one| {
        let (least, most) = one.expected;
        let is_wrong = one.values < least || one.values > most;
        is_wrong.then(|| {
            format!(
                "{}, {}: **{} values in the answer, not {least} to {most}**",
                one.server, one.question, one.values
            )
        })
    })
}

fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new(
        "Questions",
        &["question", "server", "ms", "CPU, ms", "values"],
    );
    for one in measured {
        table.rows.push(vec![
            one.question.to_string(),
            one.server.to_string(),
            cell(median(one.ms.clone())),
            cell(Some(one.cpu_ms)),
            one.values.to_string(),
        ]);
    }
    table
}

/// Compares our time and processor time with half of the best of the others, by question.
fn checks(measured: &[Measured]) -> Vec<Check> {
    let mut questions: Vec<&str> = measured.iter().map(|one| one.question).collect();
    questions.dedup();
    let mut checks = Vec::new();
    for question in questions {
        let best = |ours: bool, of: &dyn Fn(&Measured) -> f64| {
            let all = measured
                .iter()
                .filter(|one| one.question == question && one.server.starts_with("Seiner") == ours);
            all.map(of).min_by(f64::total_cmp)
        };
        let time = |one: &Measured| median(one.ms.clone()).unwrap_or_default();
        let cpu = |one: &Measured| one.cpu_ms;
        for (what, of) in [
            ("time", &time as &dyn Fn(&Measured) -> f64),
            ("processor time", &cpu),
        ] {
            checks.push(Check::new(
                format!("{question}: {what}"),
                best(true, of),
                Relation::AtMost,
                best(false, of).map(|best| best / 2.0),
                "ms",
            ));
        }
    }
    checks
}
