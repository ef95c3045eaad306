//! Rules and alerts, as the API of Prometheus lists them.

use super::state::{GroupState, Run, RunningRule};
use crate::app_state::AppState;
use crate::prometheus::last_time;
use axum::Json;
use axum::extract::State;
use seiner_alert::{Alert, AlertRule, Phase, RecordingRule, Rule, labels};
use seiner_model::rfc3339;
use seiner_promql::number_text;
use serde_json::{Value, json};
use std::sync::Arc;

/// Answers `rules`.
pub async fn rules(State(app): State<Arc<AppState>>) -> Json<Value> {
    let groups: Vec<Value> = app.alerts().groups().iter().map(|one| group(one)).collect();
    Json(json!({ "status": "success", "data": { "groups": groups } }))
}

/// Answers `alerts`.
pub async fn alerts(State(app): State<Arc<AppState>>) -> Json<Value> {
    let mut alerts = Vec::new();
    let groups = app.alerts().groups();
    for rule in groups.iter().flat_map(|group| &group.rules) {
        alerts.extend(rule.run().state.active().into_iter().map(alert));
    }
    Json(json!({ "status": "success", "data": { "alerts": alerts } }))
}

fn group(group: &GroupState) -> Value {
    json!({
        "name": group.name,
        "file": "alert_rules",
        "interval": group.interval.as_secs_f64(),
        "limit": if group.limit == u64::MAX { 0 } else { group.limit },
        "rules": group.rules.iter().map(rule).collect::<Vec<_>>(),
    })
}

fn rule(rule: &RunningRule) -> Value {
    let run = rule.run();
    let error = match run.error.is_empty() {
        true => &run.unstored,
        false => &run.error,
    };
    let health = match (run.time, error.is_empty()) {
        (None, _) => "unknown",
        (_, true) => "ok",
        _ => "err",
    };
    let mut value = match &rule.rule {
        Rule::Alert(rule) => alerting(rule, &run),
        Rule::Recording(rule) => recording(rule),
    };
    value["health"] = health.into();
    value["lastError"] = error.as_str().into();
    value["lastEvaluation"] = last_time(run.time).into();
    value["evaluationTime"] = run.seconds.into();
    value
}

fn recording(rule: &RecordingRule) -> Value {
    json!({
        "type": "recording",
        "name": rule.name,
        "query": rule.expression,
        "labels": rule.labels,
    })
}

fn alerting(rule: &AlertRule, run: &Run) -> Value {
    let active = run.state.active();
    let is = |phase: Phase| active.iter().any(|alert| alert.phase == phase);
    let state = match (is(Phase::Firing), is(Phase::Pending)) {
        (true, _) => "firing",
        (_, true) => "pending",
        _ => "inactive",
    };
    json!({
        "type": "alerting",
        "name": rule.name,
        "query": rule.expression,
        "duration": rule.for_ns as f64 / 1e9,
        "keepFiringFor": rule.keep_ns as f64 / 1e9,
        "labels": rule.labels,
        "annotations": rule.annotations,
        "state": state,
        "alerts": active.into_iter().map(alert).collect::<Vec<_>>(),
    })
}

fn alert(alert: &Alert) -> Value {
    json!({
        "labels": labels(alert),
        "annotations": alert.annotations,
        "state": alert.phase.word(),
        "activeAt": rfc3339(alert.since),
        "value": number_text(alert.value),
    })
}
