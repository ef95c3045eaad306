//! Clusters: the store behind `seiner serve --cluster`, and `seiner cluster`.

mod check;
mod connect;
mod export;
mod import;
#[cfg(feature = "plan")]
mod measure;
mod peers;
#[cfg(feature = "plan")]
mod plan;
mod port_agent;
#[cfg(feature = "plan")]
mod scale;
mod spare;
mod store;
mod trial;

pub use store::extend;

use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Try a cluster on this machine, check a cluster's data, move data into or out of a cluster, and plan a cluster.
///
/// A server becomes a port of a cluster with `seiner serve --cluster cassandra://HOST,…/KEYSPACE`: docs/cluster.md.
#[derive(Args)]
pub struct Cluster {
    #[command(subcommand)]
    action: Action,
}

// The help of each action is the doc comment of its flags. A comment here would replace it.
#[derive(Subcommand)]
enum Action {
    Try(trial::Try),
    Check(check::Check),
    Import(import::Import),
    Export(export::Export),
    #[cfg(feature = "plan")]
    Plan(plan::Plan),
    #[cfg(feature = "plan")]
    Scale(scale::Scale),
}

impl Cluster {
    /// Runs the action.
    pub fn run(self) -> Result<(), Failure> {
        match self.action {
            Action::Try(trial) => trial.run(),
            Action::Check(check) => check.run(),
            Action::Import(import) => import.run(),
            Action::Export(export) => export.run(),
            #[cfg(feature = "plan")]
            Action::Plan(plan) => plan.run(),
            #[cfg(feature = "plan")]
            Action::Scale(scale) => scale.run(),
        }
    }
}
