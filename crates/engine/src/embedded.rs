//! The engine as a [`Store`].

use crate::engine::Engine;
use crate::query::parts::ScanParts;
use crate::query::scan::{self, Scan};
use crate::query::series::SeriesScan;
use seiner_merge::simulate::Arrival;
use seiner_model::{
    Batch, Columns, FieldColumn, FieldType, Interval, Notation, Selector, SourceId, SourceKey,
};
use seiner_store::{
    ClassStatus, DecisionRecord, Durability, Embedded, Error, Extent, IsOver, Latest, LevelSpan,
    LogStatus, Loss, PIECE_ROWS, Parts, Piece, Query, Reason, Receipt, Results, Samples,
    SeriesData, SeriesSummary, Status, Step, Store,
};
use std::ops::Range;
use std::sync::Arc;

impl Store for Engine {
    fn append(&self, notation: &dyn Notation, batch: &Batch<'_>) -> Result<Receipt, Error> {
        Engine::append(self, notation, batch)
    }

    fn register(&self, key: &SourceKey) -> Result<SourceId, Error> {
        Engine::register(self, key)
    }

    fn register_all(&self, keys: &[&SourceKey]) -> Result<Vec<Result<SourceId, Reason>>, Error> {
        Engine::register_all(self, keys)
    }

    fn append_columns(
        &self,
        source: SourceId,
        fields: &[&str],
        columns: &Columns,
    ) -> Result<Receipt, Error> {
        Engine::append_columns(self, source, fields, columns)
    }

    fn append_samples(
        &self,
        field: &str,
        sources: &[SourceId],
        times: &[i64],
        values: &[f64],
    ) -> Result<Receipt, Error> {
        Engine::append_samples(self, field, sources, times, values)
    }

    fn may_read(&self) -> bool {
        Engine::may_read(self)
    }

    fn durability(&self) -> Durability {
        Engine::durability(self)
    }

    fn is_durable(&self, position: u64) -> bool {
        Engine::is_durable(self, position)
    }

    fn wait_durable(&self, position: u64) -> Result<(), Error> {
        Engine::wait_durable(self, position)
    }

    fn delete(&self, selector: &Selector, interval: Interval) -> Result<u64, Error> {
        Engine::delete(self, selector, interval)
    }

    fn measurements(&self) -> Result<Vec<String>, Error> {
        Engine::measurements(self)
    }

    fn tag_names(&self, selector: &Selector) -> Result<Vec<String>, Error> {
        Engine::tag_names(self, selector)
    }

    fn tag_values(
        &self,
        selector: &Selector,
        tag: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        Engine::tag_values(self, selector, tag, limit)
    }

    fn fields(&self, selector: &Selector) -> Result<Vec<(String, FieldType)>, Error> {
        Engine::fields(self, selector)
    }

    fn sources(&self, selector: &Selector) -> Result<Vec<SourceId>, Error> {
        Engine::sources(self, selector)
    }

    fn sources_within(
        &self,
        selector: &Selector,
        interval: Interval,
    ) -> Result<Vec<SourceId>, Error> {
        Engine::sources_within(self, selector, interval)
    }

    fn source_key(&self, source: SourceId) -> Result<Option<SourceKey>, Error> {
        Engine::source_key(self, source)
    }

    fn scan(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Piece>, Error> {
        let found = Engine::scan(self, query);
        Ok(pieces(match is_over {
            Some(is_over) => found.until(is_over),
            None => found,
        }))
    }

    fn parts(
        &self,
        query: &Query,
        threads: usize,
        is_over: Option<IsOver>,
    ) -> Result<Option<Box<dyn Parts + '_>>, Error> {
        if !self.has_threads() {
            // Operations in the simulator always have the same order.
            return Ok(None);
        }
        let found = Engine::parts(self, query, threads)?;
        Ok(Some(Box::new(match is_over {
            Some(is_over) => found.until(is_over),
            None => found,
        })))
    }

    fn select(
        &self,
        query: &Query,
        is_over: Option<IsOver>,
    ) -> Result<Results<'_, SeriesData>, Error> {
        let found = Engine::select(self, query)?;
        Ok(match is_over {
            Some(is_over) => Box::new(found.until(is_over)),
            None => Box::new(found),
        })
    }

    fn series(
        &self,
        query: &Query,
        is_over: Option<IsOver>,
    ) -> Result<Results<'_, Samples<'_>>, Error> {
        let found = Engine::scan(self, query);
        Ok(Box::new(SeriesScan::new(match is_over {
            Some(is_over) => found.until(is_over),
            None => found,
        })))
    }

    fn aggregate(
        &self,
        query: &Query,
        step: Step,
        is_over: Option<IsOver>,
    ) -> Result<Results<'_, SeriesSummary>, Error> {
        let found = Engine::aggregate(self, query, step)?;
        Ok(match is_over {
            Some(is_over) => Box::new(found.until(is_over)),
            None => Box::new(found),
        })
    }

    fn latest(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Latest>, Error> {
        let found = Engine::latest_samples(self, query);
        Ok(match is_over {
            Some(is_over) => Box::new(found.until(is_over)),
            None => Box::new(found),
        })
    }

    fn time_range(&self, query: &Query, sources: usize) -> Option<Interval> {
        Engine::time_range(self, query, sources)
    }

    fn status(&self) -> Status {
        Engine::status(self)
    }

    fn close(&self) -> Result<(), Error> {
        Engine::close(self)
    }

    fn embedded(&self) -> Option<&dyn Embedded> {
        Some(self)
    }
}

impl Parts for ScanParts<'_> {
    fn sources(&self) -> usize {
        ScanParts::sources(self)
    }

    fn scan(&self, sources: Range<usize>) -> Results<'_, Piece> {
        pieces(ScanParts::scan(self, sources))
    }
}

/// Returns the pieces of a scan.
fn pieces(scan: Scan<'_>) -> Results<'_, Piece> {
    Box::new(scan.flat_map(|piece| match piece {
        Ok(piece) => divide(piece).into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }))
}

/// Divides a piece, whose size depends on the sizes of blocks, into pieces of at most [`PIECE_ROWS`] rows.
fn divide(piece: scan::Piece) -> Vec<Piece> {
    let scan::Piece {
        source,
        key,
        times,
        fields,
    } = piece;
    let names = fields.iter();
    let names: Arc<[_]> = names
        .map(|field| (field.name.clone(), field.field_type))
        .collect();
    let columns = fields.into_iter().map(|field| field.column);
    let columns: Vec<Option<FieldColumn>> = columns.collect();
    let part = |times: Vec<i64>, columns| Piece {
        source,
        key: key.clone(),
        fields: names.clone(),
        times,
        columns,
    };
    if times.len() <= PIECE_ROWS {
        return vec![part(times, columns)];
    }
    let rows: Vec<usize> = (0..times.len()).collect();
    let parts = rows.chunks(PIECE_ROWS).map(|rows| {
        let picked = columns.iter().map(|column| column.as_ref()?.pick(rows));
        let times = rows.iter().map(|&row| times[row]);
        part(times.collect(), picked.collect())
    });
    parts.collect()
}

impl Embedded for Engine {
    fn log(&self) -> LogStatus {
        Engine::log(self)
    }

    fn decisions(&self) -> Vec<DecisionRecord> {
        Engine::decisions(self)
    }

    fn extents(&self, groups: &[Vec<SourceId>]) -> Result<Vec<Extent>, Error> {
        Engine::extents(self, groups)
    }

    fn trace(&self) -> Result<Vec<Arrival>, Error> {
        Engine::trace(self)
    }

    fn classes(&self) -> Vec<ClassStatus> {
        Engine::classes(self)
    }

    fn levels(&self, query: &Query) -> Vec<LevelSpan> {
        Engine::levels(self, query)
    }

    fn losses(&self) -> Vec<Loss> {
        Engine::losses(self)
    }

    fn acknowledge_losses(&self) -> Result<u64, Error> {
        Engine::acknowledge_losses(self)
    }

    fn accept_clock(&self) -> Result<(), Error> {
        Engine::accept_clock(self)
    }

    fn commit(&self) -> Result<(), Error> {
        Engine::commit(self)
    }

    fn flush(&self) -> Result<(), Error> {
        Engine::flush(self)
    }
}
