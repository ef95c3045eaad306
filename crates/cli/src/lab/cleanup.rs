//! `seiner lab cleanup`: removes the remains of runs that were killed.

use super::failure;
use crate::failure::Failure;
use clap::Args;
use seiner_lab::registry::{clean_up, state_directory};
use std::io::{Write, stdout};

/// Remove the resources of killed runs.
///
/// Resources are mounts, loop devices, cgroups, trace instances, directories, and changed settings
/// of the system. Every experiment does this at its start. Resources of living runs remain.
#[derive(Args)]
pub struct Cleanup {}

impl Cleanup {
    /// Removes the remains.
    pub fn run(self) -> Result<(), Failure> {
        let removed = clean_up(&state_directory().map_err(failure)?).map_err(failure)?;
        for resource in &removed {
            writeln!(stdout(), "removed: {resource}")?;
        }
        if removed.is_empty() {
            writeln!(stdout(), "nothing was left")?;
        }
        Ok(())
    }
}
