//! Record of all resources that a run created outside its own directory. With the record, all of
//! them are removed even if the run is killed.
//!
//! Invariant: a line that names a resource is on disk before the resource exists. Each run has one
//! file of such lines.
//!
//! 1. The run locks its file and keeps the lock until it ends.
//! 2. Before the run creates a resource, it appends a `create` line and syncs the file.
//! 3. After the run removed the resource, it appends a `gone` line and syncs the file.
//! 4. The next run, or `lab cleanup`, looks for files without a lock. It removes the resources that have
//!    no `gone` line, the last first, and then deletes the file.

use crate::error::{Result, refuse};
use crate::resource::{PREFIX, Resource};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Number of attempts to lock the record of this run before the run fails.
const LOCK_TRIES: usize = 100;
/// Pause between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Create { number: usize, resource: Resource },
    Gone { number: usize },
}

/// Record of one run.
#[derive(Debug)]
pub struct Registry {
    path: PathBuf,
    medium: Option<PathBuf>,
    lines: Mutex<Lines>,
}

#[derive(Debug)]
struct Lines {
    file: File,
    next: usize,
}

/// A resource of this run. Dropping the guard removes the resource.
#[derive(Debug)]
pub struct ResourceGuard {
    number: usize,
    resource: Resource,
    registry: Arc<Registry>,
    is_tried: bool,
}

/// Returns the directory of all records: `SEINER_LAB_STATE`, otherwise `seiner/lab` in
/// `XDG_STATE_HOME` or in `~/.local/state`.
///
/// # Errors
/// None of `SEINER_LAB_STATE`, `XDG_STATE_HOME` and `HOME` is set.
pub fn state_directory() -> Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = from("SEINER_LAB_STATE") {
        return Ok(path.into());
    }
    let state = match (from("XDG_STATE_HOME"), from("HOME")) {
        (Some(state), _) => PathBuf::from(state),
        (None, Some(home)) => PathBuf::from(home).join(".local/state"),
        (None, None) => {
            return refuse(
                "neither HOME nor SEINER_LAB_STATE is set: the lab lists the resources to remove there; set SEINER_LAB_STATE to a \
                 directory that can be written",
            );
        }
    };
    Ok(state.join("seiner/lab"))
}

impl Registry {
    /// Removes the resources of dead runs, then starts the record of this run.
    ///
    /// # Errors
    /// The record cannot be written, or a resource of a dead run cannot be removed.
    pub fn open(directory: &Path) -> Result<Arc<Registry>> {
        Registry::start(directory, None)
    }

    /// Opens a record like [`Registry::open`], for a run that uses `medium` instead of image files,
    /// as in a guest.
    ///
    /// # Errors
    /// Those of [`Registry::open`].
    pub fn on_medium(directory: &Path, medium: &Path) -> Result<Arc<Registry>> {
        Registry::start(directory, Some(medium.to_owned()))
    }

    /// Returns the disk that replaces image files; `None` if images are files.
    pub fn medium(&self) -> Option<&Path> {
        self.medium.as_deref()
    }

    fn start(directory: &Path, medium: Option<PathBuf>) -> Result<Arc<Registry>> {
        clean_up(directory)?;
        fs::create_dir_all(directory).with_context(|| {
            format!(
                "{} was not made; set SEINER_LAB_STATE to a directory that can be written",
                directory.display()
            )
        })?;
        let path = directory.join(format!("{}.jsonl", std::process::id()));
        let file = open_locked(&path)?;
        Ok(Arc::new(Registry {
            path,
            medium,
            lines: Mutex::new(Lines { file, next: 0 }),
        }))
    }

    /// Records a resource, then creates it by `make`.
    ///
    /// # Errors
    /// Those of `make`, after a partly created resource was removed; or the record cannot be
    /// written.
    pub fn create<T>(
        self: &Arc<Registry>,
        resource: Resource,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<(ResourceGuard, T)> {
        let number = {
            let mut lines = self
                .lines
                .lock()
                .expect("no thread panics while it holds the list");
            let number = lines.next;
            lines.next += 1;
            let line = Line::Create {
                number,
                resource: resource.clone(),
            };
            append(&mut lines.file, &line)?;
            number
        };
        let guard = ResourceGuard {
            number,
            resource,
            registry: self.clone(),
            is_tried: false,
        };
        let made = make()?;
        Ok((guard, made))
    }

    /// Changes a setting of the system until the guard is dropped.
    ///
    /// # Errors
    /// The setting cannot be read or written.
    pub fn set(self: &Arc<Registry>, path: &Path, value: &str) -> Result<ResourceGuard> {
        let before =
            fs::read_to_string(path).with_context(|| format!("{} was not read", path.display()))?;
        let resource = Resource::Setting {
            path: path.to_owned(),
            value: before.trim().to_string(),
        };
        let write = || Ok(fs::write(path, value)?);
        Ok(self.create(resource, write)?.0)
    }

    /// Creates a directory of this run in `parent`.
    ///
    /// # Errors
    /// `parent` does not exist, or the directory cannot be made.
    pub fn tree(self: &Arc<Registry>, parent: &Path) -> Result<(ResourceGuard, PathBuf)> {
        let parent = fs::canonicalize(parent)
            .with_context(|| format!("{} does not exist", parent.display()))?;
        for number in 0.. {
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            if path.exists() {
                continue;
            }
            let resource = Resource::Tree { path: path.clone() };
            let make = || {
                fs::create_dir(&path)
                    .with_context(|| format!("{} was not made", path.display()))
                    .map_err(Into::into)
            };
            return Ok((self.create(resource, make)?.0, path));
        }
        unreachable!("numbers do not end")
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Every guard holds the registry, so no guard is left when the registry is dropped.
        if unfinished(&self.path).is_ok_and(|left| left.is_empty()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl ResourceGuard {
    /// Removes the resource now.
    ///
    /// # Errors
    /// The resource cannot be removed. Its line stays in the record.
    pub fn release(mut self) -> Result<()> {
        self.is_tried = true;
        self.undo()
    }

    fn undo(&self) -> Result<()> {
        self.resource.undo()?;
        let mut lines = self
            .registry
            .lines
            .lock()
            .expect("no thread panics while it holds the list");
        append(
            &mut lines.file,
            &Line::Gone {
                number: self.number,
            },
        )
    }
}

impl Drop for ResourceGuard {
    fn drop(&mut self) {
        if self.is_tried {
            return;
        }
        if let Err(error) = self.undo() {
            eprintln!("seiner: {error}; `seiner lab cleanup` tries again");
        }
    }
}

fn append(file: &mut File, line: &Line) -> Result<()> {
    let mut text = serde_json::to_vec(line).map_err(io::Error::from)?;
    text.push(b'\n');
    file.write_all(&text)?;
    file.sync_data()?;
    Ok(())
}

/// Outcome of locking a record.
#[derive(Debug, PartialEq, Eq)]
enum Lock {
    /// The file is locked, and is still the file at its path.
    Held,
    /// Another run holds the lock.
    Busy,
    /// The file was removed from its path after this run opened it. Another file may have taken its
    /// place.
    Gone,
}

/// Locks the open file of a record. If another run removes the file between opening and locking, the lock
/// succeeds on a file without a name. A comparison of the inodes detects this case.
///
/// # Errors
/// The file system fails.
fn lock(file: &File, path: &Path) -> io::Result<Lock> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Lock::Busy),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => Ok(Lock::Held),
        Ok(_) => Ok(Lock::Gone),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Lock::Gone),
        Err(error) => Err(error),
    }
}

/// Creates the record of this run and locks it. Retries for a short time, because another run that cleans up may
/// hold the lock.
///
/// # Errors
/// The record cannot be created, or a living run holds its lock.
fn open_locked(path: &Path) -> Result<File> {
    for attempt in 1.. {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("{} was not opened", path.display()))?;
        match lock(&file, path)? {
            Lock::Held => return Ok(file),
            Lock::Gone => {}
            Lock::Busy if attempt < LOCK_TRIES => crate::time::sleep(LOCK_PAUSE),
            Lock::Busy => {
                return refuse(format!(
                    "{} is locked: another run of the lab uses this process number",
                    path.display()
                ));
            }
        }
    }
    unreachable!("attempts do not end")
}

/// Removes the resources of dead runs and returns them.
///
/// # Errors
/// A resource cannot be removed. Its record is kept.
pub fn clean_up(directory: &Path) -> Result<Vec<Resource>> {
    let mut gone = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else {
        return Ok(gone);
    };
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        let file = match File::open(&path) {
            Ok(file) => file,
            // Its run ended and removed the record, or another run cleaned up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        if lock(&file, &path)? != Lock::Held {
            continue;
        }
        for resource in unfinished(&path)?.into_iter().rev() {
            resource.undo()?;
            gone.push(resource);
        }
        fs::remove_file(&path)?;
    }
    Ok(gone)
}

/// Returns the resources that a record lists as created and not as gone. A torn last line is
/// skipped: its resource was not created yet.
fn unfinished(path: &Path) -> io::Result<Vec<Resource>> {
    let mut left: Vec<Option<Resource>> = Vec::new();
    for line in fs::read_to_string(path)?.lines() {
        match serde_json::from_str(line) {
            Ok(Line::Create { number, resource }) => {
                left.resize(left.len().max(number + 1), None);
                left[number] = Some(resource);
            }
            Ok(Line::Gone { number }) if number < left.len() => left[number] = None,
            _ => {}
        }
    }
    Ok(left.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_guard_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let registry = Registry::open(&home.path().join("state")).unwrap();
        let (guard, path) = registry.tree(home.path()).unwrap();
        fs::write(path.join("file"), "x").unwrap();
        let setting = home.path().join("setting");
        fs::write(&setting, "before\n").unwrap();
        let set = registry.set(&setting, "during").unwrap();
        assert_eq!(fs::read_to_string(&setting).unwrap(), "during");
        set.release().unwrap();
        drop(guard);
        assert_eq!(fs::read_to_string(&setting).unwrap(), "before");
        assert!(!path.exists());
        drop(registry);
        assert_eq!(fs::read_dir(home.path().join("state")).unwrap().count(), 0);
    }

    #[test]
    fn resources_of_a_killed_run_are_removed_at_the_next_start() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        fs::create_dir(&state).unwrap();
        let tree = home.path().join("seiner-lab-77-0");
        fs::create_dir(&tree).unwrap();
        let setting = home.path().join("setting");
        fs::write(&setting, "during").unwrap();
        let lines = [
            Line::Create {
                number: 0,
                resource: Resource::Tree { path: tree.clone() },
            },
            Line::Create {
                number: 1,
                resource: Resource::Setting {
                    path: setting.clone(),
                    value: "before".into(),
                },
            },
            Line::Create {
                number: 2,
                resource: Resource::Tree {
                    path: "/nowhere/seiner-lab-1".into(),
                },
            },
            Line::Gone { number: 2 },
        ];
        let mut text: String = lines
            .iter()
            .map(|line| serde_json::to_string(line).unwrap() + "\n")
            .collect();
        text.push_str("{\"create\":{\"numb");
        fs::write(state.join("77.jsonl"), text).unwrap();
        let gone = clean_up(&state).unwrap();
        assert_eq!(gone.len(), 2);
        assert!(!tree.exists());
        assert_eq!(fs::read_to_string(&setting).unwrap(), "before");
        assert!(clean_up(&state).unwrap().is_empty());
    }

    #[test]
    fn resources_of_a_live_run_are_not_removed() {
        let home = tempfile::tempdir().unwrap();
        let registry = Registry::open(&home.path().join("state")).unwrap();
        let (_guard, path) = registry.tree(home.path()).unwrap();
        assert!(clean_up(&home.path().join("state")).unwrap().is_empty());
        assert!(path.exists());
    }

    #[test]
    fn a_record_that_was_removed_before_its_lock_is_not_held() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("77.jsonl");
        let open = || {
            fs::write(&path, "").unwrap();
            File::open(&path).unwrap()
        };
        let file = open();
        assert_eq!(lock(&file, &path).unwrap(), Lock::Held);
        assert_eq!(
            lock(&File::open(&path).unwrap(), &path).unwrap(),
            Lock::Busy
        );
        drop(file);
        let file = open();
        fs::remove_file(&path).unwrap();
        assert_eq!(lock(&file, &path).unwrap(), Lock::Gone);
        let file = open();
        fs::remove_file(&path).unwrap();
        let _other = open();
        assert_eq!(lock(&file, &path).unwrap(), Lock::Gone);
    }

    /// Regression: before the comparison of the inodes, some runs had no record, and the cleanup failed
    /// at times.
    #[test]
    fn runs_start_while_others_clean_up() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            use std::sync::atomic::Ordering::Relaxed;
            let cleaning = scope.spawn(|| -> Result<()> {
                while !is_over.load(Relaxed) {
                    clean_up(&state)?;
                }
                Ok(())
            });
            let starting = (0..300).try_for_each(|_| {
                let registry = Registry::open(&state)?;
                match registry.path.exists() {
                    true => Ok(()),
                    false => refuse("a run has no record"),
                }
            });
            is_over.store(true, Relaxed);
            starting.unwrap();
            cleaning.join().unwrap().unwrap();
        });
    }
}
