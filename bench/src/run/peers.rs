//! `peers`: several servers on loopback, which get the same files in turns.

use crate::client::Connection;
use crate::dataset::Dataset;
use crate::feed::{Acknowledged, feed};
use crate::latency::{RUNS, WARM_UPS, median, milliseconds};
use crate::peer::influx::Influx;
use crate::peer::questdb::Questdb;
use crate::peer::seiner::Seiner;
use crate::peer::victoria::Victoria;
use crate::peer::{self, Peer, Question};
use crate::process::{DiskUse, Server};
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell, short};
use crate::workload::{SENSORS_PER_HOST, Workload};
use anyhow::{Context, Result, bail};
use clap::Args;
use seiner_chart::{BarSeries, Figure, any_colour, svg};
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Settings of `peers`.
#[derive(Args)]
pub struct PeersSettings {
    /// Workloads, by letter; e always runs after c, into the same server
    #[arg(long, default_value = "abcde")]
    workloads: String,
    /// Servers, by the first letter: seiner, victoria-metrics, influxdb, questdb
    #[arg(long, default_value = "sviq")]
    servers: String,
    /// Number of repetitions per load; medians are reported
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Number of connections, each for its own share of the hosts
    #[arg(long, default_value_t = 2)]
    agents: u32,
    /// Lines per request body
    #[arg(long, default_value_t = 10_000)]
    lines: u64,
    /// Share of the samples to load, for a quick look; bounds apply to 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Share of the samples of (d), which has 100 million
    #[arg(long, default_value_t = 0.1)]
    scale_d: f64,
    /// Path of our server
    #[arg(long, default_value = "target/release/seiner")]
    seiner: PathBuf,
    /// QuestDB's jar from Maven Central; without it, QuestDB does not take part
    #[arg(long)]
    questdb: Option<PathBuf>,
}

/// One load into one server, with its results.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    server: &'static str,
    workload: &'static str,
    repetition: u32,
    samples: u64,
    /// Processor time of the server, from the first byte sent to the last acknowledgement.
    cpu_s: f64,
    wall_s: f64,
    samples_per_cpu_s: f64,
    samples_per_s: f64,
    /// Maximum memory up to the last acknowledgement.
    peak_rss_bytes: u64,
    bodies_put_off: u64,
    /// Processor time of the server, from the last acknowledgement until the data was flushed.
    flush_cpu_s: f64,
    flushed: bool,
    disk_allocated_bytes: u64,
    disk_apparent_bytes: u64,
    /// Allocated bytes per sample that the server holds.
    bytes_per_sample: f64,
    /// Number of samples that the server returns for this workload's interval.
    stored: u64,
    series_ms: Vec<f64>,
    minute_means_ms: Vec<f64>,
    /// Queries, with the number of values in each answer and the correct range.
    answers: Vec<(String, usize, (usize, usize))>,
}

const PURPOSE: &str = "Servers on loopback with an empty data folder each. They get the same line protocol over HTTP, \
    one after the other in turns, and are then flushed and queried twice. A sample is one value of one series. \
    Rates are per second of processor time of the server alone (user and system, all threads), from the first byte \
    to the last acknowledgement. Peak RSS is the maximum up to the last acknowledgement. Latencies are medians of 50 requests \
    on one connection after 5 unmeasured ones, each for another series or host.";

/// Runs the benchmark.
pub fn run(settings: &PeersSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("peers", PURPOSE);
    let mut absent = Vec::new();
    let peers = present(settings, &mut report, &mut absent)?;
    let mut measured = Vec::new();
    for group in groups(settings)? {
        let datasets = group
            .iter()
            .map(|workload| {
                Dataset::prepare(
                    &places.output.join("data"),
                    workload,
                    settings.agents,
                    settings.lines,
                )
            })
            .collect::<Result<Vec<_>>>()?;
        for repetition in 0..settings.repeat {
            for peer in &peers {
                measured.extend(measure(
                    peer.as_ref(),
                    &datasets,
                    repetition,
                    &places.output,
                )?);
            }
        }
        report.tables.extend(
            group
                .iter()
                .map(|workload| table(workload, &peers, &measured, &absent)),
        );
    }
    report.notes.extend(doubts(&measured));
    report.checks = checks(&measured);
    report.measured = json!({
        "settings": {
            "repeat": settings.repeat, "agents": settings.agents, "lines_per_body": settings.lines,
            "scale": settings.scale, "scale_d": settings.scale_d,
        },
        "loads": measured,
    });
    let path = places.page.with_file_name("peers.svg");
    std::fs::write(&path, svg::standalone(&chart(&report.tables), any_colour))
        .with_context(|| format!("writing {}", path.display()))?;
    report.finish(places)
}

/// Returns the chart of the rates in the tables, one group of bars per table.
fn chart(tables: &[Table]) -> Figure {
    let rate = |row: &[String]| row.get(1).and_then(|rate| rate.parse::<f64>().ok());
    let mut servers: Vec<&str> = Vec::new();
    for row in tables.iter().flat_map(|table| &table.rows) {
        if rate(row).is_some() && !servers.contains(&row[0].as_str()) {
            servers.push(&row[0]);
        }
    }
    let series = servers.iter().map(|server| {
        let values = tables.iter().map(|table| {
            let row = table.rows.iter().find(|row| row[0] == *server);
            row.and_then(|row| rate(row))
        });
        BarSeries::new(*server, values.collect())
    });
    Figure::Ranking {
        title: "Million samples per second of processor time".to_string(),
        caption: String::new(),
        categories: tables.iter().map(|table| table.title.clone()).collect(),
        series: series.collect(),
    }
}

/// Returns the servers that can run here, and reports the others.
fn present(
    settings: &PeersSettings,
    report: &mut Report,
    absent: &mut Vec<(&'static str, String)>,
) -> Result<Vec<Box<dyn Peer>>> {
    let all: [Box<dyn Peer>; 4] = [
        Box::new(Seiner::new(&settings.seiner)),
        Box::new(Victoria::default()),
        Box::new(Influx::default()),
        Box::new(Questdb {
            jar: settings.questdb.clone(),
        }),
    ];
    let mut peers = Vec::new();
    for peer in all {
        if !settings.servers.contains(
            peer.name()
                .to_ascii_lowercase()
                .chars()
                .next()
                .unwrap_or_default(),
        ) {
            continue;
        }
        match peer.version() {
            Ok(version) => {
                report.versions.insert(peer.name().to_string(), version);
                report.notes.push(peer.remark());
                peers.push(peer);
            }
            Err(error) => {
                eprintln!("{}: {error}", peer.name());
                absent.push((peer.name(), error.to_string()));
            }
        }
    }
    if peers.is_empty() {
        bail!("none of the servers can run here");
    }
    report.notes.push(format!(
        "{} repetitions, {} connections, bodies of {} lines, scale {} ({} for d)",
        settings.repeat,
        settings.agents,
        settings.lines,
        settings.scale,
        short(settings.scale * settings.scale_d)
    ));
    Ok(peers)
}

/// Returns the workloads to load into one server, in order.
fn groups(settings: &PeersSettings) -> Result<Vec<Vec<Workload>>> {
    let mut groups: Vec<Vec<Workload>> = Vec::new();
    for letter in "abcde"
        .chars()
        .filter(|letter| settings.workloads.contains(*letter))
    {
        let scale = if letter == 'd' {
            settings.scale * settings.scale_d
        } else {
            settings.scale
        };
        let named = |letter| Workload::named(letter).map(|workload| workload.scaled(scale));
        let workload = named(letter).context("an unknown workload")?;
        match groups
            .iter_mut()
            .find(|group| letter == 'e' && group[0].name == "c")
        {
            Some(group) => group.push(workload),
            None if letter == 'e' => {
                groups.push(named('c').into_iter().chain([workload]).collect())
            }
            None => groups.push(vec![workload]),
        }
    }
    if let Some(unknown) = settings
        .workloads
        .chars()
        .find(|letter| !"abcde".contains(*letter))
    {
        bail!("unknown workload {unknown:?}; choose among abcde");
    }
    Ok(groups)
}

fn measure(
    peer: &dyn Peer,
    datasets: &[Dataset],
    repetition: u32,
    output: &Path,
) -> Result<Vec<Measured>> {
    let folder = tempfile::tempdir_in(output)?;
    let server = peer::start(peer, folder.path())?;
    peer.prepare(&mut Connection::open(server.address)?)?;
    let mut held = 0;
    let mut all = Vec::new();
    for dataset in datasets {
        let what = || format!("{} in workload {}", peer.name(), dataset.workload.name);
        held += dataset.workload.samples();
        let one = load(peer, &server, dataset, held, folder.path())
            .with_context(what)
            .with_context(|| server.log_tail())?;
        eprintln!(
            "{} {}: {} M samples per CPU-second, {} bytes a sample",
            peer.name(),
            dataset.workload.describe(),
            cell(Some(one.samples_per_cpu_s / 1e6)),
            cell(Some(one.bytes_per_sample))
        );
        all.push(Measured { repetition, ..one });
    }
    server.stop()?;
    Ok(all)
}

fn load(
    peer: &dyn Peer,
    server: &Server,
    dataset: &Dataset,
    held: u64,
    folder: &Path,
) -> Result<Measured> {
    let workload = &dataset.workload;
    let before = server.usage()?;
    let acknowledged = Acknowledged::new(dataset.agents.len());
    let load = feed(server.address, peer.write_target(), dataset, &acknowledged)?;
    let after = server.usage()?;
    let mut connection = Connection::open(server.address)?;
    let flushed = peer.flush(&mut connection, folder)?;
    rustix::fs::sync();
    let disk = DiskUse::of(&peer::data(folder));
    let flushed_usage = server.usage()?;
    let series = |run: usize| Question::Series {
        host: run as u32 * 7 % workload.hosts(),
        sensor: run as u32 * 13 % SENSORS_PER_HOST,
    };
    let means = |run: usize| Question::MinuteMeans {
        host: run as u32 % workload.hosts(),
    };
    let mut answers = Vec::new();
    for question in [series(0), means(0)] {
        let answer = connection.get(&peer.target(question, workload))?.text()?;
        answers.push((
            format!("{question:?}"),
            peer.values(&answer)?,
            question.expected(workload),
        ));
    }
    let (samples, cpu_s) = (workload.samples(), after.cpu_s - before.cpu_s);
    Ok(Measured {
        server: peer.name(),
        workload: workload.name,
        repetition: 0,
        samples,
        cpu_s,
        wall_s: load.wall.as_secs_f64(),
        samples_per_cpu_s: samples as f64 / cpu_s.max(0.01),
        samples_per_s: samples as f64 / load.wall.as_secs_f64(),
        peak_rss_bytes: after.peak_rss,
        bodies_put_off: load.put_off,
        flush_cpu_s: flushed_usage.cpu_s - after.cpu_s,
        flushed,
        disk_allocated_bytes: disk.allocated,
        disk_apparent_bytes: disk.apparent,
        bytes_per_sample: disk.allocated as f64 / held as f64,
        stored: peer.stored(&mut connection, workload)?,
        series_ms: ask(peer, &mut connection, workload, series)?,
        minute_means_ms: ask(peer, &mut connection, workload, means)?,
        answers,
    })
}

/// Runs a query many times. Returns the milliseconds of each run.
fn ask(
    peer: &dyn Peer,
    connection: &mut Connection,
    workload: &Workload,
    question: impl Fn(usize) -> Question,
) -> Result<Vec<f64>> {
    let targets: Vec<String> = (0..WARM_UPS + RUNS)
        .map(|run| peer.target(question(run), workload))
        .collect();
    milliseconds(|run| connection.get(&targets[run])?.text().map(drop))
}

/// Returns the doubts about the results: missing samples, answers of the wrong size, data that the
/// server still changed.
fn doubts(measured: &[Measured]) -> Vec<String> {
    let mut doubts = Vec::new();
    for one in measured {
        let mut doubt = |words: String| {
            doubts.push(format!(
                "{} in ({}), repetition {}: {words}",
                one.server,
                one.workload,
                one.repetition + 1
            ));
        };
        if one.stored != one.samples {
            doubt(format!(
                "**returns {} of {} samples**",
                one.stored, one.samples
            ));
        }
        for (asked, values, (least, most)) in &one.answers {
            if values < least || values > most {
                doubt(format!(
                    "**{values} values in the answer to {asked}, not {least} to {most}**"
                ));
            }
        }
        if !one.flushed {
            doubt("still changed its files while they were counted".to_string());
        }
        if one.bodies_put_off > 0 {
            doubt(format!(
                "deferred {} bodies, which were sent again",
                one.bodies_put_off
            ));
        }
    }
    doubts
}

/// Returns the median of a figure over the repetitions.
fn figure(
    measured: &[Measured],
    server: &str,
    workload: &str,
    of: impl Fn(&Measured) -> f64,
) -> Option<f64> {
    median(
        measured
            .iter()
            .filter(|one| one.server == server && one.workload == workload)
            .map(of),
    )
}

fn table(
    workload: &Workload,
    peers: &[Box<dyn Peer>],
    measured: &[Measured],
    absent: &[(&'static str, String)],
) -> Table {
    let mut table = Table::new(
        workload.describe(),
        &[
            "server",
            "M samples per CPU-s",
            "M samples per s",
            "peak RSS, GB",
            "bytes a sample",
            "CPU-s until flushed",
            "one series, ms",
            "100 minute means, ms",
            "M samples stored",
        ],
    );
    for peer in peers {
        let at = |of: fn(&Measured) -> f64| cell(figure(measured, peer.name(), workload.name, of));
        table.rows.push(vec![
            peer.name().to_string(),
            at(|one| one.samples_per_cpu_s / 1e6),
            at(|one| one.samples_per_s / 1e6),
            at(|one| one.peak_rss_bytes as f64 / 1e9),
            at(|one| one.bytes_per_sample),
            at(|one| one.cpu_s + one.flush_cpu_s),
            at(|one| median(one.series_ms.clone()).unwrap_or_default()),
            at(|one| median(one.minute_means_ms.clone()).unwrap_or_default()),
            at(|one| one.stored as f64 / 1e6),
        ]);
    }
    for (name, reason) in absent {
        let mut row = vec!["–".to_string(); table.columns.len()];
        row[0] = format!("{name}: {reason}");
        table.rows.push(row);
    }
    table
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let (ours, theirs) = ("Seiner", "VictoriaMetrics");
    let rate = |server, workload| figure(measured, server, workload, |one| one.samples_per_cpu_s);
    let ratio = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a / b);
    let mut checks = Vec::new();
    for (workload, bound) in [("a", 6.0), ("b", 9.0), ("c", 15.0), ("e", 13.0)] {
        let name = format!("({workload}) samples per CPU-second, times VictoriaMetrics's");
        let value = ratio(rate(ours, workload), rate(theirs, workload));
        checks.push(Check::new(
            name,
            value,
            Relation::AtLeast,
            Some(bound),
            "times",
        ));
    }
    let value = ratio(rate(ours, "e"), rate(ours, "a"));
    checks.push(Check::new(
        "(e) samples per CPU-second, over our own (a)",
        value,
        Relation::AtLeast,
        Some(0.75),
        "",
    ));
    for workload in ["a", "b", "c"] {
        let size = |server| figure(measured, server, workload, |one| one.bytes_per_sample);
        let name =
            format!("({workload}) bytes per sample after the flush, relative to VictoriaMetrics");
        checks.push(Check::new(
            name,
            size(ours),
            Relation::AtMost,
            size(theirs),
            "bytes",
        ));
    }
    let memory = figure(measured, ours, "c", |one| one.peak_rss_bytes as f64 / 1e9);
    checks.push(Check::new(
        "(c) peak RSS",
        memory,
        Relation::AtMost,
        Some(0.4),
        "GB",
    ));
    type Times = fn(&Measured) -> &Vec<f64>;
    let queries: [(&str, Times); 2] = [
        ("one series", |one| &one.series_ms),
        ("100 minute means", |one| &one.minute_means_ms),
    ];
    for (query, times) in queries {
        let latency = |server| {
            let mine = measured
                .iter()
                .filter(|one| one.server == server && one.workload == "a");
            median(mine.flat_map(|one| times(one).iter().copied()))
        };
        let name = format!("(a) median latency of {query}, against VictoriaMetrics's");
        checks.push(Check::new(
            name,
            latency(ours),
            Relation::AtMost,
            latency(theirs),
            "ms",
        ));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_has_a_bar_for_each_measured_server() {
        let mut table = Table::new("(a)", &["server", "M samples per CPU-s"]);
        table.rows = [["Seiner", "5.41"], ["QuestDB: not found", "–"]]
            .map(|row| row.map(String::from).into())
            .into();
        let Figure::Ranking {
            categories, series, ..
        } = chart(&[table])
        else {
            panic!("not a ranking");
        };
        assert_eq!(categories, ["(a)"]);
        assert_eq!((series.len(), series[0].values[0]), (1, Some(5.41)));
    }
}
