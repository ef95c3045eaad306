//! The engine as a [`Store`].

use crate::engine::Engine;
use crate::query::scan;
use crate::query::series::SeriesScan;
use seiner_merge::simulate::Arrival;
use seiner_model::{
    Batch, Column, Columns, Condition, FieldColumn, FieldType, Interval, Matcher, Notation,
    Selector, SourceId, SourceKey, Value,
};
use seiner_store::{
    Bucket, ClassStatus, DecisionRecord, Durability, Embedded, Error, IsOver, Latest, LevelSpan,
    LogStatus, Loss, PIECE_ROWS, Piece, Query, Receipt, Results, Samples, SeriesData,
    SeriesSummary, Status, Step, Store,
};
use std::sync::Arc;

impl Store for Engine {
    fn append(&self, notation: &dyn Notation, batch: &Batch<'_>) -> Result<Receipt, Error> {
        Engine::append(self, notation, batch)
    }

    fn register(&self, key: &SourceKey) -> Result<SourceId, Error> {
        Engine::register(self, key)
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
        Ok(Engine::measurements(self))
    }

    fn tag_names(&self, selector: &Selector) -> Result<Vec<String>, Error> {
        Ok(Engine::tag_names(self, selector))
    }

    fn tag_values(
        &self,
        selector: &Selector,
        tag: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        Ok(Engine::tag_values(self, selector, tag, limit))
    }

    fn fields(&self, selector: &Selector) -> Result<Vec<(String, FieldType)>, Error> {
        Ok(Engine::fields(self, selector))
    }

    fn sources(&self, selector: &Selector) -> Result<Vec<SourceId>, Error> {
        Ok(Engine::sources(self, selector))
    }

    fn sources_within(
        &self,
        selector: &Selector,
        interval: Interval,
    ) -> Result<Vec<SourceId>, Error> {
        Engine::sources_within(self, selector, interval)
    }

    fn source_key(&self, source: SourceId) -> Result<Option<SourceKey>, Error> {
        Ok(Engine::source_key(self, source))
    }

    fn scan(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Piece>, Error> {
        let found = Engine::scan(self, query);
        let found = match is_over {
            Some(is_over) => found.until(is_over),
            None => found,
        };
        let pieces = found.flat_map(|piece| match piece {
            Ok(piece) => divide(piece).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        });
        Ok(Box::new(pieces))
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

    /// Takes numbers from the aggregates of blocks. Reads samples only for texts, and for integers with rounded figures
    /// in roll-up levels.
    fn latest(&self, query: &Query, is_over: Option<IsOver>) -> Result<Results<'_, Latest>, Error> {
        let series = Store::aggregate(self, query, Step::Whole, is_over)?;
        let latest = series.filter_map(|summary| match summary {
            Ok(summary) => latest_of(self, &summary).transpose(),
            Err(error) => Some(Err(error)),
        });
        Ok(Box::new(latest))
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

/// Returns the latest sample of a series, if it was not deleted in the meantime.
fn latest_of(engine: &Engine, summary: &SeriesSummary) -> Result<Option<Latest>, Error> {
    let Some(bucket) = summary.buckets.last() else {
        return Ok(None);
    };
    let time = bucket.last.0;
    let value = match number(summary.field_type, bucket) {
        Some(value) => value,
        None => match sample(engine, summary, time)? {
            Some(value) => value,
            None => return Ok(None),
        },
    };
    Ok(Some(Latest {
        source: summary.source,
        key: summary.key.clone(),
        field: summary.field.clone(),
        time,
        value,
    }))
}

/// Reads the sample of a series at a time.
fn sample(engine: &Engine, summary: &SeriesSummary, time: i64) -> Result<Option<Column>, Error> {
    let tags = summary.key.tags().iter();
    let matchers = tags.map(|(tag, value)| Matcher {
        tag: tag.clone(),
        condition: Condition::Is(value.clone()),
    });
    let query = Query {
        selector: Selector {
            measurement: Some(summary.key.measurement().to_string()),
            matchers: matchers.collect(),
        },
        fields: Some(vec![summary.field.to_string()]),
        interval: Interval::new(time, time),
    };
    for series in Engine::select(engine, &query)? {
        let series = series?;
        // Sources with more tags fit the selector as well.
        if series.source == summary.source {
            return Ok(Some(series.values));
        }
    }
    Ok(None)
}

/// Returns the latest value of a bucket; `None` for texts and rounded integers.
fn number(field_type: FieldType, bucket: &Bucket) -> Option<Column> {
    let last = bucket.last.1;
    let value = match field_type {
        FieldType::F64 => Value::F64(last),
        FieldType::F32 => Value::F32(last as f32),
        FieldType::Bool => Value::Bool(last != 0.0),
        FieldType::I64 => Value::I64(i64::try_from(bucket.exact?.last).ok()?),
        FieldType::U64 => Value::U64(u64::try_from(bucket.exact?.last).ok()?),
        FieldType::Str => return None,
    };
    let mut column = Column::new(field_type);
    column.push(value);
    Some(column)
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
