//! Queries in PromQL.

use super::failure::{Failure, of_query};
use super::form::{Form, invalid};
use super::json::write_answer;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::now;
use crate::response_stream;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use seiner_promql::{Answer, Error, Limits, Options, Stop, Stopper};
use seiner_store::{IsOver, Store};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Maximum number of steps of a range query, as in Prometheus.
const MAX_STEPS: i128 = 11_000;
/// Share of the store's memory that one query may hold.
const MEMORY_SHARE: u64 = 8;
/// Minimum bytes that a query may hold.
const MIN_BYTES: usize = 32 << 20;
/// This rule in errors. The default of the limit is the maximum.
const BYTES_RULE: &str = "an eighth of the setting `memory`, from 32 MiB to 256 MiB";

/// Answers `query`: the value of an expression at one time.
pub async fn instant(
    State(app): State<Arc<AppState>>,
    uri: Uri,
    body: Body,
) -> Result<Response, Failure> {
    let form = Form::read(&uri, body).await?;
    let text = form.required("query")?.to_string();
    let time = form.time("time")?.unwrap_or_else(now);
    let options = options(&app, &form)?;
    answer(app, &form, move |store, stopper| {
        seiner_promql::instant(store, &text, time, &options, Some(stopper))
    })
    .await
}

/// Answers `query_range`: the values of an expression at many times.
pub async fn range(
    State(app): State<Arc<AppState>>,
    uri: Uri,
    body: Body,
) -> Result<Response, Failure> {
    let form = Form::read(&uri, body).await?;
    let text = form.required("query")?.to_string();
    form.required("start")?;
    form.required("end")?;
    form.required("step")?;
    let (start, end) = (
        form.time("start")?.unwrap_or(0),
        form.time("end")?.unwrap_or(0),
    );
    let step = form.duration("step")?.unwrap_or(0);
    if end < start {
        return Err(invalid("end", "end timestamp must not be before start time").into());
    }
    if step <= 0 {
        let error = "zero or negative query resolution step widths are not accepted. Try a positive integer";
        return Err(invalid("step", error).into());
    }
    if (i128::from(end) - i128::from(start)) / i128::from(step) > MAX_STEPS {
        return Err(ApiError::invalid(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
        )
        .into());
    }
    let options = options(&app, &form)?;
    answer(app, &form, move |store, stopper| {
        seiner_promql::range(store, &text, (start, end, step), &options, Some(stopper))
    })
    .await
}

/// Answers `format_query`: the text of an expression in the usual layout.
pub async fn format(uri: Uri, body: Body) -> Result<Response, Failure> {
    let form = Form::read(&uri, body).await?;
    let text = seiner_promql::format(form.required("query")?)?;
    Ok(Json(json!({ "status": "success", "data": text })).into_response())
}

fn options(app: &AppState, form: &Form) -> Result<Options, ApiError> {
    let mut options = Options {
        limits: limits(app),
        ..Options::default()
    };
    if let Some(lookback) = form.duration("lookback_delta")? {
        options.lookback = lookback.max(1);
    }
    Ok(options)
}

/// Returns the limits of a query for the memory of the store.
pub fn limits(app: &AppState) -> Limits {
    let mut limits = Limits::default();
    let memory = app.store.status().memory_budget;
    if memory != 0 {
        let bytes = usize::try_from(memory / MEMORY_SHARE).unwrap_or(usize::MAX);
        limits.bytes = bytes.clamp(MIN_BYTES, limits.bytes);
        limits.bytes_rule = BYTES_RULE;
    }
    limits
}

/// Evaluates a query on a thread that may block, and sends its result.
async fn answer(
    app: Arc<AppState>,
    form: &Form,
    evaluate: impl FnOnce(&dyn Store, Stopper) -> Result<Answer, Error> + Send + 'static,
) -> Result<Response, Failure> {
    let (limit, timeout) = (form.limit()?, form.timeout()?);
    let permit = app.queries.acquire()?;
    app.traffic.queries.fetch_add(1, Relaxed);
    let store = app.store.clone();
    let body = response_stream::body(move |out| {
        let _permit = permit;
        let stopper = stopper(out.is_over(), timeout);
        let answer = evaluate(&*store, stopper).map_err(of_query)?;
        write_answer(out, &answer, limit)
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], body.await?).into_response())
}

/// Returns a function that ends a query when its reader has gone or its time is over.
pub fn stopper(is_over: IsOver, timeout: Duration) -> Stopper {
    let started: Instant = crate::time::now();
    Arc::new(move || {
        if is_over() {
            return Some(Stop::Canceled);
        }
        (started.elapsed() >= timeout).then_some(Stop::TimedOut)
    })
}
