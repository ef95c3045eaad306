//! `POST /api/put`: points in JSON.

use super::METRIC;
use crate::advice::advised;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::{BATCH_ROWS, Outcome};
use crate::ingest_stream::IngestStream;
use crate::intake::{self, Intake, Place};
use crate::port;
use crate::text::{RowLines, TextIngest};
use crate::traffic::ProtocolCounters;
use crate::whole_body::{self, compression};
use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use seiner_store::Error;
use seiner_wire::opentsdb::{decode_point, each_point};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Parameters of a request. Others of OpenTSDB have no effect.
#[derive(Deserialize)]
pub struct Parameters {
    /// If given, the answer has the numbers of points.
    summary: Option<String>,
    /// If given, the answer has the numbers of points and the errors.
    details: Option<String>,
}

/// Receives a request.
pub async fn receive(
    State(app): State<Arc<AppState>>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mut stream = IngestStream::new(body);
    let response = match take(&app, &headers, &mut stream).await {
        Ok(outcome) => answer(&outcome, &parameters),
        Err(error) => stream.reject(error).await,
    };
    advised(&app, &headers, response)
}

async fn take(
    app: &Arc<AppState>,
    headers: &HeaderMap,
    stream: &mut IngestStream,
) -> Result<Outcome, ApiError> {
    let compression = compression(headers.get(header::CONTENT_ENCODING))?;
    let intake = Intake::begin(app, METRIC)?;
    let body = whole_body::receive(app, compression, stream).await?;
    let outcome = port::waiting(|| store(app, &intake.counters, &body))?;
    drop(body);
    intake.durable(outcome.position).await?;
    Ok(outcome)
}

/// Stores the points of a body.
fn store(app: &AppState, counters: &ProtocolCounters, body: &[u8]) -> Result<Outcome, ApiError> {
    counters.bytes.fetch_add(body.len() as u64, Relaxed);
    let mut ingest = RowLines::new(&*app.store, counters, decode_point);
    let mut points = Vec::with_capacity(BATCH_ROWS);
    let mut failed: Option<Error> = None;
    let mut flush = |points: &mut Vec<&[u8]>| {
        if failed.is_none() {
            failed = ingest.records(points).err();
        }
        points.clear();
    };
    let read = each_point(body, |point| {
        points.push(point);
        if points.len() == BATCH_ROWS {
            flush(&mut points);
        }
    });
    flush(&mut points);
    if let Some(error) = failed {
        return Err(error.into());
    }
    let outcome = ingest.outcome().clone();
    match read {
        Ok(()) => Ok(outcome),
        Err(error) => Err(ApiError::invalid(format!(
            "the body is not a list of points in JSON: {error}; {} points before that are stored",
            outcome.accepted
        ))),
    }
}

fn answer(outcome: &Outcome, parameters: &Parameters) -> Response {
    let (success, failed) = (outcome.accepted, outcome.rejected);
    let listed = outcome.listed.iter();
    if failed > 0 {
        let places = listed.clone().map(|point| Place {
            text: format!("point {}: {}", point.line, point.reason),
            rows: 1,
        });
        let message = intake::partial("points", success, failed, places);
        let errors = listed.map(|point| json!({"point": point.line, "error": point.reason}));
        let body = json!({
            "error": message,
            "code": "invalid",
            "message": message,
            "success": success,
            "failed": failed,
            "errors": errors.collect::<Vec<Value>>(),
        });
        return (StatusCode::BAD_REQUEST, Json(body)).into_response();
    }
    let mut body = json!({"success": success, "failed": 0});
    match (&parameters.summary, &parameters.details) {
        (None, None) => return StatusCode::NO_CONTENT.into_response(),
        (_, None) => {}
        (_, Some(_)) => body["errors"] = json!([]),
    }
    Json(body).into_response()
}
