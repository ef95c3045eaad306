//! `seiner raid clear`: makes a volume blank.

use super::running::RunningFlags;
use crate::failure::Failure;
use anyhow::anyhow;
use clap::Args;
use seiner_volume::{ArrayBlocks, clear};
use std::sync::Arc;

/// Clear the volume of an array, so that `seiner serve --array` creates a store on it.
///
/// Writes zeroes to the start of the volume, which contains the headers of file systems and stores.
/// The earlier contents can then no longer be read.
#[derive(Args)]
pub struct Clear {
    /// Confirm the loss of the volume's contents.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    running: RunningFlags,
}

impl Clear {
    /// Clears the volume.
    pub fn run(self) -> Result<(), Failure> {
        if !self.yes {
            return Err(Failure::Usage(
                "what the volume holds will be lost: say --yes as well".to_string(),
            ));
        }
        let array = Arc::new(self.running.assemble()?);
        let cleared = clear(&ArrayBlocks::new(array.clone()));
        let stopped = array.stop();
        cleared?;
        Ok(stopped.map_err(|failure| anyhow!("the last flush failed: {failure}"))?)
    }
}
