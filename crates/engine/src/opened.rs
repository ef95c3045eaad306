//! Parts of a store as recovery hands them over.

use crate::catalog::Catalog;
use crate::journal::files::JournalWriter;
use crate::ledger::Ledger;
use crate::segment::files::Files;
use crate::state::State;
use crate::status::Recovery;
use crate::timekeeper::Timekeeper;
use std::collections::HashSet;
use std::sync::Arc;

/// What a store is made of once it is read from the disk.
pub(crate) struct Opened {
    pub state: State,
    pub journal: JournalWriter,
    pub catalog: Catalog,
    pub ledger: Ledger,
    pub timekeeper: Timekeeper,
    pub recovery: Recovery,
    pub files: Arc<Files>,
    /// Segments that were being merged, and blocks of theirs that others have, too.
    pub merging: HashSet<u64>,
    pub copied: HashSet<(u64, u64)>,
}
