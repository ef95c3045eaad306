//! HTTP interface of InfluxDB for clients that read or look around: InfluxQL, buckets and organizations. Writes are in
//! [`crate::write`].

mod csv;
mod json;
mod names;
mod query;

use crate::app_state::AppState;
use axum::Router;
use axum::routing::get;
use std::sync::Arc;

/// Returns the addresses.
pub fn router() -> Router<Arc<AppState>> {
    Router::new()
        .route("/query", get(query::query).post(query::query))
        .route(
            "/api/v2/buckets",
            get(names::buckets).post(names::create_bucket),
        )
        .route("/api/v2/orgs", get(names::organizations))
}
