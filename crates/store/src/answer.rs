//! Queries and answers.

use seiner_model::{Column, FieldType, Interval, Selector, SourceId, SourceKey, Value};
use std::sync::Arc;

/// Query for samples.
#[derive(Clone, Debug)]
pub struct Query {
    /// Selector of the sources.
    pub selector: Selector,
    /// Names of the fields. `None` means all fields.
    pub fields: Option<Vec<String>>,
    /// Interval of the times.
    pub interval: Interval,
}

/// Division of an interval into buckets for aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One bucket, which starts at the first sample.
    Whole,
    /// Buckets of this length in ns, at least 1, aligned to multiples since 1970.
    Every(i64),
}

/// Part of an interval in which a roll-up level replaces samples that were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelSpan {
    /// First time, ns.
    pub from: i64,
    /// Last time, ns.
    pub to: i64,
    /// Length of a step, ns.
    pub step_ns: u64,
}

/// Samples of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesData {
    /// Number of the source.
    pub source: SourceId,
    /// Measurement and tags of the source.
    pub key: Arc<SourceKey>,
    /// Name of the field.
    pub field: Arc<str>,
    /// Times in ns, strictly ascending, at least one.
    pub times: Vec<i64>,
    /// Values, as many as times.
    pub values: Column,
}

/// Aggregates of one series.
#[derive(Clone, Debug)]
pub struct SeriesSummary {
    /// Number of the source.
    pub source: SourceId,
    /// Measurement and tags of the source.
    pub key: Arc<SourceKey>,
    /// Name of the field.
    pub field: Arc<str>,
    /// Type of the field.
    pub field_type: FieldType,
    /// Buckets with samples, ascending.
    pub buckets: Vec<Bucket>,
}

/// Aggregates of the samples of one bucket. Numbers and booleans (0 and 1) are aggregated as f64,
/// integers also exactly. Texts have only a count and the times of the first and the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// First time of the bucket, ns.
    pub start: i64,
    /// Number of samples, at least one.
    pub count: u64,
    /// Sum of the samples.
    pub sum: f64,
    /// Smallest sample that is not NaN; NaN if all are.
    pub min: f64,
    /// Largest sample that is not NaN; NaN if all are.
    pub max: f64,
    /// Time and value of the earliest sample.
    pub first: (i64, f64),
    /// Time and value of the latest sample.
    pub last: (i64, f64),
    /// Exact figures of integers. `None` for fields of other types, and for integers whose roll-up level holds only
    /// rounded figures.
    pub exact: Option<Exact>,
}

/// Figures of signed or unsigned integers, without rounding. The sum cannot overflow for up to 2^63
/// integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// Sum of the samples.
    pub sum: i128,
    /// Smallest sample.
    pub min: i128,
    /// Largest sample.
    pub max: i128,
    /// Earliest sample.
    pub first: i128,
    /// Latest sample.
    pub last: i128,
}

impl Bucket {
    /// Returns the arithmetic mean.
    pub fn mean(&self) -> f64 {
        let sum = self.exact.map_or(self.sum, |exact| exact.sum as f64);
        sum / self.count as f64
    }

    /// Returns a bucket of one sample.
    pub fn of(start: i64, time: i64, value: f64) -> Bucket {
        Bucket {
            start,
            count: 1,
            sum: value,
            min: value,
            max: value,
            first: (time, value),
            last: (time, value),
            exact: None,
        }
    }

    /// Returns a bucket of one integer.
    pub fn of_integer(start: i64, time: i64, value: i128) -> Bucket {
        let exact = Exact {
            sum: value,
            min: value,
            max: value,
            first: value,
            last: value,
        };
        Bucket {
            exact: Some(exact),
            ..Bucket::of(start, time, value as f64)
        }
    }

    /// Returns the bucket with exact figures of integers, computed from its f64 figures. Returns
    /// `None` if one of the f64 figures may be rounded.
    pub fn of_integers(self) -> Option<Bucket> {
        /// Limit of integers: all integers below it are exact as f64.
        const LIMIT: f64 = (1_u64 << 53) as f64;
        // Below the limit, no intermediate sum was rounded.
        let largest = self.min.abs().max(self.max.abs());
        (largest * (self.count as f64) < LIMIT).then_some(Bucket {
            exact: Some(Exact {
                sum: self.sum as i128,
                min: self.min as i128,
                max: self.max as i128,
                first: self.first.1 as i128,
                last: self.last.1 as i128,
            }),
            ..self
        })
    }

    /// Adds the samples of a later bucket.
    pub fn absorb(&mut self, later: &Bucket) {
        self.exact = match (self.exact, later.exact) {
            (Some(own), Some(other)) => Some(Exact {
                sum: own.sum + other.sum,
                min: own.min.min(other.min),
                max: own.max.max(other.max),
                first: own.first,
                last: match later.last.0 >= self.last.0 {
                    true => other.last,
                    false => own.last,
                },
            }),
            _ => None,
        };
        self.count += later.count;
        self.sum += later.sum;
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
        if later.last.0 >= self.last.0 {
            self.last = later.last;
        }
    }
}

/// Returns whether a field is aggregated exactly.
pub fn is_integer(field_type: FieldType) -> bool {
    matches!(field_type, FieldType::I64 | FieldType::U64)
}

/// Returns a value as f64, for aggregates.
pub fn number(value: Value<'_>) -> f64 {
    match value {
        Value::F64(value) => value,
        Value::F32(value) => f64::from(value),
        Value::I64(value) => value as f64,
        Value::U64(value) => value as f64,
        Value::Bool(value) => f64::from(u8::from(value)),
        Value::Str(_) => f64::NAN,
    }
}
