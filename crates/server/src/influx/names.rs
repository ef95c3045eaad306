//! Buckets and organizations of InfluxDB 2: enough for clients that look for them before they write.
//!
//! The server has neither. Writes to any bucket go to the same store. A bucket therefore exists under every name.

use crate::api_error::ApiError;
use crate::ingest_stream::IngestStream;
use axum::Json;
use axum::body::Body;
use axum::extract::Query;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

/// Name of the bucket and of the organization if the client gives none.
const NAME: &str = "seiner";
/// Identifiers, in the form of InfluxDB.
const BUCKET: &str = "5e1e000000000001";
const ORGANIZATION: &str = "5e1e000000000002";

/// Name that a client looks for.
#[derive(Deserialize)]
pub struct Wanted {
    name: Option<String>,
    org: Option<String>,
}

/// New bucket, or a part of it.
#[derive(Deserialize)]
struct NewBucket {
    name: String,
}

/// Lists the bucket of the wanted name.
pub async fn buckets(Query(wanted): Query<Wanted>) -> Json<Value> {
    Json(json!({
        "links": { "self": "/api/v2/buckets" },
        "buckets": [bucket(wanted.name.as_deref().unwrap_or(NAME))],
    }))
}

/// Confirms a bucket. Its retention rules have no effect, and the answer has none.
pub async fn create_bucket(body: Body) -> Result<(StatusCode, Json<Value>), ApiError> {
    let text = IngestStream::new(body).statement().await?;
    let new: NewBucket = serde_json::from_slice(&text)
        .map_err(|error| ApiError::invalid(format!("the body is not a bucket in JSON: {error}")))?;
    Ok((StatusCode::CREATED, Json(bucket(&new.name))))
}

/// Lists the organization of the wanted name.
pub async fn organizations(Query(wanted): Query<Wanted>) -> Json<Value> {
    let name = wanted.org.or(wanted.name);
    Json(json!({
        "links": { "self": "/api/v2/orgs" },
        "orgs": [{
            "id": ORGANIZATION,
            "name": name.as_deref().unwrap_or(NAME),
            "status": "active",
        }],
    }))
}

fn bucket(name: &str) -> Value {
    json!({
        "id": BUCKET,
        "orgID": ORGANIZATION,
        "name": name,
        "type": "user",
        "retentionRules": [],
        "labels": [],
    })
}
