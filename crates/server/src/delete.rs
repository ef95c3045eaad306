//! Deletes of whole sources, and of their samples in an interval.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::now;
use crate::ingest_stream::IngestStream;
use crate::port;
use crate::{predicate, query};
use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use seiner_model::{Interval, Selector};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Parameters of the address.
#[derive(Deserialize)]
pub struct Parameters {
    select: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

/// `POST` and `DELETE /api/v1/delete`: `{"sources":2,"from":"0","to":"1700000000000000000"}`
pub async fn delete(
    State(app): State<Arc<AppState>>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Value>, ApiError> {
    let select = parameters.select.ok_or_else(|| {
        ApiError::invalid(
            "select is missing; write select=cpu{host=\"a\"}, or select={} for all sources",
        )
    })?;
    let selector = Selector::parse(&select).map_err(ApiError::invalid)?;
    let mut notes = Vec::new();
    let (from, to) = (parameters.from.as_deref(), parameters.to.as_deref());
    let interval = interval(("from", from), ("to", to), &mut notes)?;
    let sources = carry_out(&app, selector, interval).await?;
    let mut answer = json!({
        "sources": sources,
        "from": interval.start.to_string(),
        "to": interval.end.to_string(),
    });
    if !notes.is_empty() {
        answer["hints"] = json!(notes);
    }
    Ok(Json(answer))
}

/// Delete in the form of InfluxDB 2 clients. Unknown keys are an error, because a delete with a misspelt predicate
/// would match all sources.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Influx {
    start: String,
    stop: String,
    #[serde(default)]
    predicate: String,
}

/// `POST /api/v2/delete`: `{"start":"…","stop":"…","predicate":"_measurement=\"cpu\""}`
pub async fn influx(State(app): State<Arc<AppState>>, body: Body) -> Result<StatusCode, ApiError> {
    let body = IngestStream::new(body).statement().await?;
    let wanted: Influx = serde_json::from_slice(&body).map_err(|error| {
        ApiError::invalid(format!(
            "the body is not a delete ({error}); send {{\"start\":\"2026-01-01T00:00:00Z\",\"stop\":\"2026-02-01T00:00:00Z\",\
             \"predicate\":\"_measurement=\\\"cpu\\\"\"}}"
        ))
    })?;
    let selector = predicate::parse(&wanted.predicate).map_err(ApiError::invalid)?;
    let (start, stop) = (Some(wanted.start.as_str()), Some(wanted.stop.as_str()));
    // The answer has no body that could contain a note.
    let interval = interval(("start", start), ("stop", stop), &mut Vec::new())?;
    carry_out(&app, selector, interval).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the interval with both ends included. An omitted end is the end of time.
fn interval(
    from: (&str, Option<&str>),
    to: (&str, Option<&str>),
    notes: &mut Vec<String>,
) -> Result<Interval, ApiError> {
    let now = now();
    let mut time = |(name, text): (&str, Option<&str>), otherwise| {
        text.map_or(Ok(otherwise), |text| query::time(name, text, now, notes))
    };
    let interval = Interval::new(
        time(from, Interval::ALL.start)?,
        time(to, Interval::ALL.end)?,
    );
    match interval.is_empty() {
        true => Err(ApiError::invalid(
            "the interval ends before it begins; swap its ends",
        )),
        false => Ok(interval),
    }
}

/// Deletes, and returns the number of matching sources.
async fn carry_out(
    app: &Arc<AppState>,
    selector: Selector,
    interval: Interval,
) -> Result<u64, ApiError> {
    let permit = app.queries.acquire()?;
    let store = app.store.clone();
    let deleted = port::blocking(move || {
        let _permit = permit;
        store.delete(&selector, interval)
    });
    let sources = deleted.await??;
    tracing::info!("deleted samples of {sources} sources in {interval:?}");
    Ok(sources)
}
