//! Disk of the files that were copied, and of the source's sealed segments that were not.

use seiner_platform::{Disk, File};
use std::io;
use std::sync::Arc;

/// Two disks as one, for reading: all files of the first, and some files of the second.
pub struct Joined<'a> {
    /// Disk whose files are all visible.
    pub first: &'a dyn Disk,
    /// Disk with the other files.
    pub second: &'a dyn Disk,
    /// Names of the files of the second disk.
    pub names: &'a [String],
}

impl Disk for Joined<'_> {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.first.list()?;
        let others = self.names.iter().filter(|name| !names.contains(name));
        let others: Vec<String> = others.cloned().collect();
        names.extend(others);
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        match self.names.iter().any(|other| other == name) {
            true => self.second.open(name),
            false => self.first.open(name),
        }
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn File>> {
        read_only()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        read_only()
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        read_only()
    }

    fn sync_names(&self) -> io::Result<()> {
        read_only()
    }
}

/// Returns the error of a write to files that are only read.
///
/// # Errors
/// Always.
pub fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}
