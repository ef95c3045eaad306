//! Addresses of the HTTP port and their handlers.

use crate::access::{self, Guard};
use crate::api_error::{self, ApiError};
use crate::app_state::AppState;
use crate::health::Severity;
use crate::hosts::{self, HostName, Hosts};
use crate::{
    array, cluster, dashboards, delete, influx, log, metric_text, opentsdb, otlp, page, parameters,
    plan, port, prometheus, query, remote_write, sql, status, write,
};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::sync::Arc;

/// Version that InfluxDB clients see: they look for one that accepts `/write`.
pub const INFLUX_VERSION: &str = "1.8.10";

/// Deprecated name of `/api/v1/flush`.
pub const OLD_FLUSH: &str = "/api/v1/settle";

/// Advice to clients that use an unknown host name.
const ALLOW: &str =
    "use the address that it listens on, or add the name to the setting allowed_hosts";

/// Returns all addresses.
pub fn router(app: Arc<AppState>) -> Router {
    let settings = &app.settings;
    let mut names = settings.allowed_hosts.clone();
    // The other ports of a cluster use this address.
    names.extend(HostName::parse(&settings.port_address));
    let hosts = Hosts::new(settings.listen, names, ALLOW).permit(&settings.cors_origins);
    let guard = Guard::new(app.clone(), routes);
    routes(&app)
        // Files of the page are open.
        .route_layer(middleware::from_fn_with_state(guard, access::guard))
        .fallback(page::file)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn(parameters::known))
        .layer(middleware::from_fn(api_error::in_json))
        .layer(middleware::from_fn_with_state(hosts, hosts::guard))
        // Bodies are streamed with a limit of their own.
        .layer(DefaultBodyLimit::disable())
        .with_state(app)
}

/// Returns the addresses of the store, without the page. [`access`] has the scope of each.
pub fn routes(app: &Arc<AppState>) -> Router<Arc<AppState>> {
    Router::new()
        .merge(write::router(app))
        .merge(remote_write::router(app))
        .merge(otlp::router(app))
        .merge(opentsdb::router(app))
        .merge(influx::router())
        .route("/ping", get(ping))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/status", get(state))
        .route("/api/v1/measurements", get(query::measurements))
        .route("/api/v1/tags", get(query::tags))
        .route("/api/v1/values", get(query::values))
        .route("/api/v1/fields", get(query::fields))
        .route("/api/v1/sources", get(query::sources))
        .route("/api/v1/summary", get(query::summary))
        .route("/api/v1/range", get(query::range))
        .route(
            "/api/v1/query",
            get(prometheus::either).post(prometheus::instant),
        )
        .route("/api/v1/latest", get(query::latest))
        .route("/api/v1/flush", post(flush))
        .route(OLD_FLUSH, post(flush))
        .route("/api/v1/clock", post(accept_clock))
        .route("/api/v1/acknowledge", post(acknowledge))
        .route(
            "/api/v1/delete",
            post(delete::delete).delete(delete::delete),
        )
        .route("/api/v2/delete", post(delete::influx))
        .route("/api/v1/log", get(log::log))
        .route("/api/v1/log/why", get(log::why))
        .route("/api/v1/log/trace", get(log::log_trace))
        .route("/api/v1/plan", get(plan::plan))
        .route(
            "/api/v1/sql",
            get(sql::answer)
                .post(sql::answer)
                .layer(DefaultBodyLimit::max(sql::MAX_QUERY)),
        )
        .route("/api/v1/dashboards", get(dashboards::list))
        .route(
            "/api/v1/dashboards/{name}",
            get(dashboards::read)
                .put(dashboards::save)
                .delete(dashboards::remove)
                .layer(DefaultBodyLimit::max(dashboards::MAX_BODY)),
        )
        .route("/ports", get(cluster::ports))
        .route(
            "/cluster/{request}",
            post(cluster::exchange).layer(DefaultBodyLimit::max(cluster::MAX_REQUEST)),
        )
        .merge(prometheus::router())
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

/// Reports whether writes and queries are served. A store that has lost data, or does not accept its clock, serves:
/// load balancers continue to send requests.
async fn health(State(app): State<Arc<AppState>>) -> Response {
    let found = port::blocking(move || {
        let classes = app.store.classes();
        app.troubles(&app.store.status(), &classes)
    });
    let troubles = match found.await {
        Ok(troubles) => troubles,
        Err(error) => return ApiError::internal(error).into_response(),
    };
    let texts: Vec<&str> = troubles.iter().map(|trouble| &*trouble.text).collect();
    let texts = texts.join("; ");
    let serves = "ready for queries and writes";
    let (code, status, message) = match troubles.first().map(|worst| worst.severity) {
        Some(Severity::Rejecting) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "fail",
            format!("ready for queries; {texts}"),
        ),
        Some(Severity::Warning) => (StatusCode::OK, "warn", texts),
        Some(Severity::Notice) => (StatusCode::OK, "pass", format!("{serves}, but {texts}")),
        None => (StatusCode::OK, "pass", serves.to_string()),
    };
    let version = env!("CARGO_PKG_VERSION");
    (
        code,
        Json(json!({ "name": "seiner", "status": status, "message": message, "version": version })),
    )
        .into_response()
}

async fn ready(app: State<Arc<AppState>>) -> Response {
    let uptime = app.started.elapsed().as_secs_f64();
    match health(app).await.status() {
        StatusCode::OK => Json(json!({ "status": "ready", "up_s": uptime })).into_response(),
        _ => ApiError::unavailable("the store rejects writes; see /health").into_response(),
    }
}

async fn metrics(State(app): State<Arc<AppState>>) -> Result<Response, ApiError> {
    let permit = app.reports.acquire()?;
    // The metrics of the log wait for the present merge.
    let text = port::blocking(move || {
        let _permit = permit;
        let store = metric_text::text(&app.registry)?;
        match app.array() {
            Some(report) => Ok(metric_text::joined(store, &array::metrics_text(report)?)),
            None => Ok(store),
        }
    });
    let text: Result<String, std::fmt::Error> = text.await?;
    let text = text.map_err(ApiError::internal)?;
    Ok(([(header::CONTENT_TYPE, metric_text::CONTENT_TYPE)], text).into_response())
}

async fn state(State(app): State<Arc<AppState>>) -> Result<Json<Value>, ApiError> {
    let status = port::blocking(move || status::status(&app));
    Ok(Json(status.await?))
}

/// Acknowledges all losses. Answer: `{"acknowledged":2}`
async fn acknowledge(State(app): State<Arc<AppState>>) -> Result<Json<Value>, ApiError> {
    let store = app.store.clone();
    let losses = port::blocking(move || store.with_log()?.acknowledge_losses())
        .await
        .map_err(ApiError::internal)??;
    Ok(Json(json!({ "acknowledged": losses })))
}

/// Flushes everything in memory into segments. A port of a cluster hands its rows over.
async fn flush(State(app): State<Arc<AppState>>) -> Result<StatusCode, ApiError> {
    // The permit belongs to the work, which continues when the client has gone.
    let permit = app.reports.acquire()?;
    let (store, cluster) = (app.store.clone(), app.cluster.clone());
    let flushed = port::blocking(move || {
        let _permit = permit;
        match cluster {
            Some(cluster) => cluster.hand_over(),
            None => store.with_log()?.flush(),
        }
    });
    flushed.await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Accepts the host's clock after a jump.
async fn accept_clock(State(app): State<Arc<AppState>>) -> Result<StatusCode, ApiError> {
    let store = app.store.clone();
    port::blocking(move || store.with_log()?.accept_clock())
        .await
        .map_err(ApiError::internal)??;
    tracing::info!("the host's clock is confirmed: data that are too old by it expire");
    Ok(StatusCode::NO_CONTENT)
}

async fn method_not_allowed() -> ApiError {
    ApiError::other_method("this address requires another method, which the header Allow names")
}
