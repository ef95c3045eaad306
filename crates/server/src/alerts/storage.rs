//! Series of rules in the store: results of recording rules, and the states of alerts, which the next process reads.

use crate::app_state::AppState;
use crate::known_series::{KnownSeries, Noted, STALE_MARKER};
use crate::series::{self, SeriesDecoder, add_rejected};
use seiner_alert::{ALERT_NAME, ALERTS, AlertRule, OUTAGE_NS, SINCE, Stored};
use seiner_model::{Batch, Cell, Condition, Interval, Matcher, Selector, Value};
use seiner_promql::{Labels, METRIC_NAME};
use seiner_store::{Latest, Query, Receipt};
use seiner_wire::line::Arena;
use seiner_wire::remote_write::{Malformed, Rejections, VALUE, put_name};

/// Name of the rules among the protocols in metrics.
const PROTOCOL: &str = "rules";

/// Stores the series of a rule with one time in ns, and ends those that the rule had before. May block.
///
/// # Errors
/// If the store accepts no more, or rejects samples: the first one with its reason. The others are stored.
pub fn store(
    app: &AppState,
    known: &mut KnownSeries,
    series: &[(Labels, f64)],
    time: i64,
) -> Result<(), String> {
    known.begin();
    let mut samples = Samples {
        series: series.iter(),
        known,
        vanished: None,
        time,
        name: Vec::new(),
        number: 0,
        numbers: Vec::new(),
        rejections: Rejections::default(),
    };
    let mut stored = series::Stored::default();
    let end = series::store_blocking(app, &mut samples, &mut stored);
    let counters = app.traffic.protocol(PROTOCOL);
    let rejections = &mut samples.rejections;
    series::count(&counters, &stored, rejections, 0);
    end.map_err(|error| error.to_string())?;
    match series::places(rejections, "series", "sample").next() {
        None => Ok(()),
        Some(first) => Err(format!(
            "{} samples were not stored: {}",
            rejections.samples, first.text
        )),
    }
}

/// Decoder of a rule's series: a sample of each, and stale markers of those that vanished.
struct Samples<'a> {
    series: std::slice::Iter<'a, (Labels, f64)>,
    known: &'a mut KnownSeries,
    vanished: Option<std::vec::IntoIter<Box<[u8]>>>,
    /// Time of all samples in ns.
    time: i64,
    /// Name that is being built.
    name: Vec<u8>,
    /// Number of series so far.
    number: u64,
    /// Numbers of the series of the present batch.
    numbers: Vec<u64>,
    rejections: Rejections,
}

impl Samples<'_> {
    /// Returns the name and the value of the next row.
    fn row<'b>(&mut self, arena: &'b Arena) -> Option<(&'b [u8], f64)> {
        for (labels, value) in self.series.by_ref() {
            self.number += 1;
            self.name.clear();
            put_name(labels.iter(), &mut self.name);
            let reason = match self.known.note(&self.name) {
                Noted::Present => return Some((arena.keep(&self.name), *value)),
                Noted::Repeated => "the rule has it twice",
                Noted::Full => {
                    "the names of scraped and recorded series take all memory for them; record fewer"
                }
            };
            self.rejections.add(self.number, &self.name, 1, reason);
        }
        let known = &mut *self.known;
        let vanished = self
            .vanished
            .get_or_insert_with(|| known.take_vanished().into_iter());
        let name = vanished.next()?;
        self.number += 1;
        Some((arena.keep(&name), STALE_MARKER))
    }
}

impl<'a> SeriesDecoder<'a> for Samples<'a> {
    const FORM: &'static str = "the result of a rule";

    fn fill<'b>(
        &mut self,
        max_rows: usize,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Result<bool, Malformed>
    where
        'a: 'b,
    {
        self.numbers.clear();
        while batch.rows.len() < max_rows {
            let Some((name, value)) = self.row(arena) else {
                return Ok(false);
            };
            self.numbers.push(self.number);
            let cell = Cell {
                field: VALUE.as_bytes(),
                value: Value::F64(value),
            };
            batch.push(name, self.time, [cell]);
        }
        Ok(true)
    }

    #[cold]
    fn note_rejected(&mut self, batch: &Batch<'_>, receipt: &Receipt) {
        let number = |row: usize| self.numbers.get(row).copied().unwrap_or_default();
        add_rejected(&mut self.rejections, batch, receipt, number);
    }
}

/// Returns what an earlier process stored last of the alerts of a rule, in the last hour before a time in ns. `offset` is
/// the time in ns between an evaluation and the samples that it stored. The series count as known: those of alerts that
/// do not come back end with the next call of [`store`], so that a later process does not take them for alerts that never
/// ended.
///
/// # Errors
/// If the store cannot be read.
pub fn resume(
    app: &AppState,
    known: &mut KnownSeries,
    rule: &AlertRule,
    now: i64,
    offset: i64,
) -> Result<Vec<Stored>, String> {
    let phases = latest(app, ALERTS, rule, (now, offset))?;
    let stored = latest(app, SINCE, rule, (now, offset))?;
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

/// Returns the latest samples of a metric for the alerts of a rule, with the times of their evaluations.
fn latest(
    app: &AppState,
    metric: &str,
    rule: &AlertRule,
    (now, offset): (i64, i64),
) -> Result<Vec<Stored>, String> {
    let first = now.saturating_sub(OUTAGE_NS).saturating_sub(offset);
    let query = Query {
        selector: Selector {
            measurement: Some(metric.to_string()),
            matchers: vec![Matcher {
                tag: ALERT_NAME.to_string(),
                condition: Condition::Is(rule.name.clone()),
            }],
        },
        fields: Some(vec![VALUE.to_string()]),
        interval: Interval::new(first, now),
    };
    let latest = app.store.latest(&query, None);
    let latest = latest.map_err(|error| error.to_string())?;
    latest
        .map(|latest| {
            let sample = latest.map(|latest| sample(latest, offset));
            sample.map_err(|error| error.to_string())
        })
        .filter_map(Result::transpose)
        .collect()
}

/// Returns a sample with its labels; `None` if the value is no number.
fn sample(latest: Latest, offset: i64) -> Option<Stored> {
    let Value::F64(value) = latest.value.get(0) else {
        return None;
    };
    Some(Stored {
        labels: latest.key.tags().collect(),
        last: latest.time.saturating_add(offset),
        value,
    })
}
