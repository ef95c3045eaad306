//! Handover: another store takes over all rows up to a moment.
//!
//! 1. [`cut`] closes all open blocks to later rows. Every row accepted before is in a block with a lower number than
//!    the cut. The buffers stay where they are: only a block whose source sends more rows is sealed.
//! 2. The caller reads these rows ([`scan`]) and stores them elsewhere, durably.
//! 3. [`release`] expires the blocks below the cut, and discards those that are still in buffers. They were never
//!    encoded, and nothing but the journal was written for them.
//!
//! A crash between these steps loses nothing: the rows stay, and a later cut contains them again.

use crate::answer::Query;
use crate::core::Core;
use crate::error::Error;
use crate::jobs::expire::expire_before;
use crate::jobs::segments::{release_journal, unpin_before};
use crate::journal::files;
use crate::query;
use crate::query::scan::Scan;
use seiner_model::SourceId;

/// Line between the rows accepted so far and later rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of the first block with later rows.
    pub block: u64,
    /// Number of the first journal file that may have later rows.
    pub journal_file: u32,
}

impl Cut {
    /// Returns whether all rows in a file of the store are before the cut: the file is of the
    /// journal and ended with the cut.
    pub fn covers(&self, file: &str) -> bool {
        files::number(file).is_some_and(|number| number < self.journal_file)
    }
}

/// Closes all open blocks and the journal file to later rows.
///
/// # Errors
/// If the store rejects writes.
pub(crate) fn cut(core: &Core) -> Result<Cut, Error> {
    core.health.writable()?;
    Ok(core.head().cut())
}

/// Returns the rows of some sources, in the given order, without the rows after a cut.
pub(crate) fn scan<'a>(
    core: &'a Core,
    sources: Vec<SourceId>,
    query: &Query,
    cut: u64,
) -> Scan<'a> {
    query::scan_before(core, sources, query, cut)
}

/// Expires all rows before a cut. On return, no reader sees them and a later start does not either.
///
/// # Errors
/// If the disk fails. The rows may or may not be expired then.
pub(crate) fn release(core: &Core, cut: Cut) -> Result<(), Error> {
    expire_before(core, cut.block)?;
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        cursor = core.head().discard_some(cut.block, from);
    }
    unpin_before(core, cut.journal_file);
    core.request_trim();
    release_journal(core, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{World, options};
    use seiner_model::Interval;

    fn times(world: &World, block: u64) -> Vec<i64> {
        let query = Query {
            selector: seiner_model::Selector::all(),
            fields: None,
            interval: Interval::ALL,
        };
        let sources = crate::report::sources(&world.core, &query.selector).unwrap();
        let pieces = scan(&world.core, sources, &query, block);
        pieces.flat_map(|piece| piece.unwrap().times).collect()
    }

    #[test]
    fn rows_after_a_cut_survive_its_release() {
        let world = World::new(options());
        world.append("m", 0..100);
        let cut = cut(&world.core).unwrap();
        world.append("m", 100..150);
        let before: Vec<i64> = times(&world, cut.block);
        assert_eq!(before.len(), 100);
        assert_eq!(times(&world, u64::MAX).len(), 150);
        release(&world.core, cut).unwrap();
        assert_eq!(times(&world, cut.block), []);
        let after = times(&world, u64::MAX);
        assert_eq!(after.len(), 50);
        assert!(after.iter().all(|time| !before.contains(time)));
    }

    #[test]
    fn a_handover_writes_no_blocks_for_quiet_sources() {
        let world = World::new(options());
        world.append("quiet", 0..20);
        world.append("busy", 0..20);
        let cut = cut(&world.core).unwrap();
        world.append("busy", 20..40);
        assert_eq!(times(&world, cut.block).len(), 40);
        let taken = world.core.head().sealing().len();
        assert_eq!(taken, 1, "only the closed block of a busy source is sealed");
        release(&world.core, cut).unwrap();
        assert_eq!(times(&world, u64::MAX).len(), 20);
        world.append("quiet", 20..30);
        world.flush();
        assert_eq!(times(&world, u64::MAX).len(), 30);
        assert_eq!(world.core.head().buffers().rows(), 0);
    }

    #[test]
    fn a_second_cut_contains_the_rows_of_a_first_that_was_not_released() {
        let world = World::new(options());
        world.append("m", 0..10);
        let first = cut(&world.core).unwrap();
        world.append("m", 10..20);
        let second = cut(&world.core).unwrap();
        assert!(first.block < second.block);
        assert_eq!(times(&world, second.block).len(), 20);
        release(&world.core, second).unwrap();
        assert_eq!(times(&world, u64::MAX), []);
    }
}
