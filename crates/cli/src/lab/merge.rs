//! `seiner lab merge`: measures the writes of merging.

use super::{Common, bytes};
use crate::failure::Failure;
use crate::stray;
use clap::Args;
use seiner_lab::job::Work;
use seiner_lab::merge;
use std::path::PathBuf;

/// Overwrite a small store for long, and count what merging writes, by V, R, B and policy.
///
/// The second paper's sweeps on this project's engine: real files, a clock that passes by the row. One
/// setting is varied at a time, the others have the first of their values. `seiner sim merge` tries
/// more of it in less time, without files.
#[derive(Args)]
pub struct Merge {
    /// A directory for the store.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// C: what the store may take.
    #[arg(long, value_parser = bytes)]
    budget: Option<u64>,
    /// V: live shares, for example 0.5,0.8.
    #[arg(long, value_delimiter = ',', value_name = "SHARES")]
    v: Vec<f64>,
    /// V while R and B are varied.
    #[arg(long, value_name = "SHARE")]
    v_of_sizes: Option<f64>,
    /// Policies, for example patient,fifo.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    policy: Vec<String>,
    /// R: bytes of a segment.
    #[arg(long, value_delimiter = ',', value_parser = bytes, value_name = "SIZES")]
    segment: Vec<u64>,
    /// B: bytes of a block.
    #[arg(long, value_delimiter = ',', value_parser = bytes, value_name = "SIZES")]
    block: Vec<u64>,
    /// How far the rates of sensors lie apart; 0: all alike.
    #[arg(long)]
    sigma: Option<f64>,
    /// How often C is written to warm up, and again while it counts.
    #[arg(long)]
    turns: Option<f64>,
    #[command(flatten)]
    common: Common,
}

impl Merge {
    /// Runs the measurement.
    pub fn run(self) -> Result<(), Failure> {
        stray::refuse([&self.directory], "--v, --policy, --segment and --block")?;
        let mut settings = merge::Merge::new(self.directory, self.common.profile.profile());
        settings.budget_bytes = self.budget.unwrap_or(settings.budget_bytes);
        settings.v_of_sizes = self.v_of_sizes.unwrap_or(settings.v_of_sizes);
        settings.sigma = self.sigma.unwrap_or(settings.sigma);
        settings.turns = self.turns.unwrap_or(settings.turns);
        if !self.v.is_empty() {
            settings.v = self.v;
        }
        if !self.policy.is_empty() {
            settings.policies = self.policy;
        }
        if !self.segment.is_empty() {
            settings.segments = self.segment;
        }
        if !self.block.is_empty() {
            let block = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
            settings.blocks = self.block.into_iter().map(block).collect();
        }
        self.common.run(Work::Merge(settings))
    }
}
