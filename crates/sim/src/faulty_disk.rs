//! Faulty disks. Tests with them show that the simulation detects faults.

use crate::crash_injector::Work;
use seiner_platform::sim::SimDisk;
use seiner_platform::{Disk, File};
use std::io;
use std::sync::Arc;

/// Fault of a [`FaultyDisk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
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
pub struct FaultyDisk {
    disk: SimDisk,
    fault: DiskFault,
}

impl FaultyDisk {
    /// Wraps a disk with a fault.
    pub fn new(disk: SimDisk, fault: DiskFault) -> FaultyDisk {
        FaultyDisk { disk, fault }
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultyFile {
            file,
            fault: self.fault,
        })
    }
}

impl Disk for FaultyDisk {
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
        match self.fault {
            DiskFault::Removal => Ok(()),
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
        match self.fault {
            DiskFault::SyncNames => Ok(()),
            DiskFault::SyncIn(work) if work.is_going_on() => Ok(()),
            _ => self.disk.sync_names(),
        }
    }
}

struct FaultyFile {
    file: Arc<dyn File>,
    fault: DiskFault,
}

impl File for FaultyFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        const PAGE: usize = 512;
        if self.fault == DiskFault::LastPage && bytes.len() > PAGE {
            let end = offset + bytes.len() as u64;
            if self.file.len()? < end {
                self.file.set_len(end)?;
            }
            return self.file.write_at(offset, &bytes[..bytes.len() - PAGE]);
        }
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        match self.fault {
            DiskFault::Sync => Ok(()),
            DiskFault::SyncIn(work) if work.is_going_on() => Ok(()),
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
