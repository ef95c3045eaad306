//! Closing: seals everything, returns memory to the system, and ends the use of a store.

use crate::commit::{commit, write_journal};
use crate::core::Core;
use crate::error::Error;
use crate::jobs::segments::release_journal;
use crate::jobs::{catch_up, step};
use crate::segment::open::OpenSegment;
use crate::volume::SlotState;
use seiner_platform::memory::trim_allocator;

/// Seals open blocks of as many sources from `from` on as are encoded together. Returns the next source,
/// unless all sources were examined.
///
/// # Errors
/// If the store does not accept writes.
pub(crate) fn seal_together(core: &Core, mut from: u32) -> Result<Option<u32>, Error> {
    let limits = core.together();
    loop {
        core.health.writable()?;
        let mut head = core.head();
        let next = head.seal_some(from);
        let taken = head.sealing();
        let is_enough = taken.len() >= limits.buffers || taken.bytes() >= limits.bytes as u64;
        match next {
            Some(next) if !is_enough => from = next,
            next => return Ok(next),
        }
    }
}

/// Seals all rows into segments and releases the journal. The files are then as small as possible
/// and can be copied.
pub(crate) fn flush(core: &Core) -> Result<(), Error> {
    commit(core)?;
    // Some sources at a time: sealing all at once would use the memory of their rows a second time.
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        cursor = seal_together(core, from)?;
        core.finish_sealing()?;
        core.head().release_idle_memory();
        catch_up(core)?;
    }
    core.finish_sealing()?;
    core.head().release_idle_memory();
    core.log().close_active();
    let is_closed = |open: &OpenSegment| open.closed_at.is_some();
    while core.log().open().iter().any(is_closed) {
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

/// Returns free memory to the system if the allocator may have much free memory. The lists of
/// sealed segments and queries leave such memory.
pub(crate) fn trim_memory(core: &Core) {
    if core.take_trim() {
        core.bundles.clear();
        if core.log().open().is_empty() {
            core.head().release_idle_memory();
        }
        trim_allocator();
    }
}

fn end_journal(core: &Core) -> Result<(), Error> {
    write_journal(core, true)?;
    // A writer may have begun blocks in the meantime. The file then stays.
    core.head().pins.rotate();
    release_journal(core, false)?;
    let mut journal = core.journal();
    journal.drop_spares()
}

/// Stops the background threads, seals all rows and rejects later calls. The next start reads only
/// footers.
pub(crate) fn close(core: &Core) -> Result<(), Error> {
    core.scheduler.stop();
    if core.health.is_closed() {
        return Ok(());
    }
    // Rows accepted in the meantime are on disk before the store rejects writes.
    flush(core)?;
    let ready = core.log().take_slots();
    for (number, _) in ready {
        core.volume.discard(number, SlotState::Open(0))?;
    }
    {
        let _head = core.head();
        core.health.close();
    }
    commit(core)?;
    let mut persisted_clock = core.persisted_clock();
    let time = core.log().retention.last_time();
    time.map_or(Ok(()), |time| persisted_clock.write(time))
}
