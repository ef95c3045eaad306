//! Port of Flight SQL: passes permitted calls on to the program.

use super::{WANTED, reason};
use crate::access::{Credentials, Denial};
use crate::app_state::AppState;
use crate::connections::Serving;
use crate::grpc::code::{self, UNAVAILABLE};
use crate::grpc::{self, failure};
use crate::shutdown::Stop;
use anyhow::Result;
use axum::body::Body;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderValue, Request, Response, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Call by which a client exchanges user and password for the header of its other calls.
const HANDSHAKE: &str = "/arrow.flight.protocol.FlightService/Handshake";
/// Text about the credentials that a client must send.
const CREDENTIALS: &str =
    "any user and the token as password, or the header authorization: Bearer TOKEN";
/// Maximum time without reading from an answer: a client may compute between two batches of rows.
const READ_TIME: Duration = Duration::from_secs(300);

/// Passes calls on until the stop, then finishes the calls in flight.
pub async fn serve(listener: TcpListener, app: Arc<AppState>, stop: Stop) {
    grpc::serve(listener, app, stop, READ_TIME, call).await;
}

async fn call(
    app: Arc<AppState>,
    request: Request<Incoming>,
    peer: IpAddr,
    serving: Serving,
) -> Response<Body> {
    let bearer = match admit(&app, request.headers(), peer) {
        Ok(bearer) => bearer,
        Err(denial) => {
            return failure(code::of(&denial.error()), &reason(&denial, CREDENTIALS));
        }
    };
    let is_handshake = request.uri().path() == HANDSHAKE;
    match forward(&app, request).await {
        Ok(response) => {
            let (mut head, body) = response.into_parts();
            if let (true, Some(bearer)) = (is_handshake, bearer) {
                head.headers.insert(header::AUTHORIZATION, bearer);
            }
            // The connection is busy until the client has read the whole answer.
            let body = body.map_frame(move |frame| {
                let _busy = &serving;
                frame
            });
            Response::from_parts(head, Body::new(body))
        }
        Err(error) => {
            tracing::warn!("a call of Flight SQL from {peer} failed: {error:#}");
            failure(UNAVAILABLE, &format!("{error:#}"))
        }
    }
}

/// Returns the header for further calls with the token of a call; `None` if no call needs a token.
fn admit(app: &AppState, headers: &HeaderMap, peer: IpAddr) -> Result<Option<HeaderValue>, Denial> {
    let credentials = Credentials::of_headers(headers);
    let token = app.access.admit(&credentials, WANTED, peer)?;
    let Credentials::Token(text) = credentials else {
        return Ok(None);
    };
    Ok(token.and_then(|_| HeaderValue::try_from(format!("Bearer {text}")).ok()))
}

/// Passes a call on to the program, without its token. The connection ends with the answer.
async fn forward(app: &AppState, request: Request<Incoming>) -> Result<Response<Incoming>> {
    let socket = app.sql.connect(|addresses| addresses.flight).await?;
    socket.set_nodelay(true)?;
    let address = socket.peer_addr()?;
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake?;
    tokio::spawn(connection);
    let (mut head, body) = request.into_parts();
    head.headers.remove(header::AUTHORIZATION);
    let path = head.uri.path_and_query().cloned();
    head.uri = Uri::builder()
        .scheme("http")
        .authority(address.to_string())
        .path_and_query(path.unwrap_or(PathAndQuery::from_static("/")))
        .build()?;
    Ok(sender.send_request(Request::from_parts(head, body)).await?)
}
