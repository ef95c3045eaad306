//! Record of an import: how far it got. Conditional writes only, so that of two processes one continues.

use crate::keys::KeyBuilder;
use crate::rows::{Level, Rows, RowsError, Swap};
use seiner_store::Error;
use serde::{Deserialize, Serialize};

/// Name of the table.
pub(crate) const TABLE: &str = "imports";
const PARTITION: &[u8] = b"imports";

/// State of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Fingerprint of the directory's contents.
    pub contents: u64,
    /// Number of starts of the import. Bundles of an attempt have this number as their handover.
    pub attempt: u64,
    /// Grid of all bundles of the import.
    pub grid: u16,
    /// Fingerprint of the sources' numbers, on which the shelves depend.
    pub placement: u64,
    /// Period that is under way. All earlier ones are finished. `None` before the first one.
    pub period: Option<i64>,
    /// Number of finished shelves of that period, over all classes.
    pub shelves: u32,
    /// Samples in bundles.
    pub samples: u64,
    /// Bundles.
    pub bundles: u64,
    /// Bytes of bundles.
    pub bytes: u64,
    /// Samples that were too old for their class.
    pub expired: u64,
    /// Damaged parts of the directory.
    pub damages: u64,
    /// True if bundles of an earlier import of the directory are replaced.
    pub replaces: bool,
    /// True if all periods are finished.
    pub is_complete: bool,
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a record consists of numbers")
    }

    /// Returns the record of the next attempt, which begins anew if `again` is set.
    pub fn next(&self, contents: u64, again: bool) -> Record {
        let attempt = self.attempt + 1;
        match again {
            true => Record {
                contents,
                attempt,
                grid: self.grid,
                replaces: true,
                ..Record::default()
            },
            false => Record {
                attempt,
                ..self.clone()
            },
        }
    }
}

/// Reads the record of a directory.
///
/// # Errors
/// If too few replicas answer, or the row is not a record.
pub(crate) fn read(rows: &dyn Rows, directory: u64) -> Result<Option<Record>, RowsError> {
    let found = rows.read(TABLE, PARTITION, &key(directory), Level::Quorum)?;
    let record = found.map(|value| {
        serde_json::from_slice(&value).map_err(|error| {
            RowsError::Rejected(format!(
                "a row in the table {TABLE} cannot be read: {error}"
            ))
        })
    });
    record.transpose()
}

/// Replaces the record of a directory.
///
/// # Errors
/// If too few replicas answer, or another process has changed the record.
pub(crate) fn write(
    rows: &dyn Rows,
    directory: u64,
    before: Option<&Record>,
    next: &Record,
) -> Result<(), Error> {
    let (before, next) = (before.map(Record::encode), next.encode());
    let key = key(directory);
    match rows.swap(TABLE, PARTITION, &key, before.as_deref(), &next)? {
        Swap::Done => Ok(()),
        // An attempt without an answer has written the record.
        Swap::Found(Some(found)) if found == next => Ok(()),
        Swap::Found(_) => Err(Error::Options(
            "another process imports this directory; wait for its end, or end it".to_string(),
        )),
    }
}

fn key(directory: u64) -> Vec<u8> {
    KeyBuilder::new().u64(directory).done()
}
