//! `raid-real`: arrays on real files behind a network block device, verified by fio, and the cost
//! of a request.

use crate::nbd::{self, Done, Nbdkit};
use crate::process::Usage;
use crate::report::{Check, OutputPaths, Relation, Report, Table, short};
use crate::run::raid_matrix;
use anyhow::{Context, Result};
use clap::Args;
use seiner_nbd::{
    Address, Command, Completion, Export, ExportShape, Limits, Memory, Offer, Server,
};
use seiner_raid::{
    Array, ArraySettings, Device, Geometry, Level, Member, Merging, Ram, ShardSettings,
};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Settings of `raid-real`.
#[derive(Args)]
pub struct RaidRealSettings {
    /// Directory of the members' files, on the disk to be used
    #[arg(long)]
    members: Option<PathBuf>,
    /// Seconds per measurement of the cost of requests
    #[arg(long, default_value_t = 1)]
    seconds: u64,
    /// Number of rounds of these measurements; our server and nbdkit alternate
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// MiB written and read back by each verifying job
    #[arg(long, default_value_t = 8)]
    verified_mib: u64,
}

const PURPOSE: &str = "Real I/O through our network block device, on a Unix socket, with fio as the client. First, RAID 6 of six files \
    (strip 16 KiB) under every strategy: fio writes data with checksums (crc32c) and reads all of it back. After the loss of one and of two \
    members, fio first verifies the earlier data and then does the same again. Second, processor time of the server per \
    request, in turn for our memory, nbdkit's memory plugin, and arrays of six members in memory.";

/// Loads for which processor time is measured: a name, and fio's settings.
const LOADS: [(&str, &str); 4] = [
    ("random write 4 KiB, depth 32", "rw=randwrite\niodepth=32"),
    ("random read 4 KiB, depth 32", "rw=randread\niodepth=32"),
    ("random write 4 KiB, depth 1", "rw=randwrite\niodepth=1"),
    ("random read 4 KiB, depth 1", "rw=randread\niodepth=1"),
];

const MEMBERS: usize = 6;
const STRIP: u64 = 16 << 10;
/// Bytes of the export during the measurement of processor time.
const SERVED_BYTES: u64 = 64 << 20;

/// Runs the benchmark.
pub fn run(settings: &RaidRealSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("raid-real", PURPOSE);
    for program in ["fio", "nbdkit"] {
        let version = nbd::version(program)
            .with_context(|| format!("{program} is needed: scripts/need.sh {program}"))?;
        report.versions.insert(program.into(), version);
    }
    // Outside the directory of results, because the path of a Unix socket must be short.
    let folder = tempfile::tempdir()?;
    let members = settings
        .members
        .clone()
        .unwrap_or_else(|| places.output.join("raid-real"));
    fs::create_dir_all(&members)?;
    report.notes.push(format!(
        "members of the verified arrays: {MEMBERS} files, direct I/O if the file system supports it"
    ));
    let verified = verify_all(settings, folder.path(), &members)?;
    let spoiled = spoiled(folder.path(), settings.verified_mib)?;
    let costs = costs(settings, folder.path())?;
    let parity = raid_matrix::parity();
    report.notes.push(format!(
        "processor time: {} rounds of {} s each; the median is shown. fio runs on the same processors",
        settings.rounds, settings.seconds
    ));
    report.tables = vec![
        verified_table(&verified),
        costs_table(&costs),
        raid_matrix::parity_table(&parity),
    ];
    report.checks = checks(&verified, spoiled, &costs, &parity);
    report.measured = json!({
        "verified": verified.iter().map(Verified::json).collect::<Vec<_>>(),
        "spoiled_found": spoiled,
        "costs": costs.iter().map(Cost::json).collect::<Vec<_>>(),
        "syndromes": parity,
    });
    report.finish(places)
}

/// Verified load on an array.
struct Verified {
    strategy: &'static str,
    lost: usize,
    /// Result of reading the data written before the last member was lost.
    before: Vec<Done>,
    /// Result of new writes, and of reading them.
    new: Done,
}

impl Verified {
    fn json(&self) -> serde_json::Value {
        json!({
            "strategy": self.strategy,
            "members_lost": self.lost,
            "bytes_written": self.new.bytes_written,
            "bytes_verified": self.bytes(),
            "failed": self.failed(),
        })
    }

    fn all(&self) -> impl Iterator<Item = &Done> {
        self.before.iter().chain([&self.new])
    }

    fn bytes(&self) -> u64 {
        self.all().map(|done| done.bytes_read).sum()
    }

    fn failed(&self) -> bool {
        self.all().any(|done| done.failed)
    }
}

/// Returns three concurrent jobs: random, sequential, and of any size from 512 bytes to 64 KiB.
/// Each round has its own part of the volume, so a later job can verify the data of earlier
/// rounds.
fn verified_jobs(mib: u64, round: u64) -> String {
    let offset = |job: u64| (3 * round + job) * mib;
    format!(
        "verify=crc32c\nverify_fatal=1\nverify_state_save=0\nallrandrepeat=1\nrandseed={round}\nsize={mib}m\n\
         [random]\nrw=randwrite\nbs=4k\niodepth=32\noffset={}m\n\
         [sequential]\nrw=write\nbs=4k\niodepth=32\noffset={}m\n\
         [any size]\nrw=randwrite\nbsrange=512-64k\nblockalign=512\niodepth=16\noffset={}m\n",
        offset(0),
        offset(1),
        offset(2)
    )
}

fn verify_all(settings: &RaidRealSettings, folder: &Path, members: &Path) -> Result<Vec<Verified>> {
    let mut all = Vec::new();
    let mib = settings.verified_mib;
    // Four strips of data per stripe, and somewhat more than three rounds of three jobs write.
    let member_bytes = (9 * mib).div_ceil(4).next_multiple_of(4) * (1 << 20) + (4 << 20);
    for strategy in Merging::ALL {
        let devices = (0..MEMBERS).map(|number| {
            let path = members.join(format!("member-{number}"));
            Ok(Arc::new(Device::create(&path, member_bytes)?) as Arc<dyn Member>)
        });
        let devices = devices.collect::<Result<Vec<_>>>()?;
        // The files may contain arbitrary data, so syndromes would not match.
        let array = array(devices, member_bytes, strategy)?;
        array.write_zeroes(0, array.bytes() / u64::from(array.block_bytes()), true)?;
        let served = Served::new(folder, Arc::clone(&array) as Arc<dyn Export>)?;
        for lost in 0..=2 {
            if lost > 0 {
                array.fail(lost)?;
            }
            let mut before = Vec::new();
            for round in 0..lost as u64 {
                let jobs = verified_jobs(mib, round);
                before.push(nbd::fio(folder, &served.socket, &jobs, &["--verify_only"])?);
            }
            let new = nbd::fio(
                folder,
                &served.socket,
                &verified_jobs(mib, lost as u64),
                &[],
            )?;
            let one = Verified {
                strategy: strategy.name(),
                lost,
                before,
                new,
            };
            eprintln!(
                "{}, {lost} lost: {} MB verified",
                one.strategy,
                one.bytes() / 1_000_000
            );
            all.push(one);
        }
        drop(served);
        array.stop()?;
    }
    (0..MEMBERS)
        .try_for_each(|number| fs::remove_file(members.join(format!("member-{number}"))))?;
    Ok(all)
}

fn array(devices: Vec<Arc<dyn Member>>, bytes: u64, merging: Merging) -> Result<Arc<Array>> {
    let geometry = Geometry::new(Level::Raid6, MEMBERS, STRIP, bytes)?;
    let shard = ShardSettings {
        merging,
        ..ShardSettings::default()
    };
    let settings = ArraySettings {
        shard,
        ..ArraySettings::default()
    };
    Ok(Arc::new(Array::bare(geometry, devices, settings)?))
}

/// Export behind a socket.
struct Served {
    _server: Server,
    socket: PathBuf,
}

impl Served {
    fn new(folder: &Path, export: Arc<dyn Export>) -> Result<Served> {
        // Several exports are served at the same time, so the name must be free.
        let mut names = (0..).map(|number| folder.join(format!("{number}.socket")));
        let socket = names
            .find(|path: &PathBuf| !path.exists())
            .context("a name")?;
        let offer = Offer::new("bench", "", export);
        let server = Server::start(
            vec![offer],
            &[Address::Unix(socket.clone())],
            Limits::default(),
        )?;
        Ok(Served {
            _server: server,
            socket,
        })
    }
}

/// Memory that returns one wrong bit.
struct Spoiled(Memory);

impl Export for Spoiled {
    fn shape(&self) -> ExportShape {
        self.0.shape()
    }

    fn submit(&self, command: Command<'_>, completion: Completion) {
        match command {
            Command::Read {
                offset: 40960,
                length,
            } => completion.data(&vec![1; length as usize]),
            command => self.0.submit(command, completion),
        }
    }
}

/// Returns true if fio detects a block that differs from the written data.
fn spoiled(folder: &Path, mib: u64) -> Result<bool> {
    let served = Served::new(
        folder,
        Arc::new(Spoiled(Memory::new((3 * mib) << 20, 4096))),
    )?;
    Ok(nbd::fio(folder, &served.socket, &verified_jobs(mib, 0), &[])?.failed)
}

/// Cost of requests.
struct Cost {
    load: &'static str,
    server: String,
    /// Results of every round: processor microseconds of the server per request, and requests per
    /// second.
    rounds: Vec<(f64, f64)>,
}

impl Cost {
    fn json(&self) -> serde_json::Value {
        json!({ "load": self.load, "server": self.server, "rounds_us_and_iops": self.rounds })
    }

    fn median(&self, part: impl Fn(&(f64, f64)) -> f64) -> f64 {
        let mut values: Vec<f64> = self.rounds.iter().map(part).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }
}

const OURS: &str = "seiner, memory";
const NBDKIT: &str = "nbdkit, memory";

/// Server whose processor time is measured.
struct Measured {
    name: String,
    socket: PathBuf,
    /// nbdkit, or `None` for our own server in this process.
    nbdkit: Option<Nbdkit>,
    _served: Option<Served>,
}

impl Measured {
    fn ours(folder: &Path, name: &str, export: Arc<dyn Export>) -> Result<Measured> {
        let served = Served::new(folder, export)?;
        Ok(Measured {
            name: name.into(),
            socket: served.socket.clone(),
            nbdkit: None,
            _served: Some(served),
        })
    }

    fn processor_s(&self) -> Result<f64> {
        let usage = match &self.nbdkit {
            Some(nbdkit) => nbdkit.usage()?,
            None => Usage::own()?,
        };
        Ok(usage.cpu_s)
    }
}

fn costs(settings: &RaidRealSettings, folder: &Path) -> Result<Vec<Cost>> {
    let nbdkit = Nbdkit::start(folder, SERVED_BYTES)?;
    let memory = Arc::new(Memory::new(SERVED_BYTES, 4096));
    let mut servers = vec![
        Measured::ours(folder, OURS, memory)?,
        Measured {
            name: NBDKIT.into(),
            socket: nbdkit.socket.clone(),
            nbdkit: Some(nbdkit),
            _served: None,
        },
    ];
    for strategy in [Merging::Never, Merging::Adaptive] {
        let bytes = SERVED_BYTES / 4;
        let devices = (0..MEMBERS).map(|_| Arc::new(Ram::new(bytes)) as Arc<dyn Member>);
        let array = array(devices.collect(), bytes, strategy)?;
        let name = format!("seiner, RAID 6 in memory, {}", strategy.name());
        servers.push(Measured::ours(folder, &name, array)?);
    }
    // The measurement excludes the first write, which allocates memory.
    for server in &servers {
        let jobs = format!("rw=write\nbs=1m\niodepth=4\nsize={SERVED_BYTES}\n[fill]\n");
        let filled = nbd::fio(folder, &server.socket, &jobs, &[])?;
        anyhow::ensure!(!filled.failed, "fio cannot fill {}", server.name);
    }
    let mut costs: Vec<Cost> = Vec::new();
    for _ in 0..settings.rounds {
        for (load, text) in LOADS {
            for server in &servers {
                let round = cost(settings, folder, server, text)?;
                eprintln!(
                    "{load}, {}: {:.2} µs, {:.0} requests per second",
                    server.name, round.0, round.1
                );
                let of = |cost: &&mut Cost| cost.load == load && cost.server == server.name;
                match costs.iter_mut().find(of) {
                    Some(cost) => cost.rounds.push(round),
                    None => costs.push(Cost {
                        load,
                        server: server.name.clone(),
                        rounds: vec![round],
                    }),
                }
            }
        }
    }
    Ok(costs)
}

/// Returns processor microseconds per request, and requests per second.
fn cost(
    settings: &RaidRealSettings,
    folder: &Path,
    server: &Measured,
    load: &str,
) -> Result<(f64, f64)> {
    let jobs = format!(
        "{load}\nbs=4k\nsize={SERVED_BYTES}\ntime_based=1\nruntime={}\nrandrepeat=0\n[load]\n",
        settings.seconds
    );
    let before = server.processor_s()?;
    let done = nbd::fio(folder, &server.socket, &jobs, &[])?;
    anyhow::ensure!(
        !done.failed && done.requests > 0,
        "fio failed on {}",
        server.name
    );
    let spent = server.processor_s()? - before;
    Ok((
        spent * 1e6 / done.requests as f64,
        done.requests as f64 / done.seconds,
    ))
}

fn verified_table(verified: &[Verified]) -> Table {
    let mut table = Table::new(
        "Verified by fio: random and sequential 4 KiB, and random 512 bytes to 64 KiB, concurrently",
        &[
            "strategy",
            "members lost",
            "MB written",
            "MB verified",
            "wrong",
        ],
    );
    for one in verified {
        table.rows.push(vec![
            one.strategy.into(),
            one.lost.to_string(),
            short(one.new.bytes_written as f64 / 1e6),
            short(one.bytes() as f64 / 1e6),
            if one.failed() { "**yes**" } else { "nothing" }.into(),
        ]);
    }
    table
}

fn costs_table(costs: &[Cost]) -> Table {
    let mut table = Table::new(
        "Processor time of the server",
        &[
            "load",
            "server",
            "µs a request",
            "least",
            "most",
            "requests per second",
        ],
    );
    for (load, _) in LOADS {
        for cost in costs.iter().filter(|cost| cost.load == load) {
            let times = cost.rounds.iter().map(|round| round.0);
            table.rows.push(vec![
                load.into(),
                cost.server.clone(),
                short(cost.median(|round| round.0)),
                short(times.clone().fold(f64::INFINITY, f64::min)),
                short(times.fold(0.0, f64::max)),
                short(cost.median(|round| round.1)),
            ]);
        }
    }
    table
}

fn checks(
    verified: &[Verified],
    spoiled: bool,
    costs: &[Cost],
    parity: &[(usize, usize, f64)],
) -> Vec<Check> {
    let wrong = verified.iter().filter(|one| one.failed()).count();
    let least = verified.iter().map(Verified::bytes).min().unwrap_or(0);
    let mut checks = vec![
        Check::new(
            format!("runs of {} in which fio found wrong data", verified.len()),
            Some(wrong as f64),
            Relation::AtMost,
            Some(0.0),
            "",
        ),
        Check::new(
            "minimum verified by a run",
            Some(least as f64 / 1e6),
            Relation::AtLeast,
            Some(1.0),
            "MB",
        ),
        Check::new(
            "fio detects a volume that returns a wrong block",
            Some(f64::from(u8::from(spoiled))),
            Relation::AtLeast,
            Some(1.0),
            "",
        ),
    ];
    for (load, _) in LOADS {
        let median = |server: &str| {
            let mut found = costs
                .iter()
                .filter(|cost| cost.load == load && cost.server == server);
            found.next().map(|cost| cost.median(|round| round.0))
        };
        checks.push(Check::new(
            format!("processor time per request, relative to nbdkit, {load}"),
            median(OURS),
            Relation::AtMost,
            median(NBDKIT),
            "µs",
        ));
    }
    checks.push(raid_matrix::parity_check(parity));
    checks
}
