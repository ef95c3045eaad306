//! `seiner lab align`: measures the cost of an unaligned partition.

use super::{Common, Means};
use crate::failure::Failure;
use clap::Args;
use seiner_lab::align;
use seiner_lab::backend::Backend;
use seiner_lab::job::Work;
use std::path::PathBuf;

/// Measure what an unaligned partition costs, by file system (root).
///
/// Each file system at hand is made at sector 40 and at sector 34 of an image, and used; the requests
/// that reach the device are counted as a medium with sectors of 4 KiB would have to serve them.
#[derive(Args)]
pub struct Align {
    /// A directory for inputs and the image.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Use this device instead of an image. It must be unused and empty.
    #[arg(long, value_name = "DEVICE")]
    device: Option<PathBuf>,
    /// Name the device once more to have its data erased.
    #[arg(long, value_name = "DEVICE", requires = "device")]
    erase: Option<PathBuf>,
    /// File systems.
    #[arg(long = "system", value_name = "KIND")]
    systems: Vec<String>,
    /// By what means.
    #[arg(long, value_enum, default_value = "native")]
    backend: Means,
    /// How often everything is done.
    #[arg(long)]
    runs: Option<u64>,
    #[command(flatten)]
    common: Common,
}

impl Align {
    /// Runs the measurement.
    pub fn run(self) -> Result<(), Failure> {
        let mut settings = align::Align::new(self.directory, self.common.profile.profile());
        settings.device = self.device;
        settings.erase = self.erase;
        if self.backend == Means::Guest {
            settings.backend = Backend::Guest;
        }
        settings.runs = self.runs.unwrap_or(settings.runs);
        if !self.systems.is_empty() {
            settings.systems = self.systems;
        }
        self.common.run(Work::Align(settings))
    }
}
