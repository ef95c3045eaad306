//! OTLP metrics: over HTTP at `POST /v1/metrics`, `/opentelemetry/v1/metrics` as at VictoriaMetrics, and
//! `/prometheus/api/v1/otlp/v1/metrics` as at Prometheus; over gRPC at a port of its own.
//!
//! A body is in memory as a whole, within a limit for all bodies together. JSON becomes Protocol Buffers, so both
//! encodings have one way into the store. An answer has the encoding of its request. If a part of the points is
//! rejected, the answer is a partial success: a retry would be useless.

pub mod grpc;
mod ingest;
mod messages;

use crate::advice::advised;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::grpc::code;
use crate::ingest_stream::IngestStream;
use crate::intake::Intake;
use crate::whole_body::{self, Held, compression, too_long};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use ingest::Written;
use messages::Status;
use prost::Message;
use seiner_wire::otlp::{BadJson, from_json};
use std::sync::Arc;

/// Name of the protocol in metrics.
const PROTOCOL: &str = "otlp";

/// Bytes of Protocol Buffers that a byte of JSON becomes at most: two bytes of a list of floats become nine.
const GROWTH: usize = 5;

/// Encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    fn media_type(self) -> &'static str {
        match self {
            Encoding::Protobuf => "application/x-protobuf",
            Encoding::Json => "application/json",
        }
    }
}

/// Returns the addresses.
pub fn router(app: &AppState) -> Router<Arc<AppState>> {
    app.traffic.protocol(PROTOCOL);
    Router::new()
        .route("/v1/metrics", post(receive))
        .route("/opentelemetry/v1/metrics", post(receive))
        .route("/prometheus/api/v1/otlp/v1/metrics", post(receive))
}

/// Receives a request over HTTP.
async fn receive(State(app): State<Arc<AppState>>, headers: HeaderMap, body: Body) -> Response {
    let mut stream = IngestStream::new(body);
    let encoding = encoding(&headers);
    let taken = match &encoding {
        Ok(encoding) => take(&app, *encoding, &headers, &mut stream).await,
        Err(_) => Ok(Written::default()),
    };
    // Without an encoding, the answer is for people.
    let (encoding, error) = match encoding {
        Ok(encoding) => (encoding, taken.as_ref().err()),
        Err(ref error) => (Encoding::Json, Some(error)),
    };
    let response = match error {
        None => {
            let response = taken.map(|written| written.response()).unwrap_or_default();
            let body = match encoding {
                Encoding::Protobuf => response.encode_to_vec(),
                Encoding::Json => response.json().to_string().into_bytes(),
            };
            answer(StatusCode::OK, encoding, body)
        }
        Some(error) => {
            stream.drain().await;
            failure(error, encoding)
        }
    };
    advised(&app, &headers, response)
}

async fn take(
    app: &Arc<AppState>,
    encoding: Encoding,
    headers: &HeaderMap,
    stream: &mut IngestStream,
) -> Result<Written, ApiError> {
    let compression = compression(headers.get(header::CONTENT_ENCODING))?;
    let intake = Intake::begin(app, PROTOCOL)?;
    let mut body = whole_body::receive(app, compression, stream).await?;
    if encoding == Encoding::Json {
        body = converted(app, &body, whole_body::limit(app))?;
    }
    write(app, intake, body).await
}

/// Writes a request in Protocol Buffers.
async fn write(app: &AppState, intake: Intake<'_>, request: Held) -> Result<Written, ApiError> {
    let mut written = Written::default();
    let stored = ingest::store(app, &intake.counters, &request, &mut written).await;
    drop(request);
    stored?;
    intake.durable(written.stored.position).await?;
    Ok(written)
}

/// Converts a request from JSON.
fn converted(app: &AppState, json: &[u8], limit: usize) -> Result<Held, ApiError> {
    let permit = app.bodies.acquire(limit.min(GROWTH * json.len()))?;
    match from_json(json, limit) {
        Ok(request) => Ok(Held::new(request, permit)),
        Err(BadJson::TooLong) => Err(too_long(limit)),
        Err(error @ BadJson::Syntax(_)) => Err(ApiError::invalid(format!(
            "the body is not an ExportMetricsServiceRequest in JSON: {error}"
        ))),
    }
}

/// Returns the encoding that the content type states.
fn encoding(headers: &HeaderMap) -> Result<Encoding, ApiError> {
    let stated = headers.get(header::CONTENT_TYPE);
    let text = stated.map(|stated| String::from_utf8_lossy(stated.as_bytes()).to_ascii_lowercase());
    let media_type = text.as_deref().unwrap_or_default().split(';').next();
    match media_type.unwrap_or_default().trim() {
        "application/x-protobuf" | "application/protobuf" => Ok(Encoding::Protobuf),
        "application/json" => Ok(Encoding::Json),
        _ => Err(unsupported(
            "Content-Type must be application/x-protobuf or application/json",
        )),
    }
}

fn unsupported(message: &str) -> ApiError {
    ApiError::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid", message)
}

/// Returns the answer to a request that failed. OTLP clients repeat requests with the statuses 429, 502, 503 and 504.
fn failure(error: &ApiError, encoding: Encoding) -> Response {
    let status = Status {
        code: code::of(error),
        message: error.to_string(),
        details: Vec::new(),
    };
    let body = match encoding {
        Encoding::Protobuf => status.encode_to_vec(),
        Encoding::Json => status.json().to_string().into_bytes(),
    };
    let code = match error.status() {
        StatusCode::INSUFFICIENT_STORAGE if error.retry_s().is_some() => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        code => code,
    };
    let mut response = answer(code, encoding, body);
    if let Some(seconds) = error.retry_s() {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn answer(status: StatusCode, encoding: Encoding, body: Vec<u8>) -> Response {
    let kind = [(header::CONTENT_TYPE, encoding.media_type())];
    (status, kind, body).into_response()
}
