//! Queries: selection, interval, and the collection of answers.

use crate::failure::{Failure, invalid};
use crate::table::Table;
use pyo3::prelude::*;
use seiner_engine::{Error, Query, Step};
use seiner_model::{Interval, Selector, parse_time};
use seiner_store::Store;
use seiner_wire::answer::wide::{WideBatches, WideColumns, WideRows};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Interval between checks for signals.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);
/// Attempts of a wide query, if tags or fields appear while it reads.
const ATTEMPTS: usize = 10;

/// A time: in ns since 1970, or as a text.
#[derive(FromPyObject)]
pub enum Moment {
    Ns(i64),
    Text(String),
}

/// Collects all series of an answer. Checks for signals regularly.
pub fn drain<T: Send>(
    py: Python<'_>,
    series: &mut (impl Iterator<Item = Result<T, Error>> + Send),
    mut push: impl FnMut(T) + Send,
) -> PyResult<()> {
    let mut more = true;
    while more {
        more = py.detach(|| -> Result<bool, Failure> {
            let started = std::time::Instant::now();
            while started.elapsed() < SIGNALS_EVERY {
                match series.next() {
                    Some(series) => push(series?),
                    None => return Ok(false),
                }
            }
            Ok(true)
        })?;
        py.check_signals()?;
    }
    Ok(())
}

/// Returns the query of a selector for an interval.
pub fn selected(
    select: &str,
    start: Option<Moment>,
    end: Option<Moment>,
    fields: Option<Vec<String>>,
) -> Result<Query, Failure> {
    Ok(Query {
        selector: Selector::parse(select)?,
        fields,
        interval: interval(start, end)?,
    })
}

/// Returns an interval. An end that is not given is open.
pub fn interval(start: Option<Moment>, end: Option<Moment>) -> Result<Interval, Failure> {
    let now = now();
    let ns = |moment: Option<Moment>, open: i64| match moment {
        None => Ok(open),
        Some(Moment::Ns(ns)) => Ok(ns),
        Some(Moment::Text(text)) => parse_time(&text, now),
    };
    Ok(Interval::new(ns(start, i64::MIN)?, ns(end, i64::MAX)?))
}

/// Returns the present time in ns since 1970.
pub fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as i64)
}

/// Returns the first and the last time of the samples of a query.
pub fn range(py: Python<'_>, store: &dyn Store, query: &Query) -> PyResult<Option<(i64, i64)>> {
    let mut series = py
        .detach(|| store.aggregate(query, Step::Whole, None))
        .map_err(Failure::from)?;
    let mut found: Option<(i64, i64)> = None;
    drain(py, &mut series, |summary| {
        for bucket in &summary.buckets {
            let (first, last) = found.unwrap_or((bucket.first.0, bucket.last.0));
            found = Some((first.min(bucket.first.0), last.max(bucket.last.0)));
        }
    })?;
    Ok(found)
}

/// Returns the rows of a query as they were written.
///
/// # Errors
/// If the store cannot be read, or new tags and fields appear all the time.
pub fn wide(py: Python<'_>, store: &dyn Store, query: &Query) -> PyResult<Table> {
    let mut new = None;
    for _ in 0..ATTEMPTS {
        let columns = py.detach(|| wide_columns(store, query))?;
        let mut batches = WideBatches::new(&columns);
        let mut pieces = py
            .detach(|| store.scan(query, None))
            .map_err(Failure::from)?;
        new = None;
        drain(py, &mut pieces, |piece| {
            let rows = WideRows {
                key: &piece.key,
                times: &piece.times,
                fields: &piece.fields,
                values: &piece.columns,
            };
            if new.is_none() {
                new = batches.rows(&rows).err();
            }
        })?;
        if new.is_none() {
            return Ok(Table::new(batches.schema(), batches.end()));
        }
    }
    let new = new.map(|new| new.to_string());
    Ok(invalid(new.unwrap_or_default())?)
}

/// Returns the columns of a wide query: the tags of the selected sources, and those of their fields that it wants.
fn wide_columns(store: &dyn Store, query: &Query) -> Result<WideColumns, Failure> {
    let tags = store.tag_names(&query.selector)?;
    let fields = store.wanted_fields(query)?;
    WideColumns::new(&tags, &fields).or_else(|error| invalid(error.to_string()))
}
