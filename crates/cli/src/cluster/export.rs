//! `seiner cluster export`: moves the samples of a cluster into a data directory.

use super::connect::Access;
use super::peers::HttpPeers;
use super::port_agent::{PortAgent, PortFiles};
use super::spare::SpareDirectories;
use super::store::proposal;
use crate::failure::Failure;
use crate::progress;
use anyhow::Context;
use clap::Args;
use seiner_cassandra::CassandraRows;
use seiner_cluster::{ClusterStore, Export as State, PortOptions, Progress, Rows, Surroundings};
use seiner_engine::{Classes, Engine, Given, Options, Rule};
use seiner_platform::sim::SimDisk;
use seiner_platform::{Directory, Disk, SystemClock};
use seiner_store::Store;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Steps of the progress bar.
const STEPS: u64 = 1000;
/// Memory of the port that reads, in bytes. It receives no samples.
const MEMORY: u64 = 16 << 20;
/// Interval at which the lease of that port is looked at.
const LEASES: Duration = Duration::from_secs(1);

/// Move the samples of a cluster into a new data directory of a single server.
///
/// Changes no samples of the cluster. If the command is interrupted, run it again: it continues, and stores each sample
/// once. Stop all senders before. `seiner serve --data DIR` serves the directory afterwards.
#[derive(Args)]
pub struct Export {
    /// Cluster: cassandra://HOST,…/KEYSPACE.
    cluster: String,
    /// New directory.
    directory: PathBuf,
    #[command(flatten)]
    access: Access,
    /// File (PEM) with the authorities of the certificates of the cluster's ports, if the ports have TLS. Ports that
    /// demand certificates of clients cannot be reached: their rows are read from the replicated journal.
    #[arg(long, value_name = "FILE")]
    ports_ca_file: Option<PathBuf>,
}

impl Export {
    /// Runs the export.
    pub fn run(self) -> Result<(), Failure> {
        let rows = self.access.with_environment()?.open(&self.cluster)?;
        if !rows.tables()?.iter().any(|table| table == "rules") {
            return Err(Failure::Usage(format!(
                "no port has stored samples in the keyspace {}; correct its name",
                rows.keyspace()
            )));
        }
        let opened = Directory::open(&self.directory);
        let disk = opened.with_context(|| {
            format!("the directory {} was not opened", self.directory.display())
        })?;
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let mut state = State::open(&*disk, rows.keyspace())?;
        let authorities = self.ports_ca_file.clone();
        let files = authorities.map(|authorities| PortFiles {
            authorities,
            own: None,
        });
        let agent = PortAgent::new(files).context("--ports-ca-file")?;
        let store = port(rows, &self.directory, agent)?;
        let engine = Engine::start(disk.clone(), options(&store)?)?;
        let bar = progress::over(
            STEPS,
            "exporting {bar:30} {percent}% {msg} {elapsed} {eta} left",
        );
        let exported = with_lease(&store, || {
            state.run(&store, &engine, &*disk, &mut |event| match event {
                Progress::Moved { share, samples } => {
                    bar.set_position((share * STEPS as f64) as u64);
                    bar.set_message(format!("{samples} samples"));
                }
                Progress::Damaged(what) => bar.suspend(|| eprintln!("seiner: {what}")),
            })
        });
        bar.finish_and_clear();
        let closed = engine.close();
        store.close()?;
        exported?;
        closed?;
        print(&state)
    }
}

/// Runs some work while another thread prolongs the lease of the port.
fn with_lease<T>(store: &ClusterStore, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (stop, stopped) = channel::<()>();
        scope.spawn(move || {
            while stopped.recv_timeout(LEASES) == Err(RecvTimeoutError::Timeout) {
                store.keep_leases();
            }
        });
        let done = work();
        drop(stop);
        done
    })
}

/// Opens a port that only reads. It keeps nothing on a disk, and is not listed among the ports.
fn port(
    rows: CassandraRows,
    directory: &Path,
    agent: PortAgent,
) -> Result<Arc<ClusterStore>, Failure> {
    let peers = Arc::new(HttpPeers::new(agent));
    let around = Surroundings {
        rows: Arc::new(rows),
        disk: Arc::new(SimDisk::new(0)),
        spare: Arc::new(SpareDirectories::new(directory.join("takeovers"))),
        clock: Arc::new(SystemClock::new()),
        peers: peers.clone(),
    };
    let options = PortOptions {
        engine: Options {
            memory: MEMORY,
            ..Options::default()
        },
        ..PortOptions::new(format!("export-{}", std::process::id()))
    };
    let store = ClusterStore::open(options, around).context("the cluster was not opened")?;
    let store = Arc::new(store);
    let secret = store.secret(&proposal())?;
    peers.begin(&store, secret);
    Ok(store)
}

/// Returns the settings of the new directory: the retention classes of the cluster.
fn options(store: &ClusterStore) -> Result<Options, Failure> {
    Ok(Options {
        memory: Options::automatic_memory(),
        classes: Classes::new(store.retention())?,
        given: Given::these([Rule::Classes]),
        ..Options::default()
    })
}

/// Prints the figures of an export.
fn print(state: &State) -> Result<(), Failure> {
    println!(
        "{} samples; {} rows were not accepted, because they were older than their class keeps",
        state.samples, state.rejected
    );
    match state.damages {
        0 => Ok(()),
        damages => {
            eprintln!("seiner: {damages} parts of the cluster's data could not be read");
            Err(Failure::Rejected)
        }
    }
}
