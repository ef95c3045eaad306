//! Takeover: a port finishes the journal of a failed port.

use crate::bundling::Report;
use crate::deletes::{self, Delete};
use crate::failure::HandoverError;
use crate::journal::{self, JournalId, restore};
use crate::lease::{Beat, Lease};
use crate::locks::locked;
use crate::port::Port;
use crate::rows::Level;
use seiner_engine::{Engine, Options};
use seiner_store::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Journal of a failed port, owned by this port.
pub(crate) struct Takeover {
    lease: Lease,
    stamp: u64,
    is_lost: AtomicBool,
    /// Engine with the rows, while they are handed over.
    engine: Mutex<Option<Recovered>>,
}

/// Rows of a journal.
#[derive(Clone)]
struct Recovered {
    engine: Arc<Engine>,
    /// True if earlier deletes have been applied, so that queries may read the rows.
    is_readable: bool,
}

impl Takeover {
    /// Creates the takeover of a journal whose rows have a stamp.
    pub fn new(lease: Lease, stamp: u64) -> Takeover {
        Takeover {
            lease,
            stamp,
            is_lost: AtomicBool::new(false),
            engine: Mutex::default(),
        }
    }

    /// Prolongs the lease. Returns false if another port owns the journal now.
    pub fn beat(&self) -> bool {
        // A failed beat is repeated; without beats another port takes over.
        if matches!(self.lease.beat(self.stamp), Ok(Beat::Lost)) {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        !self.is_lost.load(Ordering::Relaxed)
    }

    /// Returns the journal.
    pub fn journal(&self) -> JournalId {
        self.lease.record().id()
    }

    /// Returns the engine with the rows and their stamp, if they are being handed over.
    pub fn engine(&self) -> Option<(Arc<Engine>, u64)> {
        let recovered = locked(&self.engine).clone();
        let readable = recovered.filter(|recovered| recovered.is_readable);
        readable.map(|recovered| (recovered.engine, self.stamp))
    }

    /// Applies a delete to the rows, if they are here.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn apply(&self, delete: &Delete) -> Result<(), Error> {
        let recovered = locked(&self.engine).clone();
        if let Some(Recovered { engine, .. }) = recovered
            && delete.hides_journal(&self.journal())
        {
            engine.delete(&delete.selector, delete.interval)?;
        }
        Ok(())
    }

    /// Recovers the rows of the journal, hands them over, and removes the journal.
    ///
    /// # Errors
    /// If the distributed store or the disk fails. The journal stays, and the call can be repeated.
    pub fn finish(&self, port: &Port) -> Result<Report, HandoverError> {
        // A delete hides all rows of a port that has not applied the delete, and some of these rows may be later.
        port.apply_deletes()?;
        let record = self.lease.record();
        let id = record.id();
        let name = format!("takeover-{}-{}", id.port, id.epoch);
        let around = &port.around;
        let failed = |error: std::io::Error| {
            HandoverError::Engine(Error::Io {
                context: format!("the disk for the journal of {}", id.port),
                error,
            })
        };
        around.spare.remove(&name).map_err(failed)?;
        let disk = around.spare.create(&name).map_err(failed)?;
        restore(&*around.rows, &id, Level::Quorum, &*disk).map_err(|error| match error {
            journal::RestoreError::Rows(error) => HandoverError::Rows(error),
            journal::RestoreError::Disk(error) => failed(error),
        })?;
        let options = Options {
            durability: seiner_store::Durability::Sync,
            forget: false,
            ..port.options.engine.clone()
        };
        let engine = Arc::new(Engine::open(disk, around.clock.clone(), options)?);
        // A delete is either among those that are read now, or this port applies the delete later to these rows, too.
        *locked(&self.engine) = Some(Recovered {
            engine: engine.clone(),
            is_readable: false,
        });
        for delete in deletes::read(&*around.rows)? {
            self.apply(&delete)?;
        }
        *locked(&self.engine) = Some(Recovered {
            engine: engine.clone(),
            is_readable: true,
        });
        while engine.step()? {}
        let cut = engine.cut()?;
        let places = Mutex::default();
        let handover = port.handover(&engine, &places, self.stamp)?;
        let (report, mut directories) = handover.run(cut.block)?;
        if !directories.is_empty() {
            port.wait_until(port.sync_time());
            directories.write(&*around.rows)?;
            port.wait_until(port.sync_time());
        }
        journal::forget(&*around.rows, &id, Level::Quorum)?;
        self.lease.end()?;
        *locked(&self.engine) = None;
        drop(engine);
        around.spare.remove(&name).map_err(failed)?;
        Ok(report)
    }
}
