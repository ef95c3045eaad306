//! `seiner lab disk`: measures a disk.

use super::{Common, bytes};
use crate::failure::Failure;
use clap::Args;
use seiner_lab::disk;
use seiner_lab::job::Work;
use std::path::PathBuf;

/// Measure a disk: sequential and random requests, by size and depth; syncs; a long write.
///
/// Writes and reads one file. Uses direct I/O if the file system supports it. The planner takes the
/// results (`seiner plan --measured`).
#[derive(Args)]
pub struct Disk {
    /// Directory on the disk.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Size of the test file, for example 2GiB. A file smaller than the disk's cache measures the
    /// cache.
    #[arg(long, value_parser = bytes)]
    size: Option<u64>,
    /// Seconds per cell.
    #[arg(long)]
    seconds: Option<f64>,
    /// Seconds of the long write. A short one may end before the disk's cache is full.
    #[arg(long)]
    sustained: Option<f64>,
    /// Repeat every cell with fio, for comparison. Doubles the duration.
    #[arg(long)]
    fio: bool,
    #[command(flatten)]
    common: Common,
}

impl Disk {
    /// Runs the measurement.
    pub fn run(self) -> Result<(), Failure> {
        let mut settings = disk::Disk::new(self.directory, self.common.profile.profile());
        settings.file_bytes = self.size.unwrap_or(settings.file_bytes);
        settings.seconds = self.seconds.unwrap_or(settings.seconds);
        settings.sustained_seconds = self.sustained.unwrap_or(settings.sustained_seconds);
        settings.is_checked_by_fio = self.fio;
        self.common.run(Work::Disk(settings))
    }
}
