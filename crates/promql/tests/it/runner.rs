//! Runner of scripts.
//!
//! A script loads series into a store, evaluates queries, and states their results:
//!
//! ```text
//! load 5m
//!     requests_total{job="a"}  0+10x10
//!
//! eval instant at 50m rate(requests_total[10m])
//!     {job="a"} 0.03333
//!
//! eval range from 0 to 10m step 5m requests_total
//!     requests_total{job="a"} 0 10 20
//! ```
//!
//! A line without contents ends a block. `clear` empties the store. `eval_fail`, `eval_warn`, `eval_info` and
//! `eval_ordered` are short for the lines `expect fail`, `expect warn`, `expect info` and `expect ordered`.

use crate::expectation::Expectation;
use crate::notation::{self, Point};
use seiner_model::{Column, Columns, FieldColumn, SourceKey};
use seiner_promql::{Answer, Data, Error, METRIC_NAME, Options, instant, parse_seconds, range};
use seiner_store::{MemoryStore, Store};

const SECOND: f64 = 1e9;

/// Result of one query of a script.
#[derive(Debug)]
pub struct Outcome {
    /// Number of its line.
    pub line: usize,
    /// Line.
    pub text: String,
    /// Difference from the expected result, if there is one.
    pub difference: Option<String>,
    /// True if the query or the store contains native histograms.
    pub is_native: bool,
}

/// Runs a script.
pub fn run(script: &str, options: &Options) -> Vec<Outcome> {
    let lines: Vec<&str> = script
        .lines()
        .map(|line| {
            if line.trim().starts_with('#') {
                ""
            } else {
                line.trim()
            }
        })
        .collect();
    let mut outcomes = Vec::new();
    let mut store = MemoryStore::new();
    let mut has_native = false;
    let mut at = 0;
    while at < lines.len() {
        let block = at;
        let line = lines[at];
        at += 1;
        if line.is_empty() {
            continue;
        }
        let end = lines[at..]
            .iter()
            .position(|line| line.is_empty())
            .map_or(lines.len(), |length| at + length);
        if line.starts_with("clear") {
            store = MemoryStore::new();
            has_native = false;
            continue;
        }
        let body = &lines[at..end];
        at = end;
        if let Some(step) = line.strip_prefix("load") {
            let step = step.trim_start_matches("_with_nhcb").trim();
            // These loads convert classic histograms to native ones.
            has_native |= line.contains("with_nhcb");
            has_native |= load(&store, seconds(step), body);
            continue;
        }
        let result = evaluate(&store, line, body, options);
        let (difference, expects_native) = match result {
            Ok(expects_native) => (None, expects_native),
            Err((difference, expects_native)) => (Some(difference), expects_native),
        };
        let is_native = expects_native || difference.is_some() && has_native;
        outcomes.push(Outcome {
            line: block + 1,
            text: line.to_string(),
            difference,
            is_native,
        });
    }
    outcomes
}

fn seconds(text: &str) -> f64 {
    match text.strip_prefix('-') {
        Some(text) => -parse_seconds(text).unwrap(),
        None => parse_seconds(text).unwrap_or_else(|| panic!("no duration: {text:?}")),
    }
}

/// Loads series. Returns whether one of them contains native histograms.
fn load(store: &MemoryStore, step: f64, lines: &[&str]) -> bool {
    let mut has_native = false;
    for line in lines {
        let (labels, points) = notation::series(line).unwrap();
        let tags = labels.iter().filter(|(name, _)| *name != METRIC_NAME);
        let key = SourceKey::new(labels.get(METRIC_NAME), tags).unwrap();
        let source = store.register(&key).unwrap();
        let (mut times, mut values) = (Vec::new(), Vec::new());
        for (at, point) in points.iter().enumerate() {
            has_native |= *point == Point::Histogram;
            if let Point::Value(value) = point {
                times.push((at as f64 * step * SECOND).round() as i64);
                values.push(*value);
            }
        }
        let values = FieldColumn {
            present: None,
            values: Column::F64(values),
        };
        let columns = Columns {
            times,
            fields: vec![values],
        };
        store.append_columns(source, &["value"], &columns).unwrap();
    }
    has_native
}

/// Evaluates a query. Returns whether its result contains native histograms, with a difference as an error.
fn evaluate(
    store: &MemoryStore,
    line: &str,
    body: &[&str],
    options: &Options,
) -> Result<bool, (String, bool)> {
    let mut expectation = Expectation::default();
    let (command, rest) = line
        .split_once(' ')
        .ok_or((format!("not a command: {line}"), false))?;
    match command {
        "eval" => {}
        "eval_fail" => expectation.fails = Some(None),
        "eval_warn" => expectation.warns = Some(true),
        "eval_info" => expectation.informs = Some(true),
        "eval_ordered" => expectation.ordered = true,
        other => return Err((format!("not a command: {other}"), false)),
    }
    for line in body {
        expectation.read(line).map_err(|error| (error, false))?;
    }
    let native = expectation.has_histograms();
    let checked = match rest.trim().strip_prefix("range from") {
        Some(rest) => evaluate_range(store, rest, &mut expectation, options),
        None => evaluate_instant(
            store,
            rest.trim_start_matches("instant").trim(),
            &expectation,
            options,
        ),
    };
    checked
        .map(|()| native)
        .map_err(|difference| (difference, native))
}

fn evaluate_range(
    store: &MemoryStore,
    rest: &str,
    expectation: &mut Expectation,
    options: &Options,
) -> Result<(), String> {
    let words: Vec<&str> = rest.trim().splitn(6, ' ').collect();
    let [from, "to", to, "step", step, query] = words[..] else {
        return Err(format!("not a range: {rest}"));
    };
    let ns = |text: &str| (seconds(text) * SECOND) as i64;
    let answer = range(store, query, (ns(from), ns(to), ns(step)), options, None);
    expectation.check(&answer)
}

/// Evaluates a query at one time, and as the middle of three steps: both results must be equal.
fn evaluate_instant(
    store: &MemoryStore,
    rest: &str,
    expectation: &Expectation,
    options: &Options,
) -> Result<(), String> {
    let (at, query) = match rest.strip_prefix("at ") {
        Some(rest) => rest.split_once(' ').ok_or(format!("no query: {rest}"))?,
        None => ("0s", rest),
    };
    let time = (seconds(at) * SECOND) as i64;
    let answer = instant(store, query, time, options, None);
    expectation.check(&answer)?;
    let depends_on_range = ["start()", "end()", "step()", "range()"]
        .iter()
        .any(|word| query.contains(word));
    if expectation.ordered
        || expectation.fails.is_some()
        || depends_on_range
        || query.contains("sort")
    {
        return Ok(());
    }
    let minute = (60.0 * SECOND) as i64;
    let steps = range(
        store,
        query,
        (time - minute, time + minute, minute),
        options,
        None,
    );
    let Ok(Data::Vector(..) | Data::Scalar(..)) = answer.map(|answer| answer.data) else {
        return Ok(());
    };
    // Other steps may fail, for example with two series of equal labels.
    let Ok(steps) = steps else { return Ok(()) };
    let middle = middle(steps, time, expectation.scalar.is_some());
    let without_notes = Expectation {
        scalar: expectation.scalar,
        series: expectation.series.clone(),
        ..Expectation::default()
    };
    without_notes
        .check(&middle)
        .map_err(|difference| format!("as a range: {difference}"))
}

/// Returns the second step of a range as the result of an instant query.
fn middle(answer: Answer, time: i64, is_scalar: bool) -> Result<Answer, Error> {
    let Data::Matrix(_, series) = answer.data else {
        panic!("a range query returns a matrix");
    };
    let data = match is_scalar {
        true => Data::Scalar(time, series[0].values[1]),
        false => {
            let present = series
                .iter()
                .filter(|series| !seiner_promql::is_absent(series.values[1]));
            Data::Vector(
                time,
                present
                    .map(|series| (series.labels.clone(), series.values[1]))
                    .collect(),
            )
        }
    };
    Ok(Answer { data, ..answer })
}
