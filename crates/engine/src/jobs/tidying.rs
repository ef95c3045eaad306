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
use crate::segment::stats::SegmentStats;
use std::collections::HashSet;

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

/// Returns the best segments to coalesce, if there are any.
fn untidy(core: &Core, but: &HashSet<u64>) -> Option<Candidates> {
    let (head, log) = core.both();
    let clocks = log.retention.clocks();
    let now = clocks.now;
    let small = u64::from(core.block_bytes()) / SMALL_SHARE;
    let is_small = |stats: &&SegmentStats| stats.blocks * small > stats.stat.live;
    let lives_on = |stats: &&SegmentStats| {
        let lived = now.saturating_sub(stats.stat.born);
        let dies = stats.stat_at(&clocks).dies;
        dies.wait(now).is_none_or(|wait| wait >= lived)
    };
    let mut all_stats: Vec<&SegmentStats> = log
        .segment_stats()
        .values()
        .filter(|stats| stats.blocks > 0 && !but.contains(&stats.stat.number))
        .filter(|stats| is_small(stats) && lives_on(stats))
        .collect();
    all_stats.sort_by_key(|stats| (stats.stat.lane, stats.stat.number));
    // Another merge may need as much space, and writers continue in the meantime.
    let headroom = log.headroom(&head.load()) / 4;
    let most = log.extra_left().min(headroom);
    let list = most_blocks(core);
    (1..=TOGETHER)
        .flat_map(|count| all_stats.windows(count))
        .filter(|some| some[0].stat.lane == some[some.len() - 1].stat.lane)
        .map(|some| Candidates::of(some, u64::from(core.block_bytes())))
        .filter(|some| some.live <= most && some.blocks <= list && some.is_worth_it())
        .max_by(|a, b| a.score().total_cmp(&b.score()))
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
    let Some(some) = untidy(core, &but) else {
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
