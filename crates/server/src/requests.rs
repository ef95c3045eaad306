//! Log of requests: one line for each write that was rejected, each request that failed, and each slow one.
//!
//! A line contains the path of a request without its parameters, and none of its headers: both may contain secrets.
//! Clients cannot flood the log, because the number of such lines is limited. With the filter
//! `seiner_server::requests=debug` every request has a line.

use crate::access::{Scope, rule_of};
use crate::api_error::Reason;
use crate::app_state::AppState;
use crate::request_id::{HEADER, RequestId};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body::{Frame, SizeHint};
use hyper::Method;
use serde_json::Value;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tracing::{Level, Span};

/// Target of the lines, the name that a filter uses.
const TARGET: &str = "seiner_server::requests";

/// Maximum length of an error answer that gets the id of its request.
const ERROR_BYTES: u64 = 64 << 10;

/// Addresses whose 503 reports the state of the store. Probes call them all the time.
const PROBES: [&str; 2] = ["/health", "/ready"];

/// Client of a request: its connection and its address.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Number of the connection.
    pub connection: u64,
    /// Address.
    pub address: SocketAddr,
}

/// Request that is being answered. It is logged when it is dropped, which is after the last byte of its answer.
pub struct RequestRecord {
    app: Arc<AppState>,
    id: RequestId,
    span: Span,
    client: Client,
    method: Method,
    uri: Uri,
    began: Instant,
    bytes_in: Arc<AtomicU64>,
    bytes_out: u64,
    /// Status of the answer; `None` if the client went away before.
    status: Option<StatusCode>,
    /// Reason of a failure of the server.
    reason: Option<String>,
}

impl RequestRecord {
    /// Begins a request: its header has a valid id afterwards, and its body is counted.
    pub fn begin<B>(
        app: &Arc<AppState>,
        client: Client,
        mut request: Request<B>,
    ) -> (RequestRecord, Request<Counted<B>>) {
        let id = RequestId::of(request.headers());
        request.headers_mut().insert(HEADER, id.value());
        let bytes_in = Arc::new(AtomicU64::new(0));
        let record = RequestRecord {
            app: app.clone(),
            span: tracing::error_span!(parent: None, "request", request_id = id.as_str()),
            id,
            client,
            method: request.method().clone(),
            uri: request.uri().clone(),
            began: crate::time::now(),
            bytes_in: bytes_in.clone(),
            bytes_out: 0,
            status: None,
            reason: None,
        };
        let request = request.map(|body| Counted {
            body,
            bytes: bytes_in,
        });
        (record, request)
    }

    /// Returns the span of the request, which gives its id to the lines of other parts.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Notes the answer, and adds the id to it.
    pub async fn answer(&mut self, mut answer: Response<Body>) -> Response<Body> {
        let status = answer.status();
        self.status = Some(status);
        if status.is_server_error() {
            let reason = answer.extensions_mut().remove::<Reason>();
            self.reason = reason.map(|reason| reason.0);
            answer = with_id(answer, &self.id).await;
        }
        answer.headers_mut().insert(HEADER, self.id.value());
        answer
    }

    /// Counts bytes of the answer.
    pub fn count(&mut self, bytes: usize) {
        self.bytes_out += bytes as u64;
    }

    /// Returns the message of a line that stands in the log without a filter of its own.
    fn finding(&self, took: Duration) -> Option<&'static str> {
        let path = self.uri.path();
        let is_write = || {
            let wanted = rule_of(path).and_then(|rule| rule.wanted);
            wanted.is_some_and(|wanted| wanted.scope == Some(Scope::Write))
        };
        match self.status {
            Some(status) if status.is_client_error() && is_write() => Some("a write was rejected"),
            Some(status) if status.is_server_error() && !PROBES.contains(&path) => {
                match is_write() {
                    true => Some("a write was rejected"),
                    false => Some("a request failed"),
                }
            }
            _ => {
                let slow = self.app.settings.log_slow;
                let is_slow = slow.is_some_and(|slow| took >= slow);
                is_slow.then_some("a request was slow")
            }
        }
    }
}

/// Logs a line about a request.
macro_rules! line {
    ($level:expr, $record:expr, $took:expr, $left_out:expr, $message:expr) => {
        tracing::event!(
            target: TARGET,
            $level,
            method = $record.method.as_str(),
            path = $record.uri.path(),
            status = $record.status.map(|status| status.as_u16()),
            ms = $took.as_micros() as f64 / 1e3,
            bytes_in = $record.bytes_in.load(Relaxed),
            bytes_out = $record.bytes_out,
            client = %$record.client.address,
            connection_id = $record.client.connection,
            reason = $record.reason.as_deref(),
            left_out = $left_out,
            "{}",
            $message
        )
    };
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        let finding = self.finding(took);
        if finding.is_none() && !tracing::enabled!(target: TARGET, Level::DEBUG) {
            return;
        }
        let _in = self.span.enter();
        if let Some(finding) = finding
            && let Some(left_out) = self.app.request_lines.take()
        {
            let left_out = (left_out > 0).then_some(left_out);
            line!(Level::WARN, self, took, left_out, finding);
            return;
        }
        let message = match self.status {
            Some(_) => "a request was answered",
            None => "a client went away before the answer",
        };
        line!(Level::DEBUG, self, took, None::<u64>, message);
    }
}

/// Body of a request whose bytes are counted.
pub struct Counted<B> {
    body: B,
    bytes: Arc<AtomicU64>,
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Counted<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let counted = self.get_mut();
        let polled = Pin::new(&mut counted.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(bytes) = frame.data_ref()
        {
            counted.bytes.fetch_add(bytes.len() as u64, Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Adds the id of its request to an error answer in JSON. Other answers stay as they are.
async fn with_id(answer: Response<Body>, id: &RequestId) -> Response<Body> {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let length = answer.body().size_hint().exact();
    if !is_json || length.is_none_or(|length| length > ERROR_BYTES) {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    let bytes = axum::body::to_bytes(body, ERROR_BYTES as usize).await;
    let bytes = named(bytes.unwrap_or_default(), id);
    parts
        .headers
        .insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    Response::from_parts(parts, Body::from(bytes))
}

/// Returns an error in JSON with the id of its request; other texts as they are.
fn named(bytes: Bytes, id: &RequestId) -> Bytes {
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(mut error)) if error.contains_key("error") => {
            error.insert("request_id".to_string(), Value::from(id.as_str()));
            Bytes::from(Value::Object(error).to_string())
        }
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_get_the_id_and_other_texts_stay() {
        let id = RequestId::generate();
        let error = named(
            Bytes::from_static(b"{\"error\":\"x\",\"code\":\"full\"}"),
            &id,
        );
        let error: Value = serde_json::from_slice(&error).unwrap();
        assert_eq!(error["request_id"], id.as_str());
        assert_eq!(
            (&error["error"], &error["code"]),
            (&"x".into(), &"full".into())
        );
        for other in ["", "{", "[\"error\"]", "{\"status\":\"fail\"}"] {
            let bytes = Bytes::copy_from_slice(other.as_bytes());
            assert_eq!(named(bytes.clone(), &id), bytes);
        }
    }
}
