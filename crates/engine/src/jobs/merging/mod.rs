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
mod floor;
mod gathering;
pub(crate) mod letting_go;
pub(crate) mod liveness;
pub(crate) mod memory;
pub(crate) mod overwritten;
mod rewriting;
mod tidying;

use self::dropping::{bury, drop_eaten, empty_graveyard};
use self::letting_go::{bring_down_quotas, shed_ahead};
use self::liveness::{Census, census, segment, survey_segments};
use self::memory::{Record, Unfinished};
use crate::core::Core;
use crate::error::Error;
use crate::jobs::merging::rewriting::merge_segments;
use crate::jobs::merging::tidying::tidy;
use crate::jobs::writing::Writing;
use crate::segment::sealed::Segment;
use crate::volume::SlotState;
use seiner_merge::{Decision, View};
use std::sync::Arc;

/// Segments surveyed at a time.
const SURVEYS: usize = 8;
/// Decisions kept for whoever asks why.
const DECISIONS: usize = 64;

/// Drops, merges and lets go as far as there is need; answers whether anything was done.
pub(crate) fn tend(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let census = census(core, writing, SURVEYS)?;
    let done = drop_eaten(core, writing)?;
    empty_graveyard(core, writing)?;
    bring_down_quotas(core)?;
    if let Some(Unfinished { victims, extra }) = writing.unfinished.take() {
        merge_segments(core, writing, &victims, extra)?;
        return Ok(true);
    }
    let decision = decide(core, writing, census);
    if decision.is_empty() {
        return Ok(shed_ahead(core, writing)? || done || tidy(core, writing)?);
    }
    carry_out(core, writing, &decision)?;
    Ok(true)
}

fn decide(core: &Core, writing: &mut Writing, census: Census) -> Decision {
    let (now, mut segments) = (census.now, census.segments);
    segments.retain(|stat| !writing.unreadable.contains(&stat.number));
    let decision = writing.policy.choose(&View {
        now,
        fill: census.fill,
        output_limit: core.segment_bytes,
        least_dead_share: census.least_dead_share,
        segments: &segments,
    });
    let mut decided = core.decided();
    decided.memory = writing.policy.memory();
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
            let slot = match writing.merging.contains(&number) {
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
