//! Expected results of a query in a script.

use crate::notation::{self, Point};
use seiner_promql::{Answer, Data, Labels, is_absent};
use std::sync::OnceLock;

/// Returns the relative difference of two values that count as equal. The variable `SEINER_PROMQL_TOLERANCE` sets it.
fn tolerance() -> f64 {
    static TOLERANCE: OnceLock<f64> = OnceLock::new();
    let read =
        || std::env::var("SEINER_PROMQL_TOLERANCE").map_or(1e-6, |text| text.parse().unwrap());
    *TOLERANCE.get_or_init(read)
}

/// Expected result of a query.
#[derive(Debug, Default)]
pub struct Expectation {
    /// The query fails. With a text, the message contains it.
    pub fails: Option<Option<String>>,
    /// There are warnings, or there are none.
    pub warns: Option<bool>,
    /// There are hints, or there are none.
    pub informs: Option<bool>,
    /// The order of the series matters.
    pub ordered: bool,
    /// Scalar.
    pub scalar: Option<f64>,
    /// Text.
    pub text: Option<String>,
    /// Series.
    pub series: Vec<(Labels, Vec<Point>)>,
}

impl Expectation {
    /// Adds a line below the query. Returns false if the line does not belong to the query.
    pub fn read(&mut self, line: &str) -> Result<bool, String> {
        if let Some(rest) = line.strip_prefix("expect ") {
            self.read_expect(rest.trim())?;
        } else if let Some(message) = line.strip_prefix("expected_fail_message") {
            self.fails = Some(Some(message.trim().to_string()));
        } else if line.starts_with("expected_fail_regexp") {
            self.fails = Some(None);
        } else if let Some(number) = notation::number(line) {
            self.scalar = Some(number);
        } else {
            self.series.push(notation::series(line)?);
        }
        Ok(true)
    }

    fn read_expect(&mut self, rest: &str) -> Result<(), String> {
        let (kind, detail) = rest.split_once(' ').unwrap_or((rest, ""));
        match kind {
            "fail" => {
                self.fails = Some(
                    detail
                        .strip_prefix("msg:")
                        .map(|message| message.trim().to_string()),
                )
            }
            "warn" => self.warns = Some(true),
            "no_warn" => self.warns = Some(false),
            "info" => self.informs = Some(true),
            "no_info" => self.informs = Some(false),
            "ordered" => self.ordered = true,
            "string" => self.text = Some(detail.trim_matches(['"', '\'', '`']).to_string()),
            other => return Err(format!("expect {other}")),
        }
        Ok(())
    }

    /// Returns whether the result contains native histograms.
    pub fn has_histograms(&self) -> bool {
        self.series
            .iter()
            .any(|(_, points)| points.contains(&Point::Histogram))
    }

    /// Compares a result with the expectation.
    pub fn check(&self, result: &Result<Answer, seiner_promql::Error>) -> Result<(), String> {
        let answer = match (result, &self.fails) {
            (Err(_), Some(None)) => return Ok(()),
            (Err(error), Some(Some(message))) => {
                let error = error.to_string();
                return if error.contains(message) {
                    Ok(())
                } else {
                    Err(format!("other message: {error}"))
                };
            }
            (Err(error), None) => return Err(format!("error: {error}")),
            (Ok(_), Some(_)) => return Err("no error".to_string()),
            (Ok(answer), None) => answer,
        };
        let warned = !answer.warnings.is_empty();
        if self.warns.is_some_and(|warns| warns != warned) {
            return Err(format!("warnings: {:?}", answer.warnings));
        }
        let informed = !answer.infos.is_empty();
        if self.informs.is_some_and(|informs| informs != informed) {
            return Err(format!("hints: {:?}", answer.infos));
        }
        self.check_data(&answer.data)
    }

    fn check_data(&self, data: &Data) -> Result<(), String> {
        let found: Vec<(Labels, Vec<Option<f64>>)> = match data {
            Data::Scalar(_, value) => {
                let expected = self.scalar.ok_or(format!("scalar {value}"))?;
                return is_close(*value, expected)
                    .then_some(())
                    .ok_or(format!("{value} instead of {expected}"));
            }
            Data::Text(_, text) => {
                return (self.text.as_ref() == Some(text))
                    .then_some(())
                    .ok_or(format!("text {text:?}"));
            }
            Data::Vector(_, values) => values
                .iter()
                .map(|(labels, value)| (labels.clone(), vec![Some(*value)]))
                .collect(),
            Data::Matrix(_, series) => {
                let values = |values: &[f64]| {
                    values
                        .iter()
                        .map(|value| (!is_absent(*value)).then_some(*value))
                        .collect()
                };
                series
                    .iter()
                    .map(|series| (series.labels.clone(), values(&series.values)))
                    .collect()
            }
            Data::Samples(raw) => {
                let values = |values: &[f64]| values.iter().map(|value| Some(*value)).collect();
                raw.iter()
                    .map(|raw| (raw.labels.clone(), values(&raw.values)))
                    .collect()
            }
        };
        self.check_series(found)
    }

    fn check_series(&self, found: Vec<(Labels, Vec<Option<f64>>)>) -> Result<(), String> {
        let expected: Vec<(&Labels, &[Point])> = self
            .series
            .iter()
            .map(|(labels, points)| (labels, points.as_slice()))
            .collect();
        let show = || {
            found
                .iter()
                .map(|(labels, values)| format!("{labels} {values:?}"))
                .collect::<Vec<_>>()
                .join("; ")
        };
        if found.len() != expected.len() {
            return Err(format!(
                "{} series instead of {}: {}",
                found.len(),
                expected.len(),
                show()
            ));
        }
        for (at, (labels, values)) in found.iter().enumerate() {
            let other = match self.ordered {
                true => expected.get(at).filter(|(expected, _)| *expected == labels),
                false => expected.iter().find(|(expected, _)| *expected == labels),
            };
            let Some((_, points)) = other else {
                return Err(format!(
                    "unexpected {labels}, or at another place: {}",
                    show()
                ));
            };
            let mut points = points.to_vec();
            points.resize(values.len().max(points.len()), Point::Gap);
            let is_equal = points.len() == values.len()
                && points
                    .iter()
                    .zip(values)
                    .all(|(point, value)| match (point, value) {
                        (Point::Gap, None) => true,
                        (Point::Value(expected), Some(value)) => is_close(*value, *expected),
                        _ => false,
                    });
            if !is_equal {
                return Err(format!("{labels}: {values:?} instead of {points:?}"));
            }
        }
        Ok(())
    }
}

/// Returns whether two values are equal but for rounding. NaN is equal to NaN.
pub fn is_close(a: f64, b: f64) -> bool {
    if a == b || a.is_nan() && b.is_nan() {
        return true;
    }
    let (difference, sum) = ((a - b).abs(), a.abs() + b.abs());
    match a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        true => difference < tolerance() * f64::MIN_POSITIVE,
        false => difference / sum.min(f64::MAX) < tolerance(),
    }
}
