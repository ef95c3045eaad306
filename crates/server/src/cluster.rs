//! `GET /ports`, and the requests of the other ports of a cluster.

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::cluster_view::ClusterView;
use crate::port;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;

/// Header with the secret that the ports of a cluster share.
pub const SECRET: &str = "x-seiner-cluster";
/// Maximum body of a request of another port, in bytes.
pub const MAX_REQUEST: usize = 1 << 20;

/// Lists the ports of the cluster.
pub async fn ports(State(app): State<Arc<AppState>>) -> Result<Json<Value>, ApiError> {
    let cluster = cluster(&app)?;
    let ports = port::blocking(move || cluster.ports());
    Ok(Json(json!({ "ports": ports.await?? })))
}

/// Answers a request of another port.
pub async fn exchange(
    State(app): State<Arc<AppState>>,
    Path(request): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let cluster = cluster(&app)?;
    let shown = headers.get(SECRET).and_then(|value| value.to_str().ok());
    if !shown.is_some_and(|text| cluster.is_secret(text)) {
        return Err(ApiError::forbidden(
            "this address is for the other ports of the cluster; read by /api/v1/query",
        ));
    }
    let permit = app.queries.acquire()?;
    let answer = port::blocking(move || {
        let _permit = permit;
        cluster.exchange(&request, &body)
    });
    let headers = [(header::CONTENT_TYPE, "application/octet-stream")];
    Ok((headers, answer.await??).into_response())
}

fn cluster(app: &AppState) -> Result<Arc<dyn ClusterView>, ApiError> {
    let none = || ApiError::not_found("this server is not a port of a cluster");
    app.cluster.clone().ok_or_else(none)
}
