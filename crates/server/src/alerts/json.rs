//! Rules and alerts, as the API of Prometheus lists them.

use super::state::{GroupState, RunningRule};
use crate::app_state::AppState;
use crate::prometheus::last_time;
use axum::Json;
use axum::extract::State;
use seiner_alert::{Alert, Phase, labels};
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
        "lastEvaluation": last_time(run.time),
        "evaluationTime": run.seconds,
        "alerts": alerts,
    })
}

fn alert(alert: &Alert) -> Value {
    let state = match alert.phase {
        Phase::Pending => "pending",
        _ => "firing",
    };
    json!({
        "labels": labels(alert),
        "annotations": alert.annotations,
        "state": state,
        "activeAt": rfc3339(alert.since),
        "value": number_text(alert.value),
    })
}
