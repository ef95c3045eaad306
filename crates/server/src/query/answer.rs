//! Samples and aggregates, streamed in the notation that was asked for.

use super::plan::{Aggregate, Parameters, Plan};
use crate::ingest::now;
use crate::outflow;
use crate::refusal::Refusal;
use crate::station::Station;
use axum::extract::{Query, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use seiner_engine::{Engine, LevelSpan, SeriesData, SeriesSummary, Step};
use seiner_model::Column;
use seiner_wire::answer::{Answer, Format, Head, Level, Series, Shape, levels_text, one_type};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Tells the levels of an answer where its notation has no place for it.
pub const LEVELS: HeaderName = HeaderName::from_static("seiner-levels");

/// `GET /api/v1/query`
pub async fn query(
    State(station): State<Arc<Station>>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Refusal> {
    let plan = Plan::read(&parameters, now())?;
    let place = station.queries.enter()?;
    station.meters.queries.fetch_add(1, Relaxed);
    let content_type = plan.format.content_type();
    let engine = station.engine.clone();
    let asked = plan.clone();
    let levels = tokio::task::spawn_blocking({
        let engine = engine.clone();
        move || levels(&engine, &asked)
    });
    let levels = levels_text(&levels.await?);
    let body = outflow::body(move |out| {
        let _place = place;
        write_answer(&engine, &plan, out)
    });
    let mut response = ([(header::CONTENT_TYPE, content_type)], body.await?).into_response();
    if !levels.is_empty() {
        let levels = HeaderValue::try_from(levels).expect("digits and punctuation");
        response.headers_mut().insert(LEVELS, levels);
    }
    Ok(response)
}

/// Where there is less than samples: from the rules of the classes, before anything is read.
pub fn levels(engine: &Engine, plan: &Plan) -> Vec<Level> {
    let levels = engine.levels(&plan.query).into_iter();
    let levels = levels.map(|LevelSpan { from, to, step_ns }| Level { from, to, step_ns });
    levels.collect()
}

/// Runs a plan and writes the answer in its notation, series by series.
///
/// # Errors
/// What `out` says, or a [`Refusal`] in an [`io::Error`].
pub fn write_answer(engine: &Engine, plan: &Plan, out: &mut impl Write) -> io::Result<()> {
    let Some(step) = plan.step else {
        if plan.format == Format::Arrow {
            check_types(engine, plan)?;
        }
        let all = engine.select(&plan.query).map_err(Refusal::from)?;
        return write_series(engine, plan, all, Shape::Samples, out, samples);
    };
    let names = plan
        .aggregates
        .iter()
        .map(|aggregate| aggregate.name().to_string());
    let shape = Shape::Steps {
        step_ns: step,
        aggregates: names.collect(),
    };
    let all = engine
        .aggregate(&plan.query, Step::Every(step))
        .map_err(Refusal::from)?;
    write_series(engine, plan, all, shape, out, |answer, summary| {
        summaries(answer, summary, &plan.aggregates)
    })
}

/// Writes what the store finds, up to the limit.
fn write_series<'o, T, W: Write>(
    engine: &Engine,
    plan: &Plan,
    found: impl Iterator<Item = Result<T, seiner_engine::Error>>,
    shape: Shape,
    out: &'o mut W,
    write: impl Fn(&mut Answer<&'o mut W>, T) -> io::Result<()>,
) -> io::Result<()> {
    let interval = plan.query.interval;
    let head = Head {
        from: interval.start,
        to: interval.end,
        shape,
        time_unit: plan.time_unit,
        levels: levels(engine, plan),
    };
    let mut answer = Answer::begin(plan.format, out, &head);
    let mut truncated = false;
    let mut written = 0;
    let mut warnings = Vec::new();
    for series in found {
        match series {
            // What is left is an answer if it can say that something is missing.
            Err(damage @ seiner_engine::Error::Damage { .. }) if plan.format == Format::Json => {
                warnings.push(damage.to_string());
            }
            Err(error) => return Err(Refusal::from(error).into()),
            Ok(_) if written == plan.limit => {
                truncated = true;
                break;
            }
            Ok(series) => {
                write(&mut answer, series)?;
                written += 1;
            }
        }
    }
    answer.end(truncated, &warnings)?;
    Ok(())
}

fn samples<W: Write>(answer: &mut Answer<W>, data: SeriesData) -> io::Result<()> {
    let SeriesData {
        key,
        field,
        times,
        values,
        ..
    } = data;
    answer.series(&Series {
        key: &key,
        field: &field,
        times: &times,
        columns: &[&values],
    })
}

fn summaries<W: Write>(
    answer: &mut Answer<W>,
    summary: SeriesSummary,
    aggregates: &[Aggregate],
) -> io::Result<()> {
    let SeriesSummary {
        key,
        field,
        buckets,
        ..
    } = summary;
    let times: Vec<i64> = buckets.iter().map(|bucket| bucket.start).collect();
    let columns: Vec<Column> = aggregates
        .iter()
        .map(|aggregate| aggregate.column(&buckets))
        .collect();
    let columns: Vec<&Column> = columns.iter().collect();
    answer.series(&Series {
        key: &key,
        field: &field,
        times: &times,
        columns: &columns,
    })
}

/// An Arrow stream has one type of values: better to say so before it begins than to break off.
fn check_types(engine: &Engine, plan: &Plan) -> io::Result<()> {
    let wanted = |field: &str| {
        plan.query
            .fields
            .as_ref()
            .is_none_or(|fields| fields.iter().any(|name| name == field))
    };
    let fields = engine.fields(&plan.query.selector);
    let fields = fields
        .iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, field_type)| (name.as_str(), *field_type));
    one_type(fields).map_err(Refusal::invalid)?;
    Ok(())
}
