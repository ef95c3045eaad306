//! Series of rules in the store: results of recording rules, and the states of alerts, which the next process reads.

use crate::app_state::AppState;
use crate::ingest::BATCH_ROWS;
use crate::known_series::{KnownSeries, Noted, STALE_MARKER};
use seiner_alert::{ALERT_NAME, ALERTS, AlertRule, OUTAGE_NS, SINCE, Stored};
use seiner_model::{Batch, Cell, Condition, Interval, Matcher, Selector, Value};
use seiner_promql::{Labels, METRIC_NAME};
use seiner_store::{Latest, Query};
use seiner_wire::remote_write::{LabelNotation, VALUE, put_name};
use std::sync::atomic::Ordering::Relaxed;

/// Name of the rules among the protocols in metrics.
const PROTOCOL: &str = "rules";

/// Stores the series of a rule with one time in ns, and ends those that the rule had before.
///
/// # Errors
/// If the store accepts no more, or rejects samples: the reason of the first one. The others are stored.
pub fn store(
    app: &AppState,
    known: &mut KnownSeries,
    series: &[(Labels, f64)],
    time: i64,
) -> Result<(), String> {
    known.begin();
    let mut rows: Vec<(Box<[u8]>, f64)> = Vec::with_capacity(series.len());
    let mut rejected = Rejected::default();
    for (labels, value) in series {
        let mut name = Vec::new();
        put_name(labels.iter(), &mut name);
        match known.note(&name) {
            Noted::Present => rows.push((name.into(), *value)),
            Noted::Repeated => rejected.add(1, || "a rule has two equal series".to_string()),
            Noted::Full => rejected.add(1, || {
                "the names of scraped and recorded series take all memory for them; record fewer".to_string()
            }),
        }
    }
    let vanished = known.take_vanished().into_iter();
    rows.extend(vanished.map(|name| (name, STALE_MARKER)));
    let counters = app.traffic.protocol(PROTOCOL);
    for rows in rows.chunks(BATCH_ROWS) {
        let mut batch = Batch::new();
        for (name, value) in rows {
            let cell = Cell {
                field: VALUE.as_bytes(),
                value: Value::F64(*value),
            };
            batch.push(name, time, [cell]);
        }
        let receipt = app
            .store
            .append(&LabelNotation, &batch)
            .map_err(|error| error.to_string())?;
        counters.rows.fetch_add(receipt.samples as u64, Relaxed);
        counters.samples.fetch_add(receipt.samples as u64, Relaxed);
        if let Some((_, reason)) = receipt.rejected.first() {
            rejected.add(receipt.rejected_total as u64, || reason.to_string());
        }
    }
    counters.rejected.fetch_add(rejected.samples, Relaxed);
    match rejected.samples {
        0 => Ok(()),
        samples => Err(format!(
            "{samples} samples were not stored: {}",
            rejected.first
        )),
    }
}

/// Samples that were not stored.
#[derive(Default)]
struct Rejected {
    samples: u64,
    /// Reason of the first one.
    first: String,
}

impl Rejected {
    fn add(&mut self, samples: u64, reason: impl FnOnce() -> String) {
        if self.samples == 0 {
            self.first = reason();
        }
        self.samples += samples;
    }
}

/// Returns what an earlier process stored last of the alerts of a rule, in the last hour before a time in ns. Their series
/// count as known: those of alerts that do not come back end with the next call of [`store`], so that a later process
/// does not take them for alerts that never ended.
///
/// # Errors
/// If the store cannot be read.
pub fn resume(
    app: &AppState,
    known: &mut KnownSeries,
    rule: &AlertRule,
    now: i64,
) -> Result<Vec<Stored>, String> {
    let phases = latest(app, ALERTS, rule, now)?;
    let stored = latest(app, SINCE, rule, now)?;
    known.begin();
    let phases = phases.iter().map(|phase| (ALERTS, phase));
    for (metric, series) in phases.chain(stored.iter().map(|since| (SINCE, since))) {
        if series.value.is_nan() {
            continue;
        }
        let mut labels = series.labels.clone();
        labels.set(METRIC_NAME, metric);
        let mut name = Vec::new();
        put_name(labels.iter(), &mut name);
        known.note(&name);
    }
    Ok(stored)
}

/// Returns the latest samples of a metric for the alerts of a rule.
fn latest(app: &AppState, metric: &str, rule: &AlertRule, now: i64) -> Result<Vec<Stored>, String> {
    let query = Query {
        selector: Selector {
            measurement: Some(metric.to_string()),
            matchers: vec![Matcher {
                tag: ALERT_NAME.to_string(),
                condition: Condition::Is(rule.name.clone()),
            }],
        },
        fields: Some(vec![VALUE.to_string()]),
        interval: Interval::new(now.saturating_sub(OUTAGE_NS), now),
    };
    let latest = app.store.latest(&query, None);
    let latest = latest.map_err(|error| error.to_string())?;
    latest
        .map(|latest| latest.map(sample).map_err(|error| error.to_string()))
        .filter_map(Result::transpose)
        .collect()
}

/// Returns a sample with its labels; `None` if the value is no number.
fn sample(latest: Latest) -> Option<Stored> {
    let Value::F64(value) = latest.value.get(0) else {
        return None;
    };
    let tags = latest.key.tags().iter();
    Some(Stored {
        labels: tags.map(|(name, value)| (&**name, &**value)).collect(),
        last: latest.time,
        value,
    })
}
