//! Segments: writes the pieces of open segments, writes their checkpoints and seals closed segments.

pub(super) mod memory;

use self::memory::PendingCheckpoint;
use crate::commit::write_journal;
use crate::core::{Core, ENTRIES_A_LOCK};
use crate::error::{Error, io_error, sync_error};
use crate::head::Head;
use crate::jobs::writing::Writing;
use crate::locks::LogGuard;
use crate::log::Log;
use crate::options::Durability;
use crate::recover::losses::note_of;
use crate::retention::expected::Clocks;
use crate::segment::Entry;
use crate::segment::footer::{self, PageEntry, Trailer};
use crate::segment::list::Listing;
use crate::segment::open::{CheckpointPosition, Horizon, OpenSegment, WritePiece};
use crate::segment::sealed::Segment;
use crate::segment::stats::LivenessScan;
use crate::volume::SlotState;
use seiner_platform::File;
use std::sync::Arc;

/// Number of steps in which the space of a slot is reserved.
const RESERVATIONS: u64 = 8;
/// Approximate bytes written before other threads get a turn.
const WRITTEN_AT_ONCE: usize = 8 << 20;

/// Segment that accepts no more blocks and is written completely.
struct ClosedSegment {
    number: u64,
    lane: u32,
    closed_at: Option<u64>,
    horizon: Horizon,
    entries: Vec<Entry>,
    file: Arc<dyn File>,
    /// Bytes of blocks, and the last of them, which are not yet written.
    len: u64,
    tail: Vec<u8>,
    /// Bytes of the checkpoints, which are already durable.
    marked: u64,
}

impl ClosedSegment {
    /// Returns an open segment without its list of blocks.
    fn of(open: &OpenSegment, horizon: Horizon) -> ClosedSegment {
        ClosedSegment {
            number: open.number,
            lane: open.lane,
            closed_at: open.closed_at,
            horizon,
            entries: Vec::new(),
            file: open.file.clone(),
            len: open.len(),
            tail: open.tail().to_vec(),
            marked: open.marked,
        }
    }
}

/// Closed segment with its footer.
struct FinishedSegment {
    closed: ClosedSegment,
    trailer: Trailer,
    sparse_index: Vec<PageEntry>,
    name: String,
    /// Bytes written with the footer, and bytes of the whole segment.
    index: u64,
    total: u64,
    /// Bytes that the file system allocated to the file.
    allocated: u64,
}

/// Pieces that wait to be written to a segment.
pub(crate) struct Waiting {
    number: u64,
    file: Arc<dyn File>,
    pieces: Vec<WritePiece>,
    /// Number of pieces that are written.
    written: usize,
    /// Reserved bytes of the slot, and the bytes that must be reserved for the pieces.
    reserved: u64,
    needed: u64,
}

/// Returns pieces that wait to be written, as many as are written at once. Closed segments come
/// first. The space that will be reserved for them counts from now on.
pub(crate) fn waiting_pieces(log: &mut Log, which: impl Fn(u64) -> bool) -> Vec<Waiting> {
    let segment_bytes = log.segment_bytes();
    let waits = |open: &&mut OpenSegment| !open.pieces.is_empty() && which(open.number);
    let mut open: Vec<&mut OpenSegment> = log.iter_open_mut().filter(waits).collect();
    open.sort_by_key(|open| open.closed_at.is_none());
    let mut bytes = 0;
    let mut waiting = Vec::new();
    for open in open {
        if bytes >= WRITTEN_AT_ONCE {
            break;
        }
        bytes += open.waiting();
        let (reserved, needed) = (open.reserved, needed_space(open, segment_bytes));
        open.reserved = needed;
        waiting.push(Waiting {
            number: open.number,
            file: open.file.clone(),
            pieces: open.pieces.iter().cloned().collect(),
            written: 0,
            reserved,
            needed,
        });
    }
    waiting
}

/// Returns the bytes to reserve for a segment before its pieces are written. Space is reserved in
/// steps, so that a file has few fragments.
fn needed_space(open: &OpenSegment, segment_bytes: u64) -> u64 {
    let last = open.pieces.back();
    let end = last.map_or(0, |piece| piece.offset + piece.bytes.len() as u64);
    match end > open.reserved {
        true => end.max((open.reserved + segment_bytes / RESERVATIONS).min(segment_bytes)),
        false => open.reserved,
    }
}

/// Writes pieces, as many as are written at once, of closed segments first. Returns whether there
/// were any.
pub(crate) fn write_pieces(core: &Core, which: impl Fn(u64) -> bool) -> Result<bool, Error> {
    let waiting = waiting_pieces(&mut core.log(), which);
    match waiting.is_empty() {
        true => Ok(false),
        false => write_waiting(core, waiting).map(|()| true),
    }
}

pub(crate) fn write_waiting(core: &Core, mut waiting: Vec<Waiting>) -> Result<(), Error> {
    // The first failure ends the loop: the pieces before it are written.
    let result = waiting.iter_mut().try_for_each(|one| write_some(core, one));
    let mut log = core.log();
    for one in &waiting {
        let written = one.pieces[..one.written].iter();
        let bytes: usize = written.map(|piece| piece.bytes.len()).sum();
        log.counters.segment_written += bytes as u64;
        let open = log.open_mut(one.number);
        open.note_written(one.written);
        open.reserved = one.reserved;
    }
    result
}

/// Writes all pieces, so that a long job does not accumulate them in memory.
pub(crate) fn write_all_pieces(core: &Core) -> Result<(), Error> {
    while write_pieces(core, |_| true)? {}
    Ok(())
}

fn write_some(core: &Core, waiting: &mut Waiting) -> Result<(), Error> {
    let context = || format!("writing {}", core.volume.name(waiting.number));
    if waiting.needed > waiting.reserved {
        let reserved = waiting.file.reserve(waiting.needed);
        reserved.map_err(io_error(context))?;
        waiting.reserved = waiting.needed;
    }
    for piece in &waiting.pieces {
        let written = waiting.file.write_at(piece.offset, &piece.bytes);
        written.map_err(io_error(context))?;
        waiting.written += 1;
    }
    Ok(())
}

/// Seals all closed segments in this order: catalog, footers, syncs, names. Then releases their
/// journal files.
pub(crate) fn seal_segments(core: &Core, writing: &mut Writing) -> Result<(), Error> {
    let _span = tracing::trace_span!("seal").entered();
    // Checkpoints that could not be written for lack of space may belong to these segments.
    if !writing.segments.checkpoints.is_empty() {
        write_checkpoints(core, writing, |_| false)?;
    }
    let closed = closed_segments(core, core.store);
    // Blocks may contain rows that the journal has not yet on disk. The journal must not contain
    // less than the segments: a crash would then keep later rows and lose earlier rows.
    write_journal(core, true)?;
    core.write_catalog()?;
    let mut ended = Vec::with_capacity(closed.len());
    for closed in closed {
        ended.push(end_segment(core, closed)?);
    }
    for end in &mut ended {
        let context = || format!("sealing {}", end.name);
        end.closed.file.sync().map_err(sync_error(context))?;
        // Only a file that is on disk has its final size there.
        end.allocated = end.closed.file.allocated().map_err(io_error(context))?;
    }
    let mut result = Ok(());
    let mut named = Vec::with_capacity(ended.len());
    for end in ended {
        let marked = SlotState::Open(end.closed.marked);
        result = core
            .volume
            .turn(end.closed.number, marked, SlotState::Sealed);
        if result.is_err() {
            break;
        }
        named.push(end);
    }
    // Names are synced, so that no later segment receives one of these names.
    core.volume.sync()?;
    serve(core, named);
    result?;
    // Rows that no journal file can restore are lost at once when their segment is lost.
    if core.durability() == Durability::Memory {
        core.write_ledger()?;
    }
    {
        let (head, mut log) = core.both();
        log.retention.look_again();
        log.adapt_lanes(&head.load());
    }
    release_journal(core, true)
}

/// Returns the closed segments whose blocks are all written, as many as are sealed at once.
fn closed_segments(core: &Core, store: u64) -> Vec<ClosedSegment> {
    let closed: Vec<(ClosedSegment, Listing)> = {
        let (head, log) = core.both();
        let horizon = horizon(&head, &log, store);
        let closed = log
            .open()
            .iter()
            .filter(|open| open.closed_at.is_some() && open.pieces.is_empty());
        let mut lists = 0;
        let at_once = closed.take_while(|open| {
            let first = lists == 0;
            lists += open.list_bytes();
            first || log.is_sealed_at_once(lists)
        });
        at_once
            .map(|open| (ClosedSegment::of(open, horizon), open.listing()))
            .collect()
    };
    let with_entries = closed.into_iter().map(|(closed, listing)| ClosedSegment {
        entries: listing.entries(),
        ..closed
    });
    with_entries.collect()
}

/// Writes the last bytes of a segment with the footer.
fn end_segment(core: &Core, mut closed: ClosedSegment) -> Result<FinishedSegment, Error> {
    let mut bytes = std::mem::take(&mut closed.tail);
    let len = closed.len;
    let written = len - bytes.len() as u64;
    let horizon = &closed.horizon;
    let trailer = horizon.trailer(
        closed.number,
        closed.lane,
        closed.closed_at,
        &closed.entries,
    );
    let (sparse_index, trailer) = footer::encode(&mut closed.entries, len, trailer, &mut bytes);
    let name = core.volume.name(closed.number);
    let context = || format!("sealing {name}");
    closed
        .file
        .write_at(written, &bytes)
        .map_err(io_error(context))?;
    let total = written + bytes.len() as u64;
    // Frees the reserved bytes that are not needed.
    closed.file.set_len(total).map_err(io_error(context))?;
    Ok(FinishedSegment {
        closed,
        trailer,
        sparse_index,
        name,
        index: bytes.len() as u64,
        total,
        allocated: total,
    })
}

/// Puts segments into service.
fn serve(core: &Core, ended: Vec<FinishedSegment>) {
    let (scans, clocks) = scan_new(core, &ended);
    let mut sealed = Vec::with_capacity(ended.len());
    let mut durable = Vec::with_capacity(ended.len());
    for (end, scan) in ended.into_iter().zip(scans) {
        let (closed, born) = (end.closed, end.trailer.born);
        core.files.hold(closed.number, closed.file);
        let files = core.files.clone();
        let (bytes, allocated) = (end.total, end.allocated);
        let index = end.sparse_index;
        let segment = Segment::new(end.trailer, index, files, end.name, bytes, allocated);
        let stats = scan.stats(closed.lane, segment.disk_bytes(core.unit), born, &clocks);
        core.ledger().note_segment(closed.number, segment.note());
        sealed.push((Arc::new(segment), stats));
        durable.push((closed.number, closed.entries, end.index));
    }
    // Freed after the lock is released.
    let mut taken = Vec::with_capacity(durable.len());
    let mut log = core.log();
    log.add_sealed(sealed);
    for (number, _, index) in &durable {
        log.counters.segment_written += index;
        taken.push(log.take_open(*number));
    }
    drop(log);
    core.request_trim();
    for open in &taken {
        unpin(core, &open.pins);
    }
    for (_, entries, _) in &durable {
        note_durable(core, entries);
    }
}

/// Releases journal files from blocks that are on disk. `pins` contains the number of blocks for
/// each journal file.
fn unpin(core: &Core, pins: &[(u32, u64)]) {
    let mut head = core.head();
    for &(file, blocks) in pins {
        head.pins.unpin(file, blocks);
    }
}

/// Releases journal files with numbers below `file` from the blocks of open segments, which have
/// all expired: a start after a crash may lose them.
pub(crate) fn unpin_before(core: &Core, file: u32) {
    let mut log = core.log();
    let pins = log
        .iter_open_mut()
        .flat_map(|open| open.take_pins_before(file));
    let pins: Vec<(u32, u64)> = pins.collect();
    drop(log);
    unpin(core, &pins);
}

/// Records that blocks are on disk, so that rings may expire by them. Releases the lock from time
/// to time.
fn note_durable(core: &Core, entries: &[Entry]) {
    for some in entries.chunks(ENTRIES_A_LOCK) {
        core.log().note_durable(some);
    }
}

/// Scans the liveness of segments that were just sealed.
fn scan_new(core: &Core, ended: &[FinishedSegment]) -> (Vec<LivenessScan>, Clocks) {
    let mut log = core.log();
    let mut scans = Vec::with_capacity(ended.len());
    for FinishedSegment { closed, .. } in ended {
        let scan;
        (log, scan) = scan_segment(core, log, closed.number, &closed.entries, |_| false);
        scans.push(scan);
    }
    (scans, log.retention.clocks())
}

/// Makes all blocks durable. A segment that accepts no more blocks is sealed, because it gets no checkpoint.
pub(crate) fn make_durable(core: &Core, writing: &mut Writing) -> Result<(), Error> {
    core.finish_sealing()?;
    let closed = |which: &dyn Fn(u64) -> bool| -> Vec<u64> {
        let log = core.log();
        let closed = log.open().iter().filter(|open| open.closed_at.is_some());
        let numbers = closed.map(|open| open.number);
        numbers.filter(|number| which(*number)).collect()
    };
    let mut left = closed(&|_| true);
    while !left.is_empty() {
        while write_pieces(core, |number| left.contains(&number))? {}
        seal_segments(core, writing)?;
        left = closed(&|number| left.contains(&number));
    }
    write_checkpoints(core, writing, |_| true)
}

/// Writes checkpoints of segments that are being written. Their blocks become durable, and the
/// journal files that they pinned are released.
pub(crate) fn write_checkpoints(
    core: &Core,
    writing: &mut Writing,
    which: impl Fn(u64) -> bool,
) -> Result<(), Error> {
    core.finish_sealing()?;
    // Checkpoints that could not be written earlier for lack of space come first.
    let ended = make_checkpoints(core, which);
    writing.segments.checkpoints.extend(ended);
    if writing.segments.checkpoints.is_empty() {
        return Ok(());
    }
    let _span = tracing::trace_span!("checkpoint").entered();
    // The journal is synced first, as before a seal.
    write_journal(core, true)?;
    core.write_catalog()?;
    let ended = |number| {
        writing
            .segments
            .checkpoints
            .iter()
            .any(|one| one.number == number)
    };
    while write_pieces(core, ended)? {}
    let mut marked = Vec::with_capacity(writing.segments.checkpoints.len());
    let result: Result<(), Error> = writing.segments.checkpoints.iter_mut().try_for_each(|one| {
        marked.push(mark_checkpoint(core, one)?);
        Ok(())
    });
    note_marked(core, &marked);
    result?;
    core.volume.sync()?;
    {
        let mut ledger = core.ledger();
        for checkpoint in writing.segments.checkpoints.drain(..) {
            ledger.add_blocks(checkpoint.number, note_of(&checkpoint.entries));
            unpin(core, &checkpoint.pins);
            note_durable(core, &checkpoint.entries);
        }
    }
    release_journal(core, true)
}

/// Renames a segment so that its name includes the end of a checkpoint.
fn mark_checkpoint(core: &Core, checkpoint: &mut PendingCheckpoint) -> Result<(u64, u64), Error> {
    let context = || format!("syncing {}", core.volume.name(checkpoint.number));
    checkpoint.file.sync().map_err(sync_error(context))?;
    let (from, to) = (
        SlotState::Open(checkpoint.marked),
        SlotState::Open(checkpoint.end),
    );
    core.volume.turn(checkpoint.number, from, to)?;
    checkpoint.marked = checkpoint.end;
    Ok((checkpoint.number, checkpoint.end))
}

/// Records the present names of segments, whether durable or not.
fn note_marked(core: &Core, marked: &[(u64, u64)]) {
    let mut log = core.log();
    for &(number, end) in marked {
        log.open_mut(number).marked = end;
    }
}

/// Makes checkpoints in memory. The indexes are encoded without the lock. Meanwhile neither the sealer
/// nor a merge adds blocks.
fn make_checkpoints(core: &Core, which: impl Fn(u64) -> bool) -> Vec<PendingCheckpoint> {
    let _sealer = core.sealer().pause();
    let (horizon, begun) = {
        let (mut head, mut log) = core.both();
        // These checkpoints fulfil the request of the head.
        head.take_checkpoint_wanted();
        log.set_checkpoint_due(false);
        let horizon = horizon(&head, &log, core.store);
        let due = |open: &&mut OpenSegment| {
            open.closed_at.is_none() && open.has_pending() && which(open.number)
        };
        let due = log.iter_open_mut().filter(due);
        let begun = due.map(|open| {
            let pending = open.begin_checkpoint();
            (open.position(), pending)
        });
        let begun: Vec<(CheckpointPosition, Listing)> = begun.collect();
        (horizon, begun)
    };
    let begun = begun.into_iter();
    let mut begun: Vec<(CheckpointPosition, Vec<Entry>)> = begun
        .map(|(position, pending)| (position, pending.entries()))
        .collect();
    let indexes = begun
        .iter_mut()
        .map(|(position, entries)| OpenSegment::index(*position, entries, &horizon));
    let indexes: Vec<Vec<u8>> = indexes.collect();
    let mut log = core.log();
    let ended = begun.into_iter().zip(indexes);
    ended
        .map(|((position, entries), index)| {
            let open = log.open_mut(position.number);
            let pins = open.end_checkpoint(index);
            PendingCheckpoint {
                number: position.number,
                file: open.file.clone(),
                marked: open.marked,
                end: open.checkpoint_end(),
                pins,
                entries,
            }
        })
        .collect()
}

/// Counts the live blocks of a segment. Releases the lock from time to time. `elsewhere` returns
/// whether other blocks contain all rows of a block.
pub(crate) fn scan_segment<'a>(
    core: &'a Core,
    mut log: LogGuard<'a>,
    number: u64,
    entries: &[Entry],
    elsewhere: impl Fn(&Entry) -> bool,
) -> (LogGuard<'a>, LivenessScan) {
    let mut scan = LivenessScan::new(number);
    for (index, some) in entries.chunks(ENTRIES_A_LOCK).enumerate() {
        if index > 0 {
            drop(log);
            log = core.log();
        }
        for entry in some {
            scan.add(entry, &log.retention, elsewhere(entry));
        }
    }
    (log, scan)
}

/// Releases journal files that no block pins. The catalog already contains all their registrations.
/// The ledger lists the segments, and records that the files are not needed before they are
/// removed.
pub(crate) fn release_journal(core: &Core, keep: bool) -> Result<(), Error> {
    let mut journal = core.journal();
    let Some(last) = core.head().pins.last_free() else {
        return Ok(());
    };
    journal.keep_damaged(last)?;
    core.ledger().note_released(last + 1);
    core.write_ledger()?;
    loop {
        let Some(number) = core.head().pins.take_free(last) else {
            return Ok(());
        };
        journal.release(number, keep)?;
    }
}

/// Returns the state of the store for an index that is written now.
fn horizon(head: &Head, log: &Log, store: u64) -> Horizon {
    log.horizon(store, head.sources(), head.layouts().len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{World, options};

    #[test]
    fn waiting_pieces_are_written_and_freed() {
        let world = World::new(options());
        world.append("m", 0..20_000);
        world.core.finish_sealing().unwrap();
        let waiting = waiting_pieces(&mut world.core.log(), |_| true);
        assert!(!waiting.is_empty());
        while write_pieces(&world.core, |_| true).unwrap() {}
        assert!(waiting_pieces(&mut world.core.log(), |_| true).is_empty());
        assert!(world.core.log().counters.segment_written > 100_000);
        assert_eq!(world.rows(), 20_000);
    }

    #[test]
    fn the_index_of_a_checkpoint_may_end_where_the_footer_begins() {
        let world = World::new(options());
        for round in 0..20 {
            // The checkpoints end at different distances from a multiple of 4096.
            world.append("m", round * 1000..round * 1000 + 40 * round + 40);
            world.core.finish_sealing().unwrap();
            write_checkpoints(&world.core, &mut world.writing(), |_| true).unwrap();
            world.core.log().close_active();
            while write_pieces(&world.core, |_| true).unwrap() {}
            seal_segments(&world.core, &mut world.writing()).unwrap();
        }
        let indexes = world.sealed().0;
        assert!(indexes >= 15, "{indexes}");
        let report = crate::check::check(&*world.disk, &mut |_, _| {}).unwrap();
        assert!(report.is_sound(), "{:?}", report.damage);
    }

    #[test]
    fn a_closed_segment_is_sealed_and_an_open_one_is_not() {
        let world = World::new(options());
        world.append("m", 0..12_000);
        world.core.finish_sealing().unwrap();
        while write_pieces(&world.core, |_| true).unwrap() {}
        let open = world.core.log().open().len();
        seal_segments(&world.core, &mut world.writing()).unwrap();
        assert_eq!(world.core.log().open().len(), 1);
        assert_eq!(world.sealed().0, open - 1);
        assert_eq!(world.rows(), 12_000);
    }

    #[test]
    fn a_checkpoint_covers_all_blocks_of_an_open_segment() {
        let world = World::new(options());
        world.append("m", 0..1000);
        world.core.finish_sealing().unwrap();
        assert!(world.core.log().open()[0].has_pending());
        write_checkpoints(&world.core, &mut world.writing(), |_| true).unwrap();
        let log = world.core.log();
        assert!(!log.open()[0].has_pending() && log.open()[0].marked > 0);
    }
}
