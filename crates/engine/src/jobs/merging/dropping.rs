//! Dropping: takes segments out of service. Their space is freed when their last readers are done.

use super::memory::Eaten;
use crate::core::Core;
use crate::error::Error;
use crate::jobs::flush::write_checkpoints;
use crate::jobs::writing::Writing;
use crate::log::Log;
use crate::segment::sealed::Segment;
use crate::volume::SlotState;
use std::collections::HashSet;
use std::sync::Arc;

/// Takes segments out of service. Their space is freed when their last readers are done.
pub(super) fn bury(
    core: &Core,
    writing: &mut Writing,
    gone: Vec<(Arc<Segment>, SlotState)>,
) -> Result<(), Error> {
    if gone.is_empty() {
        return Ok(());
    }
    let _span = tracing::trace_span!("drop").entered();
    // The catalog must contain the positions from which rings expire before the blocks with these
    // positions are removed.
    core.write_catalog()?;
    // The ledger must not report the removed segments as missing.
    {
        let mut ledger = core.ledger();
        for (segment, _) in &gone {
            ledger.note_gone(segment.trailer.number);
        }
    }
    core.write_ledger()?;
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
    writing.merge.graveyard.extend(gone);
    empty_graveyard(core, writing)
}

pub(super) fn empty_graveyard(core: &Core, writing: &mut Writing) -> Result<(), Error> {
    let unread = |(segment, _): &(Arc<Segment>, SlotState)| Arc::strong_count(segment) == 1;
    let free: Vec<_> = writing
        .merge
        .graveyard
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
            Err(_) => writing.merge.graveyard.push((segment, slot)),
        }
        result
    });
    writing.merge.graveyard.extend(gone);
    let mut log = core.log();
    for (segment, slot) in &discarded {
        let bytes = segment.room(core.unit);
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
pub(super) fn drop_eaten(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    if writing.merge.eaten.is_empty() {
        return Ok(false);
    }
    let bytes: u64 = writing
        .merge
        .eaten
        .iter()
        .map(|eaten| eaten.segment.room(core.unit))
        .sum();
    let (mut waiting, room) = {
        let (head, log) = core.both();
        let room = log.room(&head.load());
        (unwritten_copies(&log, &writing.merge.eaten), room)
    };
    // Each sync of a waiting segment should free about one segment, unless space is urgent.
    let wanted = bytes >= room / 2 || bytes >= 8 * core.segment_bytes;
    if wanted && !waiting.is_empty() {
        write_checkpoints(core, writing, |number| waiting.contains(&number))?;
        waiting = unwritten_copies(&core.log(), &writing.merge.eaten);
    }
    let (free, rest): (Vec<Eaten>, Vec<Eaten>) = writing
        .merge
        .eaten
        .drain(..)
        .partition(|eaten| eaten.into.is_disjoint(&waiting));
    writing.merge.eaten = rest;
    let done = !free.is_empty();
    let free = free.into_iter().map(|eaten| {
        let slot = match eaten.damaged {
            true => SlotState::Damaged,
            false => SlotState::Merging,
        };
        (eaten.segment, slot)
    });
    let free = free.collect();
    bury(core, writing, free)?;
    Ok(done)
}

/// Returns the segments that contain copies which are not yet on disk.
fn unwritten_copies(log: &Log, eaten: &[Eaten]) -> HashSet<u64> {
    let news = log.open().iter().filter(|open| {
        // A checkpoint may exist in memory that could not be written yet.
        let unwritten = open.marked < open.checkpoint_end();
        open.closed_at.is_some() || open.has_news() || unwritten
    });
    let news: HashSet<u64> = news.map(|open| open.number).collect();
    let into = eaten.iter().flat_map(|eaten| &eaten.into);
    into.copied()
        .filter(|number| news.contains(number))
        .collect()
}
