//! Backups and restores, with folders and buckets.

#[cfg(feature = "object-storage")]
use crate::bucket::Bucket;
use crate::directory::DirectoryTarget;
use crate::error::{Error, folder_error};
use crate::folder::{Folder, rename};
use crate::moment::Source;
use crate::reuse::Earlier;
use crate::run::{self, Plan, Progress, Work};
use seiner_engine::inspect::{self, FileKind};
use seiner_engine::{CheckReport, Damage, Reading, read_directory};
use std::fs;
use std::path::{Path, PathBuf};

/// Place of the backups of one store, or of one backup.
pub enum Place {
    /// Folder on a disk.
    Folder(PathBuf),
    /// Prefix in an object store.
    #[cfg(feature = "object-storage")]
    Bucket(Box<Bucket>),
}

/// Result of a backup or a restore.
#[derive(Debug)]
pub struct Copied {
    /// Directory or URL of the copy.
    pub place: PathBuf,
    /// Work, and the findings of the check.
    pub work: Work,
}

impl Place {
    /// Returns the place that a path or a URL names.
    ///
    /// # Errors
    /// If the URL names no object store, or this program has none.
    pub fn parse(path: &Path) -> Result<Place, Error> {
        match path.to_str().filter(|text| text.contains("://")) {
            Some(url) => Place::of_url(url),
            None => Ok(Place::Folder(path.to_path_buf())),
        }
    }

    #[cfg(feature = "object-storage")]
    fn of_url(url: &str) -> Result<Place, Error> {
        Ok(Place::Bucket(Box::new(Bucket::open(url)?)))
    }

    #[cfg(not(feature = "object-storage"))]
    fn of_url(_: &str) -> Result<Place, Error> {
        Err(Error::Request(
            "this program was built without object storage; name a folder, or build it with \
             `cargo build --release -p seiner --features object-storage`"
                .to_string(),
        ))
    }

    /// Removes the oldest backups but the latest `keep`. Returns their names.
    ///
    /// # Errors
    /// If the place cannot be written.
    pub fn remove_old(&self, keep: usize) -> Result<Vec<String>, Error> {
        match self {
            Place::Folder(path) => Folder::open(path)?.remove_old(keep),
            #[cfg(feature = "object-storage")]
            Place::Bucket(bucket) => bucket.remove_old(keep),
        }
    }
}

/// Copies the store in a directory into a new backup of a place. The store does not change, and another process may
/// write to it. The backup contains all rows that were durable when the call began.
///
/// # Errors
/// If the place belongs to another store, the store's files change faster than they can be copied, or a disk or a
/// request fails. The next call continues.
pub fn back_up(
    data: &Path,
    place: &Place,
    plan: &Plan<'_>,
    progress: Progress<'_>,
) -> Result<Copied, Error> {
    match place {
        Place::Folder(path) => into_folder(data, &Folder::open(path)?, plan, progress),
        #[cfg(feature = "object-storage")]
        Place::Bucket(bucket) => {
            let (url, work) = bucket.back_up(data, store_of(data)?, plan, progress)?;
            Ok(Copied {
                place: url.into(),
                work,
            })
        }
    }
}

/// Copies a backup into the directory of a store, which must be missing or empty. `backup` is one backup, or a place of
/// backups, of which the latest is taken. Everything is checked.
///
/// # Errors
/// If there is no backup, the directory has files, or a disk or a request fails. The next call continues.
pub fn restore(
    backup: &Place,
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
    let path;
    let (source, missing): (Source<'_>, Vec<Damage>) = match backup {
        Place::Folder(folder) => {
            path = backup_in(folder)?;
            (Source::Live(&path), Vec::new())
        }
        #[cfg(feature = "object-storage")]
        Place::Bucket(bucket) => bucket.contents()?,
    };
    // Without a slash at its end.
    let data: PathBuf = data.components().collect();
    let mut partial = data.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let target = DirectoryTarget::open(&partial, None)?;
    let mut work = run::copy(&source, &target, plan, progress)?;
    rename(&partial, &data)?;
    add_missing(&mut work.report, missing);
    Ok(Copied { place: data, work })
}

/// Adds files that the backup lacks to a report, in place of what the check found about them.
fn add_missing(report: &mut CheckReport, missing: Vec<Damage>) {
    let known = report.damage.len();
    let is_other = |found: &Damage| missing.iter().all(|damage| damage.file != found.file);
    report.damage.retain(is_other);
    let replaced = known - report.damage.len();
    report.damaged = report.damaged - replaced as u64 + missing.len() as u64;
    report.damage.splice(0..0, missing);
}

/// Copies a store into a new backup of a folder.
fn into_folder(
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
    let target = DirectoryTarget::open(&folder.of(&partial), earlier)?;
    let work = run::copy(&Source::Live(data), &target, plan, progress)?;
    Ok(Copied {
        place: folder.finish(&partial, &name)?,
        work,
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
