//! `POST /api/v3/write_lp` of InfluxDB 3: line protocol with a precision that may follow from the numbers.

use super::body::{self, Sink};
use super::{allows_1970, boolean, database_tag};
use crate::advice::advised;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::{BATCH_ROWS, LineIngest, Outcome, PROTOCOL, RejectedLine, now};
use crate::ingest_stream::IngestStream;
use crate::intake::{Intake, Lists};
use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use memchr::memchr_iter;
use seiner_wire::line::{Arena, LineParser, Precision};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Parameters of a write.
#[derive(Deserialize)]
pub struct Parameters {
    precision: Option<String>,
    /// True if the valid lines are stored if others are not.
    accept_partial: Option<String>,
    /// True if the answer does not wait until the rows are durable.
    no_sync: Option<String>,
    allow_1970: Option<String>,
    db: Option<String>,
}

/// Unit of times.
#[derive(Clone, Copy)]
struct Unit {
    precision: Precision,
    /// True if the unit of a time follows from its number.
    guessed: bool,
}

/// Result of a write.
enum Written {
    Stored(Outcome),
    /// Nothing was stored, because a line is invalid.
    Invalid(RejectedLine),
}

/// Receives a body.
pub async fn write(
    State(app): State<Arc<AppState>>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mut stream = IngestStream::new(body);
    let response = match take(&app, &parameters, &headers, &mut stream).await {
        Ok(Written::Stored(outcome)) => answer(&outcome),
        Ok(Written::Invalid(line)) => {
            rejection("parsing failed for write_lp endpoint", fault(&line))
        }
        Err(error) => stream.reject(error).await,
    };
    advised(&app, &headers, response)
}

async fn take(
    app: &Arc<AppState>,
    parameters: &Parameters,
    headers: &HeaderMap,
    stream: &mut IngestStream,
) -> Result<Written, ApiError> {
    let intake = Intake::begin(app, PROTOCOL)?;
    let unit = unit(parameters.precision.as_deref())?;
    let reject_1970 = !allows_1970(app, parameters.allow_1970.as_deref())?;
    let partial = boolean("accept_partial", parameters.accept_partial.as_deref(), true)?;
    let no_sync = boolean("no_sync", parameters.no_sync.as_deref(), false)?;
    let ingest = LineIngest::new(&*app.store, Some(&intake.counters), unit.precision)
        .reject_1970(reject_1970)
        .guess_unit(unit.guessed)
        .add_tag(database_tag(app, parameters.db.as_deref())?);
    let sink = Sink::new(app, ingest);
    let ingest = if partial {
        sink.receive(stream, headers).await?
    } else {
        let body = body::whole(app, stream, headers).await?;
        let parser = LineParser::new(unit.precision)
            .refuse_1970(reject_1970)
            .guess_unit(unit.guessed);
        if let Some(line) = first_fault(parser, &body).await {
            let lines = 1 + memchr_iter(b'\n', body.trim_ascii_end()).count() as u64;
            intake.counters.rejected.fetch_add(lines, Relaxed);
            return Ok(Written::Invalid(line));
        }
        sink.store(&body).await?
    };
    let outcome = app.with_patience(|| ingest.finish())?;
    if !no_sync {
        intake.durable(outcome.position).await?;
    }
    Ok(Written::Stored(outcome))
}

fn unit(precision: Option<&str>) -> Result<Unit, ApiError> {
    let precision = match precision {
        None | Some("" | "auto") => {
            return Ok(Unit {
                precision: Precision::Ns,
                guessed: true,
            });
        }
        Some("nanosecond" | "ns" | "n") => Precision::Ns,
        Some("microsecond" | "us" | "u") => Precision::Us,
        Some("millisecond" | "ms") => Precision::Ms,
        Some("second" | "s") => Precision::S,
        Some(other) => {
            return Err(ApiError::invalid(format!(
                "{other:?} is not a precision; there are auto, nanosecond, microsecond, millisecond and second"
            )));
        }
    };
    Ok(Unit {
        precision,
        guessed: false,
    })
}

/// Returns the first line that is invalid. Nothing is stored.
async fn first_fault(mut parser: LineParser, text: &[u8]) -> Option<RejectedLine> {
    let (mut lists, mut arena, mut errors) = (Lists::default(), Arena::new(), Vec::new());
    let (now, mut done) = (now(), 0);
    loop {
        let mut batch = lists.batch();
        let rest = &text[done..];
        done += parser.parse(rest, true, now, BATCH_ROWS, &arena, &mut batch, &mut errors);
        let full = batch.rows.len() >= BATCH_ROWS;
        lists.take_back(batch);
        arena.clear();
        if let Some(error) = errors.first() {
            return Some(RejectedLine {
                line: error.line,
                reason: error.reason.to_string(),
            });
        }
        if !full {
            return None;
        }
        tokio::task::yield_now().await;
    }
}

fn answer(outcome: &Outcome) -> Response {
    if outcome.rejected == 0 {
        return StatusCode::NO_CONTENT.into_response();
    }
    let faults = outcome.listed.iter().map(fault).collect();
    rejection("partial write of line protocol occurred", faults)
}

fn rejection(error: &str, data: Value) -> Response {
    let body = json!({ "error": error, "data": data });
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

/// Returns the fault of a line. The text of the line is not kept, so that `original_line` is empty.
fn fault(rejected: &RejectedLine) -> Value {
    json!({
        "original_line": "",
        "line_number": rejected.line,
        "error_message": rejected.reason,
    })
}
