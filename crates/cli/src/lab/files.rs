//! `seiner lab files`: times file operations by file system.

use super::{Common, Means};
use crate::failure::Failure;
use clap::Args;
use seiner_lab::files;
use seiner_lab::job::Work;
use std::path::PathBuf;

/// Measure the time of common file operations, by file system.
///
/// Copies a mixed tree and deletes it; unpacks very many small files, copies and deletes them;
/// copies one large file. The time includes unmounting. For root, every available file system is
/// made on an image. For other users, the directory's own file system is measured, with a sync in
/// place of unmounting. With --backend guest, any user measures all file systems in an emulated
/// machine.
#[derive(Args)]
pub struct Files {
    /// Directory for inputs and images.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// File systems, optionally with mount options after a colon: ext4, ext4:data=journal, "as
    /// mounted".
    #[arg(long = "system", value_name = "KIND[:OPTIONS]")]
    systems: Vec<String>,
    /// Kernel that is measured.
    #[arg(long, value_enum, default_value = "native")]
    backend: Means,
    /// Tree of files to copy instead of a generated tree.
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// Number of runs to average. More runs take longer and reduce noise.
    #[arg(long)]
    runs: Option<u64>,
    #[command(flatten)]
    common: Common,
}

impl Files {
    /// Runs the measurement.
    pub fn run(self) -> Result<(), Failure> {
        let mut settings = files::Files::new(self.directory, self.common.profile.profile());
        if self.backend == Means::Guest {
            settings = settings.in_guests();
        }
        if !self.systems.is_empty() {
            settings.systems = self.systems;
        }
        settings.tree = self.tree;
        settings.runs = self.runs.unwrap_or(settings.runs);
        self.common.run(Work::Files(settings))
    }
}
