//! Names in the store: measurements, tags, values, fields, sources.

use super::answer::TRUNCATED;
use super::summary::{Summary, summaries};
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::port;
use crate::response_stream;
use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use seiner_model::{Selector, SourceKey};
use seiner_store::{Error, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// Default maximum number of names and sources in a list.
const DEFAULT_LIMIT: usize = 1000;

/// Parameters of the addresses.
#[derive(Deserialize)]
pub struct Parameters {
    #[serde(default)]
    select: String,
    tag: Option<String>,
    limit: Option<usize>,
}

impl Parameters {
    fn selector(&self) -> Result<Selector, ApiError> {
        Selector::parse(&self.select).map_err(ApiError::invalid)
    }
}

/// Lists measurements: `["cpu","mem"]`
pub async fn measurements(State(app): State<Arc<AppState>>) -> Result<Json<Vec<String>>, ApiError> {
    look(&app, |store| store.measurements()).await
}

/// Lists tags: `["core","host"]`
pub async fn tags(
    State(app): State<Arc<AppState>>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Vec<String>>, ApiError> {
    let selector = parameters.selector()?;
    look(&app, move |store| store.tag_names(&selector)).await
}

/// Lists the values of a tag: `["a","b"]`. A header reports a list that the limit cut.
pub async fn values(
    State(app): State<Arc<AppState>>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    let selector = parameters.selector()?;
    let limit = parameters.limit.unwrap_or(DEFAULT_LIMIT);
    let tag = parameters
        .tag
        .ok_or_else(|| ApiError::invalid("tag is missing; name a tag, as in &tag=host"))?;
    let Json(mut values) = look(&app, move |store| {
        store.tag_values(&selector, &tag, limit.saturating_add(1))
    })
    .await?;
    let truncated = values.len() > limit;
    values.truncate(limit);
    Ok(marked(Json(values).into_response(), truncated))
}

/// Adds the header of a list that the limit cut.
fn marked(mut response: Response, truncated: bool) -> Response {
    if truncated {
        let headers = response.headers_mut();
        headers.insert(TRUNCATED, HeaderValue::from_static("true"));
    }
    response
}

/// Lists fields: `[{"name":"usage","type":"f64"}]`
pub async fn fields(
    State(app): State<Arc<AppState>>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Value>, ApiError> {
    let selector = parameters.selector()?;
    look(&app, move |store| {
        let fields = store.fields(&selector)?;
        let fields = fields.iter();
        let fields = fields.map(|(name, kind)| json!({ "name": name, "type": kind.name() }));
        Ok(fields.collect())
    })
    .await
}

/// Lists the measurements with their contents.
pub async fn summary(
    State(app): State<Arc<AppState>>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Vec<Value>>, ApiError> {
    let selector = parameters.selector()?;
    look(&app, move |store| {
        let found = summaries(store, &selector)?;
        Ok(found.iter().map(Summary::to_json).collect())
    })
    .await
}

/// Returns the result of a look at the store as JSON, without a copy of the result in between.
pub async fn look<T, L>(app: &Arc<AppState>, look: L) -> Result<Json<T>, ApiError>
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
    Ok(Json(found.await??))
}

#[derive(Serialize)]
struct Source<'a> {
    measurement: &'a str,
    tags: BTreeMap<&'a str, &'a str>,
}

impl<'a> Source<'a> {
    fn of(key: &'a SourceKey) -> Source<'a> {
        Source {
            measurement: key.measurement(),
            tags: key.tags().collect(),
        }
    }
}

/// Lists sources: `{"total":2,"sources":[{"measurement":"cpu","tags":{"host":"a"}}, …],"truncated":false}`. A header
/// also reports a list that the limit cut.
pub async fn sources(
    State(app): State<Arc<AppState>>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    let selector = parameters.selector()?;
    let limit = parameters.limit.unwrap_or(DEFAULT_LIMIT);
    // The permit is shared: the thread that works last frees it.
    let permit = Arc::new(app.queries.acquire()?);
    let store = app.store.clone();
    let found = port::blocking({
        let (store, permit) = (store.clone(), permit.clone());
        move || {
            let _permit = permit;
            store.sources(&selector)
        }
    });
    let ids = found.await??;
    let truncated = ids.len() > limit;
    let body = response_stream::body(move |out| {
        let _permit = permit;
        write!(out, "{{\"total\":{},\"sources\":[", ids.len())?;
        for (index, id) in ids.iter().take(limit).enumerate() {
            let Some(key) = store.source_key(*id).map_err(ApiError::from)? else {
                continue;
            };
            if index > 0 {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut *out, &Source::of(&key))?;
        }
        write!(out, "],\"truncated\":{truncated}}}")?;
        Ok(())
    });
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    Ok(marked(
        (content_type, body.await?).into_response(),
        truncated,
    ))
}
