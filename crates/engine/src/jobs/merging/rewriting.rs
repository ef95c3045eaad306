//! Rewriting of the live blocks of victims: copied unchanged, coalesced, or recompressed.
//!
//! A block that cannot be improved is copied byte for byte. A re-encoded block has the number of
//! the latest block that it contains. Of two samples at the same time, the same sample therefore
//! remains valid.

use super::bundling::Bundler;
use super::coalescing::{self, Limits, Live, MergeGroup};
use super::dropping::note_merged;
use super::joining::coalesce_rows;
use super::memory::{MergedSegment, PausedMerge, Recompressions};
use super::victims::{
    GAP, HAS_SLOT, READ, Run, Victim, effort, is_whole, layout_of, member_of, note_rewritten,
    read_bundled, runs,
};
use crate::block;
use crate::block::Block;
use crate::core::Core;
use crate::error::Error;
use crate::jobs::merging::liveness::live_blocks;
use crate::jobs::segments::write_all_pieces;
use crate::jobs::writing::Writing;
use crate::maps::HashSet;
use crate::volume::SlotState;
use seiner_codec::Effort;
use seiner_model::Columns;

/// Blocks copied under one lock.
const COPIES_A_LOCK: usize = 32;
/// Blocks of bundles that are rewritten between looks at the clock.
const MEMBERS_A_TURN: usize = 512;
/// Minimum bytes of a row in a buffer. A coalesced block has no more rows than a block sealed from a
/// full buffer.
const LEAST_ROW: u64 = 2;
/// Fraction of a block that recompression must save. Recompressed blocks are slower to read.
const WORTHWHILE: usize = 32;

/// Time after which a merge lets other threads write segments before it continues, ns. Some sources
/// are coalesced in one piece, which may take longer.
const TURN: u64 = 50_000_000;

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
    for (segment, entries) in live_blocks(core, writing, numbers)? {
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
    note_merged(core, writing);
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
        mut copies,
        groups,
        effort,
    } = plan_rewriting(core, writing, live);
    let mut bundled: Vec<Live> = copies
        .extract_if(.., |live| live.entry.is_bundled())
        .collect();
    let recompressions = (effort == Effort::Best).then_some(&writing.merge.recompressions);
    let (mut copied, mut ready) = (0, Copies::default());
    let mut runs = runs(&mut copies, GAP).peekable();
    while let Some(run) = runs.next() {
        copied += run.len();
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
    let mut bundler = Bundler::default();
    bundled.sort_unstable_by_key(|live| (live.victim, live.entry.offset, live.entry.source));
    for some in bundled.chunks(MEMBERS_A_TURN) {
        rewrite_bundled(core, victims, some, &mut bundler)?;
        if is_late() {
            bundler.flush(core, victims)?;
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
        coalesce_rows(core, victims, &some, &mut bundler)?;
        if is_late() {
            let is_complete = bundler.flush(core, victims)?;
            return Ok(is_complete && groups.peek().is_none());
        }
    }
    bundler.flush(core, victims)
}

/// Passes blocks of bundles on to a bundler, unchanged.
fn rewrite_bundled(
    core: &Core,
    victims: &mut [Victim],
    some: &[Live],
    bundler: &mut Bundler,
) -> Result<(), Error> {
    let mut read = 0;
    for live in some {
        read += u64::from(live.entry.len);
        if let Some(found) = read_bundled(core, &mut victims[live.victim], &live.entry)? {
            bundler.push(member_of(live.entry, found), vec![*live]);
        }
        bundler.flush_if_full(core, victims)?;
    }
    core.log().counters.merge_read += read;
    Ok(())
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
        let layout = head.layout_of(source);
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
    run: &Run<'_>,
    copies: &mut Copies,
) -> Result<(), Error> {
    let victim = &mut victims[run.victim()];
    let bytes = victim.segment.bytes_at(run.offset(), run.len())?;
    copies.read += run.len();
    for (entry, bytes) in run.blocks(&bytes) {
        if is_whole(core, victim, entry, bytes) {
            let bytes =
                match recompressions.filter(|recompressions| recompressions.is_worth_a_try()) {
                    Some(recompressions) => recompressed(core, bytes, recompressions),
                    None => bytes.to_vec(),
                };
            let (victim, entry) = (run.victim(), *entry);
            copies.blocks.push((Live { victim, entry }, bytes));
        }
    }
    Ok(())
}

fn add_copies(core: &Core, victims: &mut [Victim], mut copies: Copies) -> Result<(), Error> {
    for some in copies.blocks.chunks(COPIES_A_LOCK) {
        let mut log = core.log();
        log.counters.merge_read += std::mem::take(&mut copies.read);
        for (live, bytes) in some {
            if !log.has_slot() {
                drop(log);
                log = core.log_with_slot()?;
            }
            let into = log.add_copy(live.entry, bytes).expect(HAS_SLOT);
            note_rewritten(victims, [live], into);
            log.counters.merge_written += bytes.len() as u64;
            log.counters.recompressed_bytes += u64::from(live.entry.len) - bytes.len() as u64;
        }
    }
    Ok(())
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
