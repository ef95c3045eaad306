//! Expiry: classes lose their oldest blocks because of their quotas, or to free space.

mod floor;

use self::floor::floor_for;
use crate::core::Core;
use crate::error::Error;
use crate::jobs::merging::liveness::scan_all;
use crate::jobs::writing::Writing;
use crate::log::Log;
use crate::retention::class::Class;
use crate::segment::stats::Share;

/// Fraction by which a quota must be exceeded before it is enforced, and fraction of the budget
/// that shedding frees. The steps are large, so that notes in the catalog are rare.
const STEP: u64 = 64;
/// Fraction of the budget left to writers below which shedding begins. Writers are slowed later.
const AHEAD: u64 = 32;
/// Maximum number of full liveness scans while a budget's worth of bytes is written. A full scan
/// precedes shedding.
const SCANS_A_BUDGET: u64 = 16;

/// Expires the oldest blocks of classes that exceed their quota.
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
        expire_oldest(core, class, bytes)?;
    }
    Ok(())
}

/// Returns the classes that exceed their quotas by enough, each with its excess bytes. `live`
/// contains the live bytes by class.
fn over_quota(live: &[(u8, u64)], classes: &[Class]) -> Vec<(u8, u64)> {
    let over = live.iter().filter_map(|&(class, live)| {
        let quota = classes[class as usize].keep.bytes?;
        (live > quota + quota / STEP).then(|| (class, live - quota))
    });
    over.collect()
}

/// Inputs of a plan for shedding, of one moment.
#[derive(Clone, Copy)]
struct SheddingView {
    /// Bytes that the store may occupy.
    budget: u64,
    /// Bytes that writers may still use.
    headroom: u64,
    /// Bytes of segments that are deleted soon.
    coming: u64,
    /// Bytes of all blocks sealed, now and at the last full liveness scan.
    written: u64,
    scanned: u64,
}

/// Step before writers are slowed for lack of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shedding {
    /// Does nothing: there is space, or nothing may be shed.
    None,
    /// Waits until the blocks shed in the last run are counted.
    Wait,
    /// Scans the liveness of all segments.
    Scan,
    /// Sheds the oldest blocks of a class.
    Shed,
}

/// Returns the next step before writers are slowed for lack of space. `may_shed` returns whether
/// shedding is possible and sensible, `is_scan_due` whether the liveness scan of any segment is due.
/// Both read all segments, and are called only if space is short.
fn plan(
    view: SheddingView,
    may_shed: impl FnOnce() -> bool,
    is_scan_due: impl FnOnce() -> bool,
) -> Shedding {
    if view.headroom + view.coming >= view.budget / AHEAD || !may_shed() {
        Shedding::None
    } else if is_scan_due() {
        Shedding::Wait
    } else if view.written - view.scanned >= view.budget / SCANS_A_BUDGET {
        Shedding::Scan
    } else {
        Shedding::Shed
    }
}

/// Sheds before writers are slowed for lack of space, if no merge is worthwhile. Returns whether
/// shedding was needed.
pub(crate) fn shed_ahead(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let written;
    let step = {
        let (head, log) = core.both();
        written = log.counters.block_bytes;
        let view = SheddingView {
            budget: log.budget(),
            headroom: log.headroom(&head.load()),
            coming: log.space.retired() + log.space.merged(),
            written,
            scanned: writing.merge.scanned,
        };
        plan(view, || log.may_shed(), || log.is_scan_due())
    };
    match step {
        Shedding::None => Ok(false),
        Shedding::Wait => Ok(true),
        Shedding::Scan => {
            writing.merge.scanned = written;
            scan_all(core, writing)?;
            Ok(true)
        }
        Shedding::Shed => shed(core),
    }
}

/// Sheds the oldest blocks of the class with the lowest priority that may be shed. Returns whether
/// there were any.
pub(crate) fn shed(core: &Core) -> Result<bool, Error> {
    let (class, bytes) = {
        let mut log = core.log();
        let Some(class) = log.first_to_shed() else {
            return Ok(false);
        };
        let bytes = (log.budget() / STEP).max(2 * core.segment_bytes);
        // Counted first: if the disk fails now, it is unknown whether the blocks are shed.
        log.counters.shed_bytes += bytes;
        core.health.note_shed(core.clock.monotonic());
        (class, bytes)
    };
    expire_oldest(core, class, bytes)?;
    Ok(true)
}

/// Raises the floor of a class so that about `bytes` bytes die.
fn expire_oldest(core: &Core, class: u8, bytes: u64) -> Result<(), Error> {
    let _span = tracing::trace_span!("expire").entered();
    let floor = {
        let mut log = core.log();
        let shares = log.segment_stats().values().flat_map(|stats| &stats.shares);
        let shares: Vec<Share> = shares
            .filter(|share| share.class == class)
            .copied()
            .collect();
        let floor = floor_for(&shares, bytes);
        log.retention.note_floor(class, floor);
        floor
    };
    // The floor is on disk before it takes effect.
    core.write_catalog()?;
    // Open blocks are sealed, so that no row is accepted into a dead block.
    seal_slow(core, class, floor)?;
    raise(&mut core.log(), class, floor);
    Ok(())
}

/// Expires all blocks with numbers below `floor`. No later row may be added to an open block among them.
pub(crate) fn expire_before(core: &Core, floor: u64) -> Result<(), Error> {
    let classes = {
        let mut log = core.log();
        let classes = 0..log.retention.class_count();
        for class in classes.clone() {
            log.retention.note_floor(class, floor);
        }
        classes
    };
    // The floors are on disk before they take effect.
    core.write_catalog()?;
    let mut log = core.log();
    classes.for_each(|class| raise(&mut log, class, floor));
    Ok(())
}

/// Raises the floor of a class, and requests liveness scans of the segments that lose blocks.
fn raise(log: &mut Log, class: u8, floor: u64) {
    log.retention.raise(class, floor);
    let touched = |share: &Share| share.class == class && share.first < floor;
    for stats in log.segment_stats_mut() {
        if stats.shares.iter().any(touched) {
            stats.request_scan();
        }
    }
}

/// Seals open blocks of a class that were begun below the middle between the new floor and the
/// newest block. Blocks die by their numbers, so open blocks of slow sources would otherwise accept
/// rows when they are already dead.
fn seal_slow(core: &Core, class: u8, floor: u64) -> Result<(), Error> {
    let next = core.head().next_block();
    let before = floor + next.saturating_sub(floor) / 2;
    seal_before(core, class, before)
}

/// Seals open blocks of a class with numbers below `before`.
fn seal_before(core: &Core, class: u8, before: u64) -> Result<(), Error> {
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let (next, is_behind) = {
            let mut head = core.head();
            let next = head.seal_slow(class, before, from);
            (next, head.is_sealer_behind())
        };
        cursor = next;
        if is_behind {
            match core.finish_sealing() {
                // Blocks that were taken wait until there is space.
                Err(error) if !error.is_out_of_space() => return Err(error),
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
    fn shedding_begins_before_the_space_is_used_up() {
        let view = SheddingView {
            budget: 3_200,
            headroom: 60,
            coming: 39,
            written: 1_000,
            scanned: 801,
        };
        assert_eq!(plan(view, || true, || false), Shedding::Shed);
        let enough = SheddingView { coming: 40, ..view };
        let unread = || -> bool { panic!("the segments are read although there is space") };
        assert_eq!(plan(enough, unread, unread), Shedding::None);
        assert_eq!(plan(view, || false, || false), Shedding::None);
        assert_eq!(plan(view, || true, || true), Shedding::Wait);
        let grown = SheddingView {
            scanned: 800,
            ..view
        };
        assert_eq!(plan(grown, || true, || false), Shedding::Scan);
    }

    #[test]
    fn a_quota_is_enforced_beyond_a_tolerance() {
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
        world.flush();
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
        assert!(live > 100_000, "what died is counted with the next scan");
    }

    #[test]
    fn a_class_that_may_not_shed_keeps_its_rows() {
        let world = World::of_class(|class| class.keep.bytes = Some(100_000));
        world.append("m", 0..20_000);
        world.flush();
        assert!(!shed(&world.core).unwrap());
        assert_eq!(world.rows(), 20_000);
    }
}
