//! Expiry: classes lose their oldest blocks, because of their quotas or to make space.

mod floor;

use self::floor::floor_for;
use crate::core::Core;
use crate::error::Error;
use crate::jobs::merging::liveness::survey_all;
use crate::jobs::writing::Writing;
use crate::retention::class::Class;
use crate::segment::tally::Share;

/// A quota is brought down when it is exceeded by this part, and shedding lets go of as much of the
/// budget: seldom enough to be worth a note in the catalog.
const STEP: u64 = 64;
/// Shedding begins when writers have less than this part of the budget left: before they are slowed.
const AHEAD: u64 = 32;
/// Everything is counted anew before something is shed, but no more often than this while as much is
/// written as the budget holds.
const SURVEYS_A_BUDGET: u64 = 16;

/// Lets classes that have more than their quota go of their oldest blocks.
pub(crate) fn bring_down_quotas(core: &Core) -> Result<(), Error> {
    let over: Vec<(u8, u64)> = {
        let log = core.log();
        let classes = log.retention.classes();
        if classes.iter().all(|class| class.keep.bytes.is_none()) {
            return Ok(());
        }
        over_quota(&log.live_by_class(), classes)
    };
    for (class, bytes) in over {
        let_go(core, class, bytes)?;
    }
    Ok(())
}

/// Returns the classes that exceed their quotas by enough, each with the bytes that it has too many. `live`: live bytes
/// by class.
fn over_quota(live: &[(u8, u64)], classes: &[Class]) -> Vec<(u8, u64)> {
    let over = live.iter().filter_map(|&(class, live)| {
        let quota = classes[class as usize].keep.bytes?;
        (live > quota + quota / STEP).then(|| (class, live - quota))
    });
    over.collect()
}

/// Sheds before writers are slowed for want of room, when nothing is worth a merge; answers whether
/// there was need to.
pub(crate) fn shed_ahead(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let (written, budget) = {
        let (head, log) = core.both();
        let budget = log.budget();
        let eaten = writing
            .merge
            .eaten
            .iter()
            .map(|eaten| eaten.segment.room(core.unit));
        let coming = log.space.retired() + eaten.sum::<u64>();
        let room = log.room_for_writers(&head.load());
        if room + coming >= budget / AHEAD || !log.may_shed() {
            return Ok(false);
        }
        // What was let go last is counted first.
        if log.is_survey_due() {
            return Ok(true);
        }
        (log.counters.block_bytes, budget)
    };
    if written - writing.merge.surveyed >= budget / SURVEYS_A_BUDGET {
        writing.merge.surveyed = written;
        survey_all(core, writing)?;
        return Ok(true);
    }
    shed(core)
}

/// Sheds the oldest blocks of the class of the lowest priority that may be shed; answers
/// whether there were any.
pub(crate) fn shed(core: &Core) -> Result<bool, Error> {
    let (class, bytes) = {
        let mut log = core.log();
        let Some(class) = log.first_to_shed() else {
            return Ok(false);
        };
        let bytes = (log.budget() / STEP).max(2 * core.segment_bytes);
        // Counted first: if the disk fails now, they may be gone or not.
        log.counters.shed_bytes += bytes;
        core.health.note_shed(core.clock.monotonic());
        (class, bytes)
    };
    let_go(core, class, bytes)?;
    Ok(true)
}

/// Raises a class's floor so that about so many bytes die.
fn let_go(core: &Core, class: u8, bytes: u64) -> Result<(), Error> {
    let _span = tracing::trace_span!("let_go").entered();
    let floor = {
        let mut log = core.log();
        let shares = log.tallies().values().flat_map(|tally| &tally.shares);
        let shares: Vec<Share> = shares
            .filter(|share| share.class == class)
            .copied()
            .collect();
        let floor = floor_for(&shares, bytes);
        log.retention.note_floor(class, floor);
        floor
    };
    // On disk before it counts.
    core.write_catalog()?;
    // And so that no row is accepted into a block that is dead already.
    seal_slow(core, class, floor)?;
    let mut log = core.log();
    log.retention.raise(class, floor);
    let touched = |share: &Share| share.class == class && share.first < floor;
    for tally in log.tallies_mut() {
        if tally.shares.iter().any(touched) {
            tally.ask();
        }
    }
    Ok(())
}

/// Takes open blocks of a class that were begun below the middle of what is above its new floor: a block
/// dies by its number, and those of slow sources would go on taking rows when they are dead already.
fn seal_slow(core: &Core, class: u8, floor: u64) -> Result<(), Error> {
    let before = {
        let next = core.head().next_block();
        floor + next.saturating_sub(floor) / 2
    };
    let mut hand = Some(0);
    while let Some(from) = hand {
        let (next, is_behind) = {
            let mut head = core.head();
            let next = head.seal_slow(class, before, from);
            (next, head.is_sealer_behind())
        };
        hand = next;
        if is_behind {
            match core.finish_sealing() {
                // What was taken waits until there is room.
                Err(error) if !error.is_want_of_room() => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::World;
    use crate::retention::class::Classes;

    #[test]
    fn a_quota_is_brought_down_when_it_is_exceeded_by_a_part() {
        let mut class = Class::forever();
        class.keep.bytes = Some(64_000);
        let classes = Classes::new(vec![class]).unwrap();
        assert_eq!(over_quota(&[(0, 65_000)], classes.list()), []);
        assert_eq!(over_quota(&[(0, 65_001)], classes.list()), [(0, 1_001)]);
        assert_eq!(over_quota(&[(0, 1 << 40)], Classes::default().list()), []);
    }

    #[test]
    fn a_class_over_its_quota_loses_its_oldest_rows() {
        let world = World::of_class(|class| class.keep.bytes = Some(100_000));
        world.append("m", 0..20_000);
        world.settle();
        bring_down_quotas(&world.core).unwrap();
        let rows = world.rows();
        assert!((8_000..14_000).contains(&rows), "{rows} rows are left");
        let live: u64 = world
            .core
            .log()
            .live_by_class()
            .iter()
            .map(|one| one.1)
            .sum();
        assert!(live > 100_000, "what died is counted with the next survey");
    }

    #[test]
    fn nothing_is_shed_that_may_not_be() {
        let world = World::of_class(|class| class.keep.bytes = Some(100_000));
        world.append("m", 0..20_000);
        world.settle();
        assert!(!shed(&world.core).unwrap());
        assert_eq!(world.rows(), 20_000);
    }
}
