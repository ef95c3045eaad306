//! Restoration of a journal's files on another disk.

use super::{COMPLETE, JournalId, SET_LENGTH, TABLE, WRITE};
use crate::keys::KeyReader;
use crate::rows::{Level, Range, Rows, RowsError};
use seiner_platform::Disk;
use std::collections::BTreeMap;
use std::io;

/// Maximum number of rows that are read at a time.
const ROWS: usize = 64;

/// Error of a restoration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    /// The distributed store failed.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The disk failed.
    #[error("restoring the journal of another port: {0}")]
    Disk(#[from] io::Error),
}

/// Writes the files of a journal to a disk.
///
/// The changes of a file are applied in order, up to the first missing one. Later changes belong to a sync that did
/// not return.
///
/// # Errors
/// If too few replicas answer, or the disk fails.
pub(crate) fn restore(
    rows: &dyn Rows,
    journal: &JournalId,
    level: Level,
    disk: &dyn Disk,
) -> Result<(), RestoreError> {
    // Numbers ascend: of files with the same name, the last one counts.
    let complete = names(rows, journal, level)?
        .into_iter()
        .filter(|file| file.is_complete);
    let files: BTreeMap<String, u64> = complete.map(|file| (file.name, file.number)).collect();
    for (name, number) in files {
        let file = disk.create(&name)?;
        let partition = journal.file(number);
        let mut next = 0_u64;
        loop {
            let found = rows.range(
                &Range {
                    table: TABLE,
                    partition: &partition,
                    from: &next.to_be_bytes(),
                    to: None,
                    limit: ROWS,
                },
                level,
            )?;
            let before = next;
            for (key, value) in found {
                if KeyReader(&key).u64() != Some(next) || !apply(&*file, &value)? {
                    break;
                }
                next += 1;
            }
            if next - before < ROWS as u64 {
                break;
            }
        }
        file.sync()?;
    }
    disk.sync_names()?;
    Ok(())
}

/// Removes all rows of a journal.
///
/// # Errors
/// If too few replicas answer. Calling the function again removes the rest.
pub(crate) fn forget(rows: &dyn Rows, journal: &JournalId, level: Level) -> Result<(), RowsError> {
    for file in names(rows, journal, level)? {
        rows.remove(TABLE, &journal.file(file.number), None, level)?;
    }
    rows.remove(TABLE, &journal.names(), None, level)
}

/// File of a journal.
struct Named {
    number: u64,
    name: String,
    is_complete: bool,
}

/// Returns the files of a journal, by number.
fn names(rows: &dyn Rows, journal: &JournalId, level: Level) -> Result<Vec<Named>, RowsError> {
    let partition = journal.names();
    let range = Range::whole(TABLE, &partition);
    let named = rows
        .range(&range, level)?
        .into_iter()
        .filter_map(|(key, value)| {
            let (kind, name) = value.split_first()?;
            Some(Named {
                number: KeyReader(&key).u64()?,
                name: String::from_utf8(name.to_vec()).ok()?,
                is_complete: *kind == COMPLETE,
            })
        });
    Ok(named.collect())
}

/// Applies a change to a file. Returns false if the value is not a change.
fn apply(file: &dyn seiner_platform::File, value: &[u8]) -> io::Result<bool> {
    let Some((&kind, rest)) = value.split_first() else {
        return Ok(false);
    };
    let Some((number, bytes)) = rest.split_first_chunk::<8>() else {
        return Ok(false);
    };
    let number = u64::from_be_bytes(*number);
    match kind {
        WRITE => file.write_at(number, bytes)?,
        SET_LENGTH => file.set_len(number)?,
        _ => return Ok(false),
    }
    Ok(true)
}
