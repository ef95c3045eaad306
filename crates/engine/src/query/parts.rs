//! Parts of a query: several threads read some of its sources each.

use crate::core::Core;
use crate::query::memory::QueryShare;
use crate::query::scan::Scan;
use crate::query::source::SourceReader;
use crate::query::sweep::Bounds;
use seiner_model::{Interval, SourceId};
use seiner_store::IsOver;
use std::ops::Range;
use std::sync::Arc;

/// Sources of a query for several threads. [`Engine::parts`](crate::Engine::parts) returns it.
pub struct ScanParts<'a> {
    engine: &'a Core,
    sources: Vec<SourceId>,
    fields: Option<Vec<String>>,
    interval: Interval,
    is_over: Option<IsOver>,
    /// Bounds of the scan of one part.
    bounds: Bounds,
    /// Share of all parts.
    share: Arc<QueryShare>,
}

impl<'a> ScanParts<'a> {
    /// Divides the sources of a reader among threads, and the memory of a scan with these bounds.
    pub(super) fn new(reader: SourceReader<'a>, bounds: Bounds, threads: usize) -> ScanParts<'a> {
        ScanParts {
            engine: reader.engine,
            interval: reader.interval,
            is_over: reader.is_over.clone(),
            share: reader.share.clone(),
            bounds: Bounds::by(bounds.held / threads.max(1), 1),
            fields: reader.fields.clone(),
            sources: reader.into_sources(),
        }
    }

    /// Ends the scans early when `is_over` returns true.
    pub fn until(self, is_over: IsOver) -> Self {
        ScanParts {
            is_over: Some(is_over),
            ..self
        }
    }

    /// Returns the number of sources.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Returns the bounds of the scan of one part.
    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Returns whether the query was abandoned.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.as_ref().is_some_and(|is_over| is_over())
    }

    /// Returns a reader of some sources.
    pub(super) fn reader(&self, sources: Range<usize>) -> SourceReader<'a> {
        let sources = self.sources[sources].to_vec();
        let share = self.share.clone();
        let mut reader = SourceReader::sharing(self.engine, sources, self.interval, share)
            .with_fields(self.fields.clone());
        reader.is_over.clone_from(&self.is_over);
        reader
    }

    /// Returns the rows of some sources. The caller's thread decodes them.
    pub fn scan(&self, sources: Range<usize>) -> Scan<'a> {
        Scan::new(self.reader(sources), self.bounds)
    }

    /// Returns the row of a source at one time, with one field.
    pub(super) fn scan_at(&self, source: SourceId, field: &str, time: i64) -> Scan<'a> {
        let (interval, share) = (Interval::new(time, time), self.share.clone());
        let reader = SourceReader::sharing(self.engine, vec![source], interval, share);
        Scan::new(
            reader.with_fields(Some(vec![field.to_string()])),
            self.bounds,
        )
    }
}
