//! Making room: segments that are dead are dropped unread, of others the live blocks are written
//! again, and when neither is enough, the oldest blocks are let go or writers are refused.
//!
//! A merge in order: the victims' names say that they are being merged; their live blocks are added
//! to the segments of the lanes that their remaining life asks for, like new ones (`rewriting`), a
//! source's small ones gathered into larger ones (`gathering`); when these are on disk, sealed or in
//! a chapter, the victims are dropped. A crash in between leaves blocks twice, which readers see
//! once, and which are dead in the victim. So a victim is never dropped before what it kept is
//! durable, and nothing that was dead is written again.

mod dropping;
pub(super) mod gathering;
pub(crate) mod liveness;
pub(crate) mod memory;
pub(super) mod rewriting;

use self::dropping::{bury, drop_eaten, empty_graveyard};
use self::liveness::{Census, census, segment, survey_segments};
use self::memory::{Record, Unfinished};
use crate::core::Core;
use crate::error::Error;
use crate::jobs::merging::rewriting::merge_segments;
use crate::jobs::writing::Writing;
use crate::segment::sealed::Segment;
use crate::volume::SlotState;
use seiner_merge::{Decision, View};
use std::sync::Arc;

/// Segments surveyed at a time.
const SURVEYS: usize = 8;
/// Decisions kept for whoever asks why.
const DECISIONS: usize = 64;

/// Counts what is live, drops what is dead or was written again, and goes on with a merge. Returns whether anything was
/// done, and what decisions are made from.
pub(super) fn begin(core: &Core, writing: &mut Writing) -> Result<(bool, Census), Error> {
    let census = census(core, writing, SURVEYS)?;
    let done = drop_eaten(core, writing)?;
    empty_graveyard(core, writing)?;
    Ok((done, census))
}

/// Goes on with a merge that is not done. Returns whether there was one.
pub(super) fn go_on(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let Some(Unfinished { victims, extra }) = writing.merge.unfinished.take() else {
        return Ok(false);
    };
    merge_segments(core, writing, &victims, extra)?;
    Ok(true)
}

/// Drops and merges as the policy decides. Returns whether there was need to.
pub(super) fn merge(core: &Core, writing: &mut Writing, census: Census) -> Result<bool, Error> {
    let decision = decide(core, writing, census);
    if decision.is_empty() {
        return Ok(false);
    }
    carry_out(core, writing, &decision)?;
    Ok(true)
}

fn decide(core: &Core, writing: &mut Writing, census: Census) -> Decision {
    let (now, mut segments) = (census.now, census.segments);
    segments.retain(|stat| !writing.merge.unreadable.contains(&stat.number));
    let decision = writing.merge.policy.choose(&View {
        now,
        fill: census.fill,
        output_limit: core.segment_bytes,
        least_dead_share: census.least_dead_share,
        segments: &segments,
    });
    let mut decided = core.decided();
    decided.memory = writing.merge.policy.memory();
    if !decision.is_empty() {
        if decided.records.len() == DECISIONS {
            decided.records.pop_front();
        }
        decided.records.push_back(Record {
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
            // It may bear the name of a victim since before the start.
            let slot = match writing.merge.merging.contains(&number) {
                true => SlotState::Merging,
                false => SlotState::Sealed,
            };
            (segment(&log, number), slot)
        });
        gone.collect()
    };
    bury(core, writing, gone)?;
    let victims = decision.merge.iter().map(|victim| victim.number);
    let victims = worth_it(core, writing, victims.collect())?;
    merge_segments(core, writing, &victims, false)
}

/// Those of some segments in which as much is dead as was foretold. One that turns out to be all
/// dead is dropped next, unread.
fn worth_it(core: &Core, writing: &mut Writing, numbers: Vec<u64>) -> Result<Vec<u64>, Error> {
    let foretold: Vec<Arc<Segment>> = {
        let log = core.log();
        let moment = log.retention.moment();
        let foretold = numbers.iter();
        let foretold = foretold.filter(|number| log.tallies()[number].is_foretold(&moment));
        foretold.map(|&number| segment(&log, number)).collect()
    };
    survey_segments(core, writing, &foretold)?;
    let log = core.log();
    let least = log.least_dead_share();
    let is_worth_it = |number: &u64| {
        let found = log.tallies()[number].stat;
        !found.is_dead() && found.dead_share() >= least
    };
    Ok(numbers.into_iter().filter(is_worth_it).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delete::delete;
    use crate::jobs::testing::{SECOND, World, options};
    use seiner_model::{Interval, Selector};

    fn delete_rows(world: &World, seconds: std::ops::Range<i64>) {
        let interval = Interval::new(seconds.start * SECOND, seconds.end * SECOND - 1);
        delete(&world.core, &Selector::all(), interval).unwrap();
    }

    #[test]
    fn a_segment_that_is_all_dead_is_dropped_unread() {
        let world = World::new(options());
        world.append("m", 0..20_000);
        world.settle();
        let before = world.sealed().0;
        delete_rows(&world, 0..20_000);
        world.run(crate::jobs::make_space);
        assert!(before > 1 && world.sealed().0 == 0, "{before}");
        assert_eq!(world.core.log().counters.merge_read, 0);
    }

    #[test]
    fn live_blocks_of_victims_are_written_again() {
        let world = World::new(options());
        world.append("m", 0..6_000);
        world.settle();
        delete_rows(&world, 1_000..5_000);
        let victims: Vec<u64> = world.core.log().sealed().keys().copied().collect();
        merge_segments(&world.core, &mut world.writing(), &victims, false).unwrap();
        world.settle();
        world.run(crate::jobs::make_space);
        assert_eq!(world.rows(), 2_000);
        let log = world.core.log();
        assert!(
            victims
                .iter()
                .all(|number| !log.sealed().contains_key(number))
        );
        assert!(log.counters.merge_written < 30_000, "the dead are not");
    }
}
