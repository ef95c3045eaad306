//! `POST /write` and `POST /api/v2/write`: bodies of line protocol, or of Arrow (`arrow_body.rs`).
//!
//! A body is streamed into the store frame by frame and never held as a whole. A frame is processed
//! on the thread where it arrives: processing takes less time than handing the frame to another thread,
//! and the frame is still in the cache.

use crate::advice::advised;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::arrow_body;
use crate::ingest::{LineIngest, Outcome, PROTOCOL};
use crate::ingest_stream::IngestStream;
use crate::intake::{self, Intake, Place};
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use flate2::write::MultiGzDecoder;
use seiner_store::Error;
use seiner_wire::line::Precision;
use serde::Deserialize;
use serde_json::json;
use std::io::{self, Write};
use std::sync::Arc;

/// Compressed bytes that are inflated before other tasks run: at the highest ratio of
/// deflate they become some 16 MiB.
const INFLATE_BYTES: usize = 16 << 10;

/// Parameters of a write. The others (`db`, `bucket`, …) are for stores that have
/// such things.
#[derive(Deserialize)]
struct Parameters {
    precision: Option<String>,
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
        Err(error) => {
            stream.drain().await;
            error.into_response()
        }
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
    let allow_1970 = match parameters.allow_1970.as_deref() {
        None => app.settings.allow_1970,
        Some("true") => true,
        Some("false") => false,
        Some(other) => {
            return Err(ApiError::invalid(format!(
                "allow_1970={other} is neither true nor false"
            )));
        }
    };
    let limit = app.settings.max_body;
    let ingest =
        LineIngest::new(&*app.store, Some(&intake.counters), precision).reject_1970(!allow_1970);
    let mut sink = Sink {
        app,
        ingest,
        left: limit,
        limit,
        error: None,
    };
    match headers
        .get(header::CONTENT_ENCODING)
        .map(|encoding| encoding.as_bytes())
    {
        None | Some(b"identity" | b"") => {
            while let Some(frame) = stream.next().await? {
                sink.take(&frame)?;
            }
        }
        Some(b"gzip" | b"x-gzip") => sink = inflate(stream, sink).await?,
        Some(_) => {
            return Err(ApiError::invalid(
                "Content-Encoding can be gzip or left out",
            ));
        }
    }
    let Sink { ingest, .. } = sink;
    let outcome = app.with_patience(|| ingest.finish())?;
    intake.durable(outcome.position).await?;
    Ok(outcome)
}

/// Parses the unit of times; nanoseconds without one.
pub fn precision(text: Option<&str>) -> Result<Precision, ApiError> {
    match text {
        None | Some("") => Ok(Precision::Ns),
        Some(text) => text.parse().map_err(ApiError::invalid),
    }
}

async fn inflate<'e>(stream: &mut IngestStream, sink: Sink<'e>) -> Result<Sink<'e>, ApiError> {
    let mut decoder = MultiGzDecoder::new(sink);
    while let Some(frame) = stream.next().await? {
        for piece in frame.chunks(INFLATE_BYTES) {
            if let Err(error) = decoder.write_all(piece) {
                return Err(decoder
                    .get_mut()
                    .error
                    .take()
                    .unwrap_or_else(|| bad_gzip(&error)));
            }
            tokio::task::yield_now().await;
        }
    }
    if let Err(error) = decoder.try_finish() {
        return Err(decoder
            .get_mut()
            .error
            .take()
            .unwrap_or_else(|| bad_gzip(&error)));
    }
    decoder.finish().map_err(|error| bad_gzip(&error))
}

fn bad_gzip(error: &io::Error) -> ApiError {
    ApiError::invalid(format!(
        "the body is not the gzip that Content-Encoding says it is: {error}"
    ))
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

/// Ingest behind a size limit. As a `Write` it is the destination of a decoder.
struct Sink<'e> {
    app: &'e AppState,
    ingest: LineIngest<'e>,
    left: u64,
    limit: u64,
    /// Error of `write` that an [`io::Error`] cannot express.
    error: Option<ApiError>,
}

impl Sink<'_> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), ApiError> {
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| intake::too_long(self.limit, "; the lines before it are stored"))?;
        let ingest = &mut self.ingest;
        let taken = self.app.with_patience(|| ingest.take(bytes));
        taken.map_err(|error: Error| error.into())
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.take(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                self.error = Some(error);
                Err(io::Error::other("rejected"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
