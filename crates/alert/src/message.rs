//! Messages in the form of Alertmanager (API version 2).

use crate::state::{Alert, Phase};
use seiner_model::rfc3339;
use serde_json::{Map, Value, json};

/// Returns the labels of an alert as an object of JSON.
pub fn labels(alert: &Alert) -> Map<String, Value> {
    let labels = alert.labels.iter();
    labels
        .map(|(name, value)| (name.to_string(), Value::from(value)))
        .collect()
}

/// Returns the message of an alert that fires or was resolved. `source` is the address at which people can look at its
/// expression.
pub fn message(alert: &Alert, source: &str) -> Value {
    let ends = match alert.phase {
        Phase::Resolved(at) => at,
        _ => alert.valid_until,
    };
    json!({
        "labels": labels(alert),
        "annotations": alert.annotations,
        "startsAt": rfc3339(alert.since),
        "endsAt": rfc3339(ends),
        "generatorURL": source,
    })
}
