//! Parts of a store that recovery returns.

use crate::catalog::Catalog;
use crate::head::Head;
use crate::journal::files::JournalWriter;
use crate::ledger::Ledger;
use crate::log::Log;
use crate::maps::HashSet;
use crate::members::Members;
use crate::options::Options;
use crate::persisted_clock::PersistedClock;
use crate::retention::Retention;
use crate::segment::files::Files;
use crate::status::Recovery;
use crate::volume::Volume;
use std::sync::Arc;

/// Parts of a store that was read from the disk.
pub(crate) struct OpenedStore {
    pub parts: Parts,
    pub volume: Arc<dyn Volume>,
    pub journal: JournalWriter,
    pub catalog: Catalog,
    pub ledger: Ledger,
    pub persisted_clock: PersistedClock,
    pub recovery: Recovery,
    pub files: Arc<Files>,
    /// Segments that were being merged, and their blocks that other segments also contain.
    pub merging: HashSet<u64>,
    pub copied: HashSet<(u64, u64)>,
}

/// Head and log of a store that threads do not share yet.
pub(crate) struct Parts {
    pub options: Arc<Options>,
    pub head: Head,
    pub log: Log,
}

impl Parts {
    /// Creates the parts of an empty store. `unit` is the size of the disk's allocation unit in
    /// bytes.
    pub fn new(options: Options, names_seed: u64, unit: u64) -> Parts {
        let options = Arc::new(options);
        let members = Arc::new(Members::new(options.classes.clone()));
        let retention = Retention::new(members.clone(), options.disk);
        Parts {
            head: Head::new(options.clone(), members, names_seed),
            log: Log::new(options.clone(), retention, unit),
            options,
        }
    }
}
