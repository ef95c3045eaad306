//! The addresses of the HTTP port, and what answers at each.

use crate::refusal::Refusal;
use crate::station::Station;
use crate::{delete, log, metrics, page, plan, query, status, write};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use std::sync::Arc;

/// The version that clients of InfluxDB are told: they look for one that takes `/write`.
const INFLUX_VERSION: &str = "1.8.10";

/// All addresses.
pub fn router(station: Arc<Station>) -> Router {
    Router::new()
        .route("/write", post(write::write))
        .route("/api/v2/write", post(write::write))
        .route("/query", get(query::influx).post(query::influx))
        .route("/ping", get(ping))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(figures))
        .route("/status", get(state))
        .route("/api/v1/measurements", get(query::measurements))
        .route("/api/v1/tags", get(query::tags))
        .route("/api/v1/values", get(query::values))
        .route("/api/v1/fields", get(query::fields))
        .route("/api/v1/sources", get(query::sources))
        .route("/api/v1/query", get(query::query))
        .route("/api/v1/settle", post(settle))
        .route(
            "/api/v1/delete",
            post(delete::delete).delete(delete::delete),
        )
        .route("/api/v2/delete", post(delete::influx))
        .route("/api/v1/log", get(log::log))
        .route("/api/v1/log/why", get(log::why))
        .route("/api/v1/log/trace", get(log::log_trace))
        .route("/api/v1/plan", get(plan::plan))
        .fallback(get(page::file))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn(same_origin))
        // Bodies are streamed against a limit of their own.
        .layer(DefaultBodyLimit::disable())
        .with_state(station)
}

/// Refuses what pages of other hosts would have a browser send here: a server on loopback is in
/// reach of every page that its user opens. Browsers name the page's origin with all but plain
/// questions, whose answers they keep from it; other clients name none.
async fn same_origin(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let origin = headers
        .get(header::ORIGIN)
        .and_then(|origin| origin.to_str().ok());
    let authority = origin.map(|origin| {
        origin
            .split_once("://")
            .map_or(origin, |(_, authority)| authority)
    });
    if authority.is_some() && authority != host {
        let refusal = Refusal::invalid(
            "a page of another host may not ask or write here; open the page of this server",
        );
        return (StatusCode::FORBIDDEN, refusal).into_response();
    }
    next.run(request).await
}

async fn ping() -> Response {
    let headers = [
        (
            HeaderName::from_static("x-influxdb-version"),
            HeaderValue::from_static(INFLUX_VERSION),
        ),
        (
            HeaderName::from_static("x-seiner-version"),
            HeaderValue::from_static(env!("CARGO_PKG_VERSION")),
        ),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Whether writes and queries are served.
async fn health(State(station): State<Arc<Station>>) -> Response {
    let poisoned = station.engine.status().poisoned;
    let (code, status, message) = match poisoned {
        None => (
            StatusCode::OK,
            "pass",
            "ready for queries and writes".to_string(),
        ),
        Some(why) => {
            let message =
                format!("writes are refused until a restart, as one to the disk failed: {why}");
            (StatusCode::SERVICE_UNAVAILABLE, "fail", message)
        }
    };
    let version = env!("CARGO_PKG_VERSION");
    (
        code,
        Json(json!({ "name": "seiner", "status": status, "message": message, "version": version })),
    )
        .into_response()
}

async fn ready(station: State<Arc<Station>>) -> Response {
    let uptime = station.started.elapsed().as_secs_f64();
    match health(station).await.status() {
        StatusCode::OK => Json(json!({ "status": "ready", "up_s": uptime })).into_response(),
        _ => Refusal::unavailable("the store refuses writes; see /health").into_response(),
    }
}

async fn figures(State(station): State<Arc<Station>>) -> Result<Response, Refusal> {
    // The figures of the log wait for the merge at hand.
    let text = tokio::task::spawn_blocking(move || metrics::text(&station.registry)).await?;
    let text = text.map_err(Refusal::internal)?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

async fn state(State(station): State<Arc<Station>>) -> Response {
    Json(status::status(&station)).into_response()
}

/// Seals everything that is in memory into segments.
async fn settle(State(station): State<Arc<Station>>) -> Result<StatusCode, Refusal> {
    let _place = station.queries.enter()?;
    let engine = station.engine.clone();
    tokio::task::spawn_blocking(move || engine.settle())
        .await
        .map_err(Refusal::internal)??;
    Ok(StatusCode::NO_CONTENT)
}

async fn method_not_allowed() -> Response {
    let refusal = Refusal::invalid("this address takes another method: POST to write, GET to ask");
    (StatusCode::METHOD_NOT_ALLOWED, refusal).into_response()
}
