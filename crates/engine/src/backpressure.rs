//! Back-pressure: slows, blocks and rejects writers when the store is nearly full.
//!
//! Writers are first slowed. Then they wait while merging, roll-up, sealing of buffers, and shedding
//! free space. If none of these frees space, writes are rejected. [`crate::space`] contains the arithmetic.

use crate::closing::seal_together;
use crate::core::Core;
use crate::error::Error;
use crate::jobs::expire::shed;
use crate::jobs::free::{QUERY_EVERY, headroom, query_free_space};
use crate::jobs::merging::liveness::scan_all;
use crate::jobs::segments::{write_all_pieces, write_checkpoints};
use crate::jobs::writing::Writing;
use crate::jobs::{make_space, step_with};
use crate::space::rows_reserve;
use crate::trouble::Path;

/// Fraction of the budget after whose writing liveness is scanned again: as many bytes may have
/// died.
const WORTH_COUNTING: u64 = 128;
/// Fraction of the budget reserved for rows in memory above which buffers are sealed before a write
/// is rejected.
const WORTH_SEALING: u64 = 64;
/// Attempts to merge and shed before writers are rejected.
const ATTEMPTS: usize = 256;

/// Makes space for writers by all means that the rules allow.
///
/// # Errors
/// [`Error::Full`] if no space can be freed.
pub(crate) fn force_space(core: &Core) -> Result<(), Error> {
    let result = try_space(core, &mut core.writing());
    if let Err(error) = &result {
        core.poison(error);
        core.note_trouble(Path::Segments, &result);
    }
    result
}

fn try_space(core: &Core, writing: &mut Writing) -> Result<(), Error> {
    // Another thread may have freed space in the meantime.
    writing.space.queried = None;
    query_free_space(core, writing)?;
    for _ in 0..ATTEMPTS {
        while !headroom(core).0 && step_with(core, writing)? {}
        if headroom(core).0 {
            return Ok(());
        }
        // Checkpoints let the victims of finished merges go first.
        write_checkpoints(core, writing, |_| true)?;
        count_anew(core, writing)?;
        let more = make_space(core, writing)?;
        if headroom(core).0 {
            return Ok(());
        }
        if more || seal_buffers(core)? {
            continue;
        }
        if core.log().is_crowded() || !shed(core)? {
            break;
        }
    }
    let (head, log) = core.both();
    let fill = log.fill(&head.load());
    Err(Error::Full {
        used: fill.used,
        reserved: fill.reserved,
        budget: fill.budget,
        relief: log.relief(),
    })
}

/// Seals all buffers if much of the budget is reserved for them. Blocks need less than the reserve,
/// and rows of a ring or a quota expire only when the later rows are on disk. Returns whether
/// buffers were sealed.
fn seal_buffers(core: &Core) -> Result<bool, Error> {
    let reserved = rows_reserve(&core.head().load());
    if reserved < core.log().budget() / WORTH_SEALING {
        return Ok(false);
    }
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        cursor = seal_together(core, from)?;
        match core.finish_sealing().and_then(|()| write_all_pieces(core)) {
            // Blocks that were taken wait until there is space.
            Err(error) if error.is_out_of_space() => return Ok(false),
            result => result?,
        }
    }
    Ok(true)
}

/// Scans the liveness of all segments before a write is rejected, unless very little can have died
/// since the last scan.
fn count_anew(core: &Core, writing: &mut Writing) -> Result<(), Error> {
    let now = core.clock.monotonic();
    let (written, budget) = {
        let log = core.log();
        (log.counters.block_bytes, log.budget())
    };
    let late = writing
        .space
        .tried
        .is_none_or(|tried| now - tried >= QUERY_EVERY);
    if late || written - writing.merge.scanned >= budget / WORTH_COUNTING {
        (writing.space.tried, writing.merge.scanned) = (Some(now), written);
        scan_all(core, writing)?;
    }
    Ok(())
}
