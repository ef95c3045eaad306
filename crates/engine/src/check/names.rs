//! Check of a names file.

use super::Check;
use crate::dictionary::filed::{NEW, open, read_error};
use crate::error::Error;
use crate::inspect::FileView;

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
    let names = open(check.disk, &file.file, store)?;
    names.check().map_err(read_error)
}
