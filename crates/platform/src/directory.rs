//! A disk on a directory of the file system.

use crate::critical::assert_outside;
use crate::{Disk, File};
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of the file system, with an exclusive lock for the lifetime of the value.
pub struct Directory {
    path: PathBuf,
    handle: fs::File,
    /// File that carries the lock. The kernel releases the lock when the process ends for any reason.
    _lock: fs::File,
}

/// Name of the file that carries the lock.
const LOCK: &str = "lock";

impl Directory {
    /// Opens a directory, creates it if it is missing, and locks it.
    ///
    /// # Errors
    /// `WouldBlock` if another process has locked the directory; the message names the directory and that
    /// process.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Directory> {
        let path = path.as_ref().to_path_buf();
        fs::create_dir_all(&path).map_err(|error| at(&path, error))?;
        Directory::lock(path, true)
    }

    /// Opens and locks an existing directory.
    ///
    /// # Errors
    /// `NotFound` if the directory or its lock file is missing. `WouldBlock` as for [`Directory::open`].
    pub fn open_existing(path: impl AsRef<Path>) -> io::Result<Directory> {
        Directory::lock(path.as_ref().to_path_buf(), false)
    }

    fn lock(path: PathBuf, create: bool) -> io::Result<Directory> {
        let handle = fs::File::open(&path).map_err(|error| at(&path, error))?;
        let lock_path = path.join(LOCK);
        let lock = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .truncate(false)
            .open(&lock_path)
            .map_err(|error| at(&lock_path, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let holder = fs::read_to_string(&lock_path).unwrap_or_default();
                let holder = holder.trim();
                let holder = if holder.is_empty() {
                    String::new()
                } else {
                    format!(" (process {holder})")
                };
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    format!(
                        "{} is in use by another process{holder}; stop it, or choose another directory",
                        path.display()
                    ),
                ));
            }
            Err(fs::TryLockError::Error(error)) => return Err(at(&lock_path, error)),
        }
        lock.set_len(0)?;
        lock.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)?;
        Ok(Directory {
            path,
            handle,
            _lock: lock,
        })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Puts the path of the file before the message of an error.
pub(crate) fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Returns the bytes of the blocks that the file system allocated to a file, of 512 bytes each (stat(2)).
pub(crate) fn allocated(metadata: &fs::Metadata) -> u64 {
    metadata.blocks() * 512
}

/// Returns the names of a directory's files, without the lock file.
pub(crate) fn names(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| at(path, error))? {
        let entry = entry?;
        let is_file = match entry.file_type() {
            Ok(kind) => kind.is_file(),
            // Another process removed the file meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(at(path, error)),
        };
        if let (true, Ok(name)) = (is_file, entry.file_name().into_string())
            && name != LOCK
        {
            names.push(name);
        }
    }
    Ok(names)
}

/// Returns the number of free bytes on the file system of a directory.
pub(crate) fn free(handle: &fs::File, path: &Path) -> io::Result<Option<u64>> {
    let found = rustix::fs::fstatvfs(handle).map_err(|error| at(path, error.into()))?;
    Ok(Some(found.f_bavail.saturating_mul(found.f_frsize)))
}

impl Disk for Directory {
    fn list(&self) -> io::Result<Vec<String>> {
        assert_outside("list");
        names(&self.path)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        assert_outside("open");
        let path = self.path.join(name);
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| at(&path, error))?;
        Ok(Arc::new(RealFile { file, path }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        assert_outside("create");
        let path = self.path.join(name);
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(|error| at(&path, error))?;
        Ok(Arc::new(RealFile { file, path }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        assert_outside("remove");
        let path = self.path.join(name);
        fs::remove_file(&path).map_err(|error| at(&path, error))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        assert_outside("rename");
        let path = self.path.join(from);
        fs::rename(&path, self.path.join(to)).map_err(|error| at(&path, error))
    }

    fn sync_names(&self) -> io::Result<()> {
        assert_outside("sync_names");
        self.handle
            .sync_all()
            .map_err(|error| at(&self.path, error))
    }

    fn free(&self) -> io::Result<Option<u64>> {
        assert_outside("free");
        free(&self.handle, &self.path)
    }
}

struct RealFile {
    file: fs::File,
    path: PathBuf,
}

impl File for RealFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        assert_outside("read_at");
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|error| at(&self.path, error))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        assert_outside("write_at");
        self.file
            .write_all_at(bytes, offset)
            .map_err(|error| at(&self.path, error))
    }

    fn sync(&self) -> io::Result<()> {
        assert_outside("sync");
        self.file.sync_data().map_err(|error| at(&self.path, error))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        assert_outside("set_len");
        self.file
            .set_len(len)
            .map_err(|error| at(&self.path, error))
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        assert_outside("reserve");
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, len) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            Err(error) => Err(at(&self.path, error.into())),
        }
    }

    fn len(&self) -> io::Result<u64> {
        assert_outside("len");
        Ok(self
            .file
            .metadata()
            .map_err(|error| at(&self.path, error))?
            .len())
    }

    fn allocated(&self) -> io::Result<u64> {
        assert_outside("allocated");
        let metadata = self.file.metadata();
        Ok(allocated(&metadata.map_err(|error| at(&self.path, error))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_rejected_with_the_process_id_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = Directory::open(dir.path()).unwrap();
        let error = Directory::open(dir.path()).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(
            error.to_string().contains(&std::process::id().to_string()),
            "{error}"
        );
        drop(first);
        Directory::open(dir.path()).unwrap();
    }

    #[test]
    fn files_are_written_read_listed_renamed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Directory::open(dir.path().join("new")).unwrap();
        let file = disk.create("a").unwrap();
        file.reserve(1 << 16).unwrap();
        file.write_at(4096, b"hello").unwrap();
        file.sync().unwrap();
        assert_eq!(file.len().unwrap(), 4101);
        let mut buffer = [0; 5];
        file.read_at(4096, &mut buffer).unwrap();
        assert_eq!(&buffer, b"hello");
        assert_eq!(
            file.read_at(4097, &mut buffer).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        disk.rename("a", "b").unwrap();
        disk.sync_names().unwrap();
        assert_eq!(disk.list().unwrap(), ["b"]);
        disk.remove("b").unwrap();
        assert!(disk.list().unwrap().is_empty());
        assert_eq!(
            disk.open("b").err().unwrap().kind(),
            io::ErrorKind::NotFound
        );
    }
}
