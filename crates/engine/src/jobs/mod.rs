//! Jobs on segments, one step at a time: writing and sealing, merging, roll-up, expiry, and
//! detection of overwritten blocks.
//!
//! A step runs under the `writing` lock. Production uses a thread of its own; the simulator calls
//! each step directly. [`choice`] defines the order of the jobs.

mod choice;
pub(crate) mod expire;
pub(crate) mod filing;
pub(crate) mod forgetting;
pub(crate) mod free;
pub(crate) mod gathering;
pub(crate) mod idle;
pub(crate) mod merging;
mod overwrites;
pub(crate) mod rollup;
pub(crate) mod segments;
#[cfg(test)]
pub(crate) mod testing;
mod tidying;
pub(crate) mod writing;

use self::choice::{Choice, ChoiceInputs};
use self::idle::seal_idle;
use self::segments::Waiting;
use self::writing::Writing;
use crate::core::Core;
use crate::error::Error;
use crate::jobs::expire::{bring_down_quotas, shed_ahead};
use crate::jobs::filing::file_names;
use crate::jobs::forgetting::forget;
use crate::jobs::free::query_free_space;
use crate::jobs::gathering::seal_gathered;
use crate::jobs::overwrites::find_overwritten;
use crate::jobs::rollup::{is_rollup_due, roll_up};
use crate::jobs::segments::{
    seal_segments, waiting_pieces, write_checkpoints, write_pieces, write_waiting,
};
use crate::jobs::tidying::tidy;
use crate::segment::open::OpenSegment;
use crate::trouble::Path;

/// Maximum number of slots claimed ahead.
const READY: usize = 16;

/// Next kind of work.
enum Next {
    Write(Vec<Waiting>),
    Seal,
    Checkpoint,
    Idle,
}

/// State of the store that decides the next work, read under one lock.
struct StepState {
    next: Next,
    /// True if the time should be written to the disk.
    is_time_due: bool,
    /// True if the slots claimed ahead were used. The next fields: roll-up levels are due, and
    /// blocks may overwrite others.
    is_short_of_slots: bool,
    is_rollup_due: bool,
    is_late: bool,
}

/// Performs a step of background work: writes a piece, seals a segment, writes checkpoints, seals idle
/// sources, drops or merges segments. Returns whether more work is waiting.
pub(crate) fn step(core: &Core) -> Result<bool, Error> {
    step_or_poison(core, &mut core.writing())
}

pub(crate) fn step_or_poison(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let result = step_with(core, writing);
    if let Err(error) = &result {
        core.poison(error);
    }
    core.note_trouble(Path::Segments, &result);
    result
}

pub(crate) fn step_with(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let result = take_step(core, writing);
    if let Err(error) = &result
        && error.is_out_of_space()
    {
        // There is no space, but a segment may be ready to be dropped.
        query_free_space(core, writing)?;
        make_space(core, writing)?;
    }
    result
}

fn take_step(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    core.write_ledger_if_requested()?;
    seal_gathered(core, writing)?;
    let state = read_state(core, writing)?;
    if state.is_time_due {
        match core.persist_time(true) {
            // Expired data stays until a few bytes of space are free.
            Err(error) if !error.is_out_of_space() => return Err(error),
            _ => {}
        }
    }
    match state.next {
        Next::Write(waiting) => write_waiting(core, waiting).map(|()| true),
        Next::Seal => write_and_seal(core, writing).map(|()| true),
        Next::Checkpoint => write_checkpoints(core, writing, |_| true).map(|()| true),
        Next::Idle => {
            query_free_space(core, writing)?;
            if state.is_short_of_slots {
                claim_ahead(core)?;
            }
            if seal_idle(core, writing)? {
                return Ok(true);
            }
            // A roll-up pass may be long, and dead data should not wait for its end.
            let more = state.is_rollup_due && roll_up(core, writing)?;
            let late = state.is_late && find_overwritten(core, writing)?;
            if make_space(core, writing)? || more || late {
                return Ok(true);
            }
            // The remaining work did not justify a step of its own.
            write_and_seal(core, writing)?;
            Ok(false)
        }
    }
}

fn write_and_seal(core: &Core, writing: &mut Writing) -> Result<(), Error> {
    write_pieces(core, |_| true)?;
    let closed = |open: &OpenSegment| open.closed_at.is_some() && open.pieces.is_empty();
    if core.log().open().iter().any(closed) {
        seal_segments(core, writing)?;
    }
    Ok(())
}

fn read_state(core: &Core, writing: &Writing) -> Result<StepState, Error> {
    core.health.unpoisoned()?;
    let (mut head, mut log) = core.both();
    if head.take_checkpoint_wanted() {
        log.set_checkpoint_due(true);
    }
    let waiting: usize = log.open().iter().map(OpenSegment::waiting).sum();
    let closed = log.open().iter().filter(|open| open.closed_at.is_some());
    let is_rollup_due = writing.rollup.is_some() || is_rollup_due(&log.retention);
    let inputs = ChoiceInputs {
        segment_bytes: core.segment_bytes,
        waiting: waiting as u64,
        open: log.open().len(),
        closed: closed.count(),
        is_journal_full: head.is_journal_full(),
        is_rollup_due,
        is_short_of_memory: log.is_short_of_memory(),
        is_merge_waiting: !writing.merge.merged.is_empty() && log.headroom(&head.load()) == 0,
        is_checkpoint_due: log.is_checkpoint_due(),
    };
    let next = match inputs.next() {
        Choice::Write => Next::Write(waiting_pieces(&mut log, |_| true)),
        Choice::Seal => Next::Seal,
        Choice::Checkpoint => Next::Checkpoint,
        Choice::Idle => {
            log.retention.advance(&*core.clock, head.logged_block());
            Next::Idle
        }
    };
    log.retention.judge(&*core.clock);
    Ok(StepState {
        next,
        is_time_due: log.retention.time_to_persist(true).is_some(),
        is_short_of_slots: log.is_short_of_slots(),
        is_rollup_due,
        is_late: log.retention.has_late(),
    })
}

/// Claims as many slots as were used since the last call.
fn claim_ahead(core: &Core) -> Result<(), Error> {
    let numbers = core.log().number_slots(READY);
    let mut claimed = Vec::with_capacity(numbers.len());
    let result = numbers.into_iter().try_for_each(|number| {
        claimed.push((number, core.volume.claim(number)?));
        Ok(())
    });
    if !claimed.is_empty() {
        core.log().add_slots(claimed);
    }
    result
}

/// Returns whether writers fill memory or journal faster than the jobs empty them.
pub(crate) fn is_behind(core: &Core) -> bool {
    let (mut head, mut log) = core.both();
    if head.take_checkpoint_wanted() {
        log.set_checkpoint_due(true);
    }
    log.is_behind(head.is_journal_full()) || head.is_filing_behind()
}

/// Drops, merges and sheds as far as needed. Returns whether anything was done.
pub(crate) fn make_space(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let (done, snapshot) = merging::begin(core, writing)?;
    bring_down_quotas(core)?;
    if merging::resume(core, writing)? || merging::merge(core, writing, snapshot)? {
        return Ok(true);
    }
    Ok(shed_ahead(core, writing)?
        || done
        || forget(core, writing)?
        || file_names(core, writing)?
        || tidy(core, writing)?)
}

/// Takes steps until writers may continue. Merges can wait: in a nearly full store they never end.
pub(crate) fn catch_up(core: &Core) -> Result<(), Error> {
    let mut writing = core.writing();
    while is_behind(core) && step_or_poison(core, &mut writing)? {}
    Ok(())
}
