//! `seiner cluster check`: reads all bundles of a cluster and reports damage.

use super::connect::Access;
use crate::failure::Failure;
use clap::Args;
use seiner_cluster::{Rows, check};
use std::sync::Arc;

/// Read every bundle of a cluster, and report what is damaged or missing.
///
/// Changes nothing. Reads all data once, at the level QUORUM. The exit status is 1 if something is damaged.
#[derive(Args)]
pub struct Check {
    /// Cluster: cassandra://HOST,…/KEYSPACE.
    cluster: String,
    #[command(flatten)]
    access: Access,
}

impl Check {
    /// Runs the check.
    pub fn run(self) -> Result<(), Failure> {
        let rows: Arc<dyn Rows> = Arc::new(self.access.with_environment()?.open(&self.cluster)?);
        let report = check(&rows, &mut |line| println!("{line}"))?;
        println!(
            "{} bundles with {} samples of {} sources in {} bytes; {} journals that no port has finished",
            report.bundles, report.samples, report.sources, report.bytes, report.journals
        );
        match report.damages {
            0 => Ok(()),
            damages => {
                eprintln!("seiner: {damages} damaged or missing parts");
                Err(Failure::Rejected)
            }
        }
    }
}
