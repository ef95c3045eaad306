//! A file or a block device, accessed without the page cache.

use super::Member;
use crate::block::Page;
use crate::geometry::BLOCK_BYTES;
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{File, TryLockError};
use std::io::{self, IoSlice, IoSliceMut, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Maximum number of buffers in one system call.
const BUFFERS: usize = 1024;

/// Reasons why a device cannot be used. Nothing was written to it.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// A system call failed.
    #[error("{path}: {error}")]
    System {
        /// Path of the device.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
    },
    /// Another process uses the device.
    #[error(
        "{0} is in use: it is mounted, part of another array, or open in another program; stop that, or choose another device"
    )]
    InUse(PathBuf),
    /// The path is neither a file nor a block device.
    #[error("{0} is neither a file nor a block device: choose one that is")]
    Kind(PathBuf),
}

/// Maximum time to wait for a device that is in use. The kernel may hold the files of a killed process until
/// its io_uring is gone.
const LINGER: Duration = Duration::from_secs(1);

/// A file or a block device, locked for exclusive use. The kernel releases the lock when the process ends.
pub struct Device {
    path: PathBuf,
    file: File,
    bytes: u64,
    is_file: bool,
    /// True if the device may support discards. Cleared by the first discard that is not supported.
    discards: AtomicBool,
}

impl Device {
    /// Opens an existing device for exclusive use.
    ///
    /// # Errors
    /// If the path is missing, in use, or not a device.
    #[allow(clippy::disallowed_methods, reason = "waits for a real device")]
    pub fn open(path: &Path) -> Result<Device, DeviceError> {
        let began = Instant::now();
        loop {
            match Device::prepare(path, OFlags::RDWR, true) {
                Err(DeviceError::InUse(_)) if began.elapsed() < LINGER => {
                    std::thread::sleep(LINGER / 50);
                }
                opened => return opened,
            }
        }
    }

    /// Opens an existing device for reading only, even if it is in use.
    ///
    /// # Errors
    /// If the path is missing or not a device.
    pub fn look(path: &Path) -> Result<Device, DeviceError> {
        Device::prepare(path, OFlags::RDONLY, false)
    }

    /// Creates a file, or extends a smaller one, to `bytes` bytes of allocated space, and opens it for
    /// exclusive use.
    ///
    /// # Errors
    /// If the path is in use or a block device, or there is not enough space.
    pub fn create(path: &Path, bytes: u64) -> Result<Device, DeviceError> {
        let system = |error: io::Error| DeviceError::System {
            path: path.to_path_buf(),
            error,
        };
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(system)?;
        let here = file.metadata().map_err(system)?;
        if !here.is_file() {
            return Err(DeviceError::Kind(path.to_path_buf()));
        }
        if here.len() < bytes {
            // Space that is allocated only by writes makes direct writes very slow.
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(bytes).map_err(system)?,
                Err(error) => return Err(system(error.into())),
            }
            file.sync_all().map_err(system)?;
        }
        Device::open(path)
    }

    fn prepare(path: &Path, access: OFlags, alone: bool) -> Result<Device, DeviceError> {
        let system = |error: io::Error| DeviceError::System {
            path: path.to_path_buf(),
            error,
        };
        let kind = FileType::from_raw_mode(
            rustix::fs::stat(path)
                .map_err(|e| system(e.into()))?
                .st_mode,
        );
        let mut flags = access | OFlags::DIRECT | OFlags::CLOEXEC;
        match kind {
            FileType::RegularFile => {}
            // For block devices, `EXCL` fails if the kernel itself uses the device.
            FileType::BlockDevice if alone => flags |= OFlags::EXCL,
            FileType::BlockDevice => {}
            _ => return Err(DeviceError::Kind(path.to_path_buf())),
        }
        let opened = match rustix::fs::open(path, flags, Mode::empty()) {
            // The file system does not support direct I/O.
            Err(Errno::INVAL) => rustix::fs::open(path, flags - OFlags::DIRECT, Mode::empty()),
            opened => opened,
        };
        let mut file = File::from(opened.map_err(|error| match error {
            Errno::BUSY => DeviceError::InUse(path.to_path_buf()),
            error => system(error.into()),
        })?);
        if alone {
            file.try_lock().map_err(|error| match error {
                TryLockError::WouldBlock => DeviceError::InUse(path.to_path_buf()),
                TryLockError::Error(error) => system(error),
            })?;
        }
        let end = file.seek(SeekFrom::End(0)).map_err(system)?;
        Ok(Device {
            path: path.to_path_buf(),
            file,
            bytes: end - end % BLOCK_BYTES as u64,
            is_file: kind == FileType::RegularFile,
            discards: AtomicBool::new(true),
        })
    }

    /// Returns the path of the device.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Member for Device {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, pages: &mut [Page]) -> io::Result<()> {
        let mut done = 0;
        while done < pages.len() {
            let end = pages.len().min(done + BUFFERS);
            let mut buffers: Vec<IoSliceMut> = pages[done..end]
                .iter_mut()
                .map(|page| IoSliceMut::new(page.bytes_mut()))
                .collect();
            let at = offset + (done * BLOCK_BYTES) as u64;
            let read = again(|| rustix::io::preadv(&self.file, &mut buffers, at))?;
            // A device ends with a whole block. Fewer bytes mean the end.
            if read < BLOCK_BYTES {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            done += read / BLOCK_BYTES;
        }
        Ok(())
    }

    fn write(&self, offset: u64, pages: &[Page], durable: bool) -> io::Result<()> {
        let flags = match durable {
            true => ReadWriteFlags::DSYNC,
            false => ReadWriteFlags::empty(),
        };
        let mut done = 0;
        while done < pages.len() {
            let end = pages.len().min(done + BUFFERS);
            let buffers: Vec<IoSlice> = pages[done..end]
                .iter()
                .map(|page| IoSlice::new(page.bytes()))
                .collect();
            let at = offset + (done * BLOCK_BYTES) as u64;
            let written = again(|| rustix::io::pwritev2(&self.file, &buffers, at, flags))?;
            if written < BLOCK_BYTES {
                return Err(io::ErrorKind::WriteZero.into());
            }
            done += written / BLOCK_BYTES;
        }
        Ok(())
    }

    /// Punches a hole. The kernel ensures that the range reads as zeroes, for files and for block devices.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if self.discards() {
            match again(|| rustix::fs::fallocate(&self.file, hole, offset, bytes)) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => {
                    self.discards.store(false, Ordering::Relaxed);
                }
                done => return Ok(done?),
            }
        }
        super::write_zeroes(self, offset, bytes)
    }

    fn discards(&self) -> bool {
        self.discards.load(Ordering::Relaxed)
    }

    /// Returns false for files: other files may take the space of a hole.
    fn keeps_space(&self) -> bool {
        !self.is_file
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// Repeats a call that was interrupted by a signal.
fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    #[test]
    fn a_file_keeps_its_contents_and_space_and_has_one_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("member");
        let device = Device::create(&path, 4 << 20).unwrap();
        assert_eq!(device.bytes(), 4 << 20);
        assert!(!device.keeps_space(), "a file with holes reserves no space");
        assert!(matches!(Device::open(&path), Err(DeviceError::InUse(_))));
        assert_eq!(Device::look(&path).unwrap().bytes(), 4 << 20);
        let pages: Vec<Page> = (0..1500)
            .map(|at| Page::copy_of(&[at as u8; BLOCK_BYTES]))
            .collect();
        for durable in [false, true] {
            device.write(8192, &pages[..900], durable).unwrap();
        }
        device.flush().unwrap();
        let mut read = vec![Page::zero(); 901];
        device.read(8192, &mut read).unwrap();
        assert!(
            read[..900]
                .iter()
                .zip(&pages)
                .all(|(read, page)| read.same(page))
        );
        assert!(read[900].same(&Page::zero()));
        assert!(
            device.read(4 << 20, &mut read[..1]).is_err(),
            "the device ends before this block"
        );
        drop(device);
        Device::open(&path).unwrap();
        assert!(matches!(
            Device::open(dir.path()),
            Err(DeviceError::Kind(_))
        ));
        assert!(matches!(
            Device::open(&dir.path().join("none")),
            Err(DeviceError::System { .. })
        ));
    }
}
