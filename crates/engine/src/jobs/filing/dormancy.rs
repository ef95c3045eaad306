//! Dormancy: names of sources without rows leave memory while the registry is nearly full.
//!
//! The name of a *dormant* source is found in a names file when the source gets a row again ([`crate::recall`]), which
//! takes about 10 µs instead of 0.1, and more if the disk must be read. Memory then limits the number of sources that
//! send rows, not the number of sources that a store has.

use super::memory::Dormancy;
use crate::core::Core;
use crate::dictionary::names::OTHER;
use crate::head::Head;
use crate::options::Filing;

/// When a source may become dormant.
struct Rest {
    /// Minimum time in which the source began no block, ns.
    time: u64,
    /// Minimum age of the last row of an open block, in ticks of an eighth of `idle_seal` (75 s).
    ticks: u16,
}

/// Usually, about ten minutes without a row.
const USUAL: Rest = Rest {
    time: 600_000_000_000,
    ticks: 8,
};
/// If new sources will soon be rejected for lack of memory.
const URGENT: Rest = Rest {
    time: 1_000_000_000,
    ticks: 2,
};
/// For tests.
const NONE: Rest = Rest { time: 0, ticks: 0 };
/// Time from a search that found nothing until the next, ns: all sources are in use.
const PAUSE: u64 = 60_000_000_000;
/// Number of locks of the head in a step of the job. Writers may wait for a step to end.
const LOCKS: usize = 32;

/// Performs a step: notes which sources are idle, or lets those become dormant that are idle for long enough. Returns
/// whether more can be done at once.
pub(super) fn make_dormant(core: &Core, dormancy: &mut Dormancy) -> bool {
    let next = match *dormancy {
        Dormancy::Off { until } => {
            if core.clock.monotonic() < until || !core.head().should_idle_leave() {
                return false;
            }
            Dormancy::Noting { cursor: 0 }
        }
        Dormancy::Noting { cursor } => match repeat(core, cursor, Head::add_idle) {
            Some(cursor) => Dormancy::Noting { cursor },
            None => Dormancy::Waiting {
                since: core.clock.monotonic(),
            },
        },
        Dormancy::Waiting { since } => {
            let Rest { time, ticks } = rest(core);
            if core.clock.monotonic() - since < time {
                return false;
            }
            Dormancy::Leaving {
                cursor: OTHER,
                ticks,
                before: dormant(core),
            }
        }
        Dormancy::Leaving {
            cursor,
            ticks,
            before,
        } => match repeat(core, cursor, |head, cursor| leave(head, cursor, ticks)) {
            Some(cursor) => Dormancy::Leaving {
                cursor,
                ticks,
                before,
            },
            None => end(core, before),
        },
    };
    *dormancy = next;
    true
}

/// Ends a search.
fn end(core: &Core, before: u64) -> Dormancy {
    core.head().clear_idle();
    if dormant(core) > before {
        core.request_trim();
        return Dormancy::Off { until: 0 };
    }
    let until = core.clock.monotonic() + PAUSE;
    Dormancy::Off { until }
}

fn dormant(core: &Core) -> u64 {
    core.head().filed_sources().1
}

/// Returns when a source may become dormant now.
fn rest(core: &Core) -> Rest {
    let is_urgent = core.head().must_idle_leave();
    match core.options().filing {
        Filing::Always => NONE,
        _ if is_urgent => URGENT,
        _ => USUAL,
    }
}

/// Repeats a part of a pass up to the work of a step, each time under a new lock. Returns the next cursor, unless the pass
/// is over.
fn repeat(core: &Core, cursor: u32, part: impl Fn(&mut Head, u32) -> Option<u32>) -> Option<u32> {
    (0..LOCKS).try_fold(cursor, |cursor, _| part(&mut core.head(), cursor))
}

/// Removes some names of idle sources: first those that are not canonical, then canonical names until enough memory is
/// left. Returns the next cursor, unless the pass is over.
fn leave(head: &mut Head, cursor: u32, ticks: u16) -> Option<u32> {
    if cursor >= OTHER {
        return match head.should_idle_leave() {
            true => Some(head.remove_idle_names(cursor, ticks).unwrap_or(0)),
            false => None,
        };
    }
    match head.should_more_leave() {
        true => head.remove_idle_names(cursor, ticks),
        false => None,
    }
}

#[cfg(test)]
mod tests;
