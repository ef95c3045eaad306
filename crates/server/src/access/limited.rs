//! View of a store for a token with a selector: reads, writes and deletes of the selected sources only.
//!
//! All protocols and query languages use the store through its trait. The view therefore limits all of them in the same
//! way. Sources outside the selector do not exist in the view, and rows for them are rejected.

use seiner_model::{Batch, Columns, FieldType, Interval, Notation, Selector, SourceId, SourceKey};
use seiner_store::{
    Arrival, ClassStatus, DecisionRecord, Durability, Embedded, Error, Extent, IsOver, Latest,
    LevelSpan, LogStatus, Loss, Parts, Piece, Query, Reason, Receipt, Results, Samples, SeriesData,
    SeriesSummary, Status, Step, Store,
};
use std::sync::Arc;

/// Store with the sources of a selector.
pub struct LimitedStore {
    store: Arc<dyn Store>,
    selector: Selector,
}

impl LimitedStore {
    /// Returns the view of a store that contains the sources of a selector.
    pub fn new(store: Arc<dyn Store>, selector: Selector) -> LimitedStore {
        LimitedStore { store, selector }
    }

    /// Returns the selector of the sources that both the request and the token select; `None` if there cannot be any.
    fn both(&self, wanted: &Selector) -> Option<Selector> {
        let measurement = match (&wanted.measurement, &self.selector.measurement) {
            (Some(wanted), Some(own)) if wanted != own => return None,
            (wanted, own) => wanted.clone().or_else(|| own.clone()),
        };
        let matchers = [&wanted.matchers[..], &self.selector.matchers].concat();
        Some(Selector {
            measurement,
            matchers,
        })
    }

    fn limited(&self, query: &Query) -> Option<Query> {
        Some(Query {
            selector: self.both(&query.selector)?,
            ..query.clone()
        })
    }

    fn forbidden(&self) -> Reason {
        Reason::Forbidden(self.selector.to_string())
    }

    /// Checks that a number is that of a source in the view.
    fn check(&self, source: SourceId) -> Result<(), Error> {
        match self.source_key(source)? {
            Some(_) => Ok(()),
            None => Err(Error::UnknownSource(source.0)),
        }
    }
}

/// Returns an answer without items.
fn empty<'a, T: Send + 'a>() -> Result<Results<'a, T>, Error> {
    Ok(Box::new(std::iter::empty()))
}

impl Store for LimitedStore {
    fn append(&self, notation: &dyn Notation, batch: &Batch<'_>) -> Result<Receipt, Error> {
        let mut kept = Batch::new();
        // Number in the batch of each row that is kept.
        let mut numbers = Vec::new();
        let mut forbidden = Vec::new();
        let mut last: Option<(&[u8], bool)> = None;
        for (number, row) in batch.rows.iter().enumerate() {
            let is_permitted = match last {
                Some((name, is_permitted)) if name == row.name => is_permitted,
                // The store states the reason for a name that it rejects.
                _ => notation
                    .source_key(row.name)
                    .map_or(true, |key| self.selector.holds(&key)),
            };
            last = Some((row.name, is_permitted));
            match is_permitted {
                true => {
                    kept.push(row.name, row.time, batch.cells_of(row).iter().copied());
                    numbers.push(number);
                }
                false => forbidden.push(number),
            }
        }
        let mut receipt = match kept.rows.is_empty() {
            true => Receipt::default(),
            false => self.store.append(notation, &kept)?,
        };
        for (row, _) in &mut receipt.rejected {
            *row = numbers[*row];
        }
        for number in forbidden {
            receipt.reject(number, self.forbidden());
        }
        receipt.rejected.sort_by_key(|(row, _)| *row);
        Ok(receipt)
    }

    fn may_read(&self) -> bool {
        self.store.may_read()
    }

    fn register(&self, key: &SourceKey) -> Result<SourceId, Error> {
        match self.selector.holds(key) {
            true => self.store.register(key),
            false => Err(Error::Rejected(self.forbidden())),
        }
    }

    fn append_columns(
        &self,
        source: SourceId,
        fields: &[&str],
        columns: &Columns,
    ) -> Result<Receipt, Error> {
        self.check(source)?;
        self.store.append_columns(source, fields, columns)
    }

    fn append_samples(
        &self,
        field: &str,
        sources: &[SourceId],
        times: &[i64],
        values: &[f64],
    ) -> Result<Receipt, Error> {
        for source in sources {
            self.check(*source)?;
        }
        self.store.append_samples(field, sources, times, values)
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }

    fn is_durable(&self, position: u64) -> bool {
        self.store.is_durable(position)
    }

    fn wait_durable(&self, position: u64) -> Result<(), Error> {
        self.store.wait_durable(position)
    }

    fn delete(&self, selector: &Selector, interval: Interval) -> Result<u64, Error> {
        self.both(selector)
            .map_or(Ok(0), |both| self.store.delete(&both, interval))
    }

    fn measurements(&self) -> Result<Vec<String>, Error> {
        let mut measurements = self.store.measurements()?;
        let mut failed = None;
        measurements.retain(|measurement| {
            let wanted = Selector {
                measurement: Some(measurement.clone()),
                matchers: Vec::new(),
            };
            match self.sources(&wanted) {
                Ok(sources) => !sources.is_empty(),
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        });
        failed.map_or(Ok(measurements), Err)
    }

    fn tag_names(&self, selector: &Selector) -> Result<Vec<String>, Error> {
        self.both(selector)
            .map_or(Ok(Vec::new()), |both| self.store.tag_names(&both))
    }

    fn tag_values(
        &self,
        selector: &Selector,
        tag: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        self.both(selector).map_or(Ok(Vec::new()), |both| {
            self.store.tag_values(&both, tag, limit)
        })
    }

    fn fields(&self, selector: &Selector) -> Result<Vec<(String, FieldType)>, Error> {
        self.both(selector)
            .map_or(Ok(Vec::new()), |both| self.store.fields(&both))
    }

    fn sources(&self, selector: &Selector) -> Result<Vec<SourceId>, Error> {
        self.both(selector)
            .map_or(Ok(Vec::new()), |both| self.store.sources(&both))
    }

    fn sources_within(
        &self,
        selector: &Selector,
        interval: Interval,
    ) -> Result<Vec<SourceId>, Error> {
        self.both(selector).map_or(Ok(Vec::new()), |both| {
            self.store.sources_within(&both, interval)
        })
    }

    fn source_key(&self, source: SourceId) -> Result<Option<SourceKey>, Error> {
        let key = self.store.source_key(source)?;
        Ok(key.filter(|key| self.selector.holds(key)))
    }

    fn scan(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Piece>, Error> {
        self.limited(query)
            .map_or_else(empty, |query| self.store.scan(&query, is_over))
    }

    fn parts(
        &self,
        query: &Query,
        threads: usize,
        is_over: Option<IsOver>,
    ) -> Result<Option<Box<dyn Parts + '_>>, Error> {
        self.limited(query)
            .map_or(Ok(None), |query| self.store.parts(&query, threads, is_over))
    }

    fn select(
        &self,
        query: &Query,
        is_over: Option<IsOver>,
    ) -> Result<Results<'_, SeriesData>, Error> {
        self.limited(query)
            .map_or_else(empty, |query| self.store.select(&query, is_over))
    }

    fn series(
        &self,
        query: &Query,
        is_over: Option<IsOver>,
    ) -> Result<Results<'_, Samples<'_>>, Error> {
        self.limited(query)
            .map_or_else(empty, |query| self.store.series(&query, is_over))
    }

    fn aggregate(
        &self,
        query: &Query,
        step: Step,
        is_over: Option<IsOver>,
    ) -> Result<Results<'_, SeriesSummary>, Error> {
        self.limited(query)
            .map_or_else(empty, |query| self.store.aggregate(&query, step, is_over))
    }

    fn latest(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Latest>, Error> {
        self.limited(query)
            .map_or_else(empty, |query| self.store.latest(&query, is_over))
    }

    fn time_range(&self, query: &Query, sources: usize) -> Option<Interval> {
        self.store.time_range(&self.limited(query)?, sources)
    }

    fn status(&self) -> Status {
        self.store.status()
    }

    fn close(&self) -> Result<(), Error> {
        Err(whole())
    }

    fn embedded(&self) -> Option<&dyn Embedded> {
        self.store.embedded().is_some().then_some(self)
    }
}

/// Returns the error of an operation on the whole store.
fn whole() -> Error {
    Error::Query("a token with a selector cannot change the store as a whole".to_string())
}

/// Only the levels of a query, and the extents of sources, are available. All else is about the whole store.
impl Embedded for LimitedStore {
    fn log(&self) -> LogStatus {
        let embedded = self.store.embedded();
        embedded
            .expect("this part is returned for a store with a log")
            .log()
    }

    fn decisions(&self) -> Vec<DecisionRecord> {
        Vec::new()
    }

    fn trace(&self) -> Result<Vec<Arrival>, Error> {
        Err(whole())
    }

    fn classes(&self) -> Vec<ClassStatus> {
        Vec::new()
    }

    fn extents(&self, groups: &[Vec<SourceId>]) -> Result<Vec<Extent>, Error> {
        for source in groups.iter().flatten() {
            self.check(*source)?;
        }
        let embedded = self.store.embedded();
        embedded
            .expect("this part is returned for a store with a log")
            .extents(groups)
    }

    fn levels(&self, query: &Query) -> Vec<LevelSpan> {
        self.limited(query)
            .map_or_else(Vec::new, |query| self.store.levels(&query))
    }

    fn losses(&self) -> Vec<Loss> {
        Vec::new()
    }

    fn acknowledge_losses(&self) -> Result<u64, Error> {
        Err(whole())
    }

    fn accept_clock(&self) -> Result<(), Error> {
        Err(whole())
    }

    fn commit(&self) -> Result<(), Error> {
        Err(whole())
    }

    fn flush(&self) -> Result<(), Error> {
        Err(whole())
    }
}
