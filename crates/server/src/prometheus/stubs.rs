//! Addresses that clients read although this server has nothing there, such as exemplars.

use super::failure::Failure;
use crate::api_error::ApiError;
use axum::Json;
use serde_json::{Value, json};

/// Version of Prometheus whose interface this server has. Clients choose their requests by it.
const PROMETHEUS: &str = "3.5.0";

/// Answers `query_exemplars`.
pub async fn list() -> Json<Value> {
    Json(json!({ "status": "success", "data": [] }))
}

/// Answers `status/buildinfo`.
pub async fn build_info() -> Json<Value> {
    Json(json!({ "status": "success", "data": {
        "version": PROMETHEUS,
        "revision": concat!("seiner-", env!("CARGO_PKG_VERSION")),
        "branch": "",
        "buildUser": "",
        "buildDate": "",
        "goVersion": "",
    } }))
}

/// Answers `-/healthy` and `-/ready`.
pub async fn healthy() -> &'static str {
    "Prometheus Server is Healthy.\n"
}

/// Answers all other addresses.
pub async fn unknown() -> Failure {
    ApiError::not_found(
        "this server has no such address of the Prometheus API; docs/promql.md lists them",
    )
    .into()
}
