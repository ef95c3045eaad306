//! Prometheus remote write 1 and 2: `POST /prometheus/api/v1/write`, and `/api/v1/write` as at VictoriaMetrics.
//!
//! A body is one block of Snappy, or Zstandard from agents of VictoriaMetrics. It is in memory as a whole, within a
//! limit for all bodies together. Its samples go to the store in the batches of line protocol. Errors have status 400
//! if a retry is useless: Prometheus then drops the request, whose valid samples are stored.

pub mod body;
mod ingest;

use crate::advice::advised;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest_stream::IngestStream;
use crate::intake::{self, Intake};
use crate::series;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use body::Encoding;
use ingest::Written;
use seiner_wire::remote_write::{Rejection, Version};
use serde_json::{Value, json};
use std::sync::Arc;

/// Name of the protocol in metrics.
const PROTOCOL: &str = "remote_write";

/// Headers of answers to requests of version 2: numbers of what the store accepted.
const SAMPLES_WRITTEN: HeaderName =
    HeaderName::from_static("x-prometheus-remote-write-samples-written");
const HISTOGRAMS_WRITTEN: HeaderName =
    HeaderName::from_static("x-prometheus-remote-write-histograms-written");
const EXEMPLARS_WRITTEN: HeaderName =
    HeaderName::from_static("x-prometheus-remote-write-exemplars-written");

/// Returns the addresses.
pub fn router(app: &AppState) -> Router<Arc<AppState>> {
    app.traffic.protocol(PROTOCOL);
    Router::new()
        .route("/prometheus/api/v1/write", post(receive))
        .route("/api/v1/write", post(receive))
}

/// Receives a request.
async fn receive(State(app): State<Arc<AppState>>, headers: HeaderMap, body: Body) -> Response {
    let mut stream = IngestStream::new(body);
    let mut written = Written::default();
    let version = version(&headers);
    let taken = match &version {
        Ok(version) => take(&app, *version, &headers, &mut stream, &mut written).await,
        Err(_) => Ok(()),
    };
    let (version, error) = match version {
        Ok(version) => (Some(version), taken.err()),
        Err(error) => (None, Some(error)),
    };
    let mut response = match error {
        None => answer(&written),
        Some(error) => stream.reject(error).await,
    };
    if version == Some(Version::V2) {
        let headers = response.headers_mut();
        headers.insert(SAMPLES_WRITTEN, HeaderValue::from(written.stored.samples));
        headers.insert(HISTOGRAMS_WRITTEN, HeaderValue::from(0));
        headers.insert(EXEMPLARS_WRITTEN, HeaderValue::from(0));
    }
    advised(&app, &headers, response)
}

async fn take(
    app: &Arc<AppState>,
    version: Version,
    headers: &HeaderMap,
    stream: &mut IngestStream,
    written: &mut Written,
) -> Result<(), ApiError> {
    let encoding = encoding(headers)?;
    let intake = Intake::begin(app, PROTOCOL)?;
    let request = body::receive(app, encoding, stream).await?;
    let stored = ingest::store(app, &intake.counters, version, &request, written).await;
    drop(request);
    stored?;
    intake.durable(written.stored.position).await
}

/// Returns the version that the content type states. A request without a content type has version 1.
fn version(headers: &HeaderMap) -> Result<Version, ApiError> {
    let Some(stated) = headers.get(header::CONTENT_TYPE) else {
        return Ok(Version::V1);
    };
    let text = String::from_utf8_lossy(stated.as_bytes()).to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let message = match parts.next() {
        Some("application/x-protobuf") => parts.find_map(|part| part.strip_prefix("proto=")),
        _ => Some("another media type"),
    };
    match message.map(|message| message.trim_matches('"')) {
        None | Some("prometheus.writerequest") => Ok(Version::V1),
        Some("io.prometheus.write.v2.request") => Ok(Version::V2),
        Some(_) => Err(unsupported(
            "Content-Type can be application/x-protobuf, with proto=prometheus.WriteRequest or \
             proto=io.prometheus.write.v2.Request",
        )),
    }
}

/// Returns the encoding. A request without one is Snappy, as for Prometheus.
fn encoding(headers: &HeaderMap) -> Result<Encoding, ApiError> {
    let Some(stated) = headers.get(header::CONTENT_ENCODING) else {
        return Ok(Encoding::Snappy);
    };
    match stated.as_bytes().to_ascii_lowercase().as_slice() {
        b"snappy" => Ok(Encoding::Snappy),
        b"zstd" => Ok(Encoding::Zstd),
        _ => Err(unsupported(
            "Content-Encoding can be snappy, as one block, or zstd",
        )),
    }
}

fn unsupported(message: &str) -> ApiError {
    ApiError::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid", message)
}

fn answer(written: &Written) -> Response {
    let rejections = &written.rejections;
    if rejections.samples == 0 {
        return StatusCode::NO_CONTENT.into_response();
    }
    let places = series::places(rejections, "series", "sample");
    let accepted = written.stored.samples;
    let message = intake::partial("samples", accepted, rejections.samples, places);
    let series: Vec<Value> = rejections.listed.iter().map(in_json).collect();
    let body = json!({
        "error": message,
        "code": "invalid",
        "message": message,
        "accepted": accepted,
        "rejected": rejections.samples,
        "histograms": rejections.histograms,
        "series": series,
    });
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

fn in_json(rejection: &Rejection) -> Value {
    json!({
        "series": rejection.series,
        "name": rejection.name,
        "samples": rejection.samples,
        "reason": rejection.reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn content_types_state_the_version() {
        let version = |text: &str| version(&of(header::CONTENT_TYPE, text)).ok();
        for text in [
            "application/x-protobuf",
            "application/x-protobuf;proto=prometheus.WriteRequest",
            "Application/X-Protobuf; proto=prometheus.WriteRequest",
        ] {
            assert_eq!(version(text), Some(Version::V1), "{text}");
        }
        let second = "application/x-protobuf;proto=io.prometheus.write.v2.Request";
        assert_eq!(version(second), Some(Version::V2));
        for text in ["", "text/plain", "application/x-protobuf;proto=x"] {
            assert_eq!(version(text), None, "{text}");
        }
        assert_eq!(super::version(&HeaderMap::new()).ok(), Some(Version::V1));
    }

    #[test]
    fn other_encodings_are_unsupported() {
        let encoding = |text: &str| {
            let stated = encoding(&of(header::CONTENT_ENCODING, text));
            stated.map_err(|error| error.status())
        };
        assert_eq!(encoding("Snappy"), Ok(Encoding::Snappy));
        assert_eq!(encoding("zstd"), Ok(Encoding::Zstd));
        for text in ["gzip", "identity", "zstd, gzip"] {
            assert_eq!(encoding(text), Err(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
    }
}
