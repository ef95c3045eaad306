//! Release: rows leave their port when the replicas have synced the bundles with these rows.
//!
//! A replica may acknowledge a row before its commit log is on the disk: Cassandra syncs the log every 10 s by default.
//! If the power of all replicas failed in between, bundles would be lost, or have a directory without data. So the
//! directories wait until the data is synced, and the rows stay in the journal and in the engine until the directories
//! are synced. Queries find these rows twice, and equal samples count once.

use crate::blocks::Directories;
use crate::bundling::Report;
use crate::journal::{Mirror, RemovedBefore};
use seiner_engine::{Cut, Engine};
use seiner_platform::Clock;
use seiner_store::Error;
use std::time::Duration;

/// Monotonic time, ns, at which the replicas have synced what they have acknowledged so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncTime(u64);

impl SyncTime {
    /// Returns the time for what was acknowledged until now. `after` is the longest time that a replica needs.
    pub fn after(clock: &dyn Clock, after: Duration) -> SyncTime {
        let ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        SyncTime(clock.monotonic().saturating_add(ns))
    }

    /// Returns whether the time has come.
    pub fn has_come(self, clock: &dyn Clock) -> bool {
        clock.monotonic() >= self.0
    }
}

/// Rows whose bundles have their data in the distributed store, and that are still at the port.
pub(crate) struct StoredRows {
    /// End of the rows.
    pub cut: Cut,
    /// Rows that the engine had accepted.
    pub accepted: u64,
    /// Files that the journal had removed.
    pub removed: Option<RemovedBefore>,
    /// Directories that are not written yet.
    pub directories: Directories,
    /// Figures of the bundles.
    pub report: Report,
    /// Time at which everything that was written so far is synced.
    pub synced: SyncTime,
}

impl StoredRows {
    /// Removes the rows from the engine, and the copies of journal files that are not needed any more.
    ///
    /// # Errors
    /// If the engine fails. Too few replicas are not an error: the copies stay until the next release.
    pub fn release(&self, engine: &Engine, mirror: Option<&Mirror>) -> Result<(), Error> {
        engine.release(self.cut)?;
        if let Some((mirror, before)) = mirror.zip(self.removed.clone())
            && let Err(error) = mirror.forget(before, |file| self.cut.covers(file))
        {
            tracing::warn!("journal files that are not needed stay for now: {error}");
        }
        Ok(())
    }
}
