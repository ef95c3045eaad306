//! Directories for the journals of failed ports.

use seiner_cluster::SpareDisks;
use seiner_platform::{Directory, Disk};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Directories beside the data of a port.
pub struct SpareDirectories {
    folder: PathBuf,
}

impl SpareDirectories {
    /// Returns directories in a folder, which is created when one is needed.
    pub fn new(folder: PathBuf) -> SpareDirectories {
        SpareDirectories { folder }
    }
}

impl SpareDisks for SpareDirectories {
    fn create(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(Directory::open(self.folder.join(name))?))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_dir_all(self.folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
