//! `POST /write`, `/api/v2/write` and `/api/v3/write_lp`: bodies of line protocol, or of Arrow (`arrow_body.rs`).
//!
//! A body is streamed into the store frame by frame. It is in memory as a whole only if it is a block of Snappy, or if
//! its lines are to be stored together (`accept_partial=false`). A frame is processed
//! on the thread where it arrives: processing takes less time than handing the frame to another thread,
//! and the frame is still in the cache.

mod body;
mod v3;

use crate::advice::advised;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::arrow_body;
use crate::ingest::{LineIngest, Outcome, PROTOCOL};
use crate::ingest_stream::IngestStream;
use crate::intake::{self, Intake, Place, precision};
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use body::Sink;
use seiner_wire::line::AddedTag;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// Parameters of a write. The others (`rp`, `org`, …) are for stores that have
/// such things.
#[derive(Deserialize)]
struct Parameters {
    precision: Option<String>,
    /// Database of InfluxDB 1.
    db: Option<String>,
    /// Bucket of InfluxDB 2.
    bucket: Option<String>,
    /// True if times in 1970 are stored although they look like present seconds or milliseconds.
    allow_1970: Option<String>,
    #[serde(flatten)]
    arrow: arrow_body::Parameters,
}

/// Returns the addresses.
pub fn router(app: &AppState) -> Router<Arc<AppState>> {
    app.traffic.protocol(PROTOCOL);
    app.traffic.protocol(arrow_body::PROTOCOL);
    Router::new()
        .route("/write", post(write))
        .route("/api/v2/write", post(write))
        .route("/api/v3/write_lp", post(v3::write))
}

/// Receives a body.
async fn write(
    State(app): State<Arc<AppState>>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mut stream = IngestStream::new(body);
    if arrow_body::is_stated(&headers) {
        let precision = parameters.precision.as_deref();
        let response = arrow_body::receive(&app, &parameters.arrow, precision, &headers, stream);
        return advised(&app, &headers, response.await);
    }
    let response = match take(&app, &parameters, &headers, &mut stream).await {
        Ok(outcome) => answer(outcome),
        Err(error) => stream.reject(error).await,
    };
    advised(&app, &headers, response)
}

async fn take(
    app: &Arc<AppState>,
    parameters: &Parameters,
    headers: &HeaderMap,
    stream: &mut IngestStream,
) -> Result<Outcome, ApiError> {
    let intake = Intake::begin(app, PROTOCOL)?;
    let precision = precision(parameters.precision.as_deref())?;
    let allow_1970 = allows_1970(app, parameters.allow_1970.as_deref())?;
    let database = parameters.db.as_deref().or(parameters.bucket.as_deref());
    let ingest = LineIngest::new(&*app.store, Some(&intake.counters), precision)
        .reject_1970(!allow_1970)
        .add_tag(database_tag(app, database)?);
    let ingest = Sink::new(app, ingest).receive(stream, headers).await?;
    let outcome = app.with_patience(|| ingest.finish())?;
    intake.durable(outcome.position).await?;
    Ok(outcome)
}

/// Returns the tag that lines of a database or bucket get, if the setting has one.
fn database_tag(app: &AppState, database: Option<&str>) -> Result<Option<AddedTag>, ApiError> {
    let database = database.filter(|database| !database.is_empty());
    match (&app.settings.database_tag, database) {
        (Some(tag), Some(database)) => AddedTag::new(tag, database).map(Some).map_err(|error| {
            ApiError::invalid(format!("the database or bucket is {database:?}: {error}"))
        }),
        _ => Ok(None),
    }
}

/// Returns whether times in 1970 are stored: by the parameter, or by the setting.
fn allows_1970(app: &AppState, parameter: Option<&str>) -> Result<bool, ApiError> {
    boolean("allow_1970", parameter, app.settings.allow_1970)
}

/// Returns the value of a parameter, which is `absent` without it.
fn boolean(name: &str, parameter: Option<&str>, absent: bool) -> Result<bool, ApiError> {
    match parameter {
        None => Ok(absent),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => Err(ApiError::invalid(format!(
            "{name}={other} is neither true nor false"
        ))),
    }
}

fn answer(outcome: Outcome) -> Response {
    if outcome.rejected == 0 {
        return StatusCode::NO_CONTENT.into_response();
    }
    let places = outcome.listed.iter().map(|rejected| Place {
        text: format!("line {}: {}", rejected.line, rejected.reason),
        rows: 1,
    });
    let message = intake::partial("lines", outcome.accepted, outcome.rejected, places);
    let body = json!({
        "error": message,
        "code": "invalid",
        "message": message,
        "accepted": outcome.accepted,
        "rejected": outcome.rejected,
        "lines": outcome.listed,
    });
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}
