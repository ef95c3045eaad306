//! Inspection: shows the contents of the files of a store that no engine has open.
//!
//! This module never writes. Damage is reported in the damaged place and does not hide the rest.
//! Use [`crate::check()`] to prove that a store is intact.

mod catalog;
mod journal;
pub(crate) mod registry;
mod segments;

pub use catalog::{CatalogView, FrameView, LayoutView, SourceView, catalog, sources};
pub(crate) use journal::numbers;
pub use journal::{JournalFileView, RecordView, journal};
pub use segments::{
    BlockView, ColumnView, PageView, SegmentView, TrailerView, blocks, pages, segments,
};

use crate::dictionary::filed::is_names;
use crate::error::{Error, io_error};
use crate::journal::{DAMAGED, SPARE_PREFIX, files};
use crate::ledger;
use crate::persisted_clock;
use crate::rules::file as rules;
use crate::volume::{self, SlotState};
use seiner_platform::Disk;

/// Kind of a file in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// Catalog of sources and layouts.
    Catalog,
    /// Names file. The catalog contains its names, too.
    Names,
    /// Sealed segment.
    Segment,
    /// Segment that was being written. The journal contains its rows.
    OpenSegment,
    /// Journal file.
    Journal,
    /// Journal file that waits to be overwritten.
    Spare,
    /// Time of the store, as stored on the disk.
    Clock,
    /// Rules of the store.
    Rules,
    /// Ledger: the list of segments, journal files and losses.
    Ledger,
    /// File that was set aside because it is damaged.
    SetAside,
    /// File that does not belong to a store.
    Other,
}

impl FileKind {
    /// Returns the kind of a file by its name.
    pub fn of(name: &str) -> FileKind {
        if name == crate::catalog::NAME
            || name == crate::catalog::COPY
            || crate::catalog::NEW.contains(&name)
        {
            return FileKind::Catalog;
        }
        if is_names(name) {
            return FileKind::Names;
        }
        if let Some((_, state)) = volume::parse(name) {
            return match state {
                SlotState::Open(_) => FileKind::OpenSegment,
                SlotState::Sealed | SlotState::Merging => FileKind::Segment,
                SlotState::Damaged => FileKind::SetAside,
            };
        }
        if files::number(name).is_some() {
            return FileKind::Journal;
        }
        if name
            .strip_suffix(DAMAGED)
            .is_some_and(|name| files::number(name).is_some() || is_names(name))
        {
            return FileKind::SetAside;
        }
        if name == rules::NAME || name == rules::NEW {
            return FileKind::Rules;
        }
        match name {
            persisted_clock::NAME => return FileKind::Clock,
            ledger::NAME | ledger::NEXT => return FileKind::Ledger,
            _ => {}
        }
        let whole = name.strip_suffix(DAMAGED);
        if [persisted_clock::NAME, ledger::NAME, rules::NAME]
            .map(Some)
            .contains(&whole)
        {
            return FileKind::SetAside;
        }
        if name.starts_with(SPARE_PREFIX) {
            FileKind::Spare
        } else {
            FileKind::Other
        }
    }

    /// Returns the kind as a single word.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Catalog => "catalog",
            FileKind::Names => "names",
            FileKind::Segment => "segment",
            FileKind::OpenSegment => "open segment",
            FileKind::Journal => "journal",
            FileKind::Spare => "spare",
            FileKind::Clock => "clock",
            FileKind::Rules => "rules",
            FileKind::Ledger => "ledger",
            FileKind::SetAside => "set aside",
            FileKind::Other => "other",
        }
    }
}

/// File of a store.
#[derive(Clone, Debug)]
pub struct FileView {
    /// Name of the file.
    pub file: String,
    /// Kind of the file.
    pub kind: FileKind,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// Returns the files of a store, by name.
///
/// # Errors
/// If the disk fails.
pub fn files(disk: &dyn Disk) -> Result<Vec<FileView>, Error> {
    let mut names = disk
        .list()
        .map_err(io_error(|| "listing files".to_string()))?;
    names.sort();
    names
        .into_iter()
        .map(|file| {
            let context = || format!("opening {file}");
            let bytes = disk
                .open(&file)
                .and_then(|opened| opened.len())
                .map_err(io_error(context))?;
            Ok(FileView {
                kind: FileKind::of(&file),
                file,
                bytes,
            })
        })
        .collect()
}
