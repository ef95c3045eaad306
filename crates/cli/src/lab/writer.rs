//! `seiner lab writer` (hidden): one process of `lab write --processes`.

use super::failure;
use crate::failure::Failure;
use clap::Args;

/// Run as one process of `lab write --processes`.
#[derive(Args)]
pub struct Writer {}

impl Writer {
    /// Writes as ordered over standard input.
    pub fn run(self) -> Result<(), Failure> {
        seiner_lab::write::work().map_err(failure)
    }
}
