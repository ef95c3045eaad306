//! Samples and aggregates, streamed in the requested notation.

use super::aggregates::AggregateColumn;
use super::hints;
use super::plan::{Aggregate, Parameters, QueryPlan, Shape};
use super::wide::write_rows;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::now;
use crate::port;
use crate::response_stream;
use axum::extract::{Query, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use seiner_model::{FieldType, Interval};
use seiner_store::{IsOver, LevelSpan, Results, Samples, SeriesData, SeriesSummary, Step, Store};
use seiner_wire::answer::{
    Answer, AnswerLevel, AnswerShape, Cells, Format, Head, Series, levels_text, one_type,
};
use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// Header with the levels of an answer whose notation has no place for them.
pub const LEVELS: HeaderName = HeaderName::from_static("seiner-levels");

/// Header with the number of losses that may concern an answer.
pub const LOSSES: HeaderName = HeaderName::from_static("seiner-losses");

/// Header of an answer from which a limit left out series, values or sources; a list of values has no other place.
pub const TRUNCATED: HeaderName = HeaderName::from_static("seiner-truncated");

/// Header with notes for the reader, a JSON list in ASCII, if the answer's notation has no place for them.
pub const HINTS: HeaderName = HeaderName::from_static("seiner-hints");

/// Information about an answer besides its samples.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// True if the limit left series out.
    pub truncated: bool,
    /// Notes on the interpretation of the query, and on the reason of an empty answer.
    pub hints: Vec<String>,
}

impl Outcome {
    /// Adds a hint to an answer without samples if there are samples outside its interval. Returns the times of the
    /// first and the last sample.
    pub fn note_elsewhere(&mut self, store: &dyn Store, plan: &QueryPlan) -> Option<(i64, i64)> {
        let (hint, range) = hints::elsewhere(store, plan)?;
        self.hints.push(hint);
        Some((range.start, range.end))
    }
}

/// Answers `GET /api/v1/query`.
pub async fn query(
    State(app): State<Arc<AppState>>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    let plan = QueryPlan::read(&parameters, now())?;
    respond(app, plan).await
}

/// Answers `GET /api/v1/latest`: the latest sample of each series.
pub async fn latest(
    State(app): State<Arc<AppState>>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    let plan = QueryPlan::read_latest(&parameters, now())?;
    respond(app, plan).await
}

async fn respond(app: Arc<AppState>, plan: QueryPlan) -> Result<Response, ApiError> {
    // The permit is shared: the thread that works last frees it.
    let permit = Arc::new(app.queries.acquire()?);
    app.traffic.queries.fetch_add(1, Relaxed);
    let content_type = plan.format.content_type();
    let store = app.store.clone();
    let known_plan = plan.clone();
    let interval = plan.query.interval;
    let known = port::blocking({
        let (store, permit) = (store.clone(), permit.clone());
        move || {
            let _permit = permit;
            (
                levels_text(&levels(&*store, &known_plan)),
                begin(&*store, &known_plan),
            )
        }
    });
    let (levels, begun) = known.await?;
    // The end of a short answer is known before the headers are sent.
    let outcome = Arc::new(Mutex::new(begun.clone()));
    let ended_outcome = outcome.clone();
    let body = response_stream::body(move |out| {
        let _permit = permit;
        let is_over = out.is_over();
        let ended = continue_answer(&*store, &plan, begun, out, is_over)?;
        *ended_outcome
            .lock()
            .expect("no thread panics while it holds the outcome") = ended;
        Ok(())
    });
    let body = body.await?;
    let losses = port::blocking(move || losses(&*app.store, &interval));
    let losses = losses.await?;
    let mut response = ([(header::CONTENT_TYPE, content_type)], body).into_response();
    let headers = response.headers_mut();
    if !levels.is_empty() {
        let levels = HeaderValue::try_from(levels).expect("digits and punctuation");
        headers.insert(LEVELS, levels);
    }
    let outcome = outcome
        .lock()
        .expect("no thread panics while it holds the outcome");
    if outcome.truncated {
        headers.insert(TRUNCATED, HeaderValue::from_static("true"));
    }
    if !outcome.hints.is_empty() {
        let hints = HeaderValue::try_from(ascii_json(&outcome.hints)).expect("JSON in ASCII");
        headers.insert(HINTS, hints);
    }
    if !losses.is_empty() {
        let count = HeaderValue::from(losses.len());
        response.headers_mut().insert(LOSSES, count);
    }
    Ok(response)
}

/// Returns JSON with escapes for all characters other than ASCII, because a header has no encoding.
fn ascii_json(texts: &[String]) -> String {
    let json = serde_json::to_string(texts).expect("texts are JSON");
    let mut units = [0; 2];
    json.chars().fold(String::new(), |mut ascii, c| {
        match c.is_ascii() && c != '\x7f' {
            true => ascii.push(c),
            false => {
                for unit in c.encode_utf16(&mut units) {
                    ascii.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
        ascii
    })
}

/// Returns the unacknowledged losses that may concern an answer for an interval.
pub fn losses(store: &dyn Store, interval: &Interval) -> Vec<String> {
    let losses = store.losses().into_iter();
    let concerned = losses.filter(|loss| loss.concerns(interval));
    concerned.map(|loss| loss.to_string()).collect()
}

/// Returns the parts of the interval for which roll-ups replaced the samples. The rules of the classes determine these
/// parts, so nothing is read.
pub fn levels(store: &dyn Store, plan: &QueryPlan) -> Vec<AnswerLevel> {
    let levels = store.levels(&plan.query).into_iter();
    let levels = levels.map(|LevelSpan { from, to, step_ns }| AnswerLevel { from, to, step_ns });
    levels.collect()
}

/// Returns the information that is known before the answer begins. JSON states `truncated` at its end. For the other
/// notations, the series are counted first.
fn begin(store: &dyn Store, plan: &QueryPlan) -> Outcome {
    let mut hints = plan.notes.clone();
    hints.extend(hints::unknown_names(store, &plan.query));
    Outcome {
        truncated: plan.format != Format::Json && is_truncated(store, plan),
        hints,
    }
}

/// Returns true if more series have samples than the limit permits. Counts the series by aggregates of blocks, up to
/// the limit.
fn is_truncated(store: &dyn Store, plan: &QueryPlan) -> bool {
    if plan.limit == usize::MAX {
        return false;
    }
    let selector = &plan.query.selector;
    let fields = store.fields(selector).map_or(0, |fields| fields.len());
    let sources = store.sources(selector).map_or(0, |sources| sources.len());
    let most = sources * fields;
    most > plan.limit
        && store
            .aggregate(&plan.query, Step::Whole, None)
            .is_ok_and(|series| series.flatten().nth(plan.limit).is_some())
}

/// Runs a plan and writes the answer in its notation, series by series, until `is_over` returns true.
///
/// # Errors
/// The errors of `out`, and an [`ApiError`] in an [`io::Error`].
pub fn write_answer(
    store: &dyn Store,
    plan: &QueryPlan,
    out: &mut impl Write,
    is_over: IsOver,
) -> io::Result<Outcome> {
    continue_answer(store, plan, begin(store, plan), out, is_over)
}

fn continue_answer(
    store: &dyn Store,
    plan: &QueryPlan,
    begun: Outcome,
    out: &mut impl Write,
    is_over: IsOver,
) -> io::Result<Outcome> {
    if plan.shape == Shape::Wide {
        return write_rows(store, plan, begun, out, is_over);
    }
    let Some(step) = plan.step else {
        if plan.format == Format::Arrow {
            check_types(store, plan)?;
        }
        let all = match plan.latest {
            true => latest_samples(store, plan, is_over)?,
            false => store
                .series(&plan.query, Some(is_over))
                .map_err(ApiError::from)?,
        };
        let continues = plan.format == Format::Json;
        return write_series(
            store,
            plan,
            begun,
            all,
            AnswerShape::Samples,
            out,
            |answer, found| samples(answer, found, continues),
        );
    };
    let names = plan
        .aggregates
        .iter()
        .map(|aggregate| aggregate.name().to_string());
    let shape = AnswerShape::Steps {
        step_ns: step,
        aggregates: names.collect(),
    };
    let all = store
        .aggregate(&plan.query, Step::Every(step), Some(is_over))
        .map_err(ApiError::from)?;
    // An Arrow stream has one type per column: floats, if fields have several types.
    let exact = plan.format != Format::Arrow || check_types(store, plan).is_ok();
    write_series(store, plan, begun, all, shape, out, |answer, summary| {
        summaries(answer, summary, &plan.aggregates, exact)
    })
}

/// Returns the latest sample of each series, as a series of one sample.
fn latest_samples<'a>(
    store: &'a dyn Store,
    plan: &QueryPlan,
    is_over: IsOver,
) -> io::Result<Results<'a, Samples<'a>>> {
    let latest = store
        .latest(&plan.query, Some(is_over))
        .map_err(ApiError::from)?;
    let series = latest.map(|latest| {
        let latest = latest?;
        Ok(Samples::Whole(SeriesData {
            source: latest.source,
            key: latest.key,
            field: latest.field,
            times: vec![latest.time],
            values: latest.value,
        }))
    });
    Ok(Box::new(series))
}

/// Writes the results of the store, up to the limit.
fn write_series<'o, T, W: Write>(
    store: &dyn Store,
    plan: &QueryPlan,
    begun: Outcome,
    found: impl Iterator<Item = Result<T, seiner_store::Error>>,
    shape: AnswerShape,
    out: &'o mut W,
    write: impl Fn(&mut Answer<&'o mut W>, T) -> io::Result<Vec<String>>,
) -> io::Result<Outcome> {
    let interval = plan.query.interval;
    let head = Head {
        from: interval.start,
        to: interval.end,
        shape,
        time_unit: plan.time_unit,
        levels: levels(store, plan),
    };
    let mut answer = Answer::begin(plan.format, out, &head);
    let mut outcome = begun;
    if outcome.truncated {
        answer.mark_truncated(plan.limit, plan.marker);
    }
    let mut written = 0;
    let mut warnings = losses(store, &interval);
    for series in found {
        match series {
            // The rest is a valid answer, because it can state that something is missing.
            Err(damage @ seiner_store::Error::Damage { .. }) if plan.format == Format::Json => {
                warn(&mut warnings, damage.to_string());
            }
            Err(error) => return Err(ApiError::from(error).into()),
            Ok(_) if written == plan.limit => {
                if plan.format != Format::Json && !outcome.truncated {
                    return Err(ApiError::unavailable(
                        "a new series exceeded the limit while the answer was written; ask again",
                    )
                    .into());
                }
                outcome.truncated = true;
                break;
            }
            Ok(series) => {
                for warning in write(&mut answer, series)? {
                    warn(&mut warnings, warning);
                }
                written += 1;
            }
        }
    }
    let empty = written == 0 && !outcome.truncated && warnings.is_empty();
    let range = empty.then(|| outcome.note_elsewhere(store, plan)).flatten();
    answer.hint(&outcome.hints, range);
    answer.end(outcome.truncated, &warnings)?;
    Ok(outcome)
}

/// Adds a warning, unless the list contains the same damage already: as a loss, or from an earlier pass.
pub fn warn(warnings: &mut Vec<String>, warning: String) {
    let (file, what) = warning.split_once(", ").unwrap_or((&warning, ""));
    let loss = format!("{file}: {what};");
    let is_known = |known: &String| *known == warning || known.starts_with(&loss);
    if !warnings.iter().any(is_known) {
        warnings.push(warning);
    }
}

/// Writes the samples of a series. With `continues`, damage does not end the answer, and is returned.
fn samples<W: Write>(
    answer: &mut Answer<W>,
    found: Samples<'_>,
    continues: bool,
) -> io::Result<Vec<String>> {
    let long = match found {
        Samples::Whole(data) => {
            answer.series(&Series {
                key: &data.key,
                field: &data.field,
                times: &data.times,
                columns: &[Cells::Values(&data.values)],
            })?;
            return Ok(Vec::new());
        }
        Samples::Long(long) => long,
    };
    let damages = RefCell::new(Vec::new());
    answer.series_in_parts(long.key(), long.field(), || {
        long.parts().filter_map(|part| match part {
            Ok(part) => Some(Ok(part)),
            Err(damage @ seiner_store::Error::Damage { .. }) if continues => {
                damages.borrow_mut().push(damage.to_string());
                None
            }
            Err(error) => Some(Err(ApiError::from(error).into())),
        })
    })?;
    Ok(damages.into_inner())
}

fn summaries<W: Write>(
    answer: &mut Answer<W>,
    summary: SeriesSummary,
    aggregates: &[Aggregate],
    exact: bool,
) -> io::Result<Vec<String>> {
    let SeriesSummary {
        key,
        field,
        field_type,
        buckets,
        ..
    } = summary;
    let times: Vec<i64> = buckets.iter().map(|bucket| bucket.start).collect();
    let values: Vec<AggregateColumn> = aggregates
        .iter()
        .map(|aggregate| match exact {
            true => aggregate.column(field_type, &buckets),
            false => aggregate.floats(&buckets),
        })
        .collect();
    let columns: Vec<Cells<'_>> = values.iter().map(AggregateColumn::cells).collect();
    answer.series(&Series {
        key: &key,
        field: &field,
        times: &times,
        columns: &columns,
    })?;
    let is_integer = matches!(field_type, FieldType::I64 | FieldType::U64);
    let rounded = is_integer && buckets.iter().any(|bucket| bucket.exact.is_none());
    let warning = rounded.then(|| {
        format!(
            "{key} field {field}: roll-ups of this interval have aggregates rounded to 53 bits; \
             new roll-ups are exact"
        )
    });
    Ok(warning.into_iter().collect())
}

/// Returns an error if the fields have several types, because an Arrow stream has one type of values. An error before
/// the stream is better than a broken stream.
fn check_types(store: &dyn Store, plan: &QueryPlan) -> io::Result<()> {
    let wanted = |field: &str| {
        plan.query
            .fields
            .as_ref()
            .is_none_or(|fields| fields.iter().any(|name| name == field))
    };
    let fields = store.fields(&plan.query.selector).map_err(ApiError::from)?;
    let fields = fields
        .iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, field_type)| (name.as_str(), *field_type));
    one_type(fields).map_err(ApiError::invalid)?;
    Ok(())
}
