//! Journals of earlier starts of a port, which stay until the rows on the local disk are released.
//!
//! The present journal has copies of the journal files on the local disk. Rows that an earlier start has moved to
//! segments are in its own journal only, and replicas may not have synced the new copies yet.

use crate::journal::{self, JournalId};
use crate::lease::{Beat, Lease};
use crate::locks::locked;
use crate::patience::at_start;
use crate::rows::{Level, Rows, RowsError};
use seiner_platform::Clock;
use std::sync::{Arc, Mutex};

/// Journals of earlier starts, with their leases.
#[derive(Default)]
pub(crate) struct EarlierJournals(Mutex<Vec<Arc<Lease>>>);

impl EarlierJournals {
    /// Adds journals. Those without copies end now.
    ///
    /// # Errors
    /// If too few replicas answer for long.
    pub fn keep(&self, clock: &dyn Clock, leases: Vec<Lease>) -> Result<(), RowsError> {
        for lease in leases {
            match lease.record().is_local {
                true => at_start(clock, || lease.end())?,
                false => locked(&self.0).push(Arc::new(lease)),
            }
        }
        Ok(())
    }

    /// Returns the journals.
    pub fn journals(&self) -> Vec<JournalId> {
        let leases = self.leases().into_iter();
        leases.map(|lease| lease.record().id()).collect()
    }

    /// Prolongs the leases. A journal that another port has taken over is left to that port.
    pub fn beat(&self) {
        for lease in self.leases() {
            // A failed beat is repeated. The rows have their stamps from the last beats of the earlier starts.
            if matches!(lease.beat(0), Ok(Beat::Lost)) {
                self.forget(&lease);
            }
        }
    }

    /// Removes the journals, whose rows are in the distributed store.
    ///
    /// # Errors
    /// If too few replicas answer. A later call removes the rest.
    pub fn end(&self, rows: &dyn Rows) -> Result<(), RowsError> {
        for lease in self.leases() {
            journal::forget(rows, &lease.record().id(), Level::Quorum)?;
            lease.end()?;
            self.forget(&lease);
        }
        Ok(())
    }

    /// Returns the leases. Queries need the list while requests are under way, so that no request holds its lock.
    fn leases(&self) -> Vec<Arc<Lease>> {
        locked(&self.0).clone()
    }

    fn forget(&self, lease: &Arc<Lease>) {
        locked(&self.0).retain(|other| !Arc::ptr_eq(other, lease));
    }
}
