//! Gathering small blocks where no room is wanted, for the sake of reads, within a budget of writes.
//!
//! Memory that is short, slow sources and frequent restarts leave small blocks: each is a read of its
//! own, and compresses badly. What `Options::extra_writes` allows for each byte stored is spent where
//! a byte written again does away with most blocks: on neighbouring segments of a lane whose blocks
//! become three times as large, and live on for as long as they have lived.

use crate::core::Core;
use crate::error::Error;
use crate::jobs::merging::gathering::Live;
use crate::jobs::merging::liveness::opened;
use crate::jobs::merging::rewriting::Plan;
use crate::jobs::merging::rewriting::{living, may_gather, merge_segments, plan_rewriting};
use crate::jobs::writing::Writing;
use crate::segment::tally::Tally;
use std::collections::HashSet;

/// Segments that are gathered together at most.
const TOGETHER: usize = 4;
/// Blocks become so many times as large at least.
const LEAST_GROWTH: u64 = 3;
/// Blocks are small below this part of B.
const SMALL_SHARE: u64 = 4;
/// The list of blocks takes no more than this part of the memory.
const LIST_SHARE: u64 = 32;

/// Segments that may be worth it.
struct Candidates {
    numbers: Vec<u64>,
    live: u64,
    blocks: u64,
    /// Blocks that would be left, if every source's followed each other.
    left: u64,
}

impl Candidates {
    fn of(tallies: &[&Tally], block_bytes: u64) -> Candidates {
        let sum = |of: fn(&Tally) -> u64| tallies.iter().map(|tally| of(tally)).sum::<u64>();
        let live = sum(|tally| tally.stat.live);
        let sources = tallies.iter().map(|tally| tally.sources).max();
        Candidates {
            numbers: tallies.iter().map(|tally| tally.stat.number).collect(),
            live,
            blocks: sum(|tally| tally.blocks),
            left: sources.unwrap_or(0).max(live / block_bytes),
        }
    }

    fn is_worth_it(&self) -> bool {
        self.blocks >= LEAST_GROWTH * self.left.max(1)
    }

    /// Blocks done away with for each byte written.
    fn score(&self) -> f64 {
        (self.blocks - self.left) as f64 / self.live.max(1) as f64
    }
}

/// The best segments to gather blocks of.
fn untidy(core: &Core, but: &HashSet<u64>) -> Option<Candidates> {
    let (head, log) = core.both();
    let moment = log.retention.moment();
    let now = moment.now;
    let small = u64::from(core.block_bytes()) / SMALL_SHARE;
    let is_small = |tally: &&Tally| tally.blocks * small > tally.stat.live;
    let lives_on = |tally: &&Tally| {
        let lived = now.saturating_sub(tally.stat.born);
        let dies = tally.stat_at(&moment).dies;
        dies.wait(now).is_none_or(|wait| wait >= lived)
    };
    let mut tallies: Vec<&Tally> = log
        .tallies()
        .values()
        .filter(|tally| tally.blocks > 0 && !but.contains(&tally.stat.number))
        .filter(|tally| is_small(tally) && lives_on(tally))
        .collect();
    tallies.sort_by_key(|tally| (tally.stat.lane, tally.stat.number));
    // Another merge may want as much room, and writers go on meanwhile.
    let room = log.room_for_writers(&head.load()) / 4;
    let most = log.extra_left().min(room);
    let list = core.memory_limit() / LIST_SHARE / size_of::<Live>() as u64;
    (1..=TOGETHER)
        .flat_map(|count| tallies.windows(count))
        .filter(|some| some[0].stat.lane == some[some.len() - 1].stat.lane)
        .map(|some| Candidates::of(some, u64::from(core.block_bytes())))
        .filter(|some| some.live <= most && some.blocks <= list && some.is_worth_it())
        .max_by(|a, b| a.score().total_cmp(&b.score()))
}

/// Gathers the small blocks of some segments, if that is allowed and worth it; answers whether
/// anything was done.
pub(crate) fn tidy(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    if !may_gather(core, writing) {
        return Ok(false);
    }
    let eaten = writing
        .merge
        .eaten
        .iter()
        .map(|eaten| eaten.segment.trailer.number);
    let mut but: HashSet<u64> = eaten.collect();
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

/// Whether as many blocks follow each other as it seems.
fn is_untidy(core: &Core, writing: &mut Writing, some: &Candidates) -> Result<bool, Error> {
    let opened = opened(core, writing, &some.numbers)?;
    if opened.len() < some.numbers.len() {
        return Ok(false);
    }
    let mut live = Vec::new();
    for (victim, (_, entries)) in living(core, writing, opened).into_iter().enumerate() {
        live.extend(entries.into_iter().map(|entry| Live { victim, entry }));
    }
    let blocks = live.len() as u64;
    let Plan {
        copies, sheaves, ..
    } = plan_rewriting(core, writing, live);
    let outputs: usize = sheaves.iter().map(|sheaf| sheaf.outputs.len()).sum();
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
            world.settle();
        }
        assert_eq!(world.sealed(), (12, 12));
        assert!(world.run(tidy) > 0);
        world.settle();
        assert_eq!(world.rows(), 48);
        let gathered = world.core.log().counters.gathered_blocks;
        assert!(gathered >= 4, "{gathered} blocks are in larger ones");
    }

    #[test]
    fn without_leave_to_write_nothing_is_gathered() {
        let mut options = options();
        options.extra_writes = 0.0;
        let world = World::new(options);
        for start in 0..12 {
            world.append("m", start * 4..start * 4 + 4);
            world.settle();
        }
        assert_eq!(world.run(tidy), 0);
    }
}
