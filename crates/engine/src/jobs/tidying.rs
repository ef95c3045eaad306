//! Tidying: coalesces small blocks to speed up reads when no space is needed, within a budget of
//! writes.
//!
//! Short memory, slow sources and frequent restarts leave small blocks. Each of them needs a
//! separate read and compresses badly. `Options::extra_writes` bytes may be rewritten for each byte
//! stored. They are spent where each rewritten byte removes most blocks: on neighbouring segments
//! of a lane whose blocks become three times as large, and which will live as long as they have
//! lived.

use crate::core::Core;
use crate::error::Error;
use crate::jobs::merging::coalescing::Live;
use crate::jobs::merging::liveness::live_blocks;
use crate::jobs::merging::rewriting::RewritePlan;
use crate::jobs::merging::rewriting::{may_coalesce, merge_segments, plan_rewriting};
use crate::jobs::merging::victims::most_blocks;
use crate::jobs::writing::Writing;
use crate::maps::HashSet;
use crate::retention::expected::Clocks;
use crate::segment::stats::SegmentStats;

/// Maximum number of segments that are coalesced together.
const TOGETHER: usize = 4;
/// Minimum factor by which blocks grow.
const LEAST_GROWTH: u64 = 3;
/// Blocks are small below this fraction of B.
const SMALL_SHARE: u64 = 4;

/// Segments that may be worth tidying.
struct Candidates {
    numbers: Vec<u64>,
    live: u64,
    blocks: u64,
    /// Blocks that would remain if the blocks of every source were consecutive.
    left: u64,
}

impl Candidates {
    fn of(all_stats: &[&SegmentStats], block_bytes: u64) -> Candidates {
        let sum =
            |of: fn(&SegmentStats) -> u64| all_stats.iter().map(|stats| of(stats)).sum::<u64>();
        let live = sum(|stats| stats.stat.live);
        let sources = all_stats.iter().map(|stats| stats.sources).max();
        Candidates {
            numbers: all_stats.iter().map(|stats| stats.stat.number).collect(),
            live,
            blocks: sum(|stats| stats.blocks),
            left: sources.unwrap_or(0).max(live / block_bytes),
        }
    }

    fn is_worth_it(&self) -> bool {
        self.blocks >= LEAST_GROWTH * self.left.max(1)
    }

    /// Returns the number of blocks removed per byte written.
    fn score(&self) -> f64 {
        (self.blocks - self.left) as f64 / self.live.max(1) as f64
    }
}

/// Inputs of a plan, of one moment.
struct TidyingView<'a> {
    /// Segments that may be coalesced.
    segments: Vec<&'a SegmentStats>,
    clocks: Clocks,
    /// Bytes of a block, B.
    block_bytes: u64,
    /// Maximum number of bytes that may be written.
    bytes: u64,
    /// Maximum number of blocks that may be listed.
    blocks: u64,
}

/// Returns the best segments to coalesce, if there are any.
fn plan(mut view: TidyingView<'_>) -> Option<Candidates> {
    let (clocks, now) = (view.clocks, view.clocks.now);
    let small = view.block_bytes / SMALL_SHARE;
    let is_small = |stats: &SegmentStats| stats.blocks * small > stats.stat.live;
    let lives_on = |stats: &SegmentStats| {
        let lived = now.saturating_sub(stats.stat.born);
        let dies = stats.stat_at(&clocks).dies;
        dies.wait(now).is_none_or(|wait| wait >= lived)
    };
    let segments = &mut view.segments;
    segments.retain(|stats| stats.blocks > 0 && is_small(stats) && lives_on(stats));
    segments.sort_by_key(|stats| (stats.stat.lane, stats.stat.number));
    (1..=TOGETHER)
        .flat_map(|count| segments.windows(count))
        .filter(|some| some[0].stat.lane == some[some.len() - 1].stat.lane)
        .map(|some| Candidates::of(some, view.block_bytes))
        .filter(|some| some.live <= view.bytes && some.blocks <= view.blocks && some.is_worth_it())
        .max_by(|a, b| a.score().total_cmp(&b.score()))
}

/// Plans for the segments of a store, without those in `but`.
fn plan_for(core: &Core, but: &HashSet<u64>) -> Option<Candidates> {
    let (head, log) = core.both();
    let segments = log.segment_stats().values();
    // Another merge may need as much space, and writers continue in the meantime.
    let headroom = log.headroom(&head.load()) / 4;
    plan(TidyingView {
        segments: segments
            .filter(|stats| !but.contains(&stats.stat.number))
            .collect(),
        clocks: log.retention.clocks(),
        block_bytes: u64::from(core.block_bytes()),
        bytes: log.extra_left().min(headroom),
        blocks: most_blocks(core),
    })
}

/// Coalesces the small blocks of some segments, if the budget allows it and it is worth the writes.
/// Returns whether anything was done.
pub(crate) fn tidy(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    if !may_coalesce(core, writing) {
        return Ok(false);
    }
    let merged = writing
        .merge
        .merged
        .iter()
        .map(|merged| merged.segment.trailer.number);
    let mut but: HashSet<u64> = merged.collect();
    but.extend(writing.tidy.iter().chain(&writing.merge.merging));
    let Some(some) = plan_for(core, &but) else {
        return Ok(false);
    };
    if !is_untidy(core, writing, &some)? {
        writing.tidy.extend(some.numbers);
        return Ok(true);
    }
    merge_segments(core, writing, &some.numbers, true)?;
    Ok(true)
}

/// Returns whether as many blocks are consecutive as the estimate assumed.
fn is_untidy(core: &Core, writing: &mut Writing, some: &Candidates) -> Result<bool, Error> {
    let found = live_blocks(core, writing, &some.numbers)?;
    if found.len() < some.numbers.len() {
        return Ok(false);
    }
    let mut live = Vec::new();
    for (victim, (_, entries)) in found.into_iter().enumerate() {
        live.extend(entries.into_iter().map(|entry| Live { victim, entry }));
    }
    let blocks = live.len() as u64;
    let RewritePlan { copies, groups, .. } = plan_rewriting(core, writing, live);
    let outputs: usize = groups.iter().map(|group| group.outputs.len()).sum();
    Ok(blocks >= LEAST_GROWTH * (copies.len() + outputs) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{World, options};

    const CLOCKS: Clocks = Clocks {
        now: 1_000,
        block: 0,
        block_ns: None,
    };

    fn planned(segments: &[SegmentStats], bytes: u64, blocks: u64) -> Option<Vec<u64>> {
        let view = TidyingView {
            segments: segments.iter().collect(),
            clocks: CLOCKS,
            block_bytes: 4_000,
            bytes,
            blocks,
        };
        plan(view).map(|found| found.numbers)
    }

    #[test]
    fn neighbours_with_the_most_blocks_per_byte_are_planned() {
        // Segments of ten sources: one with large blocks, and two with small blocks.
        let mut segments = [
            SegmentStats::living(3, 20_000, 60, 10),
            SegmentStats::living(1, 80_000, 20, 10),
            SegmentStats::living(2, 20_000, 60, 10),
        ];
        assert_eq!(planned(&segments, 1 << 20, 1_000), Some(vec![2, 3]));
        assert_eq!(planned(&segments, 39_999, 1_000), Some(vec![3]));
        assert_eq!(planned(&segments, 1 << 20, 119), Some(vec![3]));
        assert_eq!(planned(&segments, 19_999, 1_000), None);
        segments[2].stat.lane = 1;
        assert_eq!(planned(&segments, 1 << 20, 1_000), Some(vec![2]));
    }

    #[test]
    fn segments_that_die_soon_are_left_alone() {
        // The segment has lived for a microsecond.
        let until = |dies| [SegmentStats::living(1, 20_000, 60, 10).until(dies)];
        assert_eq!(planned(&until(2_000), 1 << 20, 1_000), Some(vec![1]));
        assert_eq!(planned(&until(1_999), 1 << 20, 1_000), None);
    }

    #[test]
    fn blocks_of_many_sources_are_no_smaller_afterwards() {
        // Two blocks of each source become one.
        let twice = [SegmentStats::living(1, 20_000, 60, 30)];
        assert_eq!(planned(&twice, 1 << 20, 1_000), None);
        let thrice = [SegmentStats::living(1, 20_000, 60, 20)];
        assert_eq!(planned(&thrice, 1 << 20, 1_000), Some(vec![1]));
    }

    #[test]
    fn small_blocks_of_many_restarts_become_large_ones() {
        let mut options = options();
        options.extra_writes = 10.0;
        let world = World::new(options);
        for start in 0..12 {
            world.append("m", start * 4..start * 4 + 4);
            world.flush();
        }
        assert_eq!(world.sealed(), (12, 12));
        assert!(world.run(tidy) > 0);
        world.flush();
        assert_eq!(world.rows(), 48);
        let coalesced = world.core.log().counters.coalesced_blocks;
        assert!(coalesced >= 4, "{coalesced} blocks are in larger ones");
    }

    #[test]
    fn nothing_is_coalesced_without_a_write_budget() {
        let mut options = options();
        options.extra_writes = 0.0;
        let world = World::new(options);
        for start in 0..12 {
            world.append("m", start * 4..start * 4 + 4);
            world.flush();
        }
        assert_eq!(world.run(tidy), 0);
    }
}
