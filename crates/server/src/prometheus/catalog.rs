//! Names of series, labels and metrics.

use super::failure::{Failure, of_query};
use super::form::{Form, invalid};
use super::json::{labels as write_labels, list, notes};
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::port;
use crate::response_stream;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use seiner_promql::Error;
use seiner_store::Store;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// Warning of a list that a limit cut.
pub const TRUNCATED: &str = "results truncated due to limit";
/// Maximum number of series in a list.
const MAX_SERIES: usize = 200_000;
/// Maximum number of names in a list.
const MAX_NAMES: usize = 1_000_000;

/// Answers `series`: the labels of the selected series.
pub async fn series(
    State(app): State<Arc<AppState>>,
    uri: Uri,
    body: Body,
) -> Result<Response, Failure> {
    let form = Form::read(&uri, body).await?;
    let selectors = form.selectors()?;
    if selectors.is_empty() {
        return Err(ApiError::invalid("no match[] parameter provided").into());
    }
    let (interval, limit) = (
        form.interval()?,
        form.limit()?.unwrap_or(MAX_SERIES).min(MAX_SERIES),
    );
    let permit = app.queries.acquire()?;
    let store = app.store.clone();
    let body = response_stream::body(move |out| {
        let _permit = permit;
        let found =
            seiner_promql::series(&*store, &selectors, interval, limit + 1).map_err(of_query)?;
        out.write_all(br#"{"status":"success","data":"#)?;
        list(out, &found[..found.len().min(limit)], |out, found| {
            write_labels(out, found)
        })?;
        let warnings = if found.len() > limit {
            vec![TRUNCATED.to_string()]
        } else {
            Vec::new()
        };
        notes(out, "warnings", &warnings)?;
        out.write_all(b"}")
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], body.await?).into_response())
}

/// Answers `labels`: the names of the labels of the selected series.
pub async fn labels(
    State(app): State<Arc<AppState>>,
    uri: Uri,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let form = Form::read(&uri, body).await?;
    let (selectors, interval) = (form.selectors()?, form.interval()?);
    let limit = form.limit()?;
    let names = look(&app, move |store| {
        seiner_promql::label_names(store, &selectors, interval)
    })
    .await?;
    Ok(cut(names, limit))
}

/// Answers `label/<name>/values`: the values of a label among the selected series.
pub async fn label_values(
    State(app): State<Arc<AppState>>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Json<Value>, Failure> {
    let form = Form::of(&uri);
    let label = match name.strip_prefix("U__") {
        Some(escaped) => unescape(escaped)
            .ok_or_else(|| invalid("name", format!("invalid label name: {name:?}")))?,
        None => name,
    };
    let (selectors, interval, limit) = (form.selectors()?, form.interval()?, form.limit()?);
    let most = limit.map_or(MAX_NAMES, |limit| limit.saturating_add(1));
    let values = look(&app, move |store| {
        seiner_promql::label_values(store, &selectors, interval, &label, most)
    })
    .await?;
    Ok(cut(values, limit))
}

/// Answers `metadata`: all metrics, with the metadata that senders of remote write reported. Other metrics have an
/// unknown type.
pub async fn metadata(State(app): State<Arc<AppState>>, uri: Uri) -> Result<Json<Value>, Failure> {
    let form = Form::of(&uri);
    let limit = form.limit()?.unwrap_or(usize::MAX);
    let metrics = look(&app, seiner_promql::metrics).await?;
    let unknown = |metric: seiner_promql::Metric| {
        let entry = json!({ "type": "unknown", "help": "", "unit": "" });
        (metric.name, entry)
    };
    let mut entries: BTreeMap<String, Value> = metrics.into_iter().map(unknown).collect();
    entries.extend(app.metric_metadata.entries());
    if let Some(only) = form.get("metric") {
        entries.retain(|name, _| name == only);
    }
    let entries = entries.into_iter().take(limit);
    let data: Map<String, Value> = entries
        .map(|(name, entry)| (name, json!([entry])))
        .collect();
    Ok(Json(json!({ "status": "success", "data": data })))
}

fn cut(mut names: Vec<String>, limit: Option<usize>) -> Json<Value> {
    match limit {
        Some(limit) if names.len() > limit => {
            names.truncate(limit);
            Json(json!({ "status": "success", "data": names, "warnings": [TRUNCATED] }))
        }
        _ => Json(json!({ "status": "success", "data": names })),
    }
}

/// Returns the result of a look at the store, on a thread that may block.
async fn look<T, L>(app: &Arc<AppState>, look: L) -> Result<T, Failure>
where
    T: Send + 'static,
    L: FnOnce(&dyn Store) -> Result<T, Error> + Send + 'static,
{
    let permit = app.queries.acquire()?;
    let store = app.store.clone();
    let found = port::blocking(move || {
        let _permit = permit;
        look(&*store)
    });
    Ok(found.await??)
}

/// Returns the name of a label that a client escaped for the address: `__` is an underscore, and `_2e_` the character
/// with this hexadecimal number.
fn unescape(escaped: &str) -> Option<String> {
    let mut name = String::new();
    let mut rest = escaped;
    while let Some(at) = rest.find('_') {
        name.push_str(&rest[..at]);
        let (code, after) = rest[at + 1..].split_once('_')?;
        match code {
            "" => name.push('_'),
            code => name.push(char::from_u32(u32::from_str_radix(code, 16).ok()?)?),
        }
        rest = after;
    }
    name.push_str(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_names_are_restored() {
        assert_eq!(unescape("host_2e_name").as_deref(), Some("host.name"));
        assert_eq!(unescape("a__b_20_c").as_deref(), Some("a_b c"));
        assert_eq!(unescape("a_zz_"), None);
        assert_eq!(unescape("a_2e"), None);
    }
}
