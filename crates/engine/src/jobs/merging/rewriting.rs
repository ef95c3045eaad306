//! Rewriting of the live blocks of victims: copied unchanged, coalesced, or compressed harder.
//!
//! A block that cannot be improved is copied byte for byte. A re-encoded block has the number of
//! the latest block that it contains. Of two samples at the same time, the same sample therefore
//! remains valid.

use super::coalescing::{self, Limits, Live, MergeGroup, OverwriteMask};
use super::memory::{MergedSegment, PartialMerge, PausedMerge, Recompressions};
use crate::block::{self, Block, BlockHead};
use crate::core::Core;
use crate::dictionary::layouts::Layout;
use crate::error::Error;
use crate::jobs::merging::liveness::{SegmentEntries, opened};
use crate::jobs::segments::write_pieces;
use crate::jobs::writing::Writing;
use crate::log::Log;
use crate::query::rows::{Rows, merge};
use crate::retention::visibility::VisibilityFilter;
use crate::segment::Entry;
use crate::segment::sealed::Segment;
use crate::space::Load;
use crate::volume::SlotState;
use seiner_codec::Effort;
use seiner_model::{Column, Columns, FieldColumn};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum gap between live blocks that are read together, with the bytes between them.
const GAP: u64 = 32 << 10;
/// Maximum gap if only the blocks of some sources are needed. The bytes between are read again
/// later.
const GAP_BETWEEN_SOURCES: u64 = 4 << 10;
/// Bytes read at once, and approximate bytes coalesced at once.
const READ: u64 = 1 << 20;
/// Blocks copied under one lock.
const COPIES_A_LOCK: usize = 32;
/// Minimum bytes of a row in a buffer. A coalesced block has no more rows than a block sealed from a
/// full buffer.
const LEAST_ROW: u64 = 2;
/// Fraction of a block that harder compression must save. Harder compression makes reads slower.
const WORTHWHILE: usize = 32;

/// Time after which a merge lets other threads write segments before it continues, ns. Some sources
/// are coalesced in one piece, which may take longer.
const TURN: u64 = 50_000_000;
/// Fraction of the budget left to writers below which a merge does not compress harder.
const PRESSED: u64 = 32;

const HAS_SLOT: &str = "a slot was claimed before";

struct Victim {
    segment: Arc<Segment>,
    partial: PartialMerge,
}

/// Run of blocks that are read together.
struct Run {
    victim: usize,
    offset: u64,
    len: u64,
    entries: Vec<Entry>,
}

/// Plan of a rewrite: blocks to copy, blocks to coalesce, and the compression effort.
pub(crate) struct RewritePlan {
    pub copies: Vec<Live>,
    pub groups: Vec<MergeGroup>,
    effort: Effort,
}

/// Blocks to copy with the bytes to write for each, and the number of bytes read for them.
#[derive(Default)]
struct Copies {
    blocks: Vec<(Live, Vec<u8>)>,
    read: u64,
}

/// Bytes of blocks, by victim and offset.
type Blocks = HashMap<(usize, u32), Vec<u8>>;

/// Returns the compression effort: low while writers may have to wait for the merge.
fn effort(log: &Log, load: &Load) -> Effort {
    match log.headroom(load) < log.budget() / PRESSED {
        true => Effort::Fast,
        false => Effort::Best,
    }
}

/// Rewrites the live blocks of victims. The victims are dropped when these blocks are on disk.
/// Threads that wait to write segments get a turn from time to time; the merge then continues with
/// the next step. `extra` is true if the merge only serves reads and frees no needed space.
pub(crate) fn merge_segments(
    core: &Core,
    writing: &mut Writing,
    numbers: &[u64],
    extra: bool,
) -> Result<(), Error> {
    if numbers.is_empty() {
        return Ok(());
    }
    let _span = tracing::trace_span!("merge").entered();
    let before = extra.then(|| core.log().counters.merge_written);
    let result = merge_some(core, writing, numbers);
    if let Some(before) = before {
        let counters = &mut core.log().counters;
        counters.extra_written += counters.merge_written - before;
    }
    if !result? {
        writing.merge.paused = Some(PausedMerge {
            victims: numbers.to_vec(),
            extra,
        });
    }
    Ok(())
}

/// Performs a part of a merge. Returns whether the merge is complete.
fn merge_some(core: &Core, writing: &mut Writing, numbers: &[u64]) -> Result<bool, Error> {
    let mut victims: Vec<Victim> = Vec::new();
    let mut live: Vec<Live> = Vec::new();
    let mut named = Vec::new();
    let opened = opened(core, writing, numbers)?;
    for (segment, entries) in living(core, writing, opened) {
        let number = segment.trailer.number;
        named.push(number);
        let partial = writing.merge.partial.remove(&number).unwrap_or_default();
        let victim = victims.len();
        let entries = entries.into_iter();
        let left = entries.filter(|entry| !partial.done.contains(&entry.number));
        live.extend(left.map(|entry| Live { victim, entry }));
        victims.push(Victim { segment, partial });
    }
    let result = name_victims(core, writing, &named)
        .and_then(|()| rewrite_live(core, writing, &mut victims, live));
    if !matches!(result, Ok(true)) {
        let partial = |victim: Victim| (victim.segment.trailer.number, victim.partial);
        writing
            .merge
            .partial
            .extend(victims.into_iter().map(partial));
        return result;
    }
    core.log().counters.segments_merged += victims.len() as u64;
    // Rows may have been omitted because another victim contained the overwriting rows.
    let into: HashSet<u64> = victims
        .iter()
        .flat_map(|victim| victim.partial.into.iter().copied())
        .collect();
    writing
        .merge
        .merged
        .extend(victims.into_iter().map(|victim| MergedSegment {
            segment: victim.segment,
            into: into.clone(),
            damaged: victim.partial.damaged,
        }));
    Ok(true)
}

/// Renames the victims. A start that finds such a name must expect that some blocks exist
/// elsewhere.
fn name_victims(core: &Core, writing: &mut Writing, numbers: &[u64]) -> Result<(), Error> {
    let new = |number: &&u64| !writing.merge.merging.contains(number);
    let new: Vec<u64> = numbers.iter().filter(new).copied().collect();
    if new.is_empty() {
        return Ok(());
    }
    for &number in &new {
        core.volume
            .turn(number, SlotState::Sealed, SlotState::Merging)?;
        // Recorded whether the new name is durable or not.
        writing.merge.merging.insert(number);
    }
    core.volume.sync()
}

/// Returns the blocks of segments that must be kept.
pub(crate) fn living(
    core: &Core,
    writing: &Writing,
    opened: Vec<SegmentEntries>,
) -> Vec<SegmentEntries> {
    let mut log = core.log();
    let living = opened.into_iter().map(|(segment, entries)| {
        let number = segment.trailer.number;
        let (live, dead): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| {
            !writing.is_elsewhere(number, entry) && !log.retention.may_drop(entry)
        });
        log.retention.note_past(&dead);
        (segment, live)
    });
    living.collect()
}

/// Rewrites live blocks. Returns whether the rewrite is complete.
fn rewrite_live(
    core: &Core,
    writing: &Writing,
    victims: &mut [Victim],
    live: Vec<Live>,
) -> Result<bool, Error> {
    let began = core.clock.monotonic();
    let is_late = || core.clock.monotonic() - began > TURN;
    let RewritePlan {
        copies,
        groups,
        effort,
    } = plan_rewriting(core, writing, live);
    let recompressions = (effort == Effort::Best).then_some(&writing.merge.recompressions);
    let (mut copied, mut ready) = (0, Copies::default());
    let mut runs = runs(copies, GAP).into_iter().peekable();
    while let Some(run) = runs.next() {
        copied += run.len;
        read_run(core, recompressions, victims, &run, &mut ready)?;
        let late = is_late();
        if late || ready.blocks.len() >= COPIES_A_LOCK || runs.peek().is_none() {
            add_copies(core, victims, std::mem::take(&mut ready))?;
        }
        if copied >= READ {
            write_all_pieces(core)?;
            copied = 0;
        }
        if late {
            return Ok(false);
        }
    }
    let mut groups = groups.into_iter().peekable();
    while groups.peek().is_some() {
        let (mut some, mut bytes) = (Vec::new(), 0);
        while let Some(group) = groups.next_if(|_| bytes < READ) {
            bytes += group.bytes();
            some.push(group);
        }
        coalesce_rows(core, victims, &some)?;
        if is_late() {
            return Ok(groups.peek().is_none());
        }
    }
    Ok(true)
}

/// Plans the rewrite of live blocks.
pub(crate) fn plan_rewriting(core: &Core, writing: &Writing, live: Vec<Live>) -> RewritePlan {
    let may_coalesce = has_no_loss(core, writing);
    let (head, log) = core.both();
    let effort = effort(&log, &head.load());
    if !may_coalesce || log.counters.damaged_blocks > 0 {
        return RewritePlan {
            copies: live,
            groups: Vec::new(),
            effort,
        };
    }
    let (copies, groups) = coalescing::plan(live, |source| {
        let layout = head.line(source).layout;
        Limits {
            bytes: head.buffer_limit(layout) as u64,
            rows: u64::from(core.block_bytes()) / LEAST_ROW,
        }
    });
    RewritePlan {
        copies,
        groups,
        effort,
    }
}

/// Returns whether no block of the store is missing. A missing block that is restored later may lie
/// between two coalesced blocks.
pub(crate) fn may_coalesce(core: &Core, writing: &Writing) -> bool {
    has_no_loss(core, writing) && core.log().counters.damaged_blocks == 0
}

fn has_no_loss(core: &Core, writing: &Writing) -> bool {
    let recovery = core.recovery();
    recovery.set_aside.is_empty()
        && recovery.damaged_segments == 0
        && writing.merge.unreadable.is_empty()
        && core.ledger().contents().unacknowledged().is_empty()
}

// ---- single blocks

/// Reads blocks to copy.
fn read_run(
    core: &Core,
    recompressions: Option<&Recompressions>,
    victims: &mut [Victim],
    run: &Run,
    copies: &mut Copies,
) -> Result<(), Error> {
    let victim = &mut victims[run.victim];
    let bytes = victim.segment.bytes_at(run.offset, run.len)?;
    copies.read += run.len;
    for entry in &run.entries {
        let at = (u64::from(entry.offset) - run.offset) as usize;
        let bytes = &bytes[at..at + entry.len as usize];
        if is_whole(core, victim, entry, bytes) {
            let bytes =
                match recompressions.filter(|recompressions| recompressions.is_worth_a_try()) {
                    Some(recompressions) => recompressed(core, bytes, recompressions),
                    None => bytes.to_vec(),
                };
            let (victim, entry) = (run.victim, *entry);
            copies.blocks.push((Live { victim, entry }, bytes));
        }
    }
    Ok(())
}

fn add_copies(core: &Core, victims: &mut [Victim], mut copies: Copies) -> Result<(), Error> {
    for some in copies.blocks.chunks(COPIES_A_LOCK) {
        let mut log = core.log();
        log.counters.merge_read += std::mem::take(&mut copies.read);
        for (Live { victim, entry }, bytes) in some {
            if !log.has_slot() {
                drop(log);
                log = core.log_with_slot()?;
            }
            let into = log.add_copy(*entry, bytes).expect(HAS_SLOT);
            let partial = &mut victims[*victim].partial;
            partial.into.insert(into);
            partial.done.insert(entry.number);
            log.counters.merge_written += bytes.len() as u64;
            log.counters.recompressed_bytes += u64::from(entry.len) - bytes.len() as u64;
        }
    }
    Ok(())
}

/// Writes all pieces, so that a merge does not accumulate them in memory.
fn write_all_pieces(core: &Core) -> Result<(), Error> {
    while write_pieces(core, |_| true)? {}
    Ok(())
}

/// Returns whether a block is intact. Damage is reported, and the victim is set aside at the end.
fn is_whole(core: &Core, victim: &mut Victim, entry: &Entry, bytes: &[u8]) -> bool {
    let Err(what) = Block::open(bytes) else {
        return true;
    };
    let error = Error::Damage {
        file: victim.segment.name().to_string(),
        offset: u64::from(entry.offset),
        what,
    };
    tracing::error!("{error}; its segment is set aside when the others are safe");
    core.note_block(&error, entry);
    victim.partial.damaged = true;
    victim.partial.done.insert(entry.number);
    core.log().counters.damaged_blocks += 1;
    false
}

/// Returns a block with the same rows in fewer bytes, if it is sufficiently smaller.
fn recompressed(core: &Core, bytes: &[u8], recompressions: &Recompressions) -> Vec<u8> {
    let smaller = || {
        let block = Block::open(bytes).ok()?;
        let layout = layout_of(core, block.head.layout)?;
        let (times, fields) = block.columns(layout.types(), |_| true).ok()?;
        let columns = Columns {
            times,
            fields: fields.into_iter().collect::<Option<_>>()?,
        };
        let mut out = Vec::with_capacity(bytes.len());
        block::encode(block.head, &columns, Effort::Best, &mut out);
        let kept = out.len() + bytes.len() / WORTHWHILE < bytes.len();
        recompressions.note(kept);
        kept.then_some(out)
    };
    smaller().unwrap_or_else(|| bytes.to_vec())
}

pub(crate) fn layout_of(core: &Core, number: u32) -> Option<Arc<Layout>> {
    let head = core.head();
    let layout = head.layouts().get(number)?;
    (!layout.is_lost()).then(|| layout.clone())
}

// ---- coalesced blocks

fn coalesce_rows(core: &Core, victims: &mut [Victim], groups: &[MergeGroup]) -> Result<(), Error> {
    let live = groups
        .iter()
        .flat_map(|group| group.outputs.iter().flatten());
    let (mut blocks, mut read) = (Blocks::new(), 0);
    for run in runs(live.copied().collect(), GAP_BETWEEN_SOURCES) {
        let victim = &mut victims[run.victim];
        let bytes = victim.segment.bytes_at(run.offset, run.len)?;
        read += run.len;
        for entry in &run.entries {
            let at = (u64::from(entry.offset) - run.offset) as usize;
            let bytes = &bytes[at..at + entry.len as usize];
            if is_whole(core, victim, entry, bytes) {
                blocks.insert((run.victim, entry.offset), bytes.to_vec());
            }
        }
    }
    core.log().counters.merge_read += read;
    for group in groups {
        let mut mask = group.overlaps.then(OverwriteMask::default);
        // Later rows overwrite earlier rows.
        for output in group.outputs.iter().rev() {
            put_output(core, victims, output, &blocks, &mut mask)?;
        }
        write_all_pieces(core)?;
    }
    Ok(())
}

fn put_output(
    core: &Core,
    victims: &mut [Victim],
    output: &[Live],
    blocks: &Blocks,
    mask: &mut Option<OverwriteMask>,
) -> Result<(), Error> {
    match join(core, output, blocks, mask) {
        // All rows of the block are overwritten.
        Some(None) => {
            for live in output {
                victims[live.victim].partial.done.insert(live.entry.number);
            }
            Ok(())
        }
        Some(Some((entry, bytes))) => add_coalesced(core, victims, output, entry, &bytes, blocks),
        None => copy_all(core, victims, output, blocks),
    }
}

/// Returns the block into which blocks are coalesced, or `None` if no row remains. The outer `None`
/// means that the blocks cannot be combined.
#[allow(clippy::type_complexity)]
fn join(
    core: &Core,
    output: &[Live],
    blocks: &Blocks,
    mask: &mut Option<OverwriteMask>,
) -> Option<Option<(Entry, Vec<u8>)>> {
    let (first, last) = (output[0].entry, output[output.len() - 1].entry);
    let source = first.source;
    let (layout, visibility) = {
        let (head, log) = core.both();
        let layout = head.line(source).layout;
        (layout, log.retention.permanent_visibility(source))
    };
    let layout = layout_of(core, layout)?;
    let mut runs = Vec::with_capacity(output.len());
    for live in output {
        let bytes = blocks.get(&(live.victim, live.entry.offset))?;
        runs.push(decode_block(
            core,
            bytes,
            &live.entry,
            &layout,
            &visibility,
        )?);
    }
    let found: u64 = runs.iter().map(|rows| rows.times.len() as u64).sum();
    let mut rows = merge(runs, layout.types());
    if let Some(mask) = mask {
        (rows, _) = mask.retain_visible(rows);
    }
    core.log().counters.overwritten_rows += found - rows.times.len() as u64;
    let (Some(&first_time), Some(&last_time)) = (rows.times.first(), rows.times.last()) else {
        // Rows were deleted one by one. This is rare, and the blocks are kept as a record of them.
        return (found > 0).then_some(None);
    };
    let entry = Entry {
        first: first_time,
        last: last_time,
        rows: rows.times.len() as u32,
        since: first.since,
        before: first.before,
        late: output.iter().any(|live| live.entry.late),
        ..last
    };
    let head = BlockHead {
        source,
        number: entry.number,
        layout: layout.number(),
    };
    let effort = {
        let (head, log) = core.both();
        effort(&log, &head.load())
    };
    let mut bytes = Vec::new();
    block::encode(head, &columns(rows, &layout), effort, &mut bytes);
    Some(Some((entry, bytes)))
}

/// Decodes the live rows of a block into the columns that its source has now.
pub(crate) fn decode_block(
    core: &Core,
    bytes: &[u8],
    entry: &Entry,
    layout: &Layout,
    visibility: &VisibilityFilter,
) -> Option<Rows> {
    let block = Block::open(bytes).ok()?;
    let own = layout_of(core, block.head.layout)?;
    let (times, found) = block.columns(own.types(), |_| true).ok()?;
    let mut fields = vec![None; layout.columns()];
    for (column, field) in found.into_iter().enumerate() {
        let place = layout.column(own.names()[column].as_bytes(), column)?;
        fields[place] = field;
    }
    let kept: Vec<usize> = (0..times.len())
        .filter(|&row| !visibility.hides_row(entry.number, times[row]))
        .collect();
    let rows = Rows { times, fields };
    Some(match kept.len() == rows.times.len() {
        true => rows,
        false => rows.pick(&kept),
    })
}

/// Adds a coalesced block. If some of its rows were hidden in the meantime, its blocks are copied
/// instead, so that hidden rows do not return.
fn add_coalesced(
    core: &Core,
    victims: &mut [Victim],
    output: &[Live],
    entry: Entry,
    bytes: &[u8],
    blocks: &Blocks,
) -> Result<(), Error> {
    let (head, mut log) = core.both_with_slot()?;
    let visibility = log
        .retention
        .visibility(entry.source, head.rows_of(entry.source));
    if output.iter().any(|live| visibility.hides(&live.entry)) {
        drop((head, log));
        return copy_all(core, victims, output, blocks);
    }
    let into = log.add_copy(entry, bytes).expect(HAS_SLOT);
    for live in output {
        victims[live.victim].partial.into.insert(into);
        victims[live.victim].partial.done.insert(live.entry.number);
    }
    log.counters.merge_written += bytes.len() as u64;
    if output.len() > 1 {
        log.counters.coalesced_blocks += output.len() as u64;
    }
    Ok(())
}

/// Copies blocks unchanged, without damaged blocks.
fn copy_all(
    core: &Core,
    victims: &mut [Victim],
    output: &[Live],
    blocks: &Blocks,
) -> Result<(), Error> {
    for live in output {
        let Some(bytes) = blocks.get(&(live.victim, live.entry.offset)) else {
            continue;
        };
        let mut log = core.log_with_slot()?;
        let into = log.add_copy(live.entry, bytes).expect(HAS_SLOT);
        let partial = &mut victims[live.victim].partial;
        partial.into.insert(into);
        partial.done.insert(live.entry.number);
        log.counters.merge_written += bytes.len() as u64;
    }
    Ok(())
}

/// Converts rows into the columns of a layout. A column without any value consists of gaps.
fn columns(rows: Rows, layout: &Layout) -> Columns {
    let count = rows.times.len();
    let fields = rows.fields.into_iter().zip(layout.types());
    let fields = fields.map(|(field, &field_type)| {
        field.unwrap_or_else(|| FieldColumn {
            present: Some(std::iter::repeat_n(false, count).collect()),
            values: Column::new(field_type),
        })
    });
    Columns {
        fields: fields.collect(),
        times: rows.times,
    }
}

/// Returns blocks in the order of their offsets, with nearby blocks in one run.
fn runs(mut blocks: Vec<Live>, gap: u64) -> Vec<Run> {
    blocks.sort_unstable_by_key(|live| (live.victim, live.entry.offset));
    let mut runs: Vec<Run> = Vec::new();
    for Live { victim, entry } in blocks {
        let (start, len) = (u64::from(entry.offset), u64::from(entry.len));
        match runs.last_mut() {
            Some(run)
                if run.victim == victim
                    && start < run.offset + run.len + gap
                    && start + len - run.offset <= READ =>
            {
                run.len = start + len - run.offset;
                run.entries.push(entry);
            }
            _ => runs.push(Run {
                victim,
                offset: start,
                len,
                entries: vec![entry],
            }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_near_each_other_are_read_at_once() {
        let live = |offset: u32, len: u32| Live {
            victim: 0,
            entry: Entry {
                offset,
                len,
                ..Entry::default()
            },
        };
        let found = runs(vec![live(100_000, 10), live(0, 10), live(20, 10)], GAP);
        let found: Vec<(u64, u64)> = found.iter().map(|run| (run.offset, run.len)).collect();
        assert_eq!(found, [(0, 30), (100_000, 10)]);
    }
}
