//! `seiner raid clear`: makes a volume blank.

use super::running::RunningFlags;
use crate::failure::Failure;
use anyhow::anyhow;
use clap::Args;
use seiner_volume::{ArrayBlocks, clear};
use std::sync::Arc;

/// Make the volume of an array blank, so that `seiner serve --array` makes a store of it.
///
/// Zeroes are written to its beginning, where file systems and stores have their marks: what it held can no longer be read.
#[derive(Args)]
pub struct Clear {
    /// Yes, what the volume holds may be lost.
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
