//! Backups and restores, from one directory to another.

use crate::copy::{Copier, changing, failed};
use crate::error::{Error, folder_error};
use crate::folder::{Folder, rename};
use crate::joined::Joined;
use crate::pace::Pace;
use crate::reuse::Earlier;
use crate::sealed;
use seiner_engine::inspect::{self, FileKind};
use seiner_engine::{CheckReport, Reading, Scope, check_within, read_directory};
use seiner_platform::{Clock, Directory, Disk, is_gone};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of attempts to copy segments that another process removes meanwhile.
const ATTEMPTS: usize = 5;

/// Way in which files are copied.
pub struct Plan<'a> {
    /// Time, for names and pace.
    pub clock: &'a dyn Clock,
    /// Limit of the rate of copying, bytes per second.
    pub bytes_per_second: Option<u64>,
    /// True to check linked segments as well as copied ones.
    pub check_all: bool,
}

/// Stage of a run, for progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Segments are being copied.
    Copy,
    /// Copies are being read and verified.
    Check,
}

/// Function that is called repeatedly with the bytes done and the total bytes of a stage.
type Progress<'a> = &'a mut dyn FnMut(Stage, u64, u64);

/// Result of a run.
#[derive(Debug)]
pub struct Copied {
    /// Directory of the copy.
    pub directory: PathBuf,
    /// Number of segments whose bytes were copied.
    pub segments: u64,
    /// Bytes copied, of all files.
    pub bytes: u64,
    /// Number of segments that are links to those of the previous backup.
    pub linked: u64,
    /// Number of segments that an interrupted run had copied.
    pub kept: u64,
    /// Findings of the check. Damage of the source is in the copy as well.
    pub report: CheckReport,
}

/// Copies the store in a directory into a new backup of a folder. The store does not change, and another process may
/// write to it. The backup contains all rows that were durable when the call began.
///
/// # Errors
/// If the folder belongs to another store, the store's files change faster than they can be copied, or a disk fails. The
/// next call continues.
pub fn back_up(
    data: &Path,
    folder: &Folder,
    plan: &Plan<'_>,
    progress: Progress<'_>,
) -> Result<Copied, Error> {
    let latest = folder.complete()?.pop();
    let mut earlier = None;
    if let Some(latest) = latest {
        let path = folder.of(&latest);
        if store_of(&path)? != store_of(data)? {
            return Err(Error::Request(format!(
                "{} is a backup of another store than {}; name a folder of its own for each store",
                path.display(),
                data.display()
            )));
        }
        let context = || format!("reading {}", path.display());
        earlier = Some(Earlier::open(&path).map_err(folder_error(context))?);
    }
    let name = folder.name(plan.clock.now())?;
    let partial = folder
        .interrupted()?
        .unwrap_or_else(|| Folder::partial(&name));
    let copied = copy(data, &folder.of(&partial), earlier.as_ref(), plan, progress)?;
    Ok(Copied {
        directory: folder.finish(&partial, &name)?,
        ..copied
    })
}

/// Copies a backup into the directory of a store, which must be missing or empty. `backup` is a backup, or a folder of
/// backups, of which the latest is taken. Everything is checked.
///
/// # Errors
/// If there is no backup, the directory has files, or a disk fails. The next call continues.
pub fn restore(
    backup: &Path,
    data: &Path,
    plan: &Plan<'_>,
    progress: Progress<'_>,
) -> Result<Copied, Error> {
    let has_files = fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_some());
    if has_files || data.is_file() {
        return Err(Error::Request(format!(
            "{} is not empty; name a directory that is missing or empty, or move its files elsewhere",
            data.display()
        )));
    }
    let backup = backup_in(backup)?;
    // Without a slash at its end.
    let data: PathBuf = data.components().collect();
    let mut partial = data.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let copied = copy(&backup, &partial, None, plan, progress)?;
    rename(&partial, &data)?;
    Ok(Copied {
        directory: data,
        ..copied
    })
}

/// Returns the directory of a backup, or of the latest backup in a folder.
fn backup_in(path: &Path) -> Result<PathBuf, Error> {
    let context = || format!("reading {}", path.display());
    let entries = fs::read_dir(path).map_err(folder_error(context))?;
    let is_catalog = |name: &str| FileKind::of(name) == FileKind::Catalog;
    if { entries }
        .any(|entry| entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(is_catalog)))
    {
        return Ok(path.to_path_buf());
    }
    let folder = Folder::open(path)?;
    match folder.complete()?.pop() {
        Some(latest) => Ok(folder.of(&latest)),
        None => Err(Error::Request(format!(
            "{} has no complete backup; name a folder that `seiner backup` wrote, or a backup in it",
            path.display()
        ))),
    }
}

/// Returns the number of the store in a directory.
fn store_of(path: &Path) -> Result<u64, Error> {
    let store = read_directory(path, |disk| {
        Ok(Reading::Done(inspect::catalog(&*disk)?.store))
    });
    Ok(store?)
}

/// Files of the store at one moment, of which those that change were copied.
struct Moment {
    source: Arc<dyn Disk>,
    /// Names of the sealed segments.
    sealed: Vec<String>,
    /// Names of the sealed segments that were copied before.
    kept: BTreeSet<String>,
    /// Bytes copied.
    bytes: u64,
}

/// Copies a store. The target becomes durable, but not its own name.
fn copy(
    data: &Path,
    target: &Path,
    earlier: Option<&Earlier>,
    plan: &Plan<'_>,
    progress: Progress<'_>,
) -> Result<Copied, Error> {
    let context = || format!("writing to {}", target.display());
    let disk = Directory::open(target).map_err(failed(context))?;
    let mut pace = Pace::new(plan.clock, plan.bytes_per_second);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let moment = read_directory(data, |source| moment(source, &disk))?;
        let (linked, missing) = link(&moment, earlier, target).map_err(failed(context))?;
        let copier = Copier {
            source: &*moment.source,
            target: &disk,
        };
        match segments(&copier, &missing, &mut pace, progress) {
            Ok(bytes) => {
                disk.sync_names().map_err(failed(context))?;
                let scope = Scope {
                    segments: &|name| plan.check_all || !linked.contains(name),
                    records: true,
                };
                let report = check_within(&disk, &scope, &mut |done, total| {
                    progress(Stage::Check, done, total);
                })?;
                return Ok(Copied {
                    directory: target.to_path_buf(),
                    segments: missing.len() as u64,
                    bytes: moment.bytes + bytes,
                    linked: linked.len() as u64,
                    kept: moment.kept.len() as u64,
                    report,
                });
            }
            Err(seiner_engine::Error::Io { error, .. })
                if is_gone(&error) && attempt < ATTEMPTS => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Copies the files that change. The copies and the sealed segments are the store at one moment, or the result is
/// doubtful.
fn moment(
    source: Arc<dyn Disk>,
    target: &dyn Disk,
) -> Result<Reading<Moment>, seiner_engine::Error> {
    let copier = Copier {
        source: &*source,
        target,
    };
    let kept = copier.tidy()?.into_iter().collect();
    let bytes = copier.copy_changing(&changing(&*source)?)?;
    let context = || "listing the segments".to_string();
    let sealed = sealed::names(&*source).map_err(failed(context))?;
    let sealed: Vec<String> = sealed.into_values().collect();
    let joined = Joined {
        first: target,
        second: &*source,
        names: &sealed,
    };
    // Journal files that were reused meanwhile are known already. Their records are checked at the end.
    let scope = Scope {
        segments: &|_| false,
        records: false,
    };
    let is_sound = check_within(&joined, &scope, &mut |_, _| {})?.is_sound();
    let moment = Moment {
        source,
        sealed,
        kept,
        bytes,
    };
    Ok(match is_sound {
        true => Reading::Done(moment),
        false => Reading::Doubtful(moment),
    })
}

/// Links the segments that an earlier backup has. Returns the names of these, and of those that must be copied.
fn link<'m>(
    moment: &'m Moment,
    earlier: Option<&Earlier>,
    target: &Path,
) -> io::Result<(BTreeSet<&'m str>, Vec<&'m str>)> {
    let (mut linked, mut missing) = (BTreeSet::new(), Vec::new());
    for name in moment
        .sealed
        .iter()
        .filter(|name| !moment.kept.contains(*name))
    {
        let is_linked = match earlier {
            Some(earlier) => earlier.link(&*moment.source, name, target)?,
            None => false,
        };
        match is_linked {
            true => _ = linked.insert(name.as_str()),
            false => missing.push(name.as_str()),
        }
    }
    Ok((linked, missing))
}

/// Copies segments. Returns their bytes.
fn segments(
    copier: &Copier<'_>,
    names: &[&str],
    pace: &mut Pace<'_>,
    progress: Progress<'_>,
) -> Result<u64, seiner_engine::Error> {
    let context = || "reading the lengths of segments".to_string();
    let length = |name: &&str| copier.source.open(name)?.len();
    let lengths: io::Result<Vec<u64>> = names.iter().map(length).collect();
    let total = lengths.map_err(failed(context))?.iter().sum();
    let free = copier.target.free().map_err(failed(context))?;
    if let Some(free) = free.filter(|free| *free < total) {
        return Err(seiner_engine::Error::Options(format!(
            "{total} bytes of segments do not fit: {free} bytes are free; free space, or name a folder elsewhere"
        )));
    }
    let mut done = 0;
    for name in names {
        copier.copy(name, &mut |bytes| {
            pace.advance(bytes);
            done += bytes;
            progress(Stage::Copy, done, total);
        })?;
    }
    Ok(done)
}
