//! Idle sources: turns their buffers into blocks, so that journal files can be released.

pub(crate) mod memory;

use self::memory::IDLE_TICKS;
use crate::core::Core;
use crate::error::Error;
use crate::jobs::writing::Writing;
use crate::segment::open::OpenSegment;

/// Number of sources examined at a time.
const SOURCES_AT_ONCE: u32 = 16_384;
/// Seals idle sources, some at a time. Requests checkpoints when all sources are idle.
pub(super) fn seal_idle(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let memory = &mut writing.idle;
    let tick = core.tick();
    let mut head = core.head();
    head.tick = tick;
    if memory.tick == tick || core.health.writable().is_err() {
        return Ok(false);
    }
    let end = head.sources().min(memory.cursor + SOURCES_AT_ONCE);
    head.seal_idle(memory.cursor..end, IDLE_TICKS);
    memory.cursor = end;
    if end < head.sources() {
        return Ok(true);
    }
    (memory.cursor, memory.tick) = (0, tick);
    let rows = std::mem::replace(&mut memory.rows, head.counters.rows);
    let is_idle = head.buffers().open_blocks() == 0 && rows == head.counters.rows;
    let mut log = core.log();
    if is_idle {
        let has_pending = log.open().iter().any(OpenSegment::has_pending);
        log.set_checkpoint_due(has_pending);
    }
    Ok(log.is_checkpoint_due())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{World, options};

    #[test]
    fn a_source_without_rows_for_a_while_is_sealed() {
        let world = World::new(options());
        world.append("m", 0..10);
        assert_eq!(world.run(seal_idle), 0, "a row came just now");
        world.wait(601);
        assert_eq!(world.core.head().sealing().len(), 0);
        world.run(seal_idle);
        assert_eq!(world.core.head().sealing().len(), 1);
        assert_eq!(world.rows(), 10);
    }
}
