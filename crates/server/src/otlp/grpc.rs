//! OTLP over gRPC: the method `Export` of the service of metrics, over HTTP/2.
//!
//! A call is one request of HTTP/2. Its body is a message with a prefix of five bytes. The result is in the trailers of
//! the answer, or in its head if there is no message.

use super::messages::{Any, Status};
use super::{PROTOCOL, write};
use crate::access::{Credentials, Denial, Wanted};
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::grpc::code::{self, UNIMPLEMENTED};
use crate::grpc::{self, MEDIA_TYPE, STATUS, failure, head};
use crate::ingest_stream::IngestStream;
use crate::intake::Intake;
use crate::shutdown::Stop;
use crate::whole_body::{self, Compression, collect, compression, decompress};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use prost::Message;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// Length of the prefix of a message: a flag for compression, and the length.
const PREFIX: usize = 5;
/// Maximum time without reading from an answer.
const READ_TIME: Duration = Duration::from_secs(30);

/// Serves gRPC until the stop, then finishes the calls in flight.
pub async fn serve(listener: TcpListener, app: Arc<AppState>, stop: Stop) {
    let answer = |app, request, peer, serving| async move {
        let response = call(&app, request, peer).await;
        drop(serving);
        response
    };
    grpc::serve(listener, app, stop, READ_TIME, answer).await;
}

/// Answers a call.
async fn call(app: &Arc<AppState>, request: Request<Incoming>, peer: IpAddr) -> Response<Body> {
    let (head, body) = request.into_parts();
    let kind = head.headers.get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(MEDIA_TYPE.as_bytes())) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return response;
    }
    if head.uri.path() != EXPORT {
        let text = format!("{} does not exist; this port has {EXPORT}", head.uri.path());
        return failure(UNIMPLEMENTED, &text);
    }
    let exported = match admit(app, &head.headers, peer) {
        Ok(app) => export(&app, &head.headers, Body::new(body)).await,
        Err(denial) => Err(denial.error()),
    };
    match exported {
        Ok(message) => answer(message),
        Err(error) if error.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            failure(UNIMPLEMENTED, &error.to_string())
        }
        Err(error) => {
            let mut response = failure(code::of(&error), &error.to_string());
            if let Some(details) = retry_details(&error) {
                response.headers_mut().insert(DETAILS, details);
            }
            response
        }
    }
}

/// Returns the state for the token of a call.
fn admit(app: &Arc<AppState>, head: &HeaderMap, peer: IpAddr) -> Result<Arc<AppState>, Denial> {
    let credentials = Credentials::of_headers(head);
    let token = app.access.admit(&credentials, Wanted::WRITE, peer)?;
    Ok(app.of(token.as_deref()))
}

/// Returns the status in Protocol Buffers with the time after which a retry is useful, if that is known.
fn retry_details(error: &ApiError) -> Option<HeaderValue> {
    let status = Status {
        code: code::of(error),
        message: error.to_string(),
        details: vec![Any::retry_info(error.retry_s()?)],
    };
    HeaderValue::try_from(STANDARD_NO_PAD.encode(status.encode_to_vec())).ok()
}

/// Writes the points of a call. Returns the message of the answer.
async fn export(app: &Arc<AppState>, head: &HeaderMap, body: Body) -> Result<Vec<u8>, ApiError> {
    let compression = compression(head.get(ENCODING))?;
    let intake = Intake::begin(app, PROTOCOL)?;
    let limit = whole_body::limit(app);
    let body = collect(app, &mut IngestStream::new(body), limit + PREFIX).await?;
    let is_compressed = is_compressed(&body)?;
    let mut request = body.without_first(PREFIX);
    if is_compressed {
        if compression == Compression::None {
            return Err(ApiError::invalid(
                "the message is compressed, but the header grpc-encoding is missing",
            ));
        }
        request = decompress(app, compression, request, limit)?;
    }
    let written = write(app, intake, request).await?;
    Ok(written.response().encode_to_vec())
}

/// Returns whether the message of a call is compressed, and checks its prefix.
fn is_compressed(body: &[u8]) -> Result<bool, ApiError> {
    let Some((&[flag, a, b, c, d], message)) = body.split_first_chunk() else {
        return Err(ApiError::invalid("the body has no message"));
    };
    if u32::from_be_bytes([a, b, c, d]) as usize != message.len() || flag > 1 {
        return Err(ApiError::invalid(
            "the body is not one message of the length that its prefix states",
        ));
    }
    Ok(flag == 1)
}

/// Returns the answer to a call that succeeded.
fn answer(message: Vec<u8>) -> Response<Body> {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put_slice(&message);
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from(0))]);
    let body = Full::<Bytes>::new(framed.freeze())
        .with_trailers(async move { Some(Ok::<_, Infallible>(trailers)) });
    head().map(|()| Body::new(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_one_message() {
        assert!(!is_compressed(b"\0\0\0\0\x02ab").unwrap());
        assert!(is_compressed(b"\x01\0\0\0\0").unwrap());
        for body in [
            &b""[..],
            b"\0\0\0\0",
            b"\0\0\0\0\x03ab",
            b"\0\0\0\0\x01ab",
            b"\0\xff\xff\xff\xffab",
            b"\x02\0\0\0\x02ab",
        ] {
            let error = is_compressed(body).unwrap_err();
            assert_eq!(code::of(&error), code::INVALID_ARGUMENT);
        }
    }
}
