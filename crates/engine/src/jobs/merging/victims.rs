//! Victims of a merge, and the runs of blocks that are read from them.

use super::coalescing::Live;
use super::memory::PartialMerge;
use crate::block::Block;
use crate::core::Core;
use crate::dictionary::layouts::Layout;
use crate::error::Error;
use crate::jobs::segments::write_pieces;
use crate::log::Log;
use crate::segment::Entry;
use crate::segment::sealed::Segment;
use crate::space::Load;
use seiner_codec::Effort;
use std::sync::Arc;

/// Maximum gap between live blocks that are read together, with the bytes between them.
pub(super) const GAP: u64 = 32 << 10;
/// Maximum gap if only the blocks of some sources are needed. The bytes between are read again
/// later.
pub(super) const GAP_BETWEEN_SOURCES: u64 = 4 << 10;
/// Bytes read at once, and approximate bytes coalesced at once.
pub(super) const READ: u64 = 1 << 20;
/// Fraction of the budget left to writers below which a merge does not recompress.
const PRESSED: u64 = 32;

/// Reason why an open segment accepts a block.
pub(super) const HAS_SLOT: &str = "a slot was claimed before";

/// Segment whose live blocks are rewritten, with the progress so far.
pub(super) struct Victim {
    pub segment: Arc<Segment>,
    pub partial: PartialMerge,
}

/// Run of blocks that are read together.
pub(super) struct Run {
    pub victim: usize,
    pub offset: u64,
    pub len: u64,
    pub entries: Vec<Entry>,
}

/// Returns the compression effort: low while writers may have to wait for the merge.
pub(super) fn effort(log: &Log, load: &Load) -> Effort {
    match log.headroom(load) < log.budget() / PRESSED {
        true => Effort::Fast,
        false => Effort::Best,
    }
}

/// Returns blocks in the order of their offsets, with nearby blocks in one run.
pub(super) fn runs(mut blocks: Vec<Live>, gap: u64) -> Vec<Run> {
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

/// Returns whether a block is intact. Damage is reported, and the victim is set aside at the end.
pub(super) fn is_whole(core: &Core, victim: &mut Victim, entry: &Entry, bytes: &[u8]) -> bool {
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

/// Writes all pieces, so that a merge does not accumulate them in memory.
pub(super) fn write_all_pieces(core: &Core) -> Result<(), Error> {
    while write_pieces(core, |_| true)? {}
    Ok(())
}

pub(crate) fn layout_of(core: &Core, number: u32) -> Option<Arc<Layout>> {
    let head = core.head();
    let layout = head.layouts().get(number)?;
    (!layout.is_lost()).then(|| layout.clone())
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
