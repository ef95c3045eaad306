//! Handover: the rows of an engine become bundles in the distributed store.
//!
//! 1. The engine ends its open blocks. All rows accepted before are below the *cut*.
//! 2. Class by class and shelf by shelf, the rows below the cut are read by source and written as bundles, without their
//!    directories.
//! 3. When the replicas have synced the data, the directories are written. The bundles are visible now.
//! 4. When the replicas have synced the directories, the engine expires the rows below the cut, and the copies of the
//!    journal files that held them are removed.
//!
//! A crash between these steps loses nothing: the rows are handed over again, and equal samples count once.

use crate::blocks::Directories;
use crate::bundling::{Destination, Report, Rest, Shelf};
use crate::failure::HandoverError;
use crate::placement::{Placed, Registrar};
use crate::rows::Rows;
use crate::shelves::Grid;
use seiner_model::Interval;
use std::sync::atomic::{AtomicU64, Ordering};

/// Everything that a handover needs.
pub(crate) struct Handover<'a> {
    /// Engine whose rows are handed over, with the places of its sources.
    pub of: Registrar<'a>,
    /// Distributed store.
    pub rows: &'a dyn Rows,
    /// Number of the present grid.
    pub grid_number: u16,
    /// Present grid.
    pub grid: Grid,
    /// Name of this port.
    pub port: &'a str,
    /// Number of the next handover. A shelf gets its number before its rows are read.
    pub next: &'a AtomicU64,
    /// Stamp of the rows.
    pub stamp: u64,
    /// Wall time, ns.
    pub now: i64,
}

impl Handover<'_> {
    /// Writes the data of bundles with the rows below a cut. The caller writes their directories, and releases the cut.
    ///
    /// # Errors
    /// If the distributed store or the engine fails. Doing it again is safe.
    pub fn run(&self, cut: u64) -> Result<(Report, Directories), HandoverError> {
        let (mut report, mut directories) = (Report::default(), Directories::default());
        for ((class, shelf), sources) in self.of.placement(&self.grid)? {
            directories.extend(self.shelf(class, shelf, &sources, cut, &mut report)?);
        }
        Ok((report, directories))
    }

    /// Hands over the rows of one shelf.
    fn shelf(
        &self,
        class: usize,
        shelf: u32,
        sources: &[Placed],
        cut: u64,
        report: &mut Report,
    ) -> Result<Directories, HandoverError> {
        let mut shelf = Shelf::new(Destination {
            rows: self.rows,
            class: self.of.classes.at(class),
            grid_number: self.grid_number,
            grid: self.grid,
            shelf,
            port: self.port,
            // The number exists before the rows are read, so that a delete knows whether it affected these rows.
            handover: self.next.fetch_add(1, Ordering::SeqCst),
            stamp: self.stamp,
            now: self.now,
        });
        let rest = Rest {
            of: self.of,
            sources,
            interval: Interval::ALL,
            cut,
        };
        shelf.read(&rest, report, &mut Err)?;
        shelf.finish(report)
    }
}
