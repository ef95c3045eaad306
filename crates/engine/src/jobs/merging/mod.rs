//! Merging: reclaims disk space. In order: drop segments without live blocks; merge segments
//! (rewrite their live blocks); then shed the oldest blocks or reject writes.
//!
//! A merge takes these steps:
//!
//! 1. The victims are renamed to mark that they are being merged.
//! 2. Their live blocks are added, like new blocks, to the segments of the lanes for their
//!    remaining life (`rewriting`). Small blocks of a source are combined into larger blocks
//!    (`coalescing`).
//! 3. When these blocks are on disk, sealed or in a checkpoint, the victims are dropped.
//!
//! A crash in between leaves blocks twice. Readers see them once, and the copies in the victim are
//! dead. A victim is never dropped before its live blocks are durable elsewhere, and no dead block
//! is rewritten.

mod bundling;
pub(super) mod coalescing;
mod dropping;
pub(super) mod joining;
pub(crate) mod liveness;
pub(crate) mod memory;
pub(super) mod rewriting;
pub(super) mod victims;

use self::dropping::{delete_obsolete, drop_merged, retire};
use self::liveness::{StatsSnapshot, scan_segments, segment, snapshot};
use self::memory::{DecisionRecord, PausedMerge};
use crate::core::Core;
use crate::error::Error;
use crate::jobs::merging::rewriting::merge_segments;
use crate::jobs::merging::victims::most_blocks;
use crate::jobs::writing::Writing;
use crate::segment::sealed::Segment;
use crate::volume::SlotState;
use seiner_merge::{Decision, View};
use std::sync::Arc;

/// Number of segments whose liveness is scanned at a time.
const SCANS: usize = 8;
/// Number of decisions kept for inspection.
const DECISIONS: usize = 64;

/// Scans the liveness of segments, drops dead or rewritten segments, and continues a merge. Returns whether
/// anything was done, and the inputs of decisions.
pub(super) fn begin(core: &Core, writing: &mut Writing) -> Result<(bool, StatsSnapshot), Error> {
    let snapshot = snapshot(core, writing, SCANS)?;
    let done = drop_merged(core, writing)?;
    delete_obsolete(core, writing)?;
    Ok((done, snapshot))
}

/// Continues an unfinished merge. Returns whether there was one.
pub(super) fn resume(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let Some(PausedMerge { victims, extra }) = writing.merge.paused.take() else {
        return Ok(false);
    };
    merge_segments(core, writing, &victims, extra)?;
    Ok(true)
}

/// Drops and merges segments as the policy decides. Returns whether there was a need.
pub(super) fn merge(
    core: &Core,
    writing: &mut Writing,
    snapshot: StatsSnapshot,
) -> Result<bool, Error> {
    let decision = decide(core, writing, snapshot);
    if decision.is_empty() {
        return Ok(false);
    }
    carry_out(core, writing, &decision)?;
    Ok(true)
}

fn decide(core: &Core, writing: &mut Writing, snapshot: StatsSnapshot) -> Decision {
    let (now, mut segments) = (snapshot.now, snapshot.segments);
    segments.retain(|stat| !writing.merge.unreadable.contains(&stat.number));
    let decision = writing.merge.policy.choose(&View {
        now,
        fill: snapshot.fill,
        output_limit: core.segment_bytes,
        least_dead_share: snapshot.least_dead_share,
        segments: &segments,
    });
    let mut decided = core.decided();
    decided.memory = writing.merge.policy.memory();
    if !decision.is_empty() {
        if decided.records.len() == DECISIONS {
            decided.records.pop_front();
        }
        decided.records.push_back(DecisionRecord {
            at: now,
            decision: decision.clone(),
        });
    }
    decision
}

fn carry_out(core: &Core, writing: &mut Writing, decision: &Decision) -> Result<(), Error> {
    let gone: Vec<_> = {
        let log = core.log();
        let gone = decision.drop.iter().map(|&number| {
            // The segment may have had the name of a victim since before the start.
            let slot = match writing.merge.merging.contains(&number) {
                true => SlotState::Merging,
                false => SlotState::Sealed,
            };
            (segment(&log, number), slot)
        });
        gone.collect()
    };
    retire(core, writing, gone)?;
    let victims = decision.merge.iter().map(|victim| victim.number);
    let victims = worth_it(core, writing, victims.collect())?;
    merge_segments(core, writing, &victims, false)
}

/// Returns the segments in which as much is dead as forecast, and no more of them than the memory
/// for their lists of blocks permits. A segment that proves to be entirely dead is dropped next,
/// unread.
fn worth_it(core: &Core, writing: &mut Writing, numbers: Vec<u64>) -> Result<Vec<u64>, Error> {
    let forecast: Vec<Arc<Segment>> = {
        let log = core.log();
        let clocks = log.retention.clocks();
        let forecast = numbers.iter();
        let forecast =
            forecast.filter(|number| log.segment_stats()[number].has_forecast_deaths(&clocks));
        forecast.map(|&number| segment(&log, number)).collect()
    };
    scan_segments(core, writing, &forecast)?;
    let log = core.log();
    let least = log.least_dead_share();
    let is_worth_it = |number: &u64| {
        let found = log.segment_stats()[number].stat;
        !found.is_dead() && found.dead_share() >= least
    };
    let most = most_blocks(core);
    let mut blocks = 0;
    let victims = numbers.into_iter().filter(is_worth_it);
    let victims = victims.take_while(|number| {
        let first = blocks == 0;
        blocks += log.segment_stats()[number].blocks;
        first || blocks <= most
    });
    Ok(victims.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delete::delete;
    use crate::jobs::testing::{SECOND, World, options};
    use crate::log::Log;
    use seiner_model::{Interval, Selector};
    use seiner_platform::sim::{Chance, Faults};

    fn delete_rows(world: &World, seconds: std::ops::Range<i64>) {
        let interval = Interval::new(seconds.start * SECOND, seconds.end * SECOND - 1);
        delete(&world.core, &Selector::all(), interval).unwrap();
    }

    /// Returns a world with 2,000 live rows, and its first segments, which a merge has rewritten.
    fn merged() -> (World, Vec<u64>) {
        let world = World::new(options());
        world.append("m", 0..6_000);
        world.flush();
        delete_rows(&world, 1_000..5_000);
        let victims: Vec<u64> = world.core.log().sealed().keys().copied().collect();
        merge_segments(&world.core, &mut world.writing(), &victims, false).unwrap();
        world.flush();
        (world, victims)
    }

    fn are_gone(log: &Log, numbers: &[u64]) -> bool {
        let mut numbers = numbers.iter();
        numbers.all(|number| !log.sealed().contains_key(number))
    }

    #[test]
    fn a_segment_that_is_all_dead_is_dropped_unread() {
        let world = World::new(options());
        world.append("m", 0..20_000);
        world.flush();
        let before = world.sealed().0;
        delete_rows(&world, 0..20_000);
        world.run(crate::jobs::make_space);
        assert!(before > 1 && world.sealed().0 == 0, "{before}");
        assert_eq!(world.core.log().counters.merge_read, 0);
    }

    #[test]
    fn live_blocks_of_victims_are_written_again() {
        let (world, victims) = merged();
        world.run(crate::jobs::make_space);
        assert_eq!(world.rows(), 2_000);
        let log = world.core.log();
        assert!(are_gone(&log, &victims));
        assert!(log.counters.merge_written < 30_000, "the dead are not");
    }

    #[test]
    fn victims_are_dropped_after_a_failure_of_the_disk_without_another_merge() {
        let (world, victims) = merged();
        assert!(world.core.log().space.merged() > 0);
        let always = Faults {
            write_error: Chance::ALWAYS,
            ..Faults::default()
        };
        world.disk.set_faults(always);
        assert!(begin(&world.core, &mut world.writing()).is_err());
        world.disk.set_faults(Faults::default());
        world.run(crate::jobs::make_space);
        let log = world.core.log();
        assert!(are_gone(&log, &victims));
        assert_eq!(log.counters.segments_merged, victims.len() as u64);
        assert_eq!(log.space.merged(), 0);
    }
}
