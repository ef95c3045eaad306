//! `seiner lab merge`: measures the writes of merging.

use super::{Common, bytes};
use crate::failure::Failure;
use crate::stray;
use clap::Args;
use seiner_lab::job::Work;
use seiner_lab::merge;
use std::path::PathBuf;

/// Overwrite a small store for a long time, and count the bytes that merging writes, by V, R, B and
/// policy.
///
/// Repeats the sweeps of the second paper on this project's engine, with real files and a clock
/// that advances with each row. One setting varies at a time; the others have the first of their
/// values. `seiner sim merge` tries more settings in less time, without files.
#[derive(Args)]
pub struct Merge {
    /// Directory for the store.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// C: disk budget of the store.
    #[arg(long, value_parser = bytes)]
    budget: Option<u64>,
    /// V: live shares, for example 0.5,0.8.
    #[arg(long, value_delimiter = ',', value_name = "SHARES")]
    v: Vec<f64>,
    /// V while R and B vary.
    #[arg(long, value_name = "SHARE")]
    v_of_sizes: Option<f64>,
    /// Policies, for example patient,fifo.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    policy: Vec<String>,
    /// R: bytes per segment.
    #[arg(long, value_delimiter = ',', value_parser = bytes, value_name = "SIZES")]
    segment: Vec<u64>,
    /// B: bytes per block.
    #[arg(long, value_delimiter = ',', value_parser = bytes, value_name = "SIZES")]
    block: Vec<u64>,
    /// Spread of the rates of sensors: standard deviation of their logarithm; 0 for equal rates.
    #[arg(long)]
    sigma: Option<f64>,
    /// Multiples of C to write for the warm-up, and again for the measurement.
    #[arg(long)]
    turns: Option<f64>,
    #[command(flatten)]
    common: Common,
}

impl Merge {
    /// Runs the measurement.
    pub fn run(self) -> Result<(), Failure> {
        stray::reject([&self.directory], "--v, --policy, --segment and --block")?;
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
