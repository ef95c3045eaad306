//! Trait of a store.

use crate::answer::{
    Bucket, LevelSpan, Query, SeriesData, SeriesSummary, Step, is_integer, number,
};
use crate::error::{Error, Reason, Receipt};
use crate::piece::{Join, Piece};
use crate::series::{Results, Samples};
use crate::status::{ClassStatus, DecisionRecord, Durability, LogStatus, Loss, Status};
use seiner_merge::simulate::Arrival;
use seiner_model::{
    Batch, Column, Columns, FieldColumn, FieldType, Interval, Notation, Selector, SourceId,
    SourceKey, Value,
};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Function that returns whether the reader has abandoned a query. A store calls it from time to
/// time while it reads.
pub type IsOver = Arc<dyn Fn() -> bool + Send + Sync>;

/// Latest sample of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Latest {
    /// Number of the source.
    pub source: SourceId,
    /// Measurement and tags of the source.
    pub key: Arc<SourceKey>,
    /// Name of the field.
    pub field: Arc<str>,
    /// Time of the sample, ns.
    pub time: i64,
    /// Value of the sample: a column of one value.
    pub value: Column,
}

/// Bytes and times of sources in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of the blocks.
    pub bytes: u64,
    /// First and last time; `None` without blocks.
    pub times: Option<Interval>,
}

impl Extent {
    /// Extends the times.
    pub fn include(&mut self, times: Interval) {
        let known = self.times.unwrap_or(times);
        self.times = Some(Interval::new(
            known.start.min(times.start),
            known.end.max(times.end),
        ));
    }
}

/// Sources of a query, which several threads read.
pub trait Parts: Sync {
    /// Returns the number of sources that the query selects.
    fn sources(&self) -> usize;

    /// Returns the samples of a range of the sources, in their order. The scans of consecutive ranges return the same
    /// samples as [`Store::scan`]. The caller's thread does all the reading.
    fn scan(&self, sources: Range<usize>) -> Results<'_, Piece>;
}

/// Store of samples.
///
/// All methods may be called from any thread at the same time. They are synchronous: a method may wait for a lock,
/// a disk or a network unless its comment rules that out, and async code calls it on a thread that may block.
///
/// Times are ns since 1970. Lists of names are sorted. A closed store rejects appends and deletes
/// with [`Error::Closed`].
pub trait Store: Send + Sync {
    // ---- writing

    /// Appends rows in their order. Rejects invalid rows one by one, with a reason in the receipt.
    /// All other rows are accepted. A row with the time of an earlier row of its source replaces
    /// the values of the fields that it has.
    ///
    /// # Errors
    /// If the store accepts no more rows. Earlier rows of the batch may have been accepted.
    fn append(&self, notation: &dyn Notation, batch: &Batch<'_>) -> Result<Receipt, Error>;

    /// Returns whether an append may have to read names from a disk. A thread that must not wait should not call it then.
    fn may_read(&self) -> bool {
        false
    }

    /// Returns the number of a source, which is registered if it is new. [`Store::append_columns`]
    /// takes this number, which saves the look-up of the name.
    ///
    /// # Errors
    /// [`Error::Rejected`] if the store does not accept the source, and as [`Store::append`].
    fn register(&self, key: &SourceKey) -> Result<SourceId, Error>;

    /// Returns the numbers of sources, in the order of their keys, or the reasons why sources are
    /// rejected. The default implementation calls [`Store::register`].
    ///
    /// # Errors
    /// As [`Store::append`]. Earlier sources may have been registered.
    fn register_all(&self, keys: &[&SourceKey]) -> Result<Vec<Result<SourceId, Reason>>, Error> {
        let found = keys.iter().map(|key| match self.register(key) {
            Ok(source) => Ok(Ok(source)),
            Err(Error::Rejected(reason)) => Ok(Err(reason)),
            Err(error) => Err(error),
        });
        found.collect()
    }

    /// Appends rows of one source, one column for each field. Rejects rows as [`Store::append`]
    /// does.
    ///
    /// # Errors
    /// As [`Store::append`]. [`Error::UnknownSource`] if no source has this number.
    /// [`Error::Query`] if the numbers of columns and fields differ.
    fn append_columns(
        &self,
        source: SourceId,
        fields: &[&str],
        columns: &Columns,
    ) -> Result<Receipt, Error>;

    /// Appends one value to each of many sources, in their order. Rejects rows as [`Store::append`]
    /// does. The default implementation calls [`Store::append_columns`].
    ///
    /// # Errors
    /// As [`Store::append_columns`]. [`Error::Query`] if the numbers of sources, times and values
    /// differ.
    fn append_samples(
        &self,
        field: &str,
        sources: &[SourceId],
        times: &[i64],
        values: &[f64],
    ) -> Result<Receipt, Error> {
        if sources.len() != times.len() || sources.len() != values.len() {
            let (sources, times, values) = (sources.len(), times.len(), values.len());
            let text = format!(
                "{sources} sources, {times} times and {values} values are not equally many"
            );
            return Err(Error::Query(text));
        }
        let mut receipt = Receipt::default();
        for (row, &source) in sources.iter().enumerate() {
            let columns = Columns {
                times: vec![times[row]],
                fields: vec![FieldColumn {
                    present: None,
                    values: Column::F64(vec![values[row]]),
                }],
            };
            let one = self.append_columns(source, &[field], &columns)?;
            receipt.rows += one.rows;
            receipt.samples += one.samples;
            receipt.position = one.position;
            for (_, reason) in one.rejected {
                receipt.reject(row, reason);
            }
        }
        Ok(receipt)
    }

    /// Returns the failures that an acknowledged row survives. Does not wait.
    fn durability(&self) -> Durability;

    /// Returns whether the rows up to a receipt's position are durable. True with
    /// [`Durability::Memory`], which gives no guarantee. Does not wait.
    fn is_durable(&self, position: u64) -> bool;

    /// Waits until the rows up to a receipt's position are durable: on disk, or on the configured
    /// number of members of a cluster.
    ///
    /// # Errors
    /// If they cannot be made durable.
    fn wait_durable(&self, position: u64) -> Result<(), Error>;

    /// Deletes the samples in an interval that were accepted before this call. On return, they are
    /// hidden and the delete is durable. Returns the number of selected sources.
    ///
    /// # Errors
    /// If the store is closed or fails. The samples may or may not be deleted then.
    fn delete(&self, selector: &Selector, interval: Interval) -> Result<u64, Error>;

    // ---- names

    /// Returns all measurements.
    ///
    /// # Errors
    /// If the names cannot be read, as for all methods of names.
    fn measurements(&self) -> Result<Vec<String>, Error>;

    /// Returns the names of the tags of the selected sources.
    ///
    /// # Errors
    /// If the names cannot be read.
    fn tag_names(&self, selector: &Selector) -> Result<Vec<String>, Error>;

    /// Returns the first `limit` values of a tag among the selected sources.
    ///
    /// # Errors
    /// If the names cannot be read.
    fn tag_values(
        &self,
        selector: &Selector,
        tag: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error>;

    /// Returns the fields of the selected sources with their types.
    ///
    /// # Errors
    /// If the names cannot be read.
    fn fields(&self, selector: &Selector) -> Result<Vec<(String, FieldType)>, Error>;

    /// Returns the fields of a query with their types: those of the selected sources that it wants.
    ///
    /// # Errors
    /// If the names cannot be read.
    fn wanted_fields(&self, query: &Query) -> Result<Vec<(String, FieldType)>, Error> {
        let mut fields = self.fields(&query.selector)?;
        if let Some(wanted) = &query.fields {
            fields.retain(|(name, _)| wanted.contains(name));
        }
        Ok(fields)
    }

    /// Returns the selected sources, ascending.
    ///
    /// # Errors
    /// If the names cannot be read.
    fn sources(&self, selector: &Selector) -> Result<Vec<SourceId>, Error>;

    /// Returns the selected sources without those that are known to have no sample in an interval, ascending. Decodes
    /// no sealed block, so a returned source may have samples only before and after the interval. The default
    /// implementation returns all selected sources.
    ///
    /// # Errors
    /// If the names cannot be read, or the disk fails.
    fn sources_within(
        &self,
        selector: &Selector,
        _interval: Interval,
    ) -> Result<Vec<SourceId>, Error> {
        self.sources(selector)
    }

    /// Returns the measurement and tags of a source, if it is registered.
    ///
    /// # Errors
    /// If the names cannot be read.
    fn source_key(&self, source: SourceId) -> Result<Option<SourceKey>, Error>;

    // ---- reading

    /// Returns the samples of a query in pieces of at most [`crate::PIECE_ROWS`] rows, source by
    /// source. A source is read as a snapshot at one moment, so that no row is missed or returned
    /// twice while writers continue. Fields and sources without samples in the interval are
    /// omitted. The answer ends early when `is_over` returns true: without another item, or with
    /// [`Error::Abandoned`].
    ///
    /// # Errors
    /// If the query cannot be answered.
    fn scan(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Piece>, Error>;

    /// Returns the sources of a query for threads that each read a part of them. `None` if the query is read as a whole
    /// only: by [`Store::scan`]. The default implementation returns `None`.
    ///
    /// At most `threads` threads may read at the same time. All of them together take about the memory of one scan.
    ///
    /// # Errors
    /// If the query cannot be answered.
    fn parts(
        &self,
        _query: &Query,
        _threads: usize,
        _is_over: Option<IsOver>,
    ) -> Result<Option<Box<dyn Parts + '_>>, Error> {
        Ok(None)
    }

    /// Returns the samples of a query, series by series, ordered by source. Otherwise equal to
    /// [`Store::scan`], which the default implementation calls.
    ///
    /// # Errors
    /// If the query cannot be answered.
    fn select(
        &self,
        query: &Query,
        is_over: Option<IsOver>,
    ) -> Result<Results<'_, SeriesData>, Error> {
        Ok(Box::new(Join::new(self.scan(query, is_over)?)))
    }

    /// Returns the same series as [`Store::select`]. A store may return large series that are read
    /// in parts.
    ///
    /// # Errors
    /// If the query cannot be answered.
    fn series(
        &self,
        query: &Query,
        is_over: Option<IsOver>,
    ) -> Result<Results<'_, Samples<'_>>, Error> {
        let series = self.select(query, is_over)?;
        Ok(Box::new(series.map(|series| series.map(Samples::Whole))))
    }

    /// Returns the aggregates of a query's series in buckets of a step. The default implementation
    /// calls [`Store::select`].
    ///
    /// # Errors
    /// If the query cannot be answered, or the step is not positive.
    fn aggregate(
        &self,
        query: &Query,
        step: Step,
        is_over: Option<IsOver>,
    ) -> Result<Results<'_, SeriesSummary>, Error> {
        if let Step::Every(step) = step
            && step < 1
        {
            return Err(Error::Query(format!("a step of {step} ns is not positive")));
        }
        let series = self.select(query, is_over)?;
        Ok(Box::new(
            series.map(move |series| Ok(summary(series?, step))),
        ))
    }

    /// Returns the latest sample of each series of a query, in the order of [`Store::select`].
    ///
    /// # Errors
    /// If the query cannot be answered.
    fn latest(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Latest>, Error> {
        let series = self.select(query, is_over)?;
        Ok(Box::new(series.map(|series| Ok(last(&series?)))))
    }

    /// Returns the first and last time of the samples of a query, for display. Reads only the first
    /// `sources` sources, which bounds the cost. Returns `None` if these have no samples or cannot
    /// be read.
    fn time_range(&self, query: &Query, sources: usize) -> Option<Interval> {
        let mut seen = HashSet::new();
        self.aggregate(query, Step::Whole, None)
            .ok()?
            .flatten()
            .take_while(|series| {
                seen.insert(series.source);
                seen.len() <= sources
            })
            .flat_map(|series| series.buckets)
            .map(|bucket| Interval::new(bucket.first.0, bucket.last.0))
            .reduce(|a, b| Interval::new(a.start.min(b.start), a.end.max(b.end)))
    }

    // ---- the store itself

    /// Returns the state of the store. Figures that a store does not have are 0.
    fn status(&self) -> Status;

    /// Makes accepted rows durable, and rejects later rows. Closing twice is not an error.
    ///
    /// # Errors
    /// If the data in memory could not be written.
    fn close(&self) -> Result<(), Error>;

    /// Returns the part that only a store with a log in files has.
    fn embedded(&self) -> Option<&dyn Embedded> {
        None
    }
}

/// Operations that only a store with a log in files has.
pub trait Embedded {
    /// Returns the log: space, lanes, segments, classes.
    fn log(&self) -> LogStatus;

    /// Returns the latest decisions to drop and merge segments, with their reasons, latest last.
    fn decisions(&self) -> Vec<DecisionRecord>;

    /// Returns the extent in segments of each group of sources. Expired samples count until their space is freed.
    ///
    /// # Errors
    /// If the disk fails, or an index is damaged.
    fn extents(&self, groups: &[Vec<SourceId>]) -> Result<Vec<Extent>, Error>;

    /// Returns the blocks that were written and still exist.
    ///
    /// # Errors
    /// If the disk fails, or an index is damaged.
    fn trace(&self) -> Result<Vec<Arrival>, Error>;

    /// Returns the retention classes with their sources and bytes.
    fn classes(&self) -> Vec<ClassStatus>;

    /// Returns the parts of a query's interval in which some of its sources have roll-up levels instead of samples.
    fn levels(&self, query: &Query) -> Vec<LevelSpan>;

    /// Returns the losses that are not acknowledged.
    fn losses(&self) -> Vec<Loss>;

    /// Acknowledges all losses, durably, and returns their number.
    ///
    /// # Errors
    /// If the disk fails.
    fn acknowledge_losses(&self) -> Result<u64, Error>;

    /// Accepts the host's clock after a jump. Data that is too old by this clock is dropped.
    ///
    /// # Errors
    /// If the disk fails.
    fn accept_clock(&self) -> Result<(), Error>;

    /// Makes accepted rows durable.
    ///
    /// # Errors
    /// If the disk fails.
    fn commit(&self) -> Result<(), Error>;

    /// Seals all rows into segments and removes the journal.
    ///
    /// # Errors
    /// If the disk fails, or the store is closed.
    fn flush(&self) -> Result<(), Error>;
}

impl dyn Store + '_ {
    /// Returns the retention classes, if the store has any.
    pub fn classes(&self) -> Vec<ClassStatus> {
        self.embedded().map_or_else(Vec::new, Embedded::classes)
    }

    /// Returns the losses that are not acknowledged, if the store records losses.
    pub fn losses(&self) -> Vec<Loss> {
        self.embedded().map_or_else(Vec::new, Embedded::losses)
    }

    /// Returns the parts of a query's interval with roll-up levels, if the store makes them.
    pub fn levels(&self, query: &Query) -> Vec<LevelSpan> {
        self.embedded()
            .map_or_else(Vec::new, |embedded| embedded.levels(query))
    }

    /// Returns the part that only a store with a log in files has.
    ///
    /// # Errors
    /// If the store has none.
    pub fn with_log(&self) -> Result<&dyn Embedded, Error> {
        self.embedded().ok_or_else(|| {
            Error::Query("this store keeps no log in files, which this request needs".to_string())
        })
    }
}

/// Returns the aggregates of samples.
fn summary(series: SeriesData, step: Step) -> SeriesSummary {
    let field_type = series.values.field_type();
    let mut buckets: Vec<Bucket> = Vec::new();
    for (at, &time) in series.times.iter().enumerate() {
        let start = match (step, buckets.first()) {
            (Step::Whole, None) => time,
            (Step::Whole, Some(first)) => first.start,
            (Step::Every(step), _) => time.div_euclid(step).saturating_mul(step),
        };
        let value = series.values.get(at);
        let bucket = match value {
            Value::I64(value) => Bucket::of_integer(start, time, value.into()),
            Value::U64(value) => Bucket::of_integer(start, time, value.into()),
            value => Bucket::of(start, time, number(value)),
        };
        debug_assert_eq!(bucket.exact.is_some(), is_integer(field_type));
        match buckets.last_mut() {
            Some(last) if last.start == start => last.absorb(&bucket),
            _ => buckets.push(bucket),
        }
    }
    SeriesSummary {
        source: series.source,
        key: series.key,
        field: series.field,
        field_type,
        buckets,
    }
}

/// Returns the last sample of a series, which has one at least.
fn last(series: &SeriesData) -> Latest {
    let at = series.times.len() - 1;
    let mut value = Column::new(series.values.field_type());
    value.push(series.values.get(at));
    Latest {
        source: series.source,
        key: series.key.clone(),
        field: series.field.clone(),
        time: series.times[at],
        value,
    }
}
