//! Requests for dashboards.

use super::shelf::{self, Replaces, check_document, check_name};
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::now;
use crate::port;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use seiner_store::Durability;
use serde_json::{Value, json};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Maximum length of a body. White space between the parts of a document is not stored.
pub const MAX_BODY: usize = 256 << 10;

/// Time after which a client stops waiting for the disk, or for the replicas of a cluster.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Lists the dashboards: `{"dashboards":[{"name":"Kitchen","revision":3,"panels":4,"bytes":812}]}`
pub async fn list(State(app): State<Arc<AppState>>) -> Result<Json<Value>, ApiError> {
    let permit = app.queries.acquire()?;
    let store = app.store.clone();
    let found = port::blocking(move || {
        let _permit = permit;
        shelf::present(&*store)
    });
    let found = found.await??;
    let lines = found
        .iter()
        .map(|(name, dashboard)| shelf::line(name, dashboard));
    Ok(Json(json!({ "dashboards": lines.collect::<Vec<_>>() })))
}

/// Returns a document. Its revision is in the header `ETag`.
pub async fn read(
    State(app): State<Arc<AppState>>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    check_name(&name)?;
    let permit = app.queries.acquire()?;
    let (store, wanted) = (app.store.clone(), name.clone());
    let found = port::blocking(move || {
        let _permit = permit;
        shelf::find(&*store, &wanted)
    });
    let found = found.await??;
    let found = found.filter(|dashboard| !dashboard.document.is_empty());
    let dashboard =
        found.ok_or_else(|| ApiError::not_found(format!("there is no dashboard {name:?}")))?;
    let kind = (
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    Ok(([tag(dashboard.revision), kind], dashboard.document).into_response())
}

/// Stores a document. Answer: `{"name":"Kitchen","revision":4}`
pub async fn save(
    State(app): State<Arc<AppState>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let document = check_document(&body)?;
    let replaces = replaced(&headers, Replaces::Nothing)?;
    let revision = change(&app, &name, document, replaces).await?;
    let status = match replaces {
        Replaces::Nothing => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    let answer = Json(json!({ "name": name, "revision": revision }));
    Ok((status, [tag(revision)], answer).into_response())
}

/// Deletes a document.
pub async fn remove(
    State(app): State<Arc<AppState>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let replaces = replaced(&headers, Replaces::Any)?;
    change(&app, &name, String::new(), replaces).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn tag(revision: u64) -> (HeaderName, HeaderValue) {
    let text = format!("\"{revision}\"");
    let value = HeaderValue::from_str(&text).expect("digits are valid in a header");
    (header::ETAG, value)
}

/// Returns the revision in `If-Match`, or `otherwise`.
fn replaced(headers: &HeaderMap, otherwise: Replaces) -> Result<Replaces, ApiError> {
    let Some(value) = headers.get(header::IF_MATCH) else {
        return Ok(otherwise);
    };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(Replaces::Any);
    }
    let digits = text.strip_prefix("W/").unwrap_or(text).trim_matches('"');
    digits.parse().map(Replaces::Revision).map_err(|_| {
        ApiError::invalid(format!(
            "If-Match is {text:?}; send the ETag of the dashboard, such as \"3\", or *"
        ))
    })
}

/// Changes a dashboard, and waits until the change is as durable as the settings require of writes.
async fn change(
    app: &Arc<AppState>,
    name: &str,
    document: String,
    replaces: Replaces,
) -> Result<u64, ApiError> {
    check_name(name)?;
    let permit = app.writes.acquire()?;
    let (state, name) = (app.clone(), name.to_string());
    let changed = port::blocking(move || {
        let lock = state.dashboards.lock();
        let _one = lock.unwrap_or_else(PoisonError::into_inner);
        shelf::change(&*state.store, &name, &document, replaces, now())
    });
    let (revision, position) = changed.await??;
    if app.store.durability() != Durability::Sync {
        return Ok(revision);
    }
    let store = app.store.clone();
    let waiting = port::blocking(move || {
        // The permit limits the number of threads that wait, those without a client included.
        let _permit = permit;
        store.wait_durable(position)
    });
    match tokio::time::timeout(MAX_WAIT, waiting).await {
        Ok(waited) => waited??,
        Err(_) => {
            return Err(ApiError::unavailable(format!(
                "the change is accepted, but not durable after {} s; read the dashboard before you change it again",
                MAX_WAIT.as_secs()
            )));
        }
    }
    Ok(revision)
}
