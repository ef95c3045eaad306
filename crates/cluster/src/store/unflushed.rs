//! Rows that are not handed over yet, as a query finds them: at other ports, in journals that were taken over, and in
//! replicated journals.

use crate::deletes::{self, Delete};
use crate::journal::{self, JournalId};
use crate::lease;
use crate::locks::locked;
use crate::peers::{PortRows, Unflushed};
use crate::port::Port;
use crate::rows::Level;
use crate::scan::local_rows;
use seiner_engine::Engine;
use seiner_platform::sim::SimDisk;
use seiner_store::{Error, Query};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows of a query in other journals.
#[derive(Default)]
pub(super) struct Others {
    /// Rows that no delete hides.
    pub rows: Vec<Unflushed>,
    /// Errors of journals that cannot be read.
    pub notes: Vec<Error>,
    /// True if deletes hide some rows.
    is_hidden: bool,
    /// True if ports did not answer for some journals, which were read from the replicas.
    has_silent: bool,
}

impl Others {
    /// Adds rows, without those that deletes hide.
    fn add(&mut self, rows: Vec<Unflushed>, deletes: &[&Delete]) {
        for mut rows in rows {
            self.is_hidden |= deletes::hide(deletes, &mut rows);
            self.rows.push(rows);
        }
    }
}

/// Rows of other journals, as one port finds them.
pub(super) struct Elsewhere<'p> {
    /// The port that looks for them.
    pub port: &'p Port,
}

impl Elsewhere<'_> {
    /// Returns the journals of other ports whose rows are here at present, with their engines and stamps.
    fn taken_over(&self) -> Vec<(JournalId, Arc<Engine>, u64)> {
        let takeovers = locked(&self.port.takeovers);
        let ready = takeovers.iter().filter_map(|takeover| {
            let (engine, stamp) = takeover.engine()?;
            Some((takeover.journal(), engine, stamp))
        });
        ready.collect()
    }

    /// Returns the rows of a query in all journals but that of this port. A journal whose owner does not answer is read
    /// from the replicas. A journal that can be read nowhere is reported as an error among the results. The rows that
    /// deletes hide are not returned.
    fn others(
        &self,
        query: &Query,
        deletes: &[Delete],
        records: &[lease::Record],
    ) -> Result<Others, Error> {
        let own = &self.port.options.name;
        let mut others = Others::default();
        let mut journals = Vec::new();
        let mut add = |port: &String, answer: PortRows, others: &mut Others| {
            // The port has accepted the rows before it applies these deletes.
            let unapplied = deletes.iter().filter(|delete| !delete.is_applied_by(port));
            journals.extend(answer.journals);
            others.add(answer.rows, &unapplied.collect::<Vec<_>>());
        };
        add(own, self.taken_over_rows(query)?, &mut others);
        let owners = records.iter().map(|record| &record.owner);
        let owners: BTreeSet<&String> = owners.filter(|owner| *owner != own).collect();
        for owner in owners {
            if let Ok(answer) = self.port.around.peers.unflushed(owner, query) {
                add(owner, answer, &mut others);
            }
        }
        for record in records {
            let id = record.id();
            if journals.contains(&id.clone().into()) {
                continue;
            }
            others.has_silent = true;
            if record.is_local {
                others.notes.extend(self.missing(record)?);
                continue;
            }
            let unapplied = deletes.iter().filter(|delete| delete.hides_journal(&id));
            match self.replicated(record, query) {
                Ok(replicated) => others.add(replicated, &unapplied.collect::<Vec<_>>()),
                Err(error) => others.notes.push(Error::Damage {
                    file: format!("journal {} of port {}", record.epoch, record.port),
                    offset: 0,
                    what: format!(
                        "the port does not answer, and its latest samples cannot be read: {error}"
                    ),
                }),
            }
        }
        Ok(others)
    }

    /// Returns an error that states which samples a port keeps to itself, unless it has handed them over by now.
    fn missing(&self, record: &lease::Record) -> Result<Option<Error>, Error> {
        let records = lease::records(&*self.port.around.rows)?;
        let is_open = records.iter().any(|other| other.id() == record.id());
        Ok(is_open.then(|| Error::Damage {
            file: format!("journal {} of port {}", record.epoch, record.port),
            offset: 0,
            what: "the port does not answer, and its latest samples are only on its own disk"
                .to_string(),
        }))
    }

    /// Returns all deletes, and the rows of a query in all journals but that of this port without the deleted ones.
    pub fn deletes_and_others(&self, query: &Query) -> Result<(Vec<Delete>, Others), Error> {
        // A delete that is not read now is later than this query.
        let (mut deletes, mut records) = self.deletes_and_records()?;
        loop {
            let others = self.others(query, &deletes, &records)?;
            if !others.is_hidden && !others.has_silent {
                return Ok((deletes, others));
            }
            let (now, then) = self.deletes_and_records()?;
            // A port that has applied a delete in the meantime may have answered with later rows.
            let is_stale = others.is_hidden && deletes::has_new_marks(&deletes, &now);
            // A port that has started in the meantime has moved its rows from a silent journal to a new one.
            let is_moved = others.has_silent && has_new_journals(&records, &then);
            if !is_stale && !is_moved {
                return Ok((deletes, others));
            }
            (deletes, records) = (now, then);
        }
    }

    /// Reads all deletes and the records of all open journals.
    fn deletes_and_records(&self) -> Result<(Vec<Delete>, Vec<lease::Record>), Error> {
        let readings = vec![deletes::reading(), lease::reading()];
        let mut found = self.port.around.rows.read_all(readings)?.into_iter();
        let deletes = deletes::decode(found.next().unwrap_or_default())?;
        Ok((deletes, lease::decode(found.next().unwrap_or_default())?))
    }

    /// Returns the rows of a query in journals that this port has taken over, and the journals that need not be read:
    /// those, the port's own, and those of its earlier starts, whose rows its engine has.
    pub fn taken_over_rows(&self, query: &Query) -> Result<PortRows, Error> {
        let mut found = PortRows {
            journals: vec![self.port.journal().into()],
            rows: Vec::new(),
        };
        let earlier = self.port.earlier.journals();
        found.journals.extend(earlier.into_iter().map(Into::into));
        for (journal, engine, stamp) in self.taken_over() {
            found.journals.push(journal.into());
            found.rows.extend(rows_of(&engine, query, stamp)?);
        }
        Ok(found)
    }

    /// Reads the rows of a query in a replicated journal, without a disk.
    fn replicated(&self, record: &lease::Record, query: &Query) -> Result<Vec<Unflushed>, Error> {
        let disk = Arc::new(SimDisk::new(0));
        let rows = &*self.port.around.rows;
        journal::restore(rows, &record.id(), Level::Quorum, &*disk).map_err(
            |error| match error {
                journal::RestoreError::Rows(error) => error.into(),
                journal::RestoreError::Disk(error) => Error::Io {
                    context: "memory for a journal".to_string(),
                    error,
                },
            },
        )?;
        if !seiner_platform::Disk::list(&*disk)
            .is_ok_and(|names| names.iter().any(|name| name == "catalog"))
        {
            // The journal is empty, or was finished in the meantime.
            return Ok(Vec::new());
        }
        let engine = Engine::read_disk(disk, self.port.options.engine.clone())?;
        rows_of(&engine, query, record.stamp)
    }
}

/// Returns whether journals have begun between two readings of the records.
fn has_new_journals(before: &[lease::Record], after: &[lease::Record]) -> bool {
    let is_known = |record: &lease::Record| before.iter().any(|known| known.id() == record.id());
    after.iter().any(|record| !is_known(record))
}

/// Returns the rows of a query in an engine.
pub(super) fn rows_of(engine: &Engine, query: &Query, stamp: u64) -> Result<Vec<Unflushed>, Error> {
    let mut found = Vec::new();
    for id in engine.sources(&query.selector)? {
        let Some(key) = engine.source_key(id)? else {
            continue;
        };
        let rows = local_rows(engine, query, id, &Arc::new(key))?;
        found.extend(rows.map(|rows| Unflushed { stamp, ..rows }));
    }
    Ok(found)
}
