//! `seiner sim`: tries settings on a simulated store.

mod merge;
mod picture;
mod run;

use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Try settings on a simulated store: nothing is read or written but what is named.
#[derive(Args)]
#[command(subcommand_value_name = "WHAT", subcommand_help_heading = "What")]
pub struct Sim {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// What merging writes, by policy and by how full of live data the store is.
    Merge(merge::Merge),
}

impl Sim {
    /// Runs the simulations and prints the results.
    pub fn run(self) -> Result<(), Failure> {
        match self.what {
            What::Merge(merge) => merge.run(),
        }
    }
}
