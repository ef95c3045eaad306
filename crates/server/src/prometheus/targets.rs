//! Targets of scraping, as the API of Prometheus lists them.

use super::form::Form;
use super::json::last_time;
use crate::app_state::AppState;
use crate::scrape::{Report, Target};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use seiner_model::duration_text;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Answers `targets`. No target is dropped: there are no rules that drop some.
pub async fn targets(State(app): State<Arc<AppState>>, uri: Uri) -> Json<Value> {
    let form = Form::of(&uri);
    let pool = form.get("scrapePool");
    let is_wanted = |job: &str| pool.is_none_or(|pool| pool == job);
    let mut active = Vec::new();
    if form.get("state") != Some("dropped") {
        let states = app.scrape.targets();
        let states = states.iter().filter(|of| is_wanted(&of.target.job.name));
        active.extend(states.map(|of| in_json(&of.target, &of.report())));
    }
    let jobs = app.scrape.jobs.iter().map(|job| &job.job.name);
    let dropped = jobs.filter(|name| is_wanted(name));
    let dropped: Map<String, Value> = dropped.map(|name| (name.clone(), json!(0))).collect();
    Json(json!({ "status": "success", "data": {
        "activeTargets": active,
        "droppedTargets": [],
        "droppedTargetCounts": dropped,
    } }))
}

/// Answers `scrape_pools`.
pub async fn pools(State(app): State<Arc<AppState>>) -> Json<Value> {
    let jobs = app.scrape.jobs.iter().map(|job| &job.job.name);
    let jobs: Vec<&String> = jobs.collect();
    Json(json!({ "status": "success", "data": { "scrapePools": jobs } }))
}

fn in_json(target: &Target, report: &Report) -> Value {
    let labels = target.labels.labels().iter();
    let labels: Map<String, Value> = labels
        .map(|(label, value)| (label.clone(), json!(value)))
        .collect();
    json!({
        "discoveredLabels": target.discovered,
        "labels": labels,
        "scrapePool": target.job.name,
        "scrapeUrl": target.url(),
        "globalUrl": target.url(),
        "lastError": report.error,
        "lastScrape": last_time(report.time),
        "lastScrapeDuration": report.seconds,
        "health": report.health.word(),
        "scrapeInterval": text(target.job.interval),
        "scrapeTimeout": text(target.job.timeout()),
    })
}

fn text(time: Duration) -> String {
    duration_text(time.as_nanos() as u64)
}
