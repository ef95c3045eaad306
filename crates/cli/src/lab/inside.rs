//! `seiner lab inside`, hidden: the other end of the backend `guest`.

use super::failure;
use crate::failure::Failure;
use clap::Args;

/// What the first process of a guest runs.
#[derive(Args)]
pub struct Inside {}

impl Inside {
    /// Measures what the guest was ordered, and switches it off.
    pub fn run(self) -> Result<(), Failure> {
        seiner_lab::guest::inside::run().map_err(failure)
    }
}
