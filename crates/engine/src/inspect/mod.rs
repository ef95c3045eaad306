//! What is in a store's files, for people who want to see it: a store that no engine has open.
//!
//! Nothing here writes. Damage in one place is told in that place and does not keep the rest from
//! being shown; [`crate::check()`] is what proves that all is well.

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

use crate::error::{Error, io_error};
use crate::journal::{DAMAGED, SPARE_PREFIX, files};
use crate::ledger;
use crate::rules::file as rules;
use crate::timekeeper;
use crate::volume::{self, SlotState};
use seiner_platform::Disk;

/// What a file is in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// The catalog.
    Catalog,
    /// A sealed segment.
    Segment,
    /// A segment that was being written; the journal has what is in it.
    OpenSegment,
    /// A journal file.
    Journal,
    /// A journal file that waits to be written over.
    Spare,
    /// The time that the disk tells.
    Clock,
    /// The rules of the store.
    Rules,
    /// The list of segments, journal files and losses.
    Ledger,
    /// A file that was set aside because it is damaged.
    SetAside,
    /// No file of a store.
    Other,
}

impl FileKind {
    /// The kind that a file's name tells.
    pub fn of(name: &str) -> FileKind {
        if name == crate::catalog::NAME || name == crate::catalog::COPY {
            return FileKind::Catalog;
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
            .is_some_and(|name| files::number(name).is_some())
        {
            return FileKind::SetAside;
        }
        if name == rules::NAME || name == rules::NEW {
            return FileKind::Rules;
        }
        match name {
            timekeeper::NAME => return FileKind::Clock,
            ledger::NAME | ledger::NEXT => return FileKind::Ledger,
            _ => {}
        }
        let whole = name.strip_suffix(DAMAGED);
        if [timekeeper::NAME, ledger::NAME, rules::NAME]
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

    /// The kind in a word.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Catalog => "catalog",
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

/// A file of a store.
#[derive(Clone, Debug)]
pub struct FileView {
    /// Its name.
    pub file: String,
    /// What it is.
    pub kind: FileKind,
    /// Its length, bytes.
    pub bytes: u64,
}

/// The files of a store, by name.
///
/// # Errors
/// When the disk fails.
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
