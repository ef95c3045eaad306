//! SQL: passes queries of `/api/v1/sql` and connections of clients of PostgreSQL and Flight SQL on to the program
//! `seiner-sql`.

use crate::accept::{Arrival, accept, close};
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::connections::Connection;
use crate::request_id;
use crate::shutdown::Stop;
use crate::sql_program::SqlAddresses;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};
use http_body_util::Full;
use hyper::Request;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tracing::Instrument;

/// Maximum length of a query, bytes.
pub const MAX_QUERY: usize = 1 << 20;

/// Idle time of a client after which its connection may be closed for a new one.
const LEAST_IDLE: Duration = Duration::from_secs(60);

/// Protocol of the connections of a port.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    /// PostgreSQL's.
    Postgres,
    /// Arrow Flight SQL.
    Flight,
}

impl Protocol {
    /// Returns the setting with the address of the port.
    pub fn setting(self) -> &'static str {
        match self {
            Protocol::Postgres => "postgres_listen",
            Protocol::Flight => "flight_sql_listen",
        }
    }

    fn address(self, addresses: &SqlAddresses) -> SocketAddr {
        match self {
            Protocol::Postgres => addresses.postgres,
            Protocol::Flight => addresses.flight,
        }
    }
}

/// Answers a query in SQL with the answer of the program. The program limits the number of queries. If the client
/// closes the connection, the query ends.
pub async fn answer(
    State(app): State<Arc<AppState>>,
    method: Method,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let addresses = app
        .sql
        .addresses()
        .await
        .map_err(|error| ApiError::unavailable(format!("{error:#}")))?;
    let gone = |error: &dyn std::fmt::Display| {
        ApiError::unavailable(format!(
            "seiner-sql did not answer: {error}; it is started again with the next query"
        ))
    };
    let socket = TcpStream::connect(addresses.http)
        .await
        .map_err(|error| gone(&error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake.map_err(|error| gone(&error))?;
    tokio::spawn(connection);
    let content_type = headers.get(header::CONTENT_TYPE).cloned();
    let mut request = Request::builder()
        .method(method)
        .uri(format!("/sql?{}", query.unwrap_or_default()))
        .header(header::HOST, addresses.http.to_string());
    if let Some(content_type) = content_type {
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    if let Some(id) = headers.get(request_id::HEADER) {
        request = request.header(request_id::HEADER, id);
    }
    let request = request.body(Full::new(body)).map_err(ApiError::invalid)?;
    let (parts, body) = sender
        .send_request(request)
        .await
        .map_err(|error| gone(&error))?
        .into_parts();
    let content_type = parts.headers.get(header::CONTENT_TYPE).cloned();
    let content_type = content_type.map(|content_type| [(header::CONTENT_TYPE, content_type)]);
    Ok((
        parts.status,
        content_type.into_iter().flatten().collect::<HeaderMap>(),
        Body::new(body),
    )
        .into_response())
}

/// Passes the connections of a port on to the program until the stop.
pub async fn serve(protocol: Protocol, listener: TcpListener, app: Arc<AppState>, stop: Stop) {
    let (of, until) = (app.clone(), stop.clone());
    let serve = move |arrival: Arrival, connection: Arc<Connection>| {
        let (app, stop, span) = (of.clone(), until.clone(), arrival.span());
        let served = async move {
            let peer = arrival.peer;
            if app.access.is_required() {
                let setting = protocol.setting();
                tracing::warn!("{peer} was closed: clients of {setting} cannot present a token");
                return;
            }
            if let Err(error) = forward(protocol, arrival.stream, &app, &connection, stop).await {
                tracing::warn!("the {protocol:?} client {peer} was closed: {error:#}");
            }
        };
        served.instrument(span)
    };
    accept(listener, app, stop, LEAST_IDLE, serve, close).await;
}

async fn forward(
    protocol: Protocol,
    mut client: TcpStream,
    app: &AppState,
    connection: &Connection,
    mut stop: Stop,
) -> anyhow::Result<()> {
    let addresses = app.sql.addresses().await?;
    let mut program = TcpStream::connect(protocol.address(&addresses)).await?;
    tokio::select! {
        // A connection that breaks off is the end of a connection.
        _ = tokio::io::copy_bidirectional(&mut client, &mut program) => {}
        () = stop.wanted() => {}
        () = connection.must_close() => {}
    }
    Ok(())
}
