//! Delete: hides samples of sources in an interval, immediately and permanently.

use crate::core::Core;
use crate::error::Error;
use crate::jobs::writing::Writing;
use crate::jobs::{is_behind, step_or_poison};
use crate::names;
use crate::retention::Tombstone;
use crate::retention::rollup::step_start;
use roaring::RoaringBitmap;
use seiner_model::{Interval, Selector};

/// Sources sealed under one lock before a delete.
const SOURCES_A_LOCK: usize = 1024;

/// Deletes the samples of sources in an interval that were accepted before this call. On return,
/// the delete is durable and the samples are invisible. Returns the number of sources that match.
/// Disk space is freed when the segments with the samples are dropped or merged.
///
/// # Errors
/// If the disk fails: the samples may or may not be deleted.
pub(crate) fn delete(core: &Core, selector: &Selector, interval: Interval) -> Result<u64, Error> {
    let _span = tracing::trace_span!("delete").entered();
    let mut writing = core.writing();
    let sources = names::select_in_job(core, &writing, selector)?;
    let levels = core.dictionary(|dictionary| dictionary.select_levels(selector));
    let count = sources.len();
    if count == 0 || interval.is_empty() {
        return Ok(count);
    }
    // Figures of levels are deleted with their samples. If the interval overlaps a step, the whole
    // step is deleted.
    let all = levels
        .iter()
        .fold(sources.clone(), |all, (_, levels)| all | levels);
    core.head().begun = Some(RoaringBitmap::new());
    let sealed = seal_ahead(core, &mut writing, &all);
    {
        let (mut head, mut log) = core.both();
        let begun = head.begun.take().unwrap_or_default();
        sealed?;
        core.health.writable()?;
        for source in begun & all {
            head.seal(source);
        }
        let before = head.next_block();
        log.retention.delete(Tombstone {
            sources,
            interval,
            before,
        });
        for (step, sources) in levels {
            let start = step_start(interval.start, step);
            log.retention.delete(Tombstone {
                sources,
                interval: Interval::new(start, interval.end),
                before,
            });
        }
        // The running roll-up pass may have used deleted samples, so it is repeated.
        writing.rollup = None;
    }
    let result = core.write_catalog();
    if let Err(error) = &result {
        core.poison(error);
    }
    result?;
    for stats in core.log().segment_stats_mut() {
        stats.request_scan();
    }
    Ok(count)
}

/// Seals the buffers of sources, some at a time: sealing all at once would use the memory of their
/// rows a second time.
fn seal_ahead(core: &Core, writing: &mut Writing, sources: &RoaringBitmap) -> Result<(), Error> {
    let mut sources = sources.iter().peekable();
    while sources.peek().is_some() {
        {
            core.health.writable()?;
            let mut head = core.head();
            for source in sources.by_ref().take(SOURCES_A_LOCK) {
                head.seal(source);
            }
        }
        core.finish_sealing()?;
        while is_behind(core) && step_or_poison(core, writing)? {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::write_journal;
    use crate::jobs::testing::{World, options};
    use crate::options::{Durability, Options};

    /// Regression: rows of the journal were replayed into a buffer, and shown again once their delete was forgotten.
    #[test]
    fn a_delete_hides_rows_that_a_start_read_from_the_journal() {
        let options = || Options {
            durability: Durability::Sync,
            ..options()
        };
        let world = World::new(options());
        world.append("a", 0..10);
        write_journal(&world.core, true).unwrap();
        assert_eq!(
            delete(&world.core, &Selector::all(), Interval::ALL).unwrap(),
            1
        );
        let world = world.reopen(options());
        assert_eq!(world.rows(), 0);
        let other = world.append("b", 0..5);
        world.core.head().seal(other.0);
        world.core.finish_sealing().unwrap();
        world.core.log().forget_deletes(None);
        assert_eq!(world.rows(), 5);
    }
}
