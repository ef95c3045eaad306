//! `seiner lab align`: measures the cost of an unaligned partition.

use super::{Common, Means};
use crate::failure::Failure;
use clap::Args;
use seiner_lab::align;
use seiner_lab::backend::Backend;
use seiner_lab::job::Work;
use std::path::PathBuf;

/// Measure the cost of an unaligned partition, by file system (root).
///
/// Each available file system is made at sector 40 and at sector 34 of an image and runs the same
/// operations. The command counts the requests that reach the device and the read-modify-writes
/// that a disk with sectors of 4 KiB would need for them.
#[derive(Args)]
pub struct Align {
    /// Directory for inputs and the image.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Device to use instead of an image. The device must be unused and empty.
    #[arg(long, value_name = "DEVICE")]
    device: Option<PathBuf>,
    /// Path of the device again, to permit that its data are erased.
    #[arg(long, value_name = "DEVICE", requires = "device")]
    erase: Option<PathBuf>,
    /// File systems to test [default: all that are available]
    #[arg(long = "system", value_name = "KIND")]
    systems: Vec<String>,
    /// Kernel that is measured.
    #[arg(long, value_enum, default_value = "native")]
    backend: Means,
    /// Number of runs to average. More runs take longer and reduce noise.
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
