//! Copies of a store, from any source to any target.

use crate::copy::failed;
use crate::error::Error;
use crate::moment::{self, Moment, Source};
use crate::pace::Pace;
use crate::target::Target;
use seiner_engine::{CheckReport, Scope, check_within};
use seiner_platform::{Clock, Disk, is_gone};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// Maximum number of attempts to copy segments that another process removes meanwhile.
const ATTEMPTS: usize = 5;

/// Way in which files are copied.
pub struct Plan<'a> {
    /// Time, for names and pace.
    pub clock: &'a dyn Clock,
    /// Limit of the rate of copying, bytes per second.
    pub bytes_per_second: Option<u64>,
    /// True to check the segments of earlier backups as well as copied ones. A damaged one is copied again.
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
pub type Progress<'a> = &'a mut dyn FnMut(Stage, u64, u64);

/// Work of a copy.
#[derive(Debug)]
pub struct Work {
    /// Number of segments whose bytes were copied.
    pub segments: u64,
    /// Bytes copied, of all files.
    pub bytes: u64,
    /// Number of segments that an earlier backup has.
    pub linked: u64,
    /// Number of segments that an interrupted run had copied.
    pub kept: u64,
    /// Findings of the check. Damage of the source is in the copy as well.
    pub report: CheckReport,
}

/// Copies a store. The target becomes durable, but not its own name.
///
/// # Errors
/// If the store's files change faster than they can be copied, or a disk fails. The next call continues.
pub fn copy(
    source: &Source<'_>,
    target: &dyn Target,
    plan: &Plan<'_>,
    progress: Progress<'_>,
) -> Result<Work, Error> {
    let mut pace = Pace::new(plan.clock, plan.bytes_per_second);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let moment = moment::take(source, target)?;
        let (linked, missing) = reuse(&moment, target)?;
        let later = target.pending(moment.bytes);
        match segments(&moment, target, &missing, later, &mut pace, progress) {
            Ok((bytes, disk)) => {
                let mut work = Work {
                    segments: missing.len() as u64,
                    bytes: moment.bytes + bytes,
                    linked: linked.len() as u64,
                    kept: moment.kept.len() as u64,
                    report: check(&*disk, &linked, plan, progress)?,
                };
                if replace_damaged(&moment, target, &linked, &mut work)? {
                    let disk = target.complete(&mut |_| {})?;
                    work.report = check(&*disk, &linked, plan, progress)?;
                }
                return Ok(work);
            }
            Err(Error::Store(seiner_engine::Error::Io { error, .. }))
                if is_gone(&error) && attempt < ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reuses the segments that an earlier backup has. Returns the names of these, and of those that must be copied.
fn reuse<'m>(
    moment: &'m Moment,
    target: &dyn Target,
) -> Result<(BTreeSet<&'m str>, Vec<&'m str>), Error> {
    let (mut linked, mut missing) = (BTreeSet::new(), Vec::new());
    let names = moment.sealed.iter();
    for name in names.filter(|name| !moment.kept.contains(*name)) {
        match target.reuse(&*moment.source, name)? {
            true => _ = linked.insert(name.as_str()),
            false => missing.push(name.as_str()),
        }
    }
    Ok((linked, missing))
}

/// Copies segments, and completes the target, which has the bytes `later` to send. Returns the bytes of the segments, and
/// the disk with the copy.
fn segments(
    moment: &Moment,
    target: &dyn Target,
    names: &[&str],
    later: u64,
    pace: &mut Pace<'_>,
    progress: Progress<'_>,
) -> Result<(u64, Arc<dyn Disk>), Error> {
    let context = || "reading the lengths of segments".to_string();
    let length = |name: &&str| moment.source.open(name)?.len();
    let lengths: io::Result<Vec<u64>> = names.iter().map(length).collect();
    let total = lengths.map_err(failed(context))?.iter().sum();
    let free = target.free().map_err(failed(context))?;
    if let Some(free) = free.filter(|free| *free < total) {
        return Err(Error::Request(format!(
            "{total} bytes of segments do not fit: {free} bytes are free; free space, or name a folder elsewhere"
        )));
    }
    let mut done = 0;
    let mut advance = |bytes| {
        pace.advance(bytes);
        done += bytes;
        progress(Stage::Copy, done, total + later);
    };
    for name in names {
        target.send(&*moment.source, name, &mut advance)?;
    }
    let disk = target.complete(&mut advance)?;
    Ok((total, disk))
}

/// Checks a copy, without the segments of earlier backups unless the plan is to check all.
fn check(
    disk: &dyn Disk,
    linked: &BTreeSet<&str>,
    plan: &Plan<'_>,
    progress: Progress<'_>,
) -> Result<CheckReport, seiner_engine::Error> {
    let scope = Scope {
        segments: &|name| plan.check_all || !linked.contains(name),
        records: true,
    };
    check_within(disk, &scope, &mut |done, total| {
        progress(Stage::Check, done, total);
    })
}

/// Copies the damaged segments of earlier backups again. Returns whether there were any.
fn replace_damaged(
    moment: &Moment,
    target: &dyn Target,
    linked: &BTreeSet<&str>,
    work: &mut Work,
) -> Result<bool, Error> {
    let damage = work.report.damage.iter();
    let damaged: BTreeSet<&str> = damage
        .filter_map(|damage| linked.get(damage.file.as_str()).copied())
        .collect();
    for name in &damaged {
        target.send(&*moment.source, name, &mut |bytes| work.bytes += bytes)?;
        work.segments += 1;
        work.linked -= 1;
    }
    Ok(!damaged.is_empty())
}
