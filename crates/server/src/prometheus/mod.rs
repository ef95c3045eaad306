//! HTTP interface of Prometheus, so that its clients read this store: queries, names, and remote read.
//!
//! The addresses are below `/prometheus/api/v1`. Answers and errors have the form of Prometheus.

mod catalog;
mod evaluate;
mod failure;
mod form;
mod json;
mod messages;
mod remote_read;
mod stubs;
mod targets;

use crate::alerts;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::query;
use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
pub use evaluate::{limits, stopper};
use failure::Failure;
pub use json::last_time;
use std::sync::Arc;

/// Returns the addresses.
pub fn router() -> Router<Arc<AppState>> {
    let api = Router::new()
        .route("/query", get(evaluate::instant).post(evaluate::instant))
        .route("/query_range", get(evaluate::range).post(evaluate::range))
        .route(
            "/format_query",
            get(evaluate::format).post(evaluate::format),
        )
        .route("/series", get(catalog::series).post(catalog::series))
        .route("/labels", get(catalog::labels).post(catalog::labels))
        .route("/label/{name}/values", get(catalog::label_values))
        .route("/metadata", get(catalog::metadata))
        .route("/read", post(remote_read::read))
        .route("/targets", get(targets::targets))
        .route("/scrape_pools", get(targets::pools))
        .route("/query_exemplars", get(stubs::list).post(stubs::list))
        .route("/rules", get(alerts::rules))
        .route("/alerts", get(alerts::alerts))
        .route("/status/buildinfo", get(stubs::build_info))
        .fallback(stubs::unknown);
    Router::new()
        .nest("/prometheus/api/v1", api)
        .route("/prometheus/-/healthy", get(stubs::healthy))
        .route("/prometheus/-/ready", get(stubs::healthy))
}

/// Returns whether a request to `/api/v1/query` is a query in PromQL: it has the parameter `query`.
pub fn is_promql(uri: &Uri) -> bool {
    let parameters = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let mut names = parameters.into_iter().map(|(name, _)| name);
    names.any(|name| name == "query")
}

/// Answers `GET /api/v1/query`: PromQL with the parameter `query`, a selector with `select`.
pub async fn either(app: State<Arc<AppState>>, uri: Uri) -> Response {
    if is_promql(&uri) {
        return evaluate::instant(app, uri, Body::empty())
            .await
            .into_response();
    }
    match Query::try_from_uri(&uri) {
        Ok(parameters) => query::query(app, parameters).await.into_response(),
        Err(error) => ApiError::invalid(error).into_response(),
    }
}

/// Answers `POST /api/v1/query`, which only clients of Prometheus send.
pub async fn instant(app: State<Arc<AppState>>, uri: Uri, body: Body) -> Result<Response, Failure> {
    evaluate::instant(app, uri, body).await
}
