//! Queries at `/api/v1/sql`: the answer is that of the program.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::request_id;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};
use http_body_util::Full;
use hyper::Request;
use hyper_util::rt::TokioIo;
use std::sync::Arc;

/// Answers a query in SQL with the answer of the program. The program limits the number of queries. If the client
/// closes the connection, the query ends.
pub async fn answer(
    State(app): State<Arc<AppState>>,
    method: Method,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let socket = app.sql.connect(|addresses| addresses.http).await;
    let socket = socket.map_err(|error| ApiError::unavailable(format!("{error:#}")))?;
    let gone = |error: &dyn std::fmt::Display| {
        ApiError::unavailable(format!(
            "seiner-sql did not answer: {error}; it is started again with the next query"
        ))
    };
    let host = socket.peer_addr().map_err(|error| gone(&error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake.map_err(|error| gone(&error))?;
    tokio::spawn(connection);
    let content_type = headers.get(header::CONTENT_TYPE).cloned();
    let mut request = Request::builder()
        .method(method)
        .uri(format!("/sql?{}", query.unwrap_or_default()))
        .header(header::HOST, host.to_string());
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
