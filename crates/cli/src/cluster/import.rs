//! `seiner cluster import`: moves a data directory into a cluster.

use super::connect::Access;
use crate::failure::Failure;
use crate::progress;
use crate::target;
use clap::Args;
use seiner_cluster::{ImportOptions, ImportReport, Progress, Rows, import};
use seiner_platform::SystemClock;
use std::path::PathBuf;
use std::sync::Arc;

/// Steps of the progress bar.
const STEPS: u64 = 1000;

/// Move the samples of a data directory into a cluster.
///
/// Changes nothing in the directory. If the command is interrupted, run it again: it continues, and stores each sample
/// once. Stop the server of the directory before, or let its senders write to the cluster from then on.
#[derive(Args)]
pub struct Import {
    /// Data directory of a server.
    directory: PathBuf,
    /// Cluster: cassandra://HOST,…/KEYSPACE.
    cluster: String,
    /// Import the directory from its beginning, in place of the samples that were imported from it before.
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    access: Access,
}

impl Import {
    /// Runs the import.
    pub fn run(self) -> Result<(), Failure> {
        let engine = target::open_to_read(&self.directory)?;
        let rows: Arc<dyn Rows> = Arc::new(self.access.with_environment()?.connect(&self.cluster)?);
        let options = ImportOptions {
            again: self.again,
            ..ImportOptions::default()
        };
        let bar = progress::over(
            STEPS,
            "importing {bar:30} {percent}% {msg} {elapsed} {eta} left",
        );
        let report = import(
            &rows,
            &SystemClock::new(),
            &engine,
            &options,
            &mut |event| match event {
                Progress::Moved { share, samples } => {
                    bar.set_position((share * STEPS as f64) as u64);
                    bar.set_message(format!("{samples} samples"));
                }
                Progress::Damaged(what) => bar.suspend(|| eprintln!("seiner: {what}")),
            },
        );
        bar.finish_and_clear();
        print(&report?)
    }
}

/// Prints the figures of an import.
fn print(report: &ImportReport) -> Result<(), Failure> {
    if report.was_complete {
        println!("the directory was imported before; --again imports it from its beginning");
    }
    println!(
        "{} samples in {} bundles with {} bytes; {} samples were older than their class keeps",
        report.samples, report.bundles, report.bytes, report.expired
    );
    for (class, sources) in report.classes.iter().filter(|(_, sources)| *sources > 0) {
        println!("class {class}: {sources} sources");
    }
    match report.damages {
        0 => Ok(()),
        damages => {
            eprintln!("seiner: {damages} damaged parts of the directory were left out");
            Err(Failure::Rejected)
        }
    }
}
