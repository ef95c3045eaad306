//! Disk of the experiment. Files occupy their lengths.
//!
//! A file system also needs blocks for the maps of files in several pieces. Their number depends on
//! the free space of the disk, and the same load would lead to other merges with each run.

use seiner_platform::{Directory, Disk, File};
use std::io;
use std::sync::Arc;

/// Directory whose files occupy their lengths.
pub struct RepeatableDisk(pub Directory);

struct RepeatableFile(Arc<dyn File>);

fn wrapped(file: Arc<dyn File>) -> Arc<dyn File> {
    Arc::new(RepeatableFile(file))
}

impl Disk for RepeatableDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.0.open(name).map(wrapped)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.0.create(name).map(wrapped)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
    }

    fn free(&self) -> io::Result<Option<u64>> {
        self.0.free()
    }

    fn unit(&self) -> u64 {
        self.0.unit()
    }
}

/// Has no `allocated`: the default is the length.
impl File for RepeatableFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.0.reserve(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_occupies_its_length_whatever_is_reserved() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RepeatableDisk(Directory::open(folder.path()).unwrap());
        let file = disk.create("file").unwrap();
        file.reserve(1 << 20).unwrap();
        file.write_at(0, &[7; 5000]).unwrap();
        assert_eq!(file.allocated().unwrap(), 5000);
        let again = disk.open("file").unwrap();
        assert_eq!(again.allocated().unwrap(), 5000);
    }
}
