//! Replicated journal: the files of an engine that hold its accepted rows, also in the distributed store.
//!
//! [`Mirror`] is the disk of a port's engine. It writes to a local disk and repeats the changes of the journal and of
//! the catalog as rows. A sync of such a file returns when its rows are on enough replicas. [`restore`] writes the
//! files of a port to another disk, where an engine recovers the rows as after a power cut.
//! `docs/format/cluster.md` describes the rows.

mod mirror;
mod restore;

pub(crate) use mirror::{Mirror, Ownership, Policy, RemovedBefore};
pub(crate) use restore::{RestoreError, forget, restore};

use crate::keys::KeyBuilder;

/// Name of the table.
pub(crate) const TABLE: &str = "journal";
/// Maximum bytes of a file in one row.
const ROW_BYTES: usize = 512 << 10;
/// Kind of a change: bytes were written.
const WRITE: u8 = 0;
/// Kind of a change: the length was set.
const SET_LENGTH: u8 = 1;
/// Kind of a name's row: the file has rows, which are not complete.
const ANNOUNCED: u8 = 0;
/// Kind of a name's row: the file counts, unless a file with a higher number has the same name.
const COMPLETE: u8 = 1;

/// Journal of a port between two starts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct JournalId {
    /// Name of the port.
    pub port: String,
    /// Number of the start, unique for the port.
    pub epoch: u64,
}

impl From<JournalId> for (String, u64) {
    fn from(id: JournalId) -> (String, u64) {
        (id.port, id.epoch)
    }
}

impl JournalId {
    /// Returns the partition with the names of the files, by number.
    fn names(&self) -> Vec<u8> {
        KeyBuilder::new()
            .text(&self.port)
            .u64(self.epoch)
            .text("names")
            .done()
    }

    /// Returns the partition with the changes of a file.
    fn file(&self, number: u64) -> Vec<u8> {
        KeyBuilder::new()
            .text(&self.port)
            .u64(self.epoch)
            .text("file")
            .u64(number)
            .done()
    }
}

/// Returns whether a file is repeated in the distributed store.
fn is_mirrored(name: &str) -> bool {
    name == "catalog" || (name.starts_with("journal-") && !name.ends_with(".damaged"))
}
