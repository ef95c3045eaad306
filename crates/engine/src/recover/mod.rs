//! Recovery: opens a store after a clean close or any crash.
//!
//! 1. Read the catalog: the sources and layouts that segments refer to.
//! 2. Read trailers, sparse indexes and entries of sealed segments, and count the entries. Continue
//!    segments that were being written after their last checkpoint; the journal contains their later
//!    rows.
//! 3. Replay the journal. Skip rows of blocks that a sealed segment contains, and buffer all other
//!    rows exactly as before.
//!
//! Damaged files are set aside. Missing files that the ledger lists are reported. The rest of the
//! store is put into service. Every loss is in the ledger before any file is removed.

mod filed;
pub(crate) mod losses;
mod missing;
mod names;
mod replay;
mod segments;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::exchange::share_memory;
use crate::journal::DAMAGED;
use crate::journal::files::JournalWriter;
use crate::ledger::{self, Ledger};
use crate::opened::{OpenedStore, Parts};
use crate::options::{Durability, Options};
use crate::persisted_clock::{self, PersistedClock};
use crate::recover::filed::unfile_all;
use crate::recover::losses::unknown_loss;
use crate::recover::names::read_catalog;
use crate::recover::replay::Replay;
use crate::recover::segments::FoundSegments;
use crate::sealer;
use crate::status::Recovery;
use crate::volume::{DirectoryVolume, Volume};
use seiner_platform::{Clock, Disk};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Opens a store, and creates it if it does not exist.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    clock: &dyn Clock,
    options: Options,
) -> Result<OpenedStore, Error> {
    let began = clock.monotonic();
    let volume: Arc<dyn Volume> = Arc::new(DirectoryVolume::new(disk.clone()));
    // The hash key of names is secret and never reaches the disk.
    #[allow(clippy::disallowed_methods, reason = "the key of the names is secret")]
    let names_seed = RandomState::new().hash_one(began);
    let memory = options.durability == Durability::Memory;
    let file_bytes = options.journal_file_bytes();
    let mut recovery = Recovery::default();
    let mut parts = Parts::new(options, names_seed, disk.unit());
    let catalog = read_catalog(&*disk, &*volume, clock, &mut parts, &mut recovery)?;
    parts
        .log
        .space
        .note_catalog(catalog.disk_bytes(disk.unit()));
    let (persisted_clock, stored) = PersistedClock::open(disk.clone(), catalog.store)?;
    match stored {
        Ok(Some(time)) => parts.log.retention.recall_time(time),
        Ok(None) if parts.log.retention.needs_clock() => recovery.set_aside.push((
            persisted_clock::NAME.to_string(),
            persisted_clock::MISSING.to_string(),
        )),
        Ok(None) => {}
        Err(damage) => recovery
            .set_aside
            .push((persisted_clock::NAME.to_string(), damage.to_string())),
    }
    let mut ledger = open_ledger(disk.clone(), catalog.store, &parts, &mut recovery)?;
    let mut found = FoundSegments::new(volume.clone(), catalog.store);
    found.open_segments(&mut parts, &mut recovery)?;
    found.compare(&mut ledger, &parts, &mut recovery)?;
    let resumed = std::mem::take(&mut found.resumed);
    let mut replay = Replay::new(
        &*disk,
        &*volume,
        catalog.store,
        parts,
        recovery,
        resumed,
        &ledger,
    );
    replay.run()?;
    let Replay {
        mut parts,
        mut encoder,
        mut recovery,
        spares,
        sequence,
        rows,
        damaged,
        ..
    } = replay;
    let now = clock.now();
    recovery.losses.retain_mut(|loss| {
        loss.found_at = now;
        ledger.note_loss(loss)
    });
    recovery.rows_lost = recovery.losses.iter().filter_map(|loss| loss.rows).sum();
    parts.log.set_sequence(sequence);
    if parts.head.has_rollup() || parts.log.retention.reads_keys() {
        unfile_all(&*disk, &mut parts.head, &catalog)?;
    }
    let keys = parts.head.dictionary().clone();
    let keys = keys
        .read()
        .expect("no panic while the dictionary is locked");
    let Parts { head, log, .. } = &mut parts;
    if log.retention.rules_change() {
        // Rows hidden by the old rules include replayed rows. The rules must not hide any later
        // row.
        head.seal_all();
    }
    // A delete seals the blocks of its sources, and is forgotten when no block in the log is as old. A block that was
    // replayed must not outlive it in a buffer.
    let (deleted, before) = log.retention.deleted();
    for source in deleted {
        head.seal_before(source, before);
    }
    // Floors and deletes hide rows by the numbers of their blocks.
    head.close_blocks(log.retention.next_block());
    sealer::run_alone(&mut parts, &*volume, &mut encoder)?;
    let Parts { head, log, .. } = &mut parts;
    let next_block = head.next_block();
    log.retention.advance(clock, next_block);
    log.retention.change_rules(
        |source| keys.key(source),
        |source| head.rows_taken(source),
        next_block,
    );
    drop(keys);
    head.release_idle_memory();
    share_memory(head, log);
    // If the memory is smaller than before, it may be too small for the rows that the store kept in
    // it.
    let too_much = head.memory() as u64 > parts.options.memory;
    let losses = !recovery.losses.is_empty();
    recovery.needs_flush =
        losses || !damaged.is_empty() || memory && parts.head.pins.files() > 0 || too_much;
    recovery.took_ns = clock.monotonic() - began;
    let mut journal = JournalWriter::new(disk, catalog.store, file_bytes, (sequence, rows), spares);
    journal.damaged = damaged;
    let FoundSegments {
        files,
        merging,
        copied,
        ..
    } = found;
    Ok(OpenedStore {
        parts,
        volume,
        journal,
        catalog,
        ledger,
        persisted_clock,
        recovery,
        files,
        merging,
        copied,
    })
}

fn open_ledger(
    disk: Arc<dyn Disk>,
    store: u64,
    parts: &Parts,
    recovery: &mut Recovery,
) -> Result<Ledger, Error> {
    let (ledger, found) = Ledger::open(disk, store)?;
    let what = match found {
        ledger::LedgerState::Damaged(offset, what) => {
            let aside = format!("{}{DAMAGED}", ledger::NAME);
            recovery.set_aside.push((aside, what.clone()));
            format!("offset {offset}: {what}; files that went missing before cannot be named")
        }
        ledger::LedgerState::Missing if parts.log.retention.has_ledger() => {
            "it is missing; files that went missing before cannot be named".to_string()
        }
        ledger::LedgerState::Missing | ledger::LedgerState::Torn | ledger::LedgerState::Whole => {
            return Ok(ledger);
        }
    };
    recovery.losses.push(unknown_loss(ledger::NAME, what));
    Ok(ledger)
}
