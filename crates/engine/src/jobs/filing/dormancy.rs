//! Dormancy: names of sources without rows leave memory while the registry is nearly full.
//!
//! The name of a *dormant* source is found in a names file when the source gets a row again ([`crate::recall`]), which
//! takes about 10 µs instead of 0.1, and more if the disk must be read. Memory then limits the number of sources that
//! send rows, not the number of sources that a store has.

use super::file::{AT_ONCE, file};
use super::memory::Dormancy;
use crate::core::Core;
use crate::dictionary::names::OTHER;
use crate::error::Error;
use crate::head::Head;
use crate::jobs::writing::Writing;
use crate::options::Filing;
use std::sync::atomic::Ordering;

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
///
/// # Errors
/// If a names file cannot be written.
pub(super) fn make_dormant(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let next = match writing.filing.dormancy {
        Dormancy::Off { until } => {
            if core.clock.monotonic() < until || !core.head().should_idle_leave() {
                return Ok(false);
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
                return Ok(false);
            }
            let before = dormant(core);
            let cursor = OTHER;
            let is_short = core.head().should_idle_leave();
            core.may_recall.fetch_or(is_short, Ordering::Relaxed);
            match is_short {
                true => Dormancy::Leaving {
                    cursor,
                    ticks,
                    before,
                },
                false => end(core, before),
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
            None if core.head().should_more_leave() => Dormancy::Filing { ticks, before },
            None => end(core, before),
        },
        Dormancy::Filing { ticks, before } => {
            let filed = file_idle(core, writing, ticks)?;
            let is_short = core.head().should_more_leave();
            match filed && is_short {
                true => Dormancy::Filing { ticks, before },
                false => end(core, before),
            }
        }
    };
    writing.filing.dormancy = next;
    Ok(true)
}

/// Files some idle sources, and removes their names from memory. Returns false if there are too few.
fn file_idle(core: &Core, writing: &mut Writing, ticks: u16) -> Result<bool, Error> {
    let keep = |head: &mut Head, some| head.take_idle(some, ticks);
    let filed = file(core, writing, Head::noted_idle, keep)?;
    let names: Vec<(u32, u32)> = filed.iter().map(|source| (source, source)).collect();
    for some in names.chunks(AT_ONCE) {
        core.head().remove_if_idle(some, ticks);
    }
    Ok(!filed.is_empty())
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
    match cursor < OTHER {
        true if !head.should_more_leave() => None,
        true => head.remove_idle_names(cursor, ticks),
        false => Some(head.remove_idle_names(cursor, ticks).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests;
