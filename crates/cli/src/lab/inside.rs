//! `seiner lab inside` (hidden): the process inside the guest for the backend `guest`.

use super::failure;
use crate::failure::Failure;
use clap::Args;

/// Run as the first process of a guest.
#[derive(Args)]
pub struct Inside {}

impl Inside {
    /// Runs the job of this guest and switches the guest off.
    pub fn run(self) -> Result<(), Failure> {
        seiner_lab::guest::inside::run().map_err(failure)
    }
}
