//! gRPC: ports for calls over HTTP/2, and their errors.
//!
//! A call is one request of HTTP/2. Its result is in the trailers of the answer, or in its head if there is no message.

pub mod code;

use crate::accept::{Arrival, accept, close, drive};
use crate::app_state::AppState;
use crate::connections::{Connection, Serving};
use crate::port;
use crate::request_id::{self, RequestId};
use crate::shutdown::Stop;
use crate::socket::Socket;
use crate::tls::Inside;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tracing::Instrument;

/// Media type of calls and answers.
pub const MEDIA_TYPE: &str = "application/grpc";
/// Header or trailer with the code of the result.
pub const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Limits of a connection.
const STREAMS: u32 = 64;
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
const FRAME_BYTES: u32 = 64 << 10;
const HEAD_BYTES: u32 = 16 << 10;
/// Silence after which the client must answer a ping, and maximum time for this answer.
const SILENCE: Duration = Duration::from_secs(75);
const PING_TIME: Duration = Duration::from_secs(20);
/// Idle time after which a connection may be closed for a new one.
const LEAST_IDLE: Duration = Duration::from_secs(1);
/// Time for a client to end its connection before the server closes it.
const LEAVE_TIME: Duration = Duration::from_millis(500);

/// Serves a port until the stop, then finishes the calls in flight. `answer` answers a call, and keeps the last
/// argument while the call is busy. A client that does not read from an answer for `read_time` is disconnected.
pub async fn serve<C, Answered>(
    listener: TcpListener,
    app: Arc<AppState>,
    stop: Stop,
    read_time: Duration,
    answer: C,
) where
    C: Fn(Arc<AppState>, Request<Incoming>, IpAddr, Serving) -> Answered
        + Clone
        + Send
        + Sync
        + 'static,
    Answered: Future<Output = Response<Body>> + Send + 'static,
{
    let (of, until) = (app.clone(), stop.clone());
    let serve = move |arrival: Arrival, slot: Arc<Connection>| {
        let (app, span, answer) = (of.clone(), arrival.span(), answer.clone());
        let (peer, busy) = (arrival.peer.ip(), slot.clone());
        let calls = app.clone();
        let call = move |mut request: Request<Incoming>| {
            let id = RequestId::of(request.headers());
            request.headers_mut().insert(request_id::HEADER, id.value());
            with_id(id, answer(calls.clone(), request, peer, busy.serve()))
        };
        serve_connection(arrival, app, slot, until.clone(), read_time, call).instrument(span)
    };
    accept(listener, app, stop, LEAST_IDLE, serve, close).await;
}

/// Answers a call with its id, which the lines of the log about it have too.
async fn with_id(id: RequestId, answered: impl Future<Output = Response<Body>>) -> Response<Body> {
    let span = tracing::error_span!("call", request_id = id.as_str());
    let mut response = answered.instrument(span).await;
    let headers = response.headers_mut();
    headers.insert(request_id::HEADER, id.value());
    response
}

/// Executor of the calls of a connection, in its span.
#[derive(Clone)]
struct Calls;

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Calls {
    fn execute(&self, call: F) {
        tokio::spawn(port::polled(call).in_current_span());
    }
}

async fn serve_connection<Answered>(
    arrival: Arrival,
    app: Arc<AppState>,
    slot: Arc<Connection>,
    stop: Stop,
    read_time: Duration,
    call: impl Fn(Request<Incoming>) -> Answered,
) where
    Answered: Future<Output = Response<Body>> + Send + 'static,
{
    let (stream, peer) = (arrival.stream, arrival.peer.ip());
    // Answers are written in one piece: waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let stream = match app.secure(stream, Inside::Http2).await {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!("TLS with {peer}: {error}"),
    };
    let service = service_fn(move |request| {
        let answered = call(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let socket = Socket::new(stream, slot.clone(), read_time);
    let connection = http2::Builder::new(Calls)
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .max_header_list_size(HEAD_BYTES)
        .keep_alive_interval(SILENCE)
        .keep_alive_timeout(PING_TIME)
        .serve_connection(TokioIo::new(socket), service);
    let leave = |connection: Pin<&mut http2::Connection<_, _, _>>| connection.graceful_shutdown();
    let served = drive(connection, &slot, stop, LEAVE_TIME, leave).await;
    if let Err(error) = served {
        tracing::debug!("gRPC: {error}");
    }
}

/// Returns the head of an answer.
pub fn head() -> Response<()> {
    let mut head = Response::new(());
    let headers = head.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(
        ACCEPT_ENCODING,
        HeaderValue::from_static("identity,gzip,zstd"),
    );
    head
}

/// Returns the answer to a call that failed.
pub fn failure(code: i32, message: &str) -> Response<Body> {
    let mut response = head().map(|()| Body::empty());
    let headers = response.headers_mut();
    headers.insert(STATUS, HeaderValue::from(code));
    if let Ok(message) = HeaderValue::try_from(percent_encoded(message)) {
        headers.insert(MESSAGE, message);
    }
    response
}

/// Encodes a message as gRPC does: all bytes but visible ASCII are encoded, and the percent sign.
fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b'%' => encoded.push_str("%25"),
            b' '..=b'~' => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_encoded() {
        assert_eq!(percent_encoded("50 %: ä\n"), "50 %25: %C3%A4%0A");
    }
}
