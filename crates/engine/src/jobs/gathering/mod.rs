//! Gathering: taken buffers wait for others with which they share a bundle.
//!
//! Buffers become full one after the other. If each were encoded at once, a bundle would have the blocks of a tenth of a
//! second: often a single one. The rows that wait are in memory and in the journal, as they were before.

pub(crate) mod memory;

use self::memory::GatheringMemory;
use crate::core::Core;
use crate::error::Error;
use crate::head::{Backlog, Head};
use crate::jobs::writing::Writing;
use crate::options::Bundling;

/// Seals the taken buffers if enough of them wait, or one for long enough.
///
/// # Errors
/// As [`Core::finish_sealing`].
pub(super) fn seal_gathered(core: &Core, writing: &mut Writing) -> Result<(), Error> {
    let is_due = is_due(core, &core.head(), &mut writing.gathering);
    match is_due {
        true => core.finish_sealing(),
        false => Ok(()),
    }
}

fn is_due(core: &Core, head: &Head, memory: &mut GatheringMemory) -> bool {
    let (queue, limits, tick) = (head.sealing(), core.together(), core.tick());
    if queue.len() == 0 {
        return false;
    }
    let is_enough = limits.bundling == Bundling::Never
        || queue.len() >= limits.buffers
        || queue.bytes() >= limits.bytes as u64
        || head.taken() != Backlog::Small
        || head.is_journal_full();
    match memory.oldest {
        _ if is_enough => true,
        Some((position, since)) if position == queue.front() => since != tick,
        _ => {
            memory.oldest = Some((queue.front(), tick));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{World, options};
    use crate::options::Options;

    fn waiting(world: &World) -> usize {
        seal_gathered(&world.core, &mut world.core.writing()).unwrap();
        world.core.head().sealing().len()
    }

    #[test]
    fn a_full_buffer_waits_for_others_until_the_next_idle_tick() {
        let world = World::new(options());
        world.append("m", 0..40);
        let taken = world.core.head().sealing().len();
        assert!(taken > 0, "a buffer became full");
        assert_eq!(waiting(&world), taken);
        world.wait(74);
        assert_eq!(waiting(&world), taken);
        assert_eq!(world.rows(), 40, "queries read what waits");
        world.wait(2);
        assert_eq!(waiting(&world), 0, "a tick is 600 s / 8");
        assert_eq!(world.rows(), 40);
    }

    #[test]
    fn buffers_do_not_wait_when_they_fill_a_bundle_or_share_none() {
        let never = Options {
            bundles: Bundling::Never,
            ..options()
        };
        for (options, sources) in [(options(), 600), (never, 1)] {
            let world = World::new(options);
            for source in 0..sources {
                world.append(&format!("m{source}"), 0..40);
            }
            assert_eq!(waiting(&world), 0, "of {sources} sources");
        }
    }

    #[test]
    fn a_buffer_that_came_after_the_last_ones_were_sealed_waits_for_itself() {
        let world = World::new(options());
        world.append("m", 0..40);
        assert!(waiting(&world) > 0);
        world.wait(70);
        world.flush();
        world.append("n", 0..40);
        world.wait(10);
        assert!(waiting(&world) > 0, "its tick begins now");
        world.wait(75);
        assert_eq!(waiting(&world), 0);
    }
}
