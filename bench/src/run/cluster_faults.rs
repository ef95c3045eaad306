//! `cluster-faults`: failures of nodes, ports, networks and disks under load, with a record of every acknowledgement.

use crate::cluster::ledger::{Load, Record, Verdict, Writer, verify};
use crate::cluster::namespaces::Namespaces;
use crate::cluster::proxy::{Counts, Disturbance, Proxy};
use crate::cluster::{
    PortPlace, PortSettings, Ports, at, loopback_places, start_nodes, status, within,
};
use crate::report::{Check, OutputPaths, Relation, Report, Table, short};
use anyhow::{Context, Result, ensure};
use clap::Args;
use seiner_cassandra::local::{LocalCluster, Options, Place};
use seiner_chart::{Axis, Figure, LineSeries, any_colour, svg};
use serde::Serialize;
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

/// Number of nodes, and of ports.
const NODES: usize = 3;
/// Size of the file system of the node whose disk becomes full.
const SMALL_DISK: &str = "size=256m";
/// Node whose disk becomes full.
const SMALL: usize = 2;
/// Time for the ports to recover after the last failure.
const RECOVERY: Duration = Duration::from_secs(120);
/// Third part of the addresses of the nodes behind proxies, 127.0.k.n.
const PROXIED: u8 = 244;
/// First last part of the addresses of proxies.
const PROXIES: u8 = 100;

/// Settings of `cluster-faults`.
#[derive(Args)]
pub struct ClusterFaultsSettings {
    /// Number of writers, a third at each port
    #[arg(long, default_value_t = 6)]
    writers: usize,
    /// Rows per second of each writer
    #[arg(long, default_value_t = 8000.0)]
    rate: f64,
    /// Seconds of load before and after each failure
    #[arg(long, default_value_t = 8)]
    pause: u64,
    /// Seconds of each failure; a partition lasts four times as long
    #[arg(long, default_value_t = 12)]
    hold: u64,
    /// Seed of the proxy's choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave out the part with network namespaces, which needs root
    #[arg(long)]
    no_namespaces: bool,
    /// Path of our server
    #[arg(long, default_value = "target/release/seiner")]
    seiner: PathBuf,
}

/// One failure.
#[derive(Clone, Debug, Serialize)]
struct Scene {
    name: String,
    from_s: f64,
    to_s: f64,
    /// Rows acknowledged from the failure to the end of the pause after it.
    acknowledged: u64,
    /// Bodies that writers sent again.
    repeated: u64,
    /// Longest time until an acknowledgement, in seconds.
    slowest_s: f64,
}

/// Part of the run with one cluster.
#[derive(Clone, Debug, Default, Serialize)]
struct Part {
    scenes: Vec<Scene>,
    /// Seconds since the begin and acknowledged rows per second.
    rates: Vec<(f64, f64)>,
    /// Comparison with the rows that each port returns.
    verdicts: Vec<Verdict>,
    /// Comparison after a handover of all ports.
    after_handover: Verdict,
    /// True if `seiner cluster check` found no damage.
    is_undamaged: bool,
}

const PURPOSE: &str = "Writers send numbered rows to three ports on three nodes of Cassandra (three copies, acknowledged \
    at QUORUM) and record every acknowledgement, while nodes and ports are killed, a network is cut into 2 and 1, a disk \
    is full, a node is slow, and a proxy drops, delays and reorders frames. In the end, every row is looked for at every \
    port: each acknowledged row must be there exactly once. Nothing is repaired by hand, except that killed processes \
    are started again.";

/// Runs the benchmark.
pub fn run(settings: &ClusterFaultsSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("cluster-faults", PURPOSE);
    fs::create_dir_all(&places.output)?;
    let mut parts: Vec<(&str, Part)> = Vec::new();
    if settings.no_namespaces {
        report
            .notes
            .push("**The part with network namespaces was left out**".to_string());
    } else {
        let part = in_namespaces(settings, &places.output)?;
        parts.push(("machines", part));
    }
    let (part, counts) = behind_proxies(settings, &places.output)?;
    report.notes.push(format!(
        "proxy: {} frames, {} dropped, {} delayed",
        counts.frames.load(SeqCst),
        counts.dropped.load(SeqCst),
        counts.delayed.load(SeqCst)
    ));
    parts.push(("frames", part));
    report.notes.push(format!(
        "{} writers of {} rows per second, seed {}",
        settings.writers, settings.rate, settings.seed
    ));
    for (name, part) in &parts {
        report.tables.push(table(name, part));
        let svg = places.output.join(format!("cluster-faults-{name}.svg"));
        fs::write(&svg, picture(part))?;
        report
            .notes
            .push(format!("Acknowledged rows over time: `{}`", svg.display()));
    }
    report.checks = checks(&parts);
    report.measured = json!(
        parts
            .iter()
            .map(|(name, part)| json!({ "name": name, "part": part }))
            .collect::<Vec<_>>()
    );
    report.finish(places)
}

/// Runs failures of machines, networks and disks.
fn in_namespaces(settings: &ClusterFaultsSettings, output: &Path) -> Result<Part> {
    let namespaces = Namespaces::create(NODES)
        .context("network namespaces need root; --no-namespaces leaves this part out")?;
    let folder = tempfile::tempdir_in(output)?;
    let small = SmallDisk::mount(&folder.path().join(format!("nodes/node{SMALL}/data")))?;
    let nodes = start_nodes(Options {
        places: (1..=NODES).map(|number| namespaces.node(number)).collect(),
        ..Options::new(NODES, folder.path().join("nodes"))
    })?;
    let port_places = (1..=NODES).map(|number| namespaces.port(number)).collect();
    let mut ports = start_ports(settings, &nodes, port_places, folder.path())?;
    let mut stage = Stage::new(settings, ports.addresses());
    let hold = Duration::from_secs(settings.hold);
    stage.play(
        "a node is killed",
        &mut ports,
        hold,
        |_| nodes.kill(3).map_err(Into::into),
        |_| nodes.restart(3).map_err(Into::into),
    )?;
    stage.play(
        "a port is killed",
        &mut ports,
        hold,
        |ports| ports.kill(1),
        |ports| ports.begin(1),
    )?;
    let machine = |ports: &mut Ports| {
        nodes.kill(3)?;
        ports.kill(2)
    };
    let machine_returns = |ports: &mut Ports| {
        nodes.restart(3)?;
        ports.begin(2)
    };
    stage.play(
        "a node and its port are killed",
        &mut ports,
        2 * hold,
        machine,
        machine_returns,
    )?;
    stage.play(
        "the network is cut into 2 and 1",
        &mut ports,
        4 * hold,
        |_| namespaces.cut(3),
        |_| namespaces.heal(3),
    )?;
    stage.play(
        "a node is slow",
        &mut ports,
        hold,
        |_| slow(&nodes, 1, hold),
        |_| Ok(()),
    )?;
    let full = |_: &mut Ports| {
        small.fill()?;
        // The flush fails, and the node stops serving.
        let _ = nodes.tool(SMALL, &["flush"]);
        Ok(())
    };
    let space = |_: &mut Ports| {
        small.clear()?;
        nodes.restart(SMALL).map_err(Into::into)
    };
    stage.play(
        "the disk of a node is full",
        &mut ports,
        2 * hold,
        full,
        space,
    )?;
    let part = stage.end(&mut ports, &settings.seiner)?;
    ports.stop_all()?;
    // The nodes use the small disk and the namespaces.
    drop(nodes);
    Ok(part)
}

/// Runs failures of single frames between ports and nodes.
fn behind_proxies(settings: &ClusterFaultsSettings, output: &Path) -> Result<(Part, Arc<Counts>)> {
    let folder = tempfile::tempdir_in(output)?;
    let address = |last: usize| Ipv4Addr::new(127, 0, PROXIED, last as u8);
    let public = |number: usize| address(usize::from(PROXIES) + number);
    let disturbance = Disturbance {
        drops: 2,
        delays: 50,
        longest: Duration::from_millis(300),
    };
    let counts = Arc::new(Counts::default());
    let options = Options::new(NODES, folder.path().join("nodes"));
    let proxies = (1..=NODES).map(|number| {
        Proxy::start(
            at(public(number), options.port),
            at(address(number), options.port),
            disturbance,
            counts.clone(),
            settings.seed + number as u64,
        )
    });
    let proxies: Vec<Proxy> = proxies.collect::<Result<_>>()?;
    let nodes = start_nodes(Options {
        places: (1..=NODES)
            .map(|number| Place {
                address: address(number),
                public: Some(public(number)),
                namespace: None,
            })
            .collect(),
        ..options
    })?;
    let mut ports = start_ports(settings, &nodes, loopback_places(NODES)?, folder.path())?;
    let mut stage = Stage::new(settings, ports.addresses());
    let disturb = |is_active: bool| {
        proxies.iter().for_each(|proxy| proxy.disturb(is_active));
        Ok(())
    };
    let hold = Duration::from_secs(3 * settings.hold);
    stage.play(
        "frames are dropped, delayed and reordered",
        &mut ports,
        hold,
        |_| disturb(true),
        |_| disturb(false),
    )?;
    let part = stage.end(&mut ports, &settings.seiner)?;
    ports.stop_all()?;
    Ok((part, counts))
}

fn start_ports(
    settings: &ClusterFaultsSettings,
    nodes: &LocalCluster,
    places: Vec<PortPlace>,
    folder: &Path,
) -> Result<Ports> {
    let port_settings = PortSettings {
        program: settings.seiner.clone(),
        keyspace: "faults".to_string(),
        replicas: 3,
        arguments: ["--handover", "20s", "--memory", "64 MiB"]
            .map(String::from)
            .to_vec(),
    };
    Ports::start(port_settings, nodes, NODES, places, folder)
}

/// Stops and continues a node several times a second.
fn slow(nodes: &LocalCluster, node: usize, length: Duration) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < length {
        nodes.pause(node)?;
        thread::sleep(Duration::from_millis(400));
        nodes.resume(node)?;
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Small file system for the data of a node. Dropping it unmounts it.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    fn mount(folder: &Path) -> Result<SmallDisk> {
        fs::create_dir_all(folder)?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", SMALL_DISK, "seiner"])
            .arg(folder)
            .status()?;
        ensure!(
            mounted.success(),
            "a small file system was not mounted; this needs root"
        );
        Ok(SmallDisk {
            folder: folder.to_path_buf(),
        })
    }

    fn filler(&self) -> PathBuf {
        self.folder.join("filler")
    }

    /// Uses all free space.
    fn fill(&self) -> Result<()> {
        let mut file = File::create(self.filler())?;
        for size in [1 << 20, 4096, 1] {
            let piece = vec![0; size];
            // The loop ends with the error that the space is used up.
            while file.write_all(&piece).is_ok() {}
        }
        Ok(())
    }

    /// Frees the space.
    fn clear(&self) -> Result<()> {
        Ok(fs::remove_file(self.filler())?)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A failure leaves a mount, which the user sees.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

/// Writers, and what happened while they wrote.
struct Stage {
    writers: Vec<Writer>,
    pause: Duration,
    start: Instant,
    scenes: Vec<Scene>,
    rates: Vec<(f64, f64)>,
    rows: u64,
}

impl Stage {
    fn new(settings: &ClusterFaultsSettings, ports: Vec<std::net::SocketAddr>) -> Stage {
        let load = Load {
            sources: 20,
            rows: 40,
            rate: Some(settings.rate),
            follows: true,
        };
        let writers = (0..settings.writers)
            .map(|number| Writer::start(number, load, ports.clone(), number % ports.len()));
        Stage {
            writers: writers.collect(),
            pause: Duration::from_secs(settings.pause),
            start: Instant::now(),
            scenes: Vec::new(),
            rates: Vec::new(),
            rows: 0,
        }
    }

    fn rows(&self) -> u64 {
        self.writers.iter().map(Writer::rows).sum()
    }

    fn repeated(&self) -> u64 {
        self.writers.iter().map(Writer::repeated).sum()
    }

    /// Returns the longest time until an acknowledgement since the last call.
    fn slowest(&self) -> Duration {
        let slowest = self.writers.iter().map(Writer::slowest);
        slowest.max().unwrap_or_default()
    }

    /// Lets the load run, and notes its rate.
    fn watch(&mut self, length: Duration) {
        let end = Instant::now() + length;
        while Instant::now() < end {
            let before = Instant::now();
            thread::sleep(Duration::from_millis(500));
            self.note(before);
        }
    }

    fn note(&mut self, since: Instant) {
        let rows = self.rows();
        let rate = (rows - self.rows) as f64 / since.elapsed().as_secs_f64();
        self.rows = rows;
        self.rates.push((self.start.elapsed().as_secs_f64(), rate));
    }

    /// Lets a failure happen and end under load.
    fn play(
        &mut self,
        name: &str,
        ports: &mut Ports,
        hold: Duration,
        fail: impl FnOnce(&mut Ports) -> Result<()>,
        heal: impl FnOnce(&mut Ports) -> Result<()>,
    ) -> Result<()> {
        self.watch(self.pause);
        self.slowest();
        eprintln!("{name}");
        let (rows, repeated, from) = (self.rows(), self.repeated(), self.start.elapsed());
        let began = Instant::now();
        fail(ports).with_context(|| name.to_string())?;
        self.note(began);
        self.watch(hold.saturating_sub(began.elapsed()));
        let healing = Instant::now();
        heal(ports).with_context(|| format!("the end of: {name}"))?;
        self.note(healing);
        let to = self.start.elapsed();
        self.watch(self.pause);
        self.scenes.push(Scene {
            name: name.to_string(),
            from_s: from.as_secs_f64(),
            to_s: to.as_secs_f64(),
            acknowledged: self.rows() - rows,
            repeated: self.repeated() - repeated,
            slowest_s: self.slowest().as_secs_f64(),
        });
        Ok(())
    }

    /// Ends the load, waits until all ports are well, and looks for all rows.
    fn end(mut self, ports: &mut Ports, program: &Path) -> Result<Part> {
        self.watch(self.pause);
        let records = self.writers.into_iter().map(Writer::finish);
        let records: Vec<Record> = records.collect::<Result<_>>()?;
        let addresses = ports.addresses();
        let is_well = |address| {
            let status = status(address);
            status.is_ok_and(|status| status["cluster"]["trouble"].is_null())
        };
        let well = within(RECOVERY, || {
            addresses.iter().all(|address| is_well(*address))
        });
        ensure!(
            well.is_some(),
            "the ports have not recovered within {RECOVERY:?}"
        );
        eprintln!("looking for all rows");
        let verdicts = addresses.iter().map(|port| verify(*port, &records));
        let verdicts = verdicts.collect::<Result<_>>()?;
        for address in &addresses {
            crate::cluster::hand_over(*address)?;
        }
        let after_handover = verify(addresses[0], &records)?;
        let check = Command::new(program)
            .args(["cluster", "check", ports.url()])
            .output()?;
        if !check.status.success() {
            eprintln!(
                "{}{}",
                String::from_utf8_lossy(&check.stdout),
                String::from_utf8_lossy(&check.stderr)
            );
        }
        Ok(Part {
            scenes: self.scenes,
            rates: self.rates,
            verdicts,
            after_handover,
            is_undamaged: check.status.success(),
        })
    }
}

fn table(name: &str, part: &Part) -> Table {
    let mut table = Table::new(
        format!("Failures of {name}"),
        &[
            "failure",
            "lasted, s",
            "M rows acknowledged meanwhile and after",
            "bodies sent again",
            "longest wait for an acknowledgement, s",
        ],
    );
    for scene in &part.scenes {
        table.rows.push(vec![
            scene.name.clone(),
            short(scene.to_s - scene.from_s),
            short(scene.acknowledged as f64 / 1e6),
            scene.repeated.to_string(),
            short(scene.slowest_s),
        ]);
    }
    table
}

fn checks(parts: &[(&str, Part)]) -> Vec<Check> {
    let all = || {
        let parts = parts.iter().map(|(_, part)| part);
        parts.flat_map(|part| part.verdicts.iter().chain([&part.after_handover]))
    };
    let sum = |of: &dyn Fn(&Verdict) -> u64| Some(all().map(of).sum::<u64>() as f64);
    let acknowledged = parts
        .iter()
        .map(|(_, part)| part.after_handover.acknowledged);
    let damaged = parts.iter().filter(|(_, part)| !part.is_undamaged).count();
    let scenes: usize = parts.iter().map(|(_, part)| part.scenes.len()).sum();
    vec![
        Check::new(
            "kinds of failures",
            Some(scenes as f64),
            Relation::AtLeast,
            Some(7.0),
            "",
        ),
        Check::new(
            "acknowledged rows",
            Some(acknowledged.sum::<u64>() as f64 / 1e6),
            Relation::AtLeast,
            Some(2.0),
            "M",
        ),
        Check::new(
            "acknowledged rows that were not found, at all ports and after a handover",
            sum(&|verdict| verdict.lost),
            Relation::AtMost,
            Some(0.0),
            "rows",
        ),
        Check::new(
            "rows that were found twice or wrong",
            sum(&|verdict| verdict.repeated + verdict.wrong),
            Relation::AtMost,
            Some(0.0),
            "rows",
        ),
        Check::new(
            "clusters with damage, by `seiner cluster check`",
            Some(damaged as f64),
            Relation::AtMost,
            Some(0.0),
            "",
        ),
    ]
}

/// Draws the acknowledged rows over time, with the failures.
fn picture(part: &Part) -> String {
    let most = part.rates.iter().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let mut series = vec![LineSeries::new("acknowledged rows", part.rates.clone())];
    for scene in &part.scenes {
        let (from, to) = (scene.from_s, scene.to_s);
        let mut line = LineSeries::new(scene.name.clone(), vec![(from, most), (to, most)]);
        line.is_reference = true;
        series.push(line);
    }
    let figure = Figure::Lines {
        title: "Acknowledged rows during failures".to_string(),
        caption: "The faint lines at the top show when the failures lasted.".to_string(),
        x: Axis::linear("seconds"),
        y: Axis::linear("rows per second"),
        series,
    };
    svg::standalone(&figure, any_colour)
}
