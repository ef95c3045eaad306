//! OpenTSDB: lines `put …` over TCP, and points in JSON at `/api/put`.

mod put;

use crate::app_state::AppState;
use crate::text::{RowLines, TextProtocol};
use axum::routing::{get, post};
use axum::{Json, Router};
use seiner_wire::opentsdb::decode_line;
use serde_json::{Value, json};
use std::sync::Arc;

/// Name of both protocols in metrics.
const METRIC: &str = "opentsdb";

/// Version that clients see: they look for one that accepts `/api/put`.
const VERSION: &str = "2.4.1";

/// The telnet protocol.
pub static TELNET: TextProtocol = TextProtocol {
    name: "telnet protocol of OpenTSDB",
    metric: METRIC,
    ingest: |app, counters| Box::new(RowLines::new(&*app.store, counters, decode_line)),
};

/// Returns the addresses.
pub fn router(app: &AppState) -> Router<Arc<AppState>> {
    app.traffic.protocol(METRIC);
    Router::new()
        .route("/api/put", post(put::receive))
        .route("/api/version", get(version).post(version))
        .route("/opentsdb/api/put", post(put::receive))
        .route("/opentsdb/api/version", get(version).post(version))
}

/// Answers clients that ask for the version before they send.
async fn version() -> Json<Value> {
    Json(json!({"version": VERSION, "repo": "seiner"}))
}
