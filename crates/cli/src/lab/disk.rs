//! `seiner lab disk`: measures a disk.

use super::{Common, bytes};
use crate::failure::Failure;
use clap::Args;
use seiner_lab::disk;
use seiner_lab::job::Work;
use std::path::PathBuf;

/// Measure a disk: sequential, random, by size and depth; syncs; a long write.
///
/// Writes and reads one file of its own, around the page cache where the file system lets it. The
/// planner (`seiner plan --measured`) works from the results.
#[derive(Args)]
pub struct Disk {
    /// A directory on the disk.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// The size of the test file, for example 2GiB.
    #[arg(long, value_parser = bytes)]
    size: Option<u64>,
    /// Seconds of each of the cells.
    #[arg(long)]
    seconds: Option<f64>,
    /// Seconds of the long write.
    #[arg(long)]
    sustained: Option<f64>,
    /// Have fio do the same behind every cell, for comparison.
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
