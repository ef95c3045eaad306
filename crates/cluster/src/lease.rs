//! Leases of journals: which port may write to a journal, and which port finishes it after a failure.
//!
//! Every journal has a row with its owner and a counter, the *beat*. The owner raises the counter often. A port that
//! sees no beat for [`LEASE`] and [`MARGIN`] by its own monotonic clock takes the journal over. The owner treats a
//! write as replicated only while its last beat is younger than [`LEASE`], so no acknowledged row appears after the
//! new owner has begun to read. The clocks of different machines are never compared.

use crate::journal::JournalId;
use crate::keys::{KeyBuilder, KeyReader};
use crate::locks::locked;
use crate::rows::{Found, Level, Range, Reading, Rows, RowsError, Swap};
use seiner_platform::Clock;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Name of the table.
pub(crate) const TABLE: &str = "leases";
/// Time for which a beat is valid.
pub const LEASE: Duration = Duration::from_secs(10);
/// Additional time before a journal is taken over: the clocks of two machines may differ in speed by a third.
pub const MARGIN: Duration = Duration::from_secs(5);
/// Interval of beats.
pub const BEAT: Duration = Duration::from_secs(2);

/// Partition of all leases.
const PARTITION: &[u8] = b"journals";

/// State of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Port that wrote the journal.
    pub port: String,
    /// Number of the start of that port.
    pub epoch: u64,
    /// Port that may write to the journal, or that finishes it.
    pub owner: String,
    /// Number of beats.
    pub beat: u64,
    /// Stamp of the rows in the journal: higher than those of the bundles that the journal's port has written.
    pub stamp: u64,
    /// True if the rows are on the disk of their port only. No other port can finish the journal. Left out if false, as
    /// in records of earlier versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_local: bool,
}

/// Bytes of the row of an ended journal: its stamp.
const ENDED: usize = 8;

impl Record {
    /// Returns the name of the journal.
    pub fn id(&self) -> JournalId {
        JournalId {
            port: self.port.clone(),
            epoch: self.epoch,
        }
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a record consists of texts and numbers")
    }
}

/// Key of a journal's row.
fn key(id: &JournalId) -> Vec<u8> {
    KeyBuilder::new().text(&id.port).u64(id.epoch).done()
}

/// Returns the records of all journals.
///
/// # Errors
/// If too few replicas answer, or a row is not a record.
pub(crate) fn records(rows: &dyn Rows) -> Result<Vec<Record>, RowsError> {
    let range = Range::whole(TABLE, PARTITION);
    decode(rows.range(&range, Level::Quorum)?)
}

/// Returns the request for the records of all open journals.
pub(crate) fn reading() -> Reading {
    Reading::whole(TABLE, PARTITION)
}

/// Decodes the answer to a [`reading`].
///
/// # Errors
/// If a record cannot be read.
pub(crate) fn decode(found: Vec<Found>) -> Result<Vec<Record>, RowsError> {
    let open = found.into_iter().filter(|(_, value)| value.len() > ENDED);
    let records = open.map(|(key, value)| {
        serde_json::from_slice(&value).map_err(|error| {
            let key = String::from_utf8_lossy(&key).into_owned();
            RowsError::Rejected(format!("the lease {key:?} cannot be read: {error}"))
        })
    });
    records.collect()
}

/// Returns the highest number of a port's journals, or 0.
///
/// # Errors
/// If too few replicas answer.
pub(crate) fn last_epoch(rows: &dyn Rows, port: &str) -> Result<u64, RowsError> {
    let range = Range {
        table: TABLE,
        partition: PARTITION,
        from: &KeyBuilder::new().text(port).done(),
        to: Some(&KeyBuilder::new().text(port).u64(u64::MAX).done()),
        limit: usize::MAX,
    };
    let found = rows.range(&range, Level::Quorum)?;
    let epochs = found.iter().filter_map(|(key, _)| {
        let mut reader = KeyReader(key);
        reader.text()?;
        reader.u64()
    });
    Ok(epochs.max().unwrap_or(0))
}

/// Returns the stamp of a journal that may have ended, or `None` if the journal was never begun.
///
/// # Errors
/// If too few replicas answer.
pub(crate) fn stamp(rows: &dyn Rows, id: &JournalId) -> Result<Option<u64>, RowsError> {
    let found = rows.read(TABLE, PARTITION, &key(id), Level::Quorum)?;
    Ok(found.and_then(|value| match value.len() {
        ENDED => KeyReader(&value).u64(),
        _ => serde_json::from_slice::<Record>(&value)
            .ok()
            .map(|record| record.stamp),
    }))
}

/// Lease that this port holds.
pub(crate) struct Lease {
    rows: Arc<dyn Rows>,
    clock: Arc<dyn Clock>,
    record: Mutex<Record>,
    /// Record of a beat without an answer, which may have been written, with the time of the first attempt.
    unanswered: Mutex<Option<(Record, u64)>>,
    /// Monotonic time at which the lease ends, ns.
    until: AtomicU64,
}

/// Outcome of a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// The lease was prolonged.
    Held,
    /// Another port has taken the journal over.
    Lost,
}

impl Lease {
    /// Creates the lease of a new journal.
    ///
    /// # Errors
    /// If too few replicas answer. [`RowsError::Rejected`] if the journal exists.
    pub fn create(
        rows: Arc<dyn Rows>,
        clock: Arc<dyn Clock>,
        record: Record,
    ) -> Result<Lease, RowsError> {
        let lease = Lease {
            rows,
            clock,
            record: Mutex::new(record.clone()),
            unanswered: Mutex::default(),
            until: AtomicU64::new(0),
        };
        match lease.swap(None, &record, None)? {
            Beat::Held => Ok(lease),
            Beat::Lost => {
                let JournalId { port, epoch } = record.id();
                let text = format!("another process writes journal {epoch} of the port {port}");
                Err(RowsError::Rejected(text))
            }
        }
    }

    /// Takes over a journal whose owner has failed. `seen` is its record, which has not changed for long enough.
    /// Returns `None` if the record has changed.
    ///
    /// # Errors
    /// If too few replicas answer.
    pub fn take(
        rows: Arc<dyn Rows>,
        clock: Arc<dyn Clock>,
        seen: &Record,
        owner: &str,
    ) -> Result<Option<Lease>, RowsError> {
        let record = Record {
            owner: owner.to_string(),
            beat: seen.beat + 1,
            ..seen.clone()
        };
        let lease = Lease {
            rows,
            clock,
            record: Mutex::new(record.clone()),
            unanswered: Mutex::default(),
            until: AtomicU64::new(0),
        };
        Ok(match lease.swap(Some(seen), &record, None)? {
            Beat::Held => Some(lease),
            Beat::Lost => None,
        })
    }

    /// Returns the record.
    pub fn record(&self) -> Record {
        locked(&self.record).clone()
    }

    /// Returns whether the last beat is young enough.
    pub fn is_held(&self) -> bool {
        self.clock.monotonic() < self.until.load(Ordering::Acquire)
    }

    /// Returns whether a beat is due.
    pub fn is_due(&self) -> bool {
        let rest = (LEASE - BEAT).as_nanos() as u64;
        self.clock.monotonic() + rest >= self.until.load(Ordering::Acquire)
    }

    /// Prolongs the lease.
    ///
    /// # Errors
    /// If too few replicas answer. The lease may or may not have been prolonged.
    pub fn beat(&self, stamp: u64) -> Result<Beat, RowsError> {
        // Writing the same record again shows whether the beat without an answer was written.
        let unanswered = locked(&self.unanswered).clone();
        if let Some((unanswered, began)) = unanswered
            && self.advance(unanswered, began)? == Beat::Lost
        {
            return Ok(Beat::Lost);
        }
        let record = self.record();
        let next = Record {
            beat: record.beat + 1,
            stamp: record.stamp.max(stamp),
            ..record
        };
        self.advance(next, self.clock.monotonic())
    }

    /// Replaces the record by the next one. `began` is the time of the first attempt.
    fn advance(&self, next: Record, began: u64) -> Result<Beat, RowsError> {
        *locked(&self.unanswered) = Some((next.clone(), began));
        // Others read the record while the request is under way.
        let beat = self.swap(Some(&self.record()), &next, Some(began))?;
        *locked(&self.unanswered) = None;
        if beat == Beat::Held {
            *locked(&self.record) = next;
        }
        Ok(beat)
    }

    /// Replaces the record. A record that is already the new one counts as replaced: an earlier attempt without an
    /// answer has written it. Other ports may have seen it since the first attempt, so the lease counts from `began`.
    fn swap(
        &self,
        expected: Option<&Record>,
        next: &Record,
        began: Option<u64>,
    ) -> Result<Beat, RowsError> {
        let now = self.clock.monotonic();
        let key = key(&next.id());
        let next = next.encode();
        let expected = expected.map(Record::encode);
        let expected = expected.as_deref();
        let swap = self.rows.swap(TABLE, PARTITION, &key, expected, &next)?;
        let since = match swap {
            Swap::Done => now,
            Swap::Found(found) if found.as_ref() == Some(&next) => match began {
                Some(began) => began,
                // An earlier attempt at an unknown time: the lease begins with the next beat.
                None => return Ok(Beat::Held),
            },
            Swap::Found(_) => return Ok(Beat::Lost),
        };
        let until = since + LEASE.as_nanos() as u64;
        self.until.store(until, Ordering::Release);
        Ok(Beat::Held)
    }

    /// Ends the lease for ever. No row of the journal is needed.
    ///
    /// # Errors
    /// If too few replicas answer.
    pub fn end(&self) -> Result<(), RowsError> {
        self.until.store(0, Ordering::Release);
        let record = self.record();
        let key = key(&record.id());
        let expected = record.encode();
        // A plain removal has no order among conditional writes. A row with the stamp stays: the port may return with
        // the rows.
        let ended = record.stamp.to_be_bytes();
        self.rows
            .swap(TABLE, PARTITION, &key, Some(&expected), &ended)
            .map(drop)
    }
}

/// Observer of other ports' leases, by the monotonic clock of this machine.
#[derive(Default)]
pub(crate) struct Observer {
    /// Record of each journal, with the time at which it was first seen.
    seen: HashMap<JournalId, (Record, u64)>,
}

impl Observer {
    /// Notes the present records and returns those whose owners have failed.
    pub fn observe(&mut self, records: &[Record], now: u64) -> Vec<Record> {
        self.seen
            .retain(|id, _| records.iter().any(|record| record.id() == *id));
        let limit = (LEASE + MARGIN).as_nanos() as u64;
        let mut failed = Vec::new();
        for record in records {
            let (seen, since) = self
                .seen
                .entry(record.id())
                .or_insert_with(|| (record.clone(), now));
            if seen != record {
                (*seen, *since) = (record.clone(), now);
            } else if now.saturating_sub(*since) > limit {
                failed.push(record.clone());
            }
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryRows;
    use crate::rows::TableSpec;
    use seiner_platform::sim::SimClock;

    fn record(port: &str, epoch: u64) -> Record {
        Record {
            port: port.to_string(),
            epoch,
            owner: port.to_string(),
            beat: 0,
            stamp: 1,
            is_local: false,
        }
    }

    fn ns(duration: Duration) -> u64 {
        duration.as_nanos() as u64
    }

    fn rows() -> Arc<MemoryRows> {
        let rows = MemoryRows::new();
        let table = TableSpec::lasting(TABLE);
        rows.create(&[table]).unwrap();
        Arc::new(rows)
    }

    #[test]
    fn a_lease_ends_without_beats_and_is_lost_when_another_port_takes_it() {
        let (rows, clock) = (rows(), Arc::new(SimClock::new(0)));
        let lease = Lease::create(rows.clone(), clock.clone(), record("a", 1)).unwrap();
        assert!(lease.is_held());
        let mut observer = Observer::default();
        let seen = records(&*rows).unwrap();
        assert_eq!(observer.observe(&seen, clock.monotonic()), []);
        clock.advance(ns(LEASE));
        assert!(!lease.is_held());
        assert_eq!(observer.observe(&seen, clock.monotonic()), [], "not yet");
        clock.advance(ns(MARGIN + BEAT));
        let failed = observer.observe(&records(&*rows).unwrap(), clock.monotonic());
        assert_eq!(failed, [record("a", 1)]);
        let taken = Lease::take(rows.clone(), clock.clone(), &failed[0], "b").unwrap();
        assert_eq!(taken.unwrap().record().owner, "b");
        assert_eq!(lease.beat(9).unwrap(), Beat::Lost);
        assert!(!lease.is_held());
        let again = Lease::take(rows.clone(), clock.clone(), &failed[0], "c").unwrap();
        assert!(again.is_none(), "only one port takes a journal over");
    }

    /// Other ports see a record from its first attempt on, and count from then.
    #[test]
    fn a_beat_without_an_answer_prolongs_a_lease_from_its_first_attempt() {
        let rows = Arc::new(crate::lost_answers::LostAnswers::default());
        let table = TableSpec::lasting(TABLE);
        rows.create(&[table]).unwrap();
        let clock = Arc::new(SimClock::new(0));
        let lease = Lease::create(rows.clone(), clock.clone(), record("a", 1)).unwrap();
        rows.lose(PARTITION, 1);
        assert!(lease.beat(2).is_err());
        clock.advance(ns(LEASE));
        // The record is found as it was written; the next record gets no answer again.
        let found = lease
            .advance(
                Record {
                    beat: 1,
                    stamp: 2,
                    ..record("a", 1)
                },
                0,
            )
            .unwrap();
        assert_eq!(found, Beat::Held);
        assert!(
            !lease.is_held(),
            "the record is as old as its first attempt"
        );
        assert_eq!(lease.beat(3).unwrap(), Beat::Held);
        assert!(lease.is_held());
        assert_eq!(records(&*rows).unwrap()[0].beat, 2);
    }

    #[test]
    fn beats_prolong_a_lease_and_carry_the_stamp() {
        let (rows, clock) = (rows(), Arc::new(SimClock::new(0)));
        let lease = Lease::create(rows.clone(), clock.clone(), record("a", 1)).unwrap();
        let mut observer = Observer::default();
        for stamp in 2..30 {
            assert_eq!(lease.beat(stamp).unwrap(), Beat::Held);
            let seen = records(&*rows).unwrap();
            assert_eq!(seen[0].stamp, stamp);
            assert_eq!(observer.observe(&seen, clock.monotonic()), []);
            clock.advance(ns(BEAT));
            assert!(lease.is_held());
        }
        assert!(Lease::create(rows.clone(), clock.clone(), record("a", 1)).is_err());
        lease.end().unwrap();
        assert_eq!(records(&*rows).unwrap(), []);
    }
}
