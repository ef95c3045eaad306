//! `seiner lab files`: times file operations by file system.

use super::{Common, Means};
use crate::failure::Failure;
use clap::Args;
use seiner_lab::files;
use seiner_lab::job::Work;
use std::path::PathBuf;

/// Time what people do with files, by file system.
///
/// Copy a mixed tree, delete it; unpack very many small files, copy and delete them; copy one large
/// file. Unmounting counts. As root every file system at hand is made on an image; as an ordinary user
/// the directory's own is timed, with a sync in place of unmounting. With --backend guest every file
/// system is tried in an emulated machine, as any user.
#[derive(Args)]
pub struct Files {
    /// A directory for inputs and images.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// File systems, each with mount options behind a colon: ext4, ext4:data=journal, "as mounted".
    #[arg(long = "system", value_name = "KIND[:OPTIONS]")]
    systems: Vec<String>,
    /// By what means.
    #[arg(long, value_enum, default_value = "native")]
    backend: Means,
    /// A tree of your own to copy instead of one that is grown.
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// How often everything is done.
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
