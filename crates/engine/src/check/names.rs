//! Check of a names file.

use super::Check;
use crate::dictionary::filed::{NEW, read_error};
use crate::error::{Error, io_error};
use crate::inspect::FileView;
use seiner_names::NamesFile;

/// Reads a whole names file.
pub(super) fn check(check: &mut Check<'_>, file: &FileView, store: u64) {
    if file.file == NEW {
        check.note(
            &file.file,
            "it was being written; the next start removes it",
        );
    } else if let Err(error) = read(check, file, store) {
        check.error(&file.file, 0, error);
    }
    check.advance(file.bytes);
}

fn read(check: &Check<'_>, file: &FileView, store: u64) -> Result<(), Error> {
    let name = &file.file;
    let opened = check.disk.open(name);
    let opened = opened.map_err(io_error(|| format!("opening {name}")))?;
    let names = NamesFile::open(name, opened).map_err(read_error)?;
    if names.origin().store != store {
        return Err(Error::Damage {
            file: name.clone(),
            offset: 0,
            what: "it belongs to another store".to_string(),
        });
    }
    names.check().map_err(read_error)
}
