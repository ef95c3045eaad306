//! Read-only stores: no byte of the directory changes, and another process may write to it.
//!
//! The files of one moment are held open, and recovery runs on them with its writes kept in memory.
//! If another process changes a file in the meantime, the reader starts again.

use crate::catalog;
use crate::check::{CheckReport, Damage, check};
use crate::core::Core;
use crate::dictionary::filed as names;
use crate::error::{Error, io_error};
use crate::inspect::FileKind;
use crate::ledger;
use crate::opening::open as open_disk;
use crate::options::Options;
use crate::rules::{self, Given};
use seiner_platform::{Disk, Habit, Overlay, Snapshot, SystemClock, is_gone};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Maximum attempts to read a store that another process changes in the meantime.
const ATTEMPTS: usize = 10;
/// Number of attempts that must find damage beside a writing process.
const DOUBTS: usize = 6;
/// Pause between attempts. On a busy machine, a writer may be in the middle of a change for that
/// long.
const PAUSE: Duration = Duration::from_millis(50);

/// Returns how a snapshot treats a file of a store.
fn habit(name: &str) -> Habit {
    match FileKind::of(name) {
        FileKind::Journal => Habit::Recycled,
        FileKind::Spare => Habit::Ignored,
        _ if [rules::NEW, ledger::NEXT, names::NEW].contains(&name) => Habit::Ignored,
        _ => Habit::Kept,
    }
}

/// Result of reading the files of a store.
pub enum Reading<T> {
    /// Reliable result.
    Done(T),
    /// Damage, which counts unless files changed in the meantime.
    Doubtful(T),
}

/// Reads the files of a store's directory without changing it. Another process may write to the
/// directory. If files changed in the meantime, `read` is called again with the files of another
/// moment.
///
/// # Errors
/// If there is no store, or its files change faster than they can be read. Errors of `read` are
/// returned.
pub fn read_directory<T>(
    path: &Path,
    mut read: impl FnMut(Arc<dyn Disk>) -> Result<Reading<T>, Error>,
) -> Result<T, Error> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let disk = Arc::new(open(path)?);
        let last = attempt == ATTEMPTS;
        match read(disk.clone()) {
            Ok(Reading::Done(result)) => return Ok(result),
            Ok(Reading::Doubtful(result)) if attempt >= DOUBTS || !disk.has_changed() => {
                return Ok(result);
            }
            Err(Error::Io { error, context }) if is_gone(&error) => {
                if last {
                    return Err(Error::Io { error, context });
                }
            }
            Err(error @ Error::Damage { .. }) if last || !disk.has_changed() => return Err(error),
            Ok(Reading::Doubtful(_)) | Err(Error::Damage { .. }) => {}
            Err(error) => return Err(error),
        }
        #[allow(
            clippy::disallowed_methods,
            reason = "another process writes meanwhile"
        )]
        std::thread::sleep(PAUSE);
    }
}

/// Checks the store in a directory as [`check`] does. If another process writes to it, apparent
/// damage is read again, and is reported only if every attempt finds it.
///
/// # Errors
/// As [`check`] and [`read_directory`].
pub fn check_directory(
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckReport, Error> {
    let mut always: Option<Vec<(String, u64)>> = None;
    read_directory(path, |disk| {
        let mut report = check(&*disk, progress)?;
        let place = |damage: &Damage| (damage.file.clone(), damage.offset);
        let found: Vec<_> = report.damage.iter().map(place).collect();
        // A full list does not contain all damage.
        let is_listed = found.len() as u64 == report.damaged;
        if let Some(before) = always.take().filter(|_| is_listed) {
            report
                .damage
                .retain(|damage| before.contains(&place(damage)));
            report.damaged = report.damage.len() as u64;
        }
        always = Some(report.damage.iter().map(place).collect());
        Ok(match report.is_sound() {
            true => Reading::Done(report),
            false => Reading::Doubtful(report),
        })
    })
}

pub(crate) fn open(path: &Path) -> Result<Snapshot, Error> {
    let context = || format!("reading {}", path.display());
    let disk = Snapshot::open(path, habit).map_err(io_error(context))?;
    let names = disk.list().map_err(io_error(context))?;
    match names
        .iter()
        .any(|name| FileKind::of(name) == FileKind::Catalog)
    {
        true => Ok(disk),
        false => Err(Error::Options(format!(
            "{} is not a store: it has no file `{}`; name the directory of a store",
            path.display(),
            catalog::NAME
        ))),
    }
}

/// Opens the store in a directory for reading, with its stored rules. Changes nothing in the
/// directory and does not lock it. A server may write to the store at the same time; rows that it
/// accepted but has not written to the disk are not visible.
///
/// # Errors
/// If there is no store, or it cannot be read.
pub(crate) fn open_to_read(path: &Path, options: Options) -> Result<Core, Error> {
    read_directory(path, |disk| {
        let engine = read_disk(disk, options.clone())?;
        let recovery = engine.recovery();
        Ok(
            match recovery.set_aside.is_empty() && recovery.losses.is_empty() {
                true => Reading::Done(engine),
                false => Reading::Doubtful(engine),
            },
        )
    })
}

/// Opens the store on a disk for reading. No process may write to the disk in the meantime.
///
/// # Errors
/// As [`Engine::open_to_read`].
pub(crate) fn read_disk(disk: Arc<dyn Disk>, mut options: Options) -> Result<Core, Error> {
    let context = || "listing the files of the store".to_string();
    let overlay = Arc::new(Overlay::new(disk).map_err(io_error(context))?);
    options.given = Given::NONE;
    let engine = open_disk(overlay, Arc::new(SystemClock::new()), options)?;
    // A reader expires nothing. It hides data that is too old by its clock.
    engine.accept_clock()?;
    engine.health.set_read_only();
    Ok(engine)
}
