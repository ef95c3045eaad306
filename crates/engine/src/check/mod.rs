//! Check: proves that everything in a store is readable, without opening the store and without
//! writing.
//!
//! The check reads every byte that a checksum covers, and decodes every block. It compares all data
//! that is stored twice (in a block and in the footer, in a trailer and in the catalog). Only the
//! last record of a journal cannot be proved: a record that was being written when the power failed
//! looks like a record that was damaged later. Such a record is a note, not damage.

mod bundle;
mod journal;
mod names;
mod segment;
mod times;

use crate::catalog::{self, ReadCatalog};
use crate::error::Error;
use crate::inspect::registry::Registry;
use crate::inspect::{self, FileKind, FileView};
use crate::ledger::{self, Contents, LedgerState};
use crate::persisted_clock;
use crate::retention::records::{has_ledger, rules_of};
use crate::rules;
use crate::segment::sealed::Segment;
use crate::volume::{self, SlotState};
use seiner_platform::Disk;
use std::collections::BTreeSet;

/// Maximum number of damaged places that are listed. All are counted.
const LISTED: usize = 1000;

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Number of valid frames of the catalog.
    pub frames: u64,
    /// Number of sources in catalog and journal.
    pub sources: u64,
    /// Number of layouts, the empty layout included.
    pub layouts: u64,
    /// Number of sealed segments read.
    pub segments: u64,
    /// Number of valid footer pages.
    pub pages: u64,
    /// Number of valid blocks.
    pub blocks: u64,
    /// Number of rows in the blocks.
    pub rows: u64,
    /// Number of values in the blocks.
    pub samples: u64,
    /// Number of journal files read.
    pub journal_files: u64,
    /// Number of valid records.
    pub records: u64,
    /// Number of rows in the records. Some of them may also be in segments.
    pub journal_rows: u64,
    /// Bytes of the files read.
    pub bytes: u64,
    /// Damaged places: the first thousand.
    pub damage: Vec<Damage>,
    /// Number of damaged places.
    pub damaged: u64,
    /// Observations that are not damage.
    pub notes: Vec<Note>,
}

/// Damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Name of the file.
    pub file: String,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Expected and actual contents.
    pub what: String,
}

/// Observation that is not damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Name of the file.
    pub file: String,
    /// Description of the observation.
    pub what: String,
}

impl CheckReport {
    /// Returns whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.damaged == 0
    }
}

/// Checks all files of a store on a disk. `progress` is called repeatedly with the bytes done and
/// the total bytes.
///
/// # Errors
/// If there is no store, or the disk cannot list its files. Data that cannot be read later is
/// damage, and listed in the report.
pub fn check(disk: &dyn Disk, progress: &mut dyn FnMut(u64, u64)) -> Result<CheckReport, Error> {
    let all = Scope {
        segments: &|_| true,
        records: true,
    };
    check_within(disk, &all, progress)
}

/// Parts of a store to check. All other parts are small and always checked, and missing files are always found.
pub struct Scope<'a> {
    /// Returns true for the name of a sealed segment to read.
    pub segments: &'a dyn Fn(&str) -> bool,
    /// True to read the records of the journal.
    pub records: bool,
}

/// Checks parts of a store as [`check`] does.
///
/// # Errors
/// As [`check`].
pub fn check_within(
    disk: &dyn Disk,
    scope: &Scope<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckReport, Error> {
    let files = inspect::files(disk)?;
    let is_read = |file: &&FileView| match file.kind {
        FileKind::Segment => (scope.segments)(&file.file),
        FileKind::Journal => scope.records,
        kind => matches!(kind, FileKind::Catalog | FileKind::Names),
    };
    let total = files.iter().filter(is_read).map(|file| file.bytes).sum();
    let mut check = Check {
        disk,
        report: CheckReport::default(),
        progress,
        done: 0,
        total,
    };
    check.report.bytes = total;
    check.note_files(&files);
    if let Some((catalog, mut registry)) = check.catalog(&files)? {
        let segments = files.iter().filter(|file| file.kind == FileKind::Segment);
        for file in segments.filter(is_read) {
            segment::check(&mut check, file, catalog.store, &registry);
        }
        let names = files.iter().filter(|file| file.kind == FileKind::Names);
        for file in names {
            names::check(&mut check, file, catalog.store);
        }
        let dead = catalog.dead();
        let needs_clock = rules_of(dead.iter().map(Vec::as_slice)).hides_by_clock();
        if let Err(error) = persisted_clock::check(disk, catalog.store, needs_clock) {
            check.error(persisted_clock::NAME, 0, error);
        }
        if let Err(error) = rules::check(disk) {
            check.error(rules::NAME, 0, error);
        }
        let contents = check.ledger(&files, &catalog)?;
        let numbers = journal::needed(&mut check, &contents)?;
        if scope.records {
            journal::check(
                &mut check,
                &numbers,
                catalog.store,
                &mut registry,
                &contents,
            );
        }
        check.report.sources = registry.dictionary.present();
        check.report.layouts = registry.layouts.len() as u64;
    }
    Ok(check.report)
}

/// Check in progress.
struct Check<'a> {
    disk: &'a dyn Disk,
    report: CheckReport,
    progress: &'a mut dyn FnMut(u64, u64),
    done: u64,
    total: u64,
}

impl Check<'_> {
    fn damage(&mut self, file: &str, offset: u64, what: String) {
        self.report.damaged += 1;
        if self.report.damage.len() < LISTED {
            self.report.damage.push(Damage {
                file: file.to_string(),
                offset,
                what,
            });
        }
    }

    /// Records damage, or a disk that cannot read existing data.
    fn error(&mut self, file: &str, offset: u64, error: Error) {
        match error {
            Error::Damage { offset, what, .. } => self.damage(file, offset, what),
            Error::Io { error, .. } => {
                self.damage(file, offset, format!("it cannot be read: {error}"))
            }
            other => self.damage(file, offset, other.to_string()),
        }
    }

    fn note(&mut self, file: &str, what: impl Into<String>) {
        self.report.notes.push(Note {
            file: file.to_string(),
            what: what.into(),
        });
    }

    fn advance(&mut self, bytes: u64) {
        self.done = (self.done + bytes).min(self.total);
        (self.progress)(self.done, self.total);
    }

    fn note_files(&mut self, files: &[FileView]) {
        for file in files {
            match file.kind {
                FileKind::SetAside => {
                    let what = "it was set aside as damaged, and does not serve; move it elsewhere once it is dealt with";
                    self.damage(&file.file, 0, what.to_string());
                }
                FileKind::OpenSegment => self.note(&file.file, "it was being written; the next start continues behind its last checkpoint, or removes it if it has none: the journal has the rest"),
                FileKind::Other => self.note(&file.file, "it is not a file of a store"),
                FileKind::Catalog
                | FileKind::Segment
                | FileKind::Names
                | FileKind::Journal
                | FileKind::Spare
                | FileKind::Clock
                | FileKind::Rules
                | FileKind::Ledger => {}
            }
        }
    }

    /// Reads the catalog. Without a catalog nothing else can be checked.
    fn catalog(&mut self, files: &[FileView]) -> Result<Option<(ReadCatalog, Registry)>, Error> {
        let read = match catalog::read(self.disk) {
            Ok(Some(read)) => read,
            Ok(None)
                if files
                    .iter()
                    .any(|file| matches!(file.kind, FileKind::Segment | FileKind::Journal)) =>
            {
                self.damage(
                    catalog::NAME,
                    0,
                    "it is missing or blank; put it back from a copy of the directory".to_string(),
                );
                return Ok(None);
            }
            // The power failed before the store was created.
            Ok(None) if files.iter().any(|file| file.kind == FileKind::Catalog) => return Ok(None),
            Ok(None) => {
                return Err(Error::Options(
                    "there is no store here: no catalog, no segments, no journal".to_string(),
                ));
            }
            Err(error) => {
                self.error(catalog::NAME, 0, error);
                return Ok(None);
            }
        };
        let registry = Registry::read(read.frames(), &mut |offset, what| {
            self.damage(catalog::NAME, offset, what)
        });
        self.report.frames = read.frames().filter(|frame| frame.frame.is_ok()).count() as u64;
        self.copies(files, &read);
        self.claims(files, &read, &registry);
        Ok(Some((read, registry)))
    }

    /// Compares the two files of the catalog. They must be identical, except for a frame that was
    /// being added.
    fn copies(&mut self, files: &[FileView], read: &ReadCatalog) {
        // Without a frame, the store was just being created.
        let last_frame = read.last_frame();
        let files_of = [
            (catalog::NAME, catalog::COPY),
            (catalog::COPY, catalog::NAME),
        ];
        for ((name, other), whole) in files_of.into_iter().zip(read.whole) {
            let bytes = files
                .iter()
                .find(|file| file.file == name)
                .map_or(0, |file| file.bytes);
            if let Some((_, at)) = read.damaged.iter().find(|(damaged, _)| *damaged == name) {
                self.damage(
                    name,
                    *at,
                    format!("it differs from {other} here; the next start repairs it from there"),
                );
            } else if bytes < last_frame {
                self.damage(
                    name,
                    bytes,
                    format!(
                        "it ends here, {other} at {}; the next start repairs it from there",
                        read.end()
                    ),
                );
            } else if !whole {
                self.note(name, "the last frame is not whole here: it was being added when the power failed, or was damaged since; the next start repairs it");
            } else if bytes > read.end() {
                let what = format!(
                    "bytes {} to {bytes} are not a frame: they were being written when the power failed",
                    read.end()
                );
                self.note(name, what);
            }
            self.advance(bytes);
        }
    }

    /// Checks that the catalog contains all sources and layouts that the segments require.
    fn claims(&mut self, files: &[FileView], catalog: &ReadCatalog, registry: &Registry) {
        for file in files.iter().filter(|file| file.kind == FileKind::Segment) {
            let segment = match Segment::on(self.disk, &file.file, catalog.store) {
                Ok(segment) => segment,
                // The damage is reported with the segment.
                Err(Error::Damage { .. }) => continue,
                Err(error) => {
                    self.error(&file.file, 0, error);
                    continue;
                }
            };
            let (sources, layouts) = (segment.trailer.sources, segment.trailer.layouts);
            if sources > registry.sources() || layouts as usize > registry.layouts.len() {
                let what = format!(
                    "{} was sealed when there were {sources} sources and {layouts} layouts, {} and {} are found",
                    file.file,
                    registry.sources(),
                    registry.layouts.len()
                );
                return self.damage(catalog::NAME, catalog.end(), what);
            }
        }
    }
}

impl Check<'_> {
    /// Reads the ledger. The segments that it lists must exist, and losses are damage until they
    /// are acknowledged.
    fn ledger(&mut self, files: &[FileView], catalog: &ReadCatalog) -> Result<Contents, Error> {
        let (contents, found, _, _) = ledger::read(self.disk, catalog.store)?;
        let dead = catalog.dead();
        match found {
            LedgerState::Whole => {}
            LedgerState::Damaged(offset, what) => self.damage(ledger::NAME, offset, what),
            LedgerState::Missing if has_ledger(dead.iter().map(Vec::as_slice)) => {
                let what = "it is missing; files that are missing cannot be named";
                self.damage(ledger::NAME, 0, what.to_string());
            }
            LedgerState::Torn => self.note(ledger::NAME, "its last record is not whole: it was being written when the power failed, or was damaged since"),
            LedgerState::Missing => {}
        }
        let there: BTreeSet<u64> = files
            .iter()
            .filter(|file| file.kind != FileKind::Other)
            .filter_map(|file| volume::parse(&file.file))
            .filter(|(_, slot)| *slot != SlotState::Open(0))
            .map(|(number, _)| number)
            .collect();
        for (number, note) in &contents.segments {
            if !there.contains(number) {
                let name = volume::sealed_name(*number);
                let what = format!(
                    "the segment is missing, with {} rows in {} blocks; put it back from a copy of the directory",
                    note.rows, note.blocks
                );
                self.damage(&name, 0, what);
            }
        }
        for loss in contents.unacknowledged() {
            let what = format!("{loss}; acknowledge the loss once it is dealt with");
            self.damage(&loss.file, 0, what);
        }
        Ok(contents)
    }
}

/// Returns the number of a segment's file.
fn segment_number(file: &FileView) -> u64 {
    volume::parse(&file.file).map_or(0, |(number, _)| number)
}
