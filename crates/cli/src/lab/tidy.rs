//! `seiner lab tidy`: removes the remains of runs that were killed.

use super::failure;
use crate::failure::Failure;
use clap::Args;
use seiner_lab::registry::{state_directory, tidy};
use std::io::{Write, stdout};

/// Remove what runs left that were killed: mounts, loop devices, cgroups, trace instances, directories,
/// and settings of the system. Any experiment does so when it starts; running ones are left alone.
#[derive(Args)]
pub struct Tidy {}

impl Tidy {
    /// Removes the remains.
    pub fn run(self) -> Result<(), Failure> {
        let gone = tidy(&state_directory().map_err(failure)?).map_err(failure)?;
        for resource in &gone {
            writeln!(stdout(), "gone: {resource}")?;
        }
        if gone.is_empty() {
            writeln!(stdout(), "nothing was left")?;
        }
        Ok(())
    }
}
