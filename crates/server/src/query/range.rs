//! First and last time of the samples of a query.

use super::catalog::look;
use super::plan::{Parameters, QueryPlan};
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::ingest::now;
use axum::Json;
use axum::extract::{Query, State};
use seiner_model::Interval;
use seiner_store::{Error, Step, Store};
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns the first and the last time, ns, each null without samples: `{"first":"0","last":"9"}`
pub async fn range(
    State(app): State<Arc<AppState>>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Value>, ApiError> {
    let plan = QueryPlan::read_range(parameters, now())?;
    look(&app, move |store| {
        let range = sample_range(store, &plan.query)?;
        Ok(json!({
            "first": range.map(|range| range.start.to_string()),
            "last": range.map(|range| range.end.to_string()),
        }))
    })
    .await
}

/// Returns the first and the last time of the samples, from the aggregates of blocks where they suffice.
fn sample_range(store: &dyn Store, query: &seiner_store::Query) -> Result<Option<Interval>, Error> {
    let mut range: Option<Interval> = None;
    for series in store.aggregate(query, Step::Whole, None)? {
        for bucket in series?.buckets {
            let (first, last) = (bucket.first.0, bucket.last.0);
            let known = range.unwrap_or(Interval::new(first, last));
            range = Some(Interval::new(known.start.min(first), known.end.max(last)));
        }
    }
    Ok(range)
}
