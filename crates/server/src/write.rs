//! `POST /write` and `POST /api/v2/write`: bodies of line protocol.
//!
//! A body is streamed into the store frame by frame and never held as a whole. A frame is processed
//! on the thread where it arrives: processing takes less time than handing the frame to another thread,
//! and the frame is still in the cache.

use crate::advice::advised;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::{LineIngest, Outcome};
use crate::ingest_stream::IngestStream;
use crate::limiter::Permit;
use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::write::MultiGzDecoder;
use seiner_store::{Durability, Error};
use seiner_wire::line::Precision;
use serde::Deserialize;
use serde_json::json;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Compressed bytes that are inflated before other tasks run: at the highest ratio of
/// deflate they become some 16 MiB.
const INFLATE_BYTES: usize = 16 << 10;

/// Time after which a client stops waiting for the replicas of a cluster.
const REPLICAS: Duration = Duration::from_secs(30);

/// Parameters of a write. The others (`db`, `bucket`, …) are for stores that have
/// such things.
#[derive(Deserialize)]
pub struct Parameters {
    precision: Option<String>,
    /// True if times in 1970 are stored although they look like present seconds or milliseconds.
    allow_1970: Option<String>,
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
    let permit = app.writes.acquire()?;
    app.traffic.writes.fetch_add(1, Relaxed);
    let precision = match parameters.precision.as_deref() {
        None | Some("") => Precision::Ns,
        Some(text) => text.parse().map_err(ApiError::invalid)?,
    };
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
        LineIngest::new(&*app.store, Some(&app.traffic), precision).reject_1970(!allow_1970);
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
    durable(app, outcome.position, permit).await?;
    Ok(outcome)
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

/// Waits until the rows are as durable as the settings require.
async fn durable(app: &Arc<AppState>, position: u64, permit: Permit) -> Result<(), ApiError> {
    let store = &app.store;
    if store.durability() != Durability::Sync || store.is_durable(position) {
        return Ok(());
    }
    let store = store.clone();
    let waiting = tokio::task::spawn_blocking(move || {
        // The permit limits the number of threads that wait, those without a client included.
        let _permit = permit;
        store.wait_durable(position)
    });
    if app.cluster.is_none() {
        return Ok(waiting.await??);
    }
    match tokio::time::timeout(REPLICAS, waiting).await {
        Ok(waited) => Ok(waited??),
        Err(_) => Err(ApiError::unavailable(format!(
            "the rows are in the journal of this port, but not on enough replicas after {} s; send them again, to \
             another port if possible: they count once",
            REPLICAS.as_secs()
        ))),
    }
}

fn answer(outcome: Outcome) -> Response {
    if outcome.rejected == 0 {
        return StatusCode::NO_CONTENT.into_response();
    }
    let total = outcome.accepted + outcome.rejected;
    let verb = if outcome.rejected == 1 { "was" } else { "were" };
    let mut message = format!(
        "partial write: {} of {total} lines {verb} rejected, the rest is stored",
        outcome.rejected
    );
    for (index, rejected) in outcome.listed.iter().enumerate() {
        let lead = if index == 0 { ": " } else { "; " };
        message.push_str(&format!(
            "{lead}line {}: {}",
            rejected.line, rejected.reason
        ));
    }
    if outcome.rejected > outcome.listed.len() as u64 {
        message.push_str(&format!(
            "; and {} more",
            outcome.rejected - outcome.listed.len() as u64
        ));
    }
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
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            ApiError::too_large(format!(
                "the body is longer than {} bytes, after decompression; send several shorter ones, or raise max_body; \
                 the lines before it are stored",
                self.limit
            ))
        })?;
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
