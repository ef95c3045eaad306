//! `seiner sim`: tries settings on a simulated store.

mod merge;
mod picture;
mod run;

use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Compare settings on a simulated store.
///
/// Reads and writes only files that the command line names.
#[derive(Args)]
#[command(subcommand_value_name = "WHAT", subcommand_help_heading = "What")]
pub struct Sim {
    #[command(subcommand)]
    what: What,
}

// The help of each subcommand is the doc comment of its flags. A comment here would replace it.
#[derive(Subcommand)]
enum What {
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
