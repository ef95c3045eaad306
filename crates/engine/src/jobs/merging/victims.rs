//! Victims of a merge, and the runs of blocks that are read from them.

use super::coalescing::Live;
use super::memory::PartialMerge;
use crate::block::Block;
use crate::bundle::encode::Member;
use crate::core::Core;
use crate::dictionary::layouts::Layout;
use crate::error::Error;
use crate::head::Head;
use crate::log::Log;
use crate::query::snapshot::BlockLocation;
use crate::segment::Entry;
use crate::segment::sealed::Segment;
use crate::space::Load;
use seiner_bundle::SourceRows;
use seiner_codec::Effort;
use std::sync::Arc;

/// Maximum gap between live blocks that are read together, with the bytes between them.
pub(super) const GAP: u64 = 32 << 10;
/// Maximum gap if only the blocks of some sources are needed. The bytes between are read again
/// later.
pub(super) const GAP_BETWEEN_SOURCES: u64 = 4 << 10;
/// Bytes read at once, and approximate bytes coalesced at once.
pub(super) const READ: u64 = 1 << 20;
/// Maximum fraction of the memory for the list of live blocks. One segment may have more.
const LIST_SHARE: u64 = 32;
/// Fraction of the budget left to writers below which a merge does not recompress.
const PRESSED: u64 = 32;

/// Reason why an open segment accepts a block.
pub(super) const HAS_SLOT: &str = "a slot was claimed before";

/// Segment whose live blocks are rewritten, with the progress so far.
pub(super) struct Victim {
    pub segment: Arc<Segment>,
    pub partial: PartialMerge,
}

/// Block that was read from a victim.
pub(crate) enum Stored {
    /// Bytes of a block of its own.
    Alone(Vec<u8>),
    /// Rows of a block in a bundle.
    Bundled(SourceRows),
}

/// Reads a block of a segment.
///
/// # Errors
/// Errors of the disk, and [`Error::Damage`].
pub(crate) fn read_stored(
    core: &Core,
    segment: &Arc<Segment>,
    entry: &Entry,
) -> Result<Stored, Error> {
    if !entry.is_bundled() {
        return segment.read(entry).map(Stored::Alone);
    }
    let place = BlockLocation::Sealed(segment.clone());
    core.bundles.rows(entry, &place, None).map(Stored::Bundled)
}

/// Returns a block of a bundle as a member of another bundle. It has the same rows.
pub(super) fn member_of(entry: Entry, found: SourceRows) -> Member {
    Member {
        entry,
        layout: found.layout,
        rows: found.rows,
    }
}

/// Reads a block of a victim that is in a bundle. Returns `None` if it is damaged. Damage is reported,
/// and the victim is set aside at the end.
///
/// # Errors
/// Errors of the disk.
pub(super) fn read_bundled(
    core: &Core,
    victim: &mut Victim,
    entry: &Entry,
) -> Result<Option<SourceRows>, Error> {
    let place = BlockLocation::Sealed(victim.segment.clone());
    match core.bundles.rows(entry, &place, None) {
        Ok(rows) => Ok(Some(rows)),
        Err(error @ Error::Damage { .. }) => {
            note_damage(core, victim, entry, &error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Blocks of a victim that are read together, in the order of their offsets.
pub(super) struct Run<'a>(&'a [Live]);

impl Run<'_> {
    /// Returns the index of the victim.
    pub fn victim(&self) -> usize {
        self.0[0].victim
    }

    /// Returns the offset of the first block.
    pub fn offset(&self) -> u64 {
        u64::from(self.0[0].entry.offset)
    }

    /// Returns the bytes of the blocks and the gaps between them.
    pub fn len(&self) -> u64 {
        let last = &self.0[self.0.len() - 1].entry;
        u64::from(last.offset) + u64::from(last.len) - self.offset()
    }

    /// Returns the blocks with their bytes. `bytes` are those of the run.
    pub fn blocks<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = (&'b Entry, &'b [u8])> {
        self.0.iter().map(|Live { entry, .. }| {
            let at = (u64::from(entry.offset) - self.offset()) as usize;
            (entry, &bytes[at..at + entry.len as usize])
        })
    }
}

/// Returns the maximum number of live blocks that are merged together.
pub(crate) fn most_blocks(core: &Core) -> u64 {
    core.memory_limit() / LIST_SHARE / size_of::<Live>() as u64
}

/// Returns the compression effort: low while writers may have to wait for the merge.
pub(super) fn effort(log: &Log, load: &Load) -> Effort {
    match log.headroom(load) < log.budget() / PRESSED {
        true => Effort::Fast,
        false => Effort::Best,
    }
}

/// Returns the compression effort at present. Locks head and log.
pub(super) fn present_effort(core: &Core) -> Effort {
    let (head, log) = core.both();
    effort(&log, &head.load())
}

/// Notes that a segment contains blocks of victims, alone or coalesced.
pub(super) fn note_rewritten<'l>(
    victims: &mut [Victim],
    blocks: impl IntoIterator<Item = &'l Live>,
    into: u64,
) {
    for live in blocks {
        let partial = &mut victims[live.victim].partial;
        partial.into.insert(into);
        partial.done.insert(live.entry.number);
    }
}

/// Returns whether rows of any of these blocks of a source are hidden.
pub(super) fn has_hidden(head: &Head, log: &Log, blocks: &[Live]) -> bool {
    let source = blocks[0].entry.source;
    let visibility = log.retention.visibility(source, head.rows_of(source));
    blocks.iter().any(|live| visibility.hides(&live.entry))
}

/// Sorts blocks by their offsets and returns them with nearby blocks in one run.
pub(super) fn runs(blocks: &mut [Live], gap: u64) -> impl Iterator<Item = Run<'_>> {
    blocks.sort_unstable_by_key(|live| (live.victim, live.entry.offset));
    let mut left = &*blocks;
    std::iter::from_fn(move || {
        let first = left.first()?;
        let start = u64::from(first.entry.offset);
        let mut end = start;
        let of_victim = left.iter().take_while(|live| live.victim == first.victim);
        let near = of_victim.take_while(|live| {
            let (offset, len) = (u64::from(live.entry.offset), u64::from(live.entry.len));
            let is_near = offset < end + gap && offset + len - start <= READ;
            let joins = offset == start || is_near;
            end = offset + len;
            joins
        });
        let run;
        (run, left) = left.split_at(near.count());
        Some(Run(run))
    })
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
    note_damage(core, victim, entry, &error);
    false
}

/// Reports a damaged block. The victim is set aside at the end.
pub(super) fn note_damage(core: &Core, victim: &mut Victim, entry: &Entry, error: &Error) {
    tracing::error!("{error}; its segment is set aside when the others are safe");
    core.note_block(error, entry);
    victim.partial.damaged = true;
    victim.partial.done.insert(entry.number);
    core.log().counters.damaged_blocks += 1;
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
        let mut blocks = [live(100_000, 10), live(0, 10), live(20, 10)];
        let runs = runs(&mut blocks, GAP);
        let found: Vec<(u64, u64)> = runs.map(|run| (run.offset(), run.len())).collect();
        assert_eq!(found, [(0, 30), (100_000, 10)]);
    }
}
