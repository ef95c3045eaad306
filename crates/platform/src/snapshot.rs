//! A read-only view of a directory that another process may write at the same time.

use crate::{Disk, File, directory};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Expected behaviour of another process towards a file of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// The process keeps the bytes or appends to them until it removes the file. The name may change.
    Kept,
    /// The process may rename the file and overwrite its bytes.
    Recycled,
    /// The file contains nothing that a reader needs. The snapshot omits it.
    Ignored,
}

/// Maximum number of attempts to list and open all files without a change of the directory in between.
const ATTEMPTS: usize = 100;
/// Pause between attempts.
const PAUSE: Duration = Duration::from_millis(5);
/// Number of file descriptors left to the rest of the program.
const SPARE_DESCRIPTORS: u64 = 128;

/// Files that a directory had at one moment, for reading.
///
/// A snapshot takes no lock and changes neither bytes nor names. Its files are opened at once, up to the
/// process's limit of descriptors, and stay readable when another process renames or removes them. Files beyond
/// that limit are opened on demand by name.
///
/// A [`Habit::Kept`] file ends where it ended when it was opened. What the process appends later may refer to files that
/// it creates later, and that the snapshot does not have.
///
/// A read of a [`Habit::Recycled`] file that has lost its name fails with `StaleNetworkFileHandle`, because the
/// bytes may belong to another file by then.
pub struct Snapshot {
    path: PathBuf,
    files: BTreeMap<String, (Habit, Option<Arc<ReadFile>>)>,
    /// State of every file of the directory when the snapshot was taken.
    state: BTreeMap<String, FileState>,
}

/// Length, time of modification (seconds, nanoseconds) and inode of a file. A difference means that the file
/// has changed.
type FileState = (u64, i64, i64, u64);

impl Snapshot {
    /// Opens the files of the directory `path`. `habit` classifies files by name.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory. `ResourceBusy` if the set of files changes during every
    /// attempt to open them.
    #[allow(clippy::disallowed_methods, reason = "reads real files")]
    pub fn open(path: impl AsRef<Path>, habit: impl Fn(&str) -> Habit) -> io::Result<Snapshot> {
        let path = path.as_ref().to_path_buf();
        let most = descriptors();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            let names = wanted(&path, &habit)?;
            let mut files = BTreeMap::new();
            let opened = names.iter().try_for_each(|name| {
                let held = match files.len() < most {
                    true => Some(Arc::new(ReadFile::open(&path, name, habit(name))?)),
                    false => None,
                };
                files.insert(name.clone(), (habit(name), held));
                Ok(())
            });
            match opened {
                Ok(()) if wanted(&path, &habit)? == names => {
                    let state = state(&path)?;
                    return Ok(Snapshot { path, files, state });
                }
                Ok(()) => {}
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!(
                "{}: its files change faster than they can be opened; ask the server that writes them",
                path.display()
            ),
        ))
    }
}

impl Snapshot {
    /// Lists the files of the directory `path`, which no process changes. Each file is opened when it is needed.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory.
    pub fn on_demand(path: impl AsRef<Path>) -> io::Result<Snapshot> {
        let path = path.as_ref().to_path_buf();
        let names = directory::names(&path)?.into_iter();
        Ok(Snapshot {
            files: names.map(|name| (name, (Habit::Kept, None))).collect(),
            state: BTreeMap::new(),
            path,
        })
    }

    /// Returns whether any process changed the directory, or a file in it, since the snapshot was taken.
    pub fn has_changed(&self) -> bool {
        state(&self.path).map_or(true, |state| state != self.state)
    }
}

fn state(path: &Path) -> io::Result<BTreeMap<String, FileState>> {
    let mut all = BTreeMap::new();
    for name in directory::names(path)? {
        if let Ok(metadata) = fs::metadata(path.join(&name)) {
            let (seconds, nanos) = (metadata.mtime(), metadata.mtime_nsec());
            all.insert(name, (metadata.len(), seconds, nanos, metadata.ino()));
        }
    }
    Ok(all)
}

/// Returns whether an error means that a file changed or vanished during a read. A new snapshot may then
/// succeed.
pub fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, StaleNetworkFileHandle};
    matches!(error.kind(), NotFound | StaleNetworkFileHandle)
}

fn wanted(path: &Path, habit: &impl Fn(&str) -> Habit) -> io::Result<BTreeSet<String>> {
    let names = directory::names(path)?.into_iter();
    Ok(names.filter(|name| habit(name) != Habit::Ignored).collect())
}

/// Raises the process's limit of open files to its maximum. Returns the number of files that a snapshot may
/// keep open.
fn descriptors() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        let mut raised = limit;
        raised.current = limit.maximum.or(limit.current);
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = raised;
        }
    }
    let most = limit.current.unwrap_or(u64::from(u16::MAX));
    most.saturating_sub(SPARE_DESCRIPTORS).max(1) as usize
}

fn read_only<T>() -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::ReadOnlyFilesystem,
        "the directory is open for reading only",
    ))
}

impl Disk for Snapshot {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        match self.files.get(name) {
            Some((_, Some(file))) => Ok(file.clone()),
            Some((habit, None)) => Ok(Arc::new(ReadFile::open(&self.path, name, *habit)?)),
            None => Err(directory::at(
                &self.path.join(name),
                io::ErrorKind::NotFound.into(),
            )),
        }
    }

    fn create(&self, _name: &str) -> io::Result<Arc<dyn File>> {
        read_only()
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        read_only()
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        read_only()
    }

    fn sync_names(&self) -> io::Result<()> {
        read_only()
    }

    fn free(&self) -> io::Result<Option<u64>> {
        directory::free(&fs::File::open(&self.path)?, &self.path)
    }
}

struct ReadFile {
    file: fs::File,
    path: PathBuf,
    /// Device and inode of a [`Habit::Recycled`] file.
    identity: Option<(u64, u64)>,
    /// Length of a [`Habit::Kept`] file when it was opened.
    end: Option<u64>,
}

impl ReadFile {
    fn open(directory: &Path, name: &str, habit: Habit) -> io::Result<ReadFile> {
        let path = directory.join(name);
        let file = fs::File::open(&path).map_err(|error| directory::at(&path, error))?;
        let metadata = file.metadata();
        let metadata = metadata.map_err(|error| directory::at(&path, error))?;
        Ok(ReadFile {
            file,
            path,
            identity: (habit == Habit::Recycled).then(|| identity(&metadata)),
            end: (habit == Habit::Kept).then_some(metadata.len()),
        })
    }

    /// Returns an error if the file has lost its name: the bytes read may have been overwritten.
    fn check_name(&self) -> io::Result<()> {
        let Some(known) = self.identity else {
            return Ok(());
        };
        match fs::metadata(&self.path) {
            Ok(metadata) if identity(&metadata) == known => Ok(()),
            _ => Err(io::Error::new(
                io::ErrorKind::StaleNetworkFileHandle,
                format!("{}: it changed while it was read", self.path.display()),
            )),
        }
    }
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl File for ReadFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(|error| directory::at(&self.path, error))?;
        self.check_name()
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        read_only()
    }

    fn sync(&self) -> io::Result<()> {
        read_only()
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        read_only()
    }

    fn reserve(&self, _len: u64) -> io::Result<()> {
        read_only()
    }

    fn len(&self) -> io::Result<u64> {
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(|error| directory::at(&self.path, error))?;
        Ok(self
            .end
            .map_or(metadata.len(), |end| end.min(metadata.len())))
    }

    fn allocated(&self) -> io::Result<u64> {
        let metadata = self.file.metadata();
        Ok(directory::allocated(
            &metadata.map_err(|error| directory::at(&self.path, error))?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn habit(name: &str) -> Habit {
        match name {
            "journal" => Habit::Recycled,
            "spare" => Habit::Ignored,
            _ => Habit::Kept,
        }
    }

    fn read(disk: &Snapshot, name: &str) -> io::Result<Vec<u8>> {
        let file = disk.open(name)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn a_file_that_is_removed_stays_readable_and_a_recycled_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["segment", "journal", "spare", "lock"] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        let disk = Snapshot::open(dir.path(), habit).unwrap();
        assert_eq!(disk.list().unwrap(), ["journal", "segment"]);
        assert_eq!(read(&disk, "journal").unwrap(), b"journal");
        fs::remove_file(dir.path().join("segment")).unwrap();
        fs::rename(dir.path().join("journal"), dir.path().join("spare")).unwrap();
        assert_eq!(read(&disk, "segment").unwrap(), b"segment");
        assert!(is_gone(&read(&disk, "journal").unwrap_err()));
    }

    #[test]
    fn bytes_that_are_appended_later_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["journal", "ledger"] {
            fs::write(dir.path().join(name), "early").unwrap();
        }
        let disk = Snapshot::open(dir.path(), habit).unwrap();
        for name in ["journal", "ledger"] {
            fs::write(dir.path().join(name), "early and late").unwrap();
        }
        assert_eq!(read(&disk, "ledger").unwrap(), b"early");
        assert_eq!(read(&disk, "journal").unwrap(), b"early and late");
    }

    #[test]
    fn nothing_is_written_and_no_directory_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let error = Snapshot::open(&missing, habit).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!missing.exists());
        fs::write(dir.path().join("a"), "a").unwrap();
        let disk = Snapshot::open(dir.path(), habit).unwrap();
        let rejected = disk.open("a").unwrap().write_at(0, b"b").unwrap_err();
        assert_eq!(rejected.kind(), io::ErrorKind::ReadOnlyFilesystem);
        assert!(disk.create("b").is_err() && disk.remove("a").is_err());
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"a");
    }
}
