//! Sealing everything, giving memory back, and leaving a store.

use crate::commit::{commit, write_journal};
use crate::core::Core;
use crate::error::Error;
use crate::jobs::flush::release_journal;
use crate::jobs::{catch_up, step};
use crate::volume::SlotState;
use seiner_platform::memory::trim_allocator;

/// Seals everything into segments and lets the journal go: what is on disk then is as small as
/// it gets, and can be copied.
pub(crate) fn settle(core: &Core) -> Result<(), Error> {
    commit(core)?;
    // Some at a time: sealed all at once, they would take the memory that they have as rows again.
    let mut hand = Some(0);
    while let Some(from) = hand {
        hand = {
            let mut state = core.lock();
            state.writable()?;
            state.seal_some(from)
        };
        core.finish_sealing()?;
        core.lock().release_idle_memory();
        catch_up(core)?;
    }
    core.finish_sealing()?;
    core.lock().close_active();
    while core.lock().open.iter().any(|open| open.closed_at.is_some()) {
        step(core)?;
    }
    let _writing = core.writing();
    let result = core
        .write_catalog()
        .and_then(|()| end_journal(core))
        .and_then(|()| core.write_ledger());
    if let Err(error) = &result {
        core.poison(error);
    }
    trim_allocator();
    result
}

/// Gives free memory back to the system, if the allocator may have much of it: the lists of segments
/// that were sealed, and what a query took.
pub(crate) fn trim_memory(core: &Core) {
    let mut state = core.lock();
    let due = state.trims_due > 0;
    state.trims_due = state.trims_due.saturating_sub(1);
    if due && state.open.is_empty() {
        state.release_idle_memory();
    }
    drop(state);
    if due {
        trim_allocator();
    }
}

fn end_journal(core: &Core) -> Result<(), Error> {
    write_journal(core, true)?;
    // A writer may have begun blocks meanwhile: then the file stays.
    core.lock().pins.rotate();
    release_journal(core, false)?;
    let mut journal = core.journal();
    journal.drop_spares()
}

/// Stops the background threads, seals everything and refuses what comes then. The next start reads
/// footers only.
pub(crate) fn close(core: &Core) -> Result<(), Error> {
    core.scheduler.stop();
    if core.lock().closed {
        return Ok(());
    }
    // What came since is on disk, too, before the store refuses.
    settle(core)?;
    let ready = std::mem::take(&mut core.lock().ready);
    for (number, _) in ready {
        core.volume.discard(number, SlotState::Open(0))?;
    }
    core.lock().closed = true;
    commit(core)?;
    let mut timekeeper = core.timekeeper();
    let time = core.lock().retention.last_time();
    time.map_or(Ok(()), |time| timekeeper.tell(time))
}
