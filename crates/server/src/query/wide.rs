//! Rows in the wide shape: as they were written, with one column per tag and per field.

use super::answer::{Outcome, levels, losses, warn};
use super::plan::QueryPlan;
use crate::api_error::ApiError;
use seiner_store::{Error, IsOver, Query, Store};
use seiner_wire::answer::Format;
use seiner_wire::answer::wide::{NewColumn, WideAnswer, WideColumns, WideHead, WideRows};
use std::io::{self, Write};

/// Runs a plan and writes its rows, source by source, until `is_over` returns true.
///
/// # Errors
/// The errors of `out`, and an [`ApiError`] in an [`io::Error`].
pub fn write_rows(
    store: &dyn Store,
    plan: &QueryPlan,
    begun: Outcome,
    out: &mut impl Write,
    is_over: IsOver,
) -> io::Result<Outcome> {
    let interval = plan.query.interval;
    let head = WideHead {
        from: interval.start,
        to: interval.end,
        time_unit: plan.time_unit,
        levels: levels(store, plan),
        columns: columns(store, &plan.query)?,
    };
    let pieces = store
        .scan(&plan.query, Some(is_over))
        .map_err(ApiError::from)?;
    let mut answer = WideAnswer::begin(plan.format, out, &head)?;
    let mut outcome = begun;
    let mut warnings = losses(store, &interval);
    let mut is_empty = true;
    for piece in pieces {
        match piece {
            // The rest is a valid answer, because it can state that something is missing.
            Err(damage @ Error::Damage { .. }) if plan.format == Format::Json => {
                warn(&mut warnings, damage.to_string());
            }
            Err(error) => return Err(ApiError::from(error).into()),
            Ok(piece) => {
                is_empty = false;
                let rows = WideRows {
                    key: &piece.key,
                    times: &piece.times,
                    fields: &piece.fields,
                    values: &piece.columns,
                };
                answer.rows(&rows).map_err(unavailable)?;
            }
        }
    }
    let is_empty = is_empty && warnings.is_empty();
    let elsewhere = is_empty.then(|| outcome.note_elsewhere(store, plan));
    let range = elsewhere.flatten();
    answer.hint(&outcome.hints, range);
    answer.end(&warnings)?;
    Ok(outcome)
}

/// Returns the columns of a query: the tags of the selected sources, and those of their fields that the query wants.
fn columns(store: &dyn Store, query: &Query) -> Result<WideColumns, ApiError> {
    let tags = store.tag_names(&query.selector)?;
    WideColumns::new(&tags, &store.wanted_fields(query)?).map_err(ApiError::invalid)
}

/// Turns the error for a column that is new into an answer: the same request succeeds later.
fn unavailable(error: io::Error) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(new @ NewColumn { .. }) => ApiError::unavailable(new.to_string()).into(),
        None => error,
    }
}
