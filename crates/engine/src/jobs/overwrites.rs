//! Overwritten blocks: blocks whose rows are all replaced by later blocks, such as corrections or
//! batches sent twice.
//!
//! Footers do not list overwritten blocks. They mark candidates: a block that begins before an
//! earlier block of the same source (`Entry::late`) may overwrite that block. When such a block is
//! in a sealed segment, the times of both blocks are compared value by value. A block that is
//! overwritten completely is dead from then on, like a deleted block. Every start repeats the
//! search.
//!
//! Invariant: the overwriting rows are on disk in a sealed segment. Every rule by which they die
//! also applies to the overwritten rows, because those are earlier and have the same times.

use crate::core::Core;
use crate::error::Error;
use crate::jobs::merging::coalescing::OverwriteMask;
use crate::jobs::merging::joining::decode_block;
use crate::jobs::merging::victims::{layout_of, read_stored};
use crate::jobs::writing::Writing;
use crate::segment::sealed::{LastPage, Segment};
use crate::segment::{Entry, uncover};
use seiner_model::Interval;
use std::sync::Arc;

/// Sources examined per step.
const SOURCES_A_STEP: usize = 32;
/// Maximum rows that are compared at once. A source with more rows at the same times is skipped.
const ROWS_AT_ONCE: u64 = 1 << 18;
/// Maximum number of times an interval is widened to the interval of the blocks in it.
const WIDER: usize = 4;

/// Block and the sealed segment that contains it. `None` if the segment is being written.
type LocatedBlock = (Entry, Option<Arc<Segment>>);

/// Searches for overwritten blocks of some sources. Returns whether there were any blocks to
/// examine.
pub(crate) fn find_overwritten(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let some = core.log().retention.take_late(SOURCES_A_STEP);
    if some.is_empty() {
        return Ok(false);
    }
    for (source, interval) in some {
        let blocks = blocks_around(core, source, interval)?;
        if blocks.iter().any(|(_, segment)| segment.is_none()) {
            // A block is dead only after the overwriting rows are in their final place.
            core.log().retention.wait_for_seal(source, interval);
        }
        let sealed = blocks
            .into_iter()
            .filter_map(|(entry, segment)| Some((entry, segment?)));
        let (entries, segments): (Vec<Entry>, Vec<Arc<Segment>>) = sealed.unzip();
        for Comparison {
            block,
            later,
            may_be_overwritten,
        } in plan(&entries)
        {
            let (entry, segment) = (&entries[block], &segments[block]);
            // Later rows with the same times must be examined, wherever their block begins.
            core.log().retention.expect_late(source, entry.last);
            let later = later.iter().map(|&at| (&entries[at], &segments[at]));
            let later: Vec<_> = later.collect();
            if may_be_overwritten && is_overwritten(core, (entry, segment), &later)? {
                mark_overwritten(core, writing, segment.trailer.number, entry);
            }
        }
    }
    Ok(true)
}

/// Block that begins within later blocks.
#[derive(Debug, PartialEq, Eq)]
struct Comparison {
    /// Index of the block.
    block: usize,
    /// Indexes of the later blocks that overlap it.
    later: Vec<usize>,
    /// True if the later blocks may contain all of its rows, and are short enough to be compared.
    may_be_overwritten: bool,
}

/// Returns the blocks of a source that begin within later blocks. `blocks` are sorted by number.
fn plan(blocks: &[Entry]) -> Vec<Comparison> {
    let begins_within = |block: usize| {
        let entry = &blocks[block];
        let is_over = |later: &Entry| {
            later.since > entry.number && later.first <= entry.last && later.last >= entry.first
        };
        let later = (block + 1..blocks.len()).filter(|&at| is_over(&blocks[at]));
        let later: Vec<usize> = later.collect();
        let has = |time: i64| {
            let spans = later.iter().map(|&at| blocks[at].span());
            let mut spans = spans.filter(|span| span.contains(time));
            spans.next().is_some()
        };
        if !has(entry.first) {
            return None;
        }
        let rows: u64 = later.iter().map(|&at| u64::from(blocks[at].rows)).sum();
        Some(Comparison {
            block,
            may_be_overwritten: has(entry.last)
                && (u64::from(entry.rows)..=ROWS_AT_ONCE).contains(&rows),
            later,
        })
    };
    (0..blocks.len()).filter_map(begins_within).collect()
}

/// Counts a block as dead from now on.
fn mark_overwritten(core: &Core, writing: &mut Writing, segment: u64, entry: &Entry) {
    let blocks = writing.overwritten.entry(segment).or_default();
    blocks.insert(entry.number);
    if let Some(stats) = core.log().stats_mut(segment) {
        stats.request_scan();
    }
}

/// Returns the blocks of a source with times in an interval, and the blocks that overlap them, by
/// number.
fn blocks_around(
    core: &Core,
    source: u32,
    mut interval: Interval,
) -> Result<Vec<LocatedBlock>, Error> {
    for _ in 0..WIDER {
        let found = blocks_in(core, source, interval)?;
        let start = found.iter().map(|(entry, _)| entry.first).min();
        let end = found.iter().map(|(entry, _)| entry.last).max();
        let wider = Interval::new(
            interval.start.min(start.unwrap_or(i64::MAX)),
            interval.end.max(end.unwrap_or(i64::MIN)),
        );
        if wider == interval {
            return Ok(found);
        }
        interval = wider;
    }
    blocks_in(core, source, interval)
}

fn blocks_in(core: &Core, source: u32, interval: Interval) -> Result<Vec<LocatedBlock>, Error> {
    let (open, sealed, visibility) = {
        let log = core.log();
        let open = log.open_blocks_of(source);
        let open: Vec<LocatedBlock> = open.map(|(_, entry)| (entry, None)).collect();
        (
            open,
            log.sealed().clone(),
            log.retention.permanent_visibility(source),
        )
    };
    let mut found = open;
    for segment in sealed.values().filter(|one| one.span().overlaps(&interval)) {
        let mut entries = Vec::new();
        match segment.blocks_of(source, &mut LastPage::default(), &mut entries) {
            Ok(()) => {}
            // Unreadable blocks are skipped.
            Err(Error::Damage { .. }) => {}
            Err(error) => return Err(error),
        }
        found.extend(
            entries
                .into_iter()
                .map(|entry| (entry, Some(segment.clone()))),
        );
    }
    uncover(&mut found, |(entry, _)| entry.numbers());
    let within = |entry: &Entry| interval.overlaps(&Interval::new(entry.first, entry.last));
    found.retain(|(entry, _)| within(entry) && !visibility.hides(entry));
    Ok(found)
}

/// Returns whether later blocks contain all values of a block.
fn is_overwritten(
    core: &Core,
    (entry, segment): (&Entry, &Arc<Segment>),
    later: &[(&Entry, &Arc<Segment>)],
) -> Result<bool, Error> {
    let (layout, visibility) = {
        let (head, log) = core.both();
        let layout = head.layout_of(entry.source);
        (layout, log.retention.permanent_visibility(entry.source))
    };
    let Some(layout) = layout_of(core, layout) else {
        return Ok(false);
    };
    let rows_of = |segment, entry: &Entry| match read_stored(core, segment, entry) {
        Ok(stored) => Ok(decode_block(core, &stored, entry, &layout, &visibility)),
        // A query or a merge reports it.
        Err(Error::Damage { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let mut mask = OverwriteMask::default();
    for (one, of) in later {
        let Some(rows) = rows_of(of, one)? else {
            return Ok(false);
        };
        mask.retain_visible(rows);
    }
    let rows = rows_of(segment, entry)?;
    Ok(rows.is_some_and(|rows| mask.retain_visible(rows).0.times.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{World, options};
    use seiner_platform::Disk;

    /// Builds the nth block of a source, with a row per time.
    fn block(nth: u64, times: std::ops::RangeInclusive<i64>) -> Entry {
        Entry {
            number: nth,
            since: nth,
            first: *times.start(),
            last: *times.end(),
            rows: times.count() as u32,
            ..Entry::default()
        }
    }

    fn comparison(block: usize, later: &[usize], may_be_overwritten: bool) -> Comparison {
        Comparison {
            block,
            later: later.to_vec(),
            may_be_overwritten,
        }
    }

    #[test]
    fn blocks_that_begin_within_later_blocks_are_compared() {
        let ordered = [block(1, 0..=9), block(2, 10..=19)];
        assert_eq!(plan(&ordered), []);
        let twice = [block(1, 0..=9), block(2, 10..=19), block(3, 0..=9)];
        assert_eq!(plan(&twice), [comparison(0, &[2], true)]);
        // The first block continues past the later block.
        let part = [block(1, 0..=9), block(2, 0..=8)];
        assert_eq!(plan(&part), [comparison(0, &[1], false)]);
        // Two later blocks together.
        let halves = [block(1, 0..=9), block(2, 0..=4), block(3, 5..=9)];
        assert_eq!(plan(&halves), [comparison(0, &[1, 2], true)]);
    }

    #[test]
    fn a_block_with_more_rows_than_the_later_blocks_is_not_overwritten() {
        let mut sparse = block(2, 0..=9);
        sparse.rows = 9;
        assert_eq!(
            plan(&[block(1, 0..=9), sparse]),
            [comparison(0, &[1], false)]
        );
        sparse.rows = ROWS_AT_ONCE as u32 + 1;
        assert_eq!(
            plan(&[block(1, 0..=9), sparse]),
            [comparison(0, &[1], false)]
        );
    }

    #[test]
    fn a_block_with_all_rows_overwritten_is_dead() {
        let world = World::new(options());
        world.append("m", 0..20);
        world.flush();
        assert_eq!(world.run(find_overwritten), 0, "no block is late");
        world.append("m", 0..20);
        world.flush();
        assert!(world.run(find_overwritten) > 0);
        let overwritten = &world.writing().overwritten;
        let blocks: u64 = overwritten.values().map(|blocks| blocks.len()).sum();
        assert_eq!((overwritten.len(), blocks), (1, 1));
    }

    /// Regression: the store accepted no more rows.
    #[test]
    fn a_damaged_block_is_not_overwritten_and_stops_nothing() {
        let world = World::new(options());
        for _ in 0..2 {
            world.append("m", 0..20);
            world.flush();
        }
        let names = world.disk.list().unwrap();
        for name in names.iter().filter(|name| name.starts_with("segment-")) {
            world.disk.flip_bit(name, 8 * 100);
        }
        assert!(world.run(find_overwritten) > 0);
        assert!(world.writing().overwritten.is_empty());
    }

    #[test]
    fn a_block_with_one_row_left_is_live() {
        let world = World::new(options());
        world.append("m", 0..20);
        world.flush();
        world.append("m", 1..20);
        world.flush();
        world.run(find_overwritten);
        assert!(world.writing().overwritten.is_empty());
        assert_eq!(world.rows(), 20);
    }
}
