//! Rules and alerts, as the API of Prometheus lists them.

use super::state::{GroupState, RunningRule};
use crate::app_state::AppState;
use axum::Json;
use axum::extract::State;
use seiner_alert::{Alert, Phase, moment};
use seiner_promql::number_text;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Time of an evaluation that did not happen yet, as Prometheus writes it.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Answers `rules`.
pub async fn rules(State(app): State<Arc<AppState>>) -> Json<Value> {
    let groups: Vec<Value> = app.alerts().groups.iter().map(group).collect();
    Json(json!({ "status": "success", "data": { "groups": groups } }))
}

/// Answers `alerts`.
pub async fn alerts(State(app): State<Arc<AppState>>) -> Json<Value> {
    let mut alerts = Vec::new();
    for rule in app.alerts().groups.iter().flat_map(|group| &group.rules) {
        alerts.extend(rule.run().state.active().into_iter().map(alert));
    }
    Json(json!({ "status": "success", "data": { "alerts": alerts } }))
}

fn group(group: &GroupState) -> Value {
    json!({
        "name": group.name,
        "file": "alert_rules",
        "interval": group.interval.as_secs_f64(),
        "limit": 0,
        "rules": group.rules.iter().map(rule).collect::<Vec<_>>(),
    })
}

fn rule(rule: &RunningRule) -> Value {
    let run = rule.run();
    let active = run.state.active();
    let is = |phase: Phase| active.iter().any(|alert| alert.phase == phase);
    let state = match (is(Phase::Firing), is(Phase::Pending)) {
        (true, _) => "firing",
        (_, true) => "pending",
        _ => "inactive",
    };
    let health = match (run.time, run.error.is_empty()) {
        (None, _) => "unknown",
        (_, true) => "ok",
        _ => "err",
    };
    let alerts: Vec<Value> = active.iter().map(|one| alert(one)).collect();
    let rule = &rule.rule;
    json!({
        "type": "alerting",
        "name": rule.name,
        "query": rule.expression,
        "duration": rule.for_ns as f64 / 1e9,
        "keepFiringFor": rule.keep_ns as f64 / 1e9,
        "labels": rule.labels,
        "annotations": rule.annotations,
        "state": state,
        "health": health,
        "lastError": run.error,
        "lastEvaluation": run.time.map_or(NEVER.to_string(), moment),
        "evaluationTime": run.seconds,
        "alerts": alerts,
    })
}

fn alert(alert: &Alert) -> Value {
    let labels = alert.labels.iter();
    let labels: Map<String, Value> = labels
        .map(|(name, value)| (name.to_string(), json!(value)))
        .collect();
    let annotations: Map<String, Value> = alert
        .annotations
        .iter()
        .map(|(name, text)| (name.clone(), json!(text)))
        .collect();
    let state = match alert.phase {
        Phase::Pending => "pending",
        _ => "firing",
    };
    json!({
        "labels": labels,
        "annotations": annotations,
        "state": state,
        "activeAt": moment(alert.since),
        "value": number_text(alert.value),
    })
}
