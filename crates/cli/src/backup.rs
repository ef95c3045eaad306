//! `seiner backup` and `seiner restore`: copies of a store.

use crate::check::{damage_json, write_damage};
use crate::failure::Failure;
use crate::progress;
use clap::Args;
use indicatif::{HumanBytes, ProgressBar};
use seiner_backup::{Copied, Error, Place, Plan, Stage, Work, back_up, restore};
use seiner_model::parse_bytes;
use seiner_platform::SystemClock;
use serde_json::json;
use std::io::{Write, stdout};
use std::path::PathBuf;

/// Copy a store into a folder of backups. A server may have the store open.
///
/// The folder gets a directory named by the time, such as 2026-11-27T18-02-03Z, with all rows that
/// were durable when the command began. Each backup is a store: `seiner query --data`, `seiner
/// check` and `seiner restore` read it. Segments that the previous backup has are linked, so that a
/// backup takes the time and the space of the new segments. Run the command again to continue an
/// interrupted backup. Exit status: 1 if the store or the backup is damaged; the backup is kept.
///
/// A URL such as s3://BUCKET/PREFIX names object storage, with the credentials in process variables;
/// see docs/backup.md. The program must be built with the feature `object-storage`.
///
/// Examples:
///
///   seiner backup /mnt/backups --data /var/lib/seiner --keep 14
///
///   seiner restore /mnt/backups --data ./restored
#[derive(Args)]
pub struct Backup {
    /// Folder of the backups of this store, or URL of an object store. A folder is created if it is
    /// missing. Choose another disk.
    folder: PathBuf,
    /// Directory of the store.
    #[arg(long, value_name = "DIR", default_value = "./seiner-data")]
    data: PathBuf,
    /// Remove the oldest backups but this number, if the new one is sound.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Maximum bytes copied per second, for example 50MiB. A slower backup leaves more of the disks
    /// to the server, but keeps the space of segments that the server removes meanwhile.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    rate: Option<u64>,
    /// Verify linked segments as well as copied ones, and copy damaged ones again. This reads the whole
    /// backup, and finds damage of the disk with the backups.
    #[arg(long)]
    check_all: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Copy a backup into the directory of a store, and verify all of it.
///
/// The backup does not change. An interrupted restore leaves a directory with the end .partial, and
/// continues there. Retention applies when a server opens the store: rows that are too old by then
/// expire. Exit status: 1 if the restored store is damaged; the command names the places.
///
/// Examples:
///
///   seiner restore /mnt/backups --data ./restored
///
///   seiner restore /mnt/backups/2026-11-27T18-02-03Z --data ./restored
#[derive(Args)]
pub struct Restore {
    /// Folder or URL of backups, of which the latest is taken, or of one backup.
    backup: PathBuf,
    /// Directory for the store. It must be missing or empty.
    #[arg(long, value_name = "DIR", default_value = "./seiner-data")]
    data: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl Backup {
    /// Makes a backup.
    pub fn run(self) -> Result<(), Failure> {
        let plan = Plan {
            clock: &SystemClock::new(),
            bytes_per_second: self.rate,
            check_all: self.check_all,
        };
        let place = Place::parse(&self.folder).map_err(failure)?;
        let copied = watched(|progress| back_up(&self.data, &place, &plan, progress))?;
        let removed = match self.keep {
            Some(keep) if copied.work.report.is_sound() => {
                place.remove_old(keep as usize).map_err(failure)?
            }
            _ => Vec::new(),
        };
        report(&copied, &removed, self.json)
    }
}

impl Restore {
    /// Restores a backup.
    pub fn run(self) -> Result<(), Failure> {
        let plan = Plan {
            clock: &SystemClock::new(),
            bytes_per_second: None,
            check_all: true,
        };
        let backup = Place::parse(&self.backup).map_err(failure)?;
        let copied = watched(|progress| restore(&backup, &self.data, &plan, progress))?;
        report(&copied, &[], self.json)
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Request(text) => Failure::Usage(text),
        other => Failure::Failed(other.into()),
    }
}

/// Runs a copy with a progress bar for each stage.
fn watched(
    run: impl FnOnce(&mut dyn FnMut(Stage, u64, u64)) -> Result<Copied, Error>,
) -> Result<Copied, Failure> {
    let mut shown: Option<(Stage, ProgressBar)> = None;
    let copied = run(&mut |stage, done, total| {
        if shown.as_ref().is_none_or(|(known, _)| *known != stage) {
            let name = match stage {
                Stage::Copy => "copying",
                Stage::Check => "checking",
            };
            shown = Some((stage, progress::bytes(Some(total), name)));
        }
        if let Some((_, bar)) = &shown {
            bar.set_length(total);
            bar.set_position(done);
        }
    });
    if let Some((_, bar)) = shown {
        bar.finish_and_clear();
    }
    copied.map_err(failure)
}

/// Prints the result and the damage.
fn report(copied: &Copied, removed: &[String], as_json: bool) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let Work {
        segments,
        bytes,
        linked,
        kept,
        report: found,
    } = &copied.work;
    let directory = copied.place.display();
    if as_json {
        let text = json!({
            "directory": directory.to_string(),
            "bytes_copied": bytes,
            "segments": { "copied": segments, "linked": linked, "kept": kept },
            "sound": found.is_sound(),
            "damaged": found.damaged,
            "damage": damage_json(found),
            "removed": removed,
        });
        writeln!(out, "{text:#}")?;
    } else {
        let before = match kept {
            0 => String::new(),
            kept => format!(", {kept} copied by an interrupted run"),
        };
        let bytes = HumanBytes(*bytes);
        writeln!(
            out,
            "{directory}: {bytes} copied; segments: {segments} copied, {linked} linked{before}"
        )?;
        write_damage(found, &mut out)?;
        for name in removed {
            writeln!(out, "removed   {name}")?;
        }
    }
    if found.is_sound() {
        return Ok(());
    }
    eprintln!(
        "damaged in {} places; a start sets damaged parts aside and serves the rest",
        found.damaged
    );
    Err(Failure::Rejected)
}
