//! Messages in the form of Alertmanager (API version 2).

use crate::state::{Alert, Phase};
use seiner_model::rfc3339;
use serde_json::{Map, Value, json};

/// Returns a time in ns as Alertmanager reads it.
pub fn moment(ns: i64) -> String {
    rfc3339(ns)
}

/// Returns the message of an alert that fires or was resolved. `source` is the address at which people can look at its
/// expression.
pub fn message(alert: &Alert, source: &str) -> Value {
    let labels: Map<String, Value> = alert
        .labels
        .iter()
        .map(|(name, value)| (name.to_string(), Value::from(value)))
        .collect();
    let annotations: Map<String, Value> = alert
        .annotations
        .iter()
        .map(|(name, text)| (name.clone(), Value::from(text.as_str())))
        .collect();
    let ends = match alert.phase {
        Phase::Resolved(at) => at,
        _ => alert.valid_until,
    };
    json!({
        "labels": labels,
        "annotations": annotations,
        "startsAt": moment(alert.since),
        "endsAt": moment(ends),
        "generatorURL": source,
    })
}
