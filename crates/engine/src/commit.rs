//! Commit: writes accepted rows to the journal, after the names that the rows need.

use crate::core::Core;
use crate::error::Error;
use crate::journal::files::JournalWriter;
use crate::options::Durability;
use crate::trouble::Path as Way;
use std::sync::atomic::Ordering;

/// Writes and syncs all accepted rows.
pub(crate) fn commit(core: &Core) -> Result<(), Error> {
    write_journal(core, true)
}

/// Returns whether all rows up to a receipt's position are on disk. True without a journal, which
/// gives no guarantee.
pub(crate) fn is_durable(core: &Core, position: u64) -> bool {
    core.durability() == Durability::Memory
        || core.durable.position.load(Ordering::Acquire) >= position
}

/// Waits until all rows up to a receipt's position are on disk. Concurrent callers share a sync.
pub(crate) fn wait_durable(core: &Core, position: u64) -> Result<(), Error> {
    if is_durable(core, position) {
        return Ok(());
    }
    commit(core)
}

pub(crate) fn write_journal(core: &Core, sync: bool) -> Result<(), Error> {
    if core.durability() == Durability::Memory {
        return core.health.unpoisoned();
    }
    let _span = tracing::trace_span!("commit").entered();
    let mut journal = core.journal();
    let result = write_record(core, &mut journal, sync);
    if let Err(error) = &result {
        core.poison(error);
    }
    core.note_trouble(Way::Journal, &result);
    result
}

fn write_record(core: &Core, journal: &mut JournalWriter, sync: bool) -> Result<(), Error> {
    let (file, position, samples) = {
        core.health.unpoisoned()?;
        let (mut head, mut log) = core.both();
        if !journal.waits() && !head.staging.is_empty() {
            std::mem::swap(&mut head.staging, &mut journal.staging);
            head.unwritten = journal.staging.bytes() as u64;
            // Under both locks: a block of later rows must not join a segment that is closed before
            // those rows.
            log.set_sequence(journal.sequence() + 1);
        }
        (head.pins.current(), head.position(), head.counters.samples)
    };
    let waited = journal.waits();
    if waited || !journal.staging.is_empty() {
        let _ = core.durable.since.compare_exchange(
            0,
            journal.staging.since,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        let bytes = journal.write(file)?;
        core.durable.bytes.fetch_add(bytes, Ordering::Relaxed);
        let full = journal.is_full(file);
        let mut head = core.head();
        head.pins.grow(file, bytes);
        head.unwritten = 0;
        head.journal_memory = journal.memory();
        head.counters.journal_written += bytes;
        // Rows staged while the record was written may have begun blocks. These blocks pin this
        // file. The rows go to this file, or to the next file, which is replayed later.
        if full {
            head.pins.rotate();
        }
    }
    if waited {
        // Rows accepted in the meantime follow.
        return write_record(core, journal, sync);
    }
    if sync {
        if journal.sync()? {
            core.durable.syncs.fetch_add(1, Ordering::Relaxed);
        }
        record_names_and_files(core, journal)?;
        core.durable.samples.store(samples, Ordering::Relaxed);
        core.durable.since.store(0, Ordering::Relaxed);
        core.durable.bytes.store(0, Ordering::Relaxed);
        core.durable.position.fetch_max(position, Ordering::AcqRel);
    }
    Ok(())
}

/// Makes everything durable that the next acknowledged rows, or later rows, may depend on. Names
/// and layouts go to the catalog, so that each record can be read without the others. The file goes
/// to the ledger, so that its loss is detected.
fn record_names_and_files(core: &Core, journal: &mut JournalWriter) -> Result<(), Error> {
    if core.head().has_new_names() {
        core.write_catalog()?;
    }
    if !journal.begun.is_empty() {
        let mut ledger = core.ledger();
        for (number, file) in journal.begun.drain(..) {
            ledger.note_journal_file(number, file);
        }
        drop(ledger);
        core.request_ledger();
    }
    core.write_ledger_if_requested()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{World, options};
    use crate::options::Options;

    /// Regression: rows on their way to the journal, up to 2 MiB, counted when they were written.
    #[test]
    fn rows_count_on_their_way_to_the_journal() {
        let world = World::new(Options {
            durability: Durability::Sync,
            ..options()
        });
        world.append("m", 0..100);
        let before = world.core.head().load();
        assert!(before.staged > 0, "{before:?}");
        world.core.head().unwritten = 100;
        assert_eq!(world.core.head().load().staged, before.staged + 100);
        commit(&world.core).unwrap();
        let after = world.core.head().load();
        assert_eq!(after.staged, 0);
        assert!(after.journal > before.journal, "{after:?}");
    }
}
