//! Forecast of the data that a store would lose under other rules.

use crate::closing::flush;
use crate::error::Error;
use crate::maps::HashMap;
use crate::names;
use crate::opening::open_under;
use crate::options::Options;
use crate::retention::class::{Class, WhenFull};
use seiner_platform::{Clock, Disk};
use seiner_store::{ClassOutlook, Outlook};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Block that is live under the old rules.
struct Candidate {
    number: u64,
    class: u8,
    rows: u64,
    bytes: u64,
    first: i64,
    last: i64,
}

/// Counts the data that new rules would expire in a store, which is opened under its old rules.
///
/// # Errors
/// If the store cannot be read.
pub(super) fn of(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    old: Options,
    new: &Options,
) -> Result<Outlook, Error> {
    let now = clock.now();
    let engine = open_under(disk, clock, old)?;
    // All rows are then in sealed segments, and the footers contain the figures.
    flush(&engine)?;
    let mut count = Count::default();
    let segments = engine.log().sealed().clone();
    for segment in segments.values() {
        for page in segment.blocks() {
            let entries = match page {
                Ok(entries) => entries,
                // Damaged pages are omitted.
                Err(Error::Damage { .. }) => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let (class, total) = {
                    let (head, log) = engine.both();
                    if log.retention.may_drop(&entry) {
                        continue;
                    }
                    (
                        log.retention.class_of(entry.source),
                        head.rows_taken(entry.source),
                    )
                };
                let Some(key) = names::key(&engine, entry.source)? else {
                    continue;
                };
                let to = *count
                    .to
                    .entry(entry.source)
                    .or_insert_with(|| new.classes.of(&key));
                let rules = &new.classes.list()[to as usize];
                let age = rules
                    .keep
                    .age
                    .map(|age| now.saturating_sub(age.as_nanos() as i64));
                let past = rules.keep.rows.map_or(0, |ring| total.saturating_sub(ring));
                let candidate = Candidate {
                    number: entry.number,
                    class,
                    rows: u64::from(entry.rows),
                    bytes: u64::from(entry.len),
                    first: entry.first,
                    last: entry.last,
                };
                if age.is_some_and(|age| entry.last < age) || entry.ordinal <= past {
                    count.drop_block(&candidate);
                } else {
                    if age.is_some_and(|age| entry.first < age) {
                        count.partly(&candidate);
                    }
                    if rules.keep.bytes.is_some() {
                        count.quotas.entry(to).or_default().push(candidate);
                    }
                }
            }
        }
    }
    count.exceed(
        &new.classes
            .list()
            .iter()
            .map(|class| class.keep.bytes)
            .collect::<Vec<_>>(),
    );
    let used = {
        let (head, log) = engine.both();
        log.used(&head.load())
    };
    let sheds = |class: &Class| class.when_full == WhenFull::Shed;
    let budget = new.disk.filter(|_| new.classes.named().iter().any(sheds));
    let log = engine.log();
    let name = |class: u8| log.retention.classes()[class as usize].name.clone();
    Ok(Outlook {
        changes: Vec::new(),
        classes: count
            .classes
            .into_iter()
            .map(|(class, outlook)| ClassOutlook {
                class: name(class),
                ..outlook
            })
            .collect(),
        over_budget: budget
            .filter(|&budget| used > budget)
            .map(|budget| (used, budget)),
    })
}

#[derive(Default)]
struct Count {
    /// Data that would be dropped, by class under the old rules.
    classes: BTreeMap<u8, ClassOutlook>,
    /// Classes of sources under the new rules.
    to: HashMap<u32, u8>,
    /// Remaining blocks, by class with a quota under the new rules.
    quotas: BTreeMap<u8, Vec<Candidate>>,
}

impl Count {
    fn drop_block(&mut self, block: &Candidate) {
        let class = self.classes.entry(block.class).or_default();
        let first = class.rows == 0;
        class.rows += block.rows;
        class.bytes += block.bytes;
        class.first = if first {
            block.first
        } else {
            class.first.min(block.first)
        };
        class.last = if first {
            block.last
        } else {
            class.last.max(block.last)
        };
    }

    fn partly(&mut self, block: &Candidate) {
        self.classes.entry(block.class).or_default().partly += block.rows;
    }

    /// Drops the oldest blocks of classes that exceed their quotas.
    fn exceed(&mut self, quotas: &[Option<u64>]) {
        for (class, mut blocks) in std::mem::take(&mut self.quotas) {
            let quota = quotas[class as usize].unwrap_or(u64::MAX);
            let mut bytes: u64 = blocks.iter().map(|block| block.bytes).sum();
            blocks.sort_by_key(|block| block.number);
            for block in &blocks {
                if bytes <= quota {
                    break;
                }
                bytes -= block.bytes;
                self.drop_block(block);
            }
        }
    }
}
