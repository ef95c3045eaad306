//! Dropping: takes segments out of service. Their space is freed when their last readers are done.

use super::memory::MergedSegment;
use crate::core::Core;
use crate::error::Error;
use crate::jobs::segments::write_checkpoints;
use crate::jobs::writing::Writing;
use crate::log::Log;
use crate::maps::HashSet;
use crate::segment::sealed::Segment;
use crate::volume::SlotState;
use std::sync::Arc;

/// Takes segments out of service. Their space is freed when their last readers are done.
pub(super) fn retire(
    core: &Core,
    writing: &mut Writing,
    gone: Vec<(Arc<Segment>, SlotState)>,
) -> Result<(), Error> {
    if gone.is_empty() {
        return Ok(());
    }
    let _span = tracing::trace_span!("drop").entered();
    announce(core, &gone)?;
    remove(core, writing, gone)
}

/// Records on the disk that segments will be removed.
fn announce(core: &Core, gone: &[(Arc<Segment>, SlotState)]) -> Result<(), Error> {
    // The catalog must contain the positions from which rings expire before the blocks with these
    // positions are removed.
    core.write_catalog()?;
    // The ledger must not report the removed segments as missing.
    {
        let mut ledger = core.ledger();
        for (segment, _) in gone {
            ledger.note_gone(segment.trailer.number);
        }
    }
    core.write_ledger()
}

/// Removes announced segments.
fn remove(
    core: &Core,
    writing: &mut Writing,
    gone: Vec<(Arc<Segment>, SlotState)>,
) -> Result<(), Error> {
    for (segment, _) in &gone {
        writing.forget(segment.trailer.number);
    }
    {
        let (head, mut log) = core.both();
        for (segment, _) in &gone {
            log.remove_sealed(segment);
        }
        let taken = head.sealing().iter().map(|taken| taken.number);
        log.forget_deletes(taken.min());
    }
    writing.merge.obsolete.extend(gone);
    delete_obsolete(core, writing)
}

/// Deletes obsolete segments without readers, and frees their space.
pub(super) fn delete_obsolete(core: &Core, writing: &mut Writing) -> Result<(), Error> {
    let unread = |(segment, _): &(Arc<Segment>, SlotState)| Arc::strong_count(segment) == 1;
    let free: Vec<_> = writing
        .merge
        .obsolete
        .extract_if(.., |one| unread(one))
        .collect();
    if free.is_empty() {
        return Ok(());
    }
    let mut gone = free.into_iter();
    let mut discarded = Vec::new();
    let result = gone.by_ref().try_for_each(|(segment, slot)| {
        let result = discard_segment(core, &segment, slot);
        match &result {
            Ok(()) => discarded.push((segment, slot)),
            // The removal is retried.
            Err(_) => writing.merge.obsolete.push((segment, slot)),
        }
        result
    });
    writing.merge.obsolete.extend(gone);
    let mut log = core.log();
    for (segment, slot) in &discarded {
        let bytes = segment.disk_bytes(core.unit);
        match slot {
            SlotState::Damaged => log.space.set_aside(bytes),
            _ => log.space.delete(bytes),
        }
        log.counters.segments_dropped += 1;
    }
    result
}

/// Frees the slot of a segment, or sets the segment aside.
fn discard_segment(core: &Core, segment: &Segment, slot: SlotState) -> Result<(), Error> {
    let number = segment.trailer.number;
    core.files.forget(number);
    match slot {
        SlotState::Damaged => core.volume.turn(number, SlotState::Merging, slot),
        slot => core.volume.discard(number, slot),
    }
}

/// Drops victims whose live blocks are on disk elsewhere. Requests checkpoints if the space of the
/// victims is needed.
pub(super) fn drop_merged(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    if writing.merge.merged.is_empty() {
        return Ok(false);
    }
    let (mut waiting, bytes, free) = {
        let (head, log) = core.both();
        let waiting = unwritten_copies(&log, &writing.merge.merged);
        (waiting, log.space.merged(), log.free_space(&head.load()))
    };
    // Each sync of a waiting segment should free about one segment, unless space is urgent.
    let wanted = bytes >= free / 2 || bytes >= 8 * core.segment_bytes;
    if wanted && !waiting.is_empty() {
        write_checkpoints(core, writing, |number| waiting.contains(&number))?;
        waiting = unwritten_copies(&core.log(), &writing.merge.merged);
    }
    let (free, rest): (Vec<MergedSegment>, Vec<MergedSegment>) = writing
        .merge
        .merged
        .drain(..)
        .partition(|merged| merged.into.is_disjoint(&waiting));
    writing.merge.merged = rest;
    if free.is_empty() {
        return Ok(false);
    }
    let _span = tracing::trace_span!("drop").entered();
    let gone = free.iter().map(|merged| {
        let slot = match merged.damaged {
            true => SlotState::Damaged,
            false => SlotState::Merging,
        };
        (merged.segment.clone(), slot)
    });
    let gone: Vec<_> = gone.collect();
    if let Err(error) = announce(core, &gone) {
        // They are dropped later. Without their place in the list, they would be merged again.
        writing.merge.merged.extend(free);
        return Err(error);
    }
    // Only segments without other owners are deleted.
    drop(free);
    note_merged(core, writing);
    remove(core, writing, gone)?;
    Ok(true)
}

/// Counts the bytes of the victims that wait to be dropped.
pub(super) fn note_merged(core: &Core, writing: &Writing) {
    let merged = writing.merge.merged.iter();
    let bytes = merged.map(|merged| merged.segment.disk_bytes(core.unit));
    core.log().space.note_merged(bytes.sum());
}

/// Returns the segments that contain copies which are not yet on disk.
fn unwritten_copies(log: &Log, merged: &[MergedSegment]) -> HashSet<u64> {
    let pending = log.open().iter().filter(|open| {
        // A checkpoint may exist in memory that could not be written yet.
        let unwritten = open.marked < open.checkpoint_end();
        open.closed_at.is_some() || open.has_pending() || unwritten
    });
    let pending: HashSet<u64> = pending.map(|open| open.number).collect();
    let into = merged.iter().flat_map(|merged| &merged.into);
    into.copied()
        .filter(|number| pending.contains(number))
        .collect()
}
