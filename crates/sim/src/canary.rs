//! Faulty disks, which show that the simulation finds faults.

use crate::witness::Work;
use seiner_platform::sim::SimDisk;
use seiner_platform::{Disk, File};
use std::io;
use std::sync::Arc;

/// Fault of a [`Liar`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// A sync of a file succeeds without effect.
    Sync,
    /// A sync of the file names succeeds without effect.
    SyncNames,
    /// The removal of a file succeeds without effect.
    Removal,
    /// A sync during this work of the engine succeeds without effect.
    SyncIn(Work),
    /// The last 512 bytes of a write longer than 512 bytes are not written.
    LastPage,
}

/// Disk that reports success for operations that it did not carry out.
pub struct Liar {
    disk: SimDisk,
    lie: Lie,
}

impl Liar {
    /// Wraps a disk with a fault.
    pub fn new(disk: SimDisk, lie: Lie) -> Liar {
        Liar { disk, lie }
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(LiarFile {
            file,
            lie: self.lie,
        })
    }
}

impl Disk for Liar {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(name).map(|file| self.wrap(file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.create(name).map(|file| self.wrap(file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.lie {
            Lie::Removal => Ok(()),
            _ => self.disk.remove(name),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn free(&self) -> io::Result<Option<u64>> {
        self.disk.free()
    }

    fn sync_names(&self) -> io::Result<()> {
        match self.lie {
            Lie::SyncNames => Ok(()),
            Lie::SyncIn(work) if work.is_going_on() => Ok(()),
            _ => self.disk.sync_names(),
        }
    }
}

struct LiarFile {
    file: Arc<dyn File>,
    lie: Lie,
}

impl File for LiarFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        const PAGE: usize = 512;
        if self.lie == Lie::LastPage && bytes.len() > PAGE {
            let end = offset + bytes.len() as u64;
            if self.file.len()? < end {
                self.file.set_len(end)?;
            }
            return self.file.write_at(offset, &bytes[..bytes.len() - PAGE]);
        }
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        match self.lie {
            Lie::Sync => Ok(()),
            Lie::SyncIn(work) if work.is_going_on() => Ok(()),
            _ => self.file.sync(),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.file.reserve(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}
