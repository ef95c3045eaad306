//! Deletes: intervals of sources whose samples are hidden.
//!
//! 1. A port stores a delete. From then on, the delete hides all earlier rows of its sources and times.
//! 2. Each port *applies* the delete: the port deletes the rows in its engine, and stores a *mark* with the number of
//!    its present journal and of its next handover. The delete hides no rows of that port in later journals and
//!    handovers, because the engine has removed the deleted rows from them.
//!
//! A delete hides all rows of a port that has not applied the delete: the port has accepted them before. A port that
//! cannot be reached applies a delete later; rows that the port accepts until then are deleted, too.

use crate::blocks::BundleId;
use crate::classes::Classes;
use crate::columns::pick;
use crate::failure::HandoverError;
use crate::journal::JournalId;
use crate::keys::{KeyBuilder, KeyReader};
use crate::peers::Unflushed;
use crate::rows::{Found, Level, Range, Reading, Row, Rows, RowsError};
use seiner_model::{Interval, Selector, SourceKey};
use seiner_platform::Clock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Name of the table.
pub(crate) const TABLE: &str = "deletes";
const PARTITION: &[u8] = b"deletes";

#[derive(Serialize, Deserialize)]
struct Stored {
    selector: String,
    first_time: i64,
    last_time: i64,
}

/// Unique name of a delete: its stamp, and the port that stored it. Later deletes of a port have higher names.
pub(crate) type DeleteId = (u64, String);

/// Place of the first rows of a port that a delete does not hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Number of the journal.
    pub journal: u64,
    /// Number of the handover.
    pub handover: u64,
}

/// Stored delete.
#[derive(Clone, Debug)]
pub(crate) struct Delete {
    /// Name.
    pub id: DeleteId,
    /// Sources.
    pub selector: Selector,
    /// Times.
    pub interval: Interval,
    /// Marks of the ports that have applied the delete.
    pub marks: BTreeMap<String, Mark>,
}

impl Delete {
    /// Returns whether a port has applied the delete.
    pub fn is_applied_by(&self, port: &str) -> bool {
        self.marks.contains_key(port)
    }

    /// Returns whether the delete hides samples of a bundle at a time.
    pub fn hides(&self, bundle: &BundleId, time: i64) -> bool {
        let mark = self.marks.get(&bundle.port);
        self.interval.contains(time) && mark.is_none_or(|mark| bundle.handover < mark.handover)
    }

    /// Returns whether the delete hides all rows in a journal at its times.
    pub fn hides_journal(&self, journal: &JournalId) -> bool {
        let mark = self.marks.get(&journal.port);
        mark.is_none_or(|mark| journal.epoch < mark.journal)
    }
}

fn key(id: &DeleteId) -> KeyBuilder {
    KeyBuilder::new().u64(id.0).text(&id.1)
}

/// Writes a delete, without marks.
///
/// # Errors
/// If too few replicas answer.
pub(crate) fn write(rows: &dyn Rows, delete: &Delete) -> Result<(), RowsError> {
    let stored = Stored {
        selector: delete.selector.to_string(),
        first_time: delete.interval.start,
        last_time: delete.interval.end,
    };
    let value = serde_json::to_vec(&stored).expect("a delete consists of texts and numbers");
    put(rows, key(&delete.id).done(), value)
}

/// Writes the mark of a port.
///
/// # Errors
/// If too few replicas answer.
pub(crate) fn mark(
    rows: &dyn Rows,
    id: &DeleteId,
    port: &str,
    mark: Mark,
) -> Result<(), RowsError> {
    let value = KeyBuilder::new().u64(mark.journal).u64(mark.handover);
    put(rows, key(id).text(port).done(), value.done())
}

fn put(rows: &dyn Rows, key: Vec<u8>, value: Vec<u8>) -> Result<(), RowsError> {
    let row = Row {
        table: TABLE.into(),
        partition: PARTITION.to_vec(),
        key,
        value,
        life: None,
    };
    rows.write(vec![row], Level::Quorum)
}

/// Reads all deletes, in the order of their names.
///
/// # Errors
/// If too few replicas answer, or a row is not a delete.
pub(crate) fn read(rows: &dyn Rows) -> Result<Vec<Delete>, RowsError> {
    let range = Range::whole(TABLE, PARTITION);
    decode(rows.range(&range, Level::Quorum)?)
}

/// Returns the request for all deletes.
pub(crate) fn reading() -> Reading {
    Reading::whole(TABLE, PARTITION)
}

/// Decodes the answer to a [`reading`].
///
/// # Errors
/// If a row is not a delete.
pub(crate) fn decode(found: Vec<Found>) -> Result<Vec<Delete>, RowsError> {
    let mut deletes: Vec<Delete> = Vec::new();
    for (key, value) in found {
        let damaged =
            |what: &str| RowsError::Rejected(format!("a row in the table {TABLE}: {what}"));
        let mut reader = KeyReader(&key);
        let (stamp, port) = (reader.u64(), reader.text());
        let id = stamp.zip(port.map(str::to_string));
        let id = id.ok_or_else(|| damaged("its key is not that of a delete"))?;
        match reader.text() {
            None => deletes.push(parse(id, &value).map_err(|error| damaged(&error))?),
            Some(port) => {
                let mut numbers = KeyReader(&value);
                let mark = numbers.u64().zip(numbers.u64());
                let (journal, handover) = mark.ok_or_else(|| damaged("a mark has no numbers"))?;
                // Marks follow their delete.
                let delete = deletes.last_mut().filter(|delete| delete.id == id);
                if let Some(delete) = delete {
                    delete
                        .marks
                        .insert(port.to_string(), Mark { journal, handover });
                }
            }
        }
    }
    Ok(deletes)
}

fn parse(id: DeleteId, value: &[u8]) -> Result<Delete, String> {
    let stored: Stored = serde_json::from_slice(value).map_err(|error| error.to_string())?;
    Ok(Delete {
        id,
        selector: Selector::parse(&stored.selector).map_err(|error| error.to_string())?,
        interval: Interval::new(stored.first_time, stored.last_time),
        marks: BTreeMap::new(),
    })
}

/// Time for which a delete stays after all samples of its times have expired. The clocks of ports may differ by less.
const EXPIRED: Duration = Duration::from_secs(7 * 86_400);

/// Interval at which expired deletes are removed.
const CLEANUP: Duration = Duration::from_secs(3600);

/// Regular removal of expired deletes.
pub(crate) struct Cleanup {
    /// Monotonic time of the last removal, ns.
    last: AtomicU64,
}

impl Cleanup {
    /// Creates a cleanup that is due after its interval.
    pub fn new(clock: &dyn Clock) -> Cleanup {
        Cleanup {
            last: AtomicU64::new(clock.monotonic()),
        }
    }

    /// Removes the deletes that hide nothing any more, if that is due.
    ///
    /// # Errors
    /// If too few replicas answer.
    pub fn run(
        &self,
        rows: &dyn Rows,
        clock: &dyn Clock,
        classes: &Classes,
    ) -> Result<(), HandoverError> {
        let (now, last) = (clock.monotonic(), self.last.load(Ordering::Relaxed));
        if now.saturating_sub(last) >= CLEANUP.as_nanos() as u64 {
            remove_expired(rows, classes.kept_from(clock.now()))?;
            self.last.store(now, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Removes the deletes whose times are before `kept_from` and a week. A replica that misses the removal may return a
/// delete, which then hides nothing either.
///
/// # Errors
/// If too few replicas answer. Some deletes may be removed.
pub(crate) fn remove_expired(rows: &dyn Rows, kept_from: i64) -> Result<(), RowsError> {
    let end = kept_from.saturating_sub(EXPIRED.as_nanos() as i64);
    for delete in read(rows)? {
        if delete.interval.end >= end {
            continue;
        }
        // Without its delete, a mark has no effect.
        let keys = delete.marks.keys().map(|port| key(&delete.id).text(port));
        for key in std::iter::once(key(&delete.id)).chain(keys) {
            rows.remove(TABLE, PARTITION, Some(&key.done()), Level::Quorum)?;
        }
    }
    Ok(())
}

/// Returns whether ports have applied deletes between two reads of all deletes.
pub(crate) fn has_new_marks(before: &[Delete], now: &[Delete]) -> bool {
    before.iter().any(|delete| {
        let later = now.iter().find(|later| later.id == delete.id);
        later.is_some_and(|later| later.marks != delete.marks)
    })
}

/// Removes the rows that deletes hide from the answer of a port, and returns whether there were any.
pub(crate) fn hide(deletes: &[&Delete], rows: &mut Unflushed) -> bool {
    let hiding = deletes
        .iter()
        .filter(|delete| delete.selector.holds(&rows.key));
    let hiding: Vec<&&Delete> = hiding.collect();
    let times = &rows.rows.times;
    let is_kept = |row: &usize| {
        !hiding
            .iter()
            .any(|delete| delete.interval.contains(times[*row]))
    };
    let kept: Vec<usize> = (0..times.len()).filter(is_kept).collect();
    let hides = kept.len() < times.len();
    if hides {
        rows.rows = pick(&rows.rows, &kept);
    }
    hides
}

/// Returns the deletes of a source.
pub(crate) fn of<'d>(deletes: &'d [Delete], key: &SourceKey) -> Vec<&'d Delete> {
    let of = deletes.iter().filter(|delete| delete.selector.holds(key));
    of.collect()
}
