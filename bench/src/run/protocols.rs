//! `protocols`: the same samples in several protocols, into our server and VictoriaMetrics.

use crate::client::Connection;
use crate::feed::until_taken;
use crate::latency::median;
use crate::peer::seiner::Seiner;
use crate::peer::victoria::{self, Victoria};
use crate::peer::{self, Peer};
use crate::process::{Server, free_address};
use crate::protocol::Protocol;
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use crate::workload::{Lines, Workload};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Settings of `protocols`.
#[derive(Args)]
pub struct ProtocolsSettings {
    /// Number of series
    #[arg(long, default_value_t = 4_000)]
    series: u32,
    /// Number of samples of each series
    #[arg(long, default_value_t = 1_000)]
    samples: u32,
    /// Lines per request
    #[arg(long, default_value_t = 5_000)]
    lines: usize,
    /// Number of repetitions; medians are reported
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Protocols
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Protocol::ALL)]
    protocols: Vec<Protocol>,
    /// Path of our server
    #[arg(long, default_value = "target/release/seiner")]
    seiner: PathBuf,
    /// Program of VictoriaMetrics. The default is that of the Debian package, which is too old for OTLP. A newer one:
    /// `go install github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics@v1.151.0`
    #[arg(long, default_value = "victoria-metrics")]
    victoria: PathBuf,
}

const PURPOSE: &str = "Servers on loopback with an empty data folder each get the same samples in different protocols, \
    in turns, over two connections. Rates are per second of processor time of the server alone (user and system, all \
    threads), until the last acknowledgement; with Graphite, which has none, until the server is idle.";

/// Number of connections.
const AGENTS: u32 = 2;
/// Time without use of the processor after which a server is idle.
const IDLE: Duration = Duration::from_millis(500);

/// Rows of a request with a table of the history of sensors.
const TABLE: usize = 200_000;

/// One load in one protocol.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    server: &'static str,
    protocol: &'static str,
    repetition: u32,
    samples: u64,
    /// Bytes of all bodies.
    bytes: u64,
    cpu_s: f64,
    samples_per_cpu_s: f64,
    stored: u64,
}

/// Runs the benchmark.
pub fn run(settings: &ProtocolsSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("protocols", PURPOSE);
    std::fs::create_dir_all(&places.output)?;
    let workload = Workload {
        name: "protocols",
        sources: settings.series,
        ticks: settings.samples,
        ..Workload::named('a').context("workload (a)")?
    };
    let (mut measured, mut failures) = (Vec::new(), Vec::new());
    for repetition in 0..settings.repeat {
        for &protocol in &settings.protocols {
            for is_ours in [true, false] {
                let graphite = free_address()?;
                let peer = server(settings, is_ours, graphite);
                let Some(target) = target(peer.as_ref(), is_ours, protocol) else {
                    continue;
                };
                report
                    .versions
                    .insert(peer.name().to_string(), peer.version()?);
                let load = Load {
                    peer: peer.as_ref(),
                    protocol,
                    target,
                    graphite,
                    lines: settings.lines,
                };
                match load.measure(&workload, &places.output) {
                    Ok(one) => measured.push(Measured { repetition, ..one }),
                    Err(error) => {
                        failures.push(format!("{}, {}: {error:#}", peer.name(), protocol.name()))
                    }
                }
            }
        }
    }
    failures.sort();
    failures.dedup();
    report.notes.push(format!(
        "{} series x {} samples, {} lines per request",
        settings.series, settings.samples, settings.lines
    ));
    report.notes.extend(failures);
    report.notes.extend(doubts(&measured));
    report.tables.push(table(&measured));
    report.checks = checks(&measured);
    report.measured = json!({ "loads": measured });
    report.finish(places)
}

fn server(settings: &ProtocolsSettings, is_ours: bool, graphite: SocketAddr) -> Box<dyn Peer> {
    match is_ours {
        true => Box::new(Seiner {
            arguments: vec![format!("--graphite-listen={graphite}")],
            ..Seiner::new(&settings.seiner)
        }),
        false => Box::new(Victoria {
            program: settings.victoria.clone(),
            arguments: vec![format!("-graphiteListenAddr={graphite}")],
            ..Victoria::default()
        }),
    }
}

/// Returns the target of write requests. `None` if the server does not speak the protocol.
fn target(peer: &dyn Peer, is_ours: bool, protocol: Protocol) -> Option<&'static str> {
    match (protocol, is_ours) {
        (Protocol::Lines, _) => Some(peer.write_target()),
        (Protocol::RemoteWrite, _) => Some("/api/v1/write"),
        (Protocol::Otlp, true) => Some("/v1/metrics"),
        (Protocol::Otlp, false) => Some("/opentelemetry/v1/metrics"),
        (Protocol::Graphite, _) => Some(""),
        (Protocol::Arrow | Protocol::ArrowBySource, true) => Some("/write"),
        (Protocol::Arrow | Protocol::ArrowBySource, false) => None,
    }
}

/// Load of one server in one protocol.
struct Load<'l> {
    peer: &'l dyn Peer,
    protocol: Protocol,
    target: &'static str,
    graphite: SocketAddr,
    lines: usize,
}

impl Load<'_> {
    fn measure(&self, workload: &Workload, output: &Path) -> Result<Measured> {
        let folder = tempfile::tempdir_in(output)?;
        let server = peer::start(self.peer, folder.path())?;
        let before = server.usage()?;
        let bytes = thread::scope(|scope| {
            let agents: Vec<_> = (0..AGENTS)
                .map(|agent| {
                    let lines = Lines::new(workload, agent, AGENTS);
                    let server = &server;
                    scope.spawn(move || match self.protocol {
                        Protocol::Graphite => self.stream(lines),
                        _ => self.post(server.address, lines),
                    })
                })
                .collect();
            agents
                .into_iter()
                .map(|agent| agent.join().expect("a thread that sends"))
                .sum::<Result<u64>>()
        })
        .with_context(|| server.log_tail())?;
        let cpu_s = match self.protocol {
            Protocol::Graphite => cpu_when_idle(&server)?,
            _ => server.usage()?.cpu_s,
        } - before.cpu_s;
        let mut connection = Connection::open(server.address)?;
        self.peer.flush(&mut connection, folder.path())?;
        let one = Measured {
            server: self.peer.name(),
            protocol: self.protocol.name(),
            repetition: 0,
            samples: workload.samples(),
            bytes,
            cpu_s,
            samples_per_cpu_s: workload.samples() as f64 / cpu_s.max(0.01),
            stored: victoria::stored(&mut connection, workload)?,
        };
        eprintln!(
            "{}, {}: {:.2} M samples per CPU-second",
            one.server,
            one.protocol,
            one.samples_per_cpu_s / 1e6
        );
        server.stop()?;
        Ok(one)
    }

    /// Sends lines as requests. Returns the number of bytes.
    fn post(&self, address: SocketAddr, mut lines: Lines) -> Result<u64> {
        let mut connection = Connection::open(address)?;
        let (mut text, mut bytes) = (Vec::new(), 0);
        let count = match self.protocol {
            Protocol::ArrowBySource => TABLE,
            _ => self.lines,
        };
        while lines.write(count, &mut text)? > 0 {
            let body = self.protocol.body(&text)?;
            bytes += body.bytes.len() as u64;
            until_taken(|| connection.post_with(self.target, body.headers, &body.bytes))?;
            text.clear();
        }
        Ok(bytes)
    }

    /// Sends lines to the port for Graphite. Returns the number of bytes.
    fn stream(&self, mut lines: Lines) -> Result<u64> {
        let mut stream = TcpStream::connect(self.graphite)?;
        let (mut text, mut bytes) = (Vec::new(), 0);
        while lines.write(self.lines, &mut text)? > 0 {
            let body = self.protocol.body(&text)?;
            bytes += body.bytes.len() as u64;
            stream.write_all(&body.bytes)?;
            text.clear();
        }
        stream.shutdown(Shutdown::Write)?;
        Ok(bytes)
    }
}

/// Waits until a server does not use the processor any more. Returns its processor time before the wait for the idle
/// time.
fn cpu_when_idle(server: &Server) -> Result<f64> {
    let start = Instant::now();
    let mut last = server.usage()?.cpu_s;
    loop {
        thread::sleep(IDLE);
        let now = server.usage()?.cpu_s;
        if now - last < 0.02 {
            return Ok(now);
        }
        ensure!(
            start.elapsed() < Duration::from_secs(300),
            "the server does not become idle"
        );
        last = now;
    }
}

fn doubts(measured: &[Measured]) -> impl Iterator<Item = String> {
    let wrong = measured.iter().filter(|one| one.stored != one.samples);
    wrong.map(|one| {
        format!(
            "{}, {}, repetition {}: **returns {} of {} samples**",
            one.server,
            one.protocol,
            one.repetition + 1,
            one.stored,
            one.samples
        )
    })
}

/// Returns the median rate in samples per second of processor time.
fn rate(measured: &[Measured], is_ours: bool, protocol: Protocol) -> Option<f64> {
    let all = measured
        .iter()
        .filter(|one| one.protocol == protocol.name() && (one.server == "Seiner") == is_ours);
    median(all.map(|one| one.samples_per_cpu_s))
}

fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new(
        "Million samples per second of processor time",
        &[
            "protocol",
            "Seiner",
            "VictoriaMetrics",
            "times",
            "bytes a sample on the wire",
        ],
    );
    for protocol in Protocol::ALL {
        let rates = [true, false].map(|is_ours| rate(measured, is_ours, protocol));
        let bytes = measured.iter().find(|one| one.protocol == protocol.name());
        table.rows.push(vec![
            protocol.name().to_string(),
            cell(rates[0].map(|rate| rate / 1e6)),
            cell(rates[1].map(|rate| rate / 1e6)),
            cell(rates[0].zip(rates[1]).map(|(ours, theirs)| ours / theirs)),
            cell(bytes.map(|one| one.bytes as f64 / one.samples as f64)),
        ]);
    }
    table
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    let times = |protocol: Protocol, bound| {
        let ours = rate(measured, true, protocol);
        let ratio = ours
            .zip(rate(measured, false, protocol))
            .map(|(ours, theirs)| ours / theirs);
        let name = format!(
            "{}: samples per CPU-second, over VictoriaMetrics",
            protocol.name()
        );
        Check::new(name, ratio, Relation::AtLeast, Some(bound), "times")
    };
    vec![
        times(Protocol::RemoteWrite, 4.0),
        times(Protocol::Otlp, 4.0),
        times(Protocol::Graphite, 5.0),
        Check::new(
            "Arrow, by source: million samples per CPU-second",
            rate(measured, true, Protocol::ArrowBySource).map(|rate| rate / 1e6),
            Relation::AtLeast,
            Some(20.0),
            "M/s",
        ),
    ]
}
