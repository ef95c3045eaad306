//! `/query` of InfluxDB 1: enough for clients that create a database before they write.

use crate::api_error::ApiError;
use crate::ingest_stream::IngestStream;
use axum::Json;
use axum::body::Body;
use axum::extract::Query;
use axum::http::Uri;
use serde::Deserialize;
use serde_json::{Value, json};

/// Parameters of the address or of the form in the body.
#[derive(Deserialize)]
struct Parameters {
    q: Option<String>,
}

/// Confirms the creation of databases, and lists the only one.
pub async fn influx(uri: Uri, body: Body) -> Result<Json<Value>, ApiError> {
    let mut statement = question(&uri);
    if statement.is_none() {
        let form = IngestStream::new(body).statement().await?;
        let form = format!("/?{}", String::from_utf8_lossy(&form));
        statement = form.parse().ok().and_then(|uri| question(&uri));
    }
    let statement = statement
        .unwrap_or_default()
        .trim()
        .trim_end_matches(';')
        .to_lowercase();
    let words: Vec<&str> = statement.split_whitespace().collect();
    match words.as_slice() {
        ["create", "database" | "retention", ..] => {
            Ok(Json(json!({ "results": [{ "statement_id": 0 }] })))
        }
        ["show", "databases"] => Ok(Json(json!({ "results": [{ "statement_id": 0, "series": [
            { "name": "databases", "columns": ["name"], "values": [["seiner"]] }
        ] }] }))),
        _ => Err(ApiError::invalid(
            "InfluxQL is not supported; use /api/v1/query?select=cpu{host=\"a\"}&from=-1h for samples, \
             /api/v1/measurements for what there is",
        )),
    }
}

fn question(uri: &Uri) -> Option<String> {
    Query::<Parameters>::try_from_uri(uri)
        .ok()
        .and_then(|Query(parameters)| parameters.q)
}
