//! What is asked of a store, and what it answers.

use seiner_model::{Column, FieldType, Interval, Selector, SourceId, SourceKey, Value};
use std::sync::Arc;

/// Which samples are asked for.
#[derive(Clone, Debug)]
pub struct Query {
    /// Of which sources.
    pub selector: Selector,
    /// Of which fields; `None` is all.
    pub fields: Option<Vec<String>>,
    /// At which times.
    pub interval: Interval,
}

/// How an interval is cut up for aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Not at all: one bucket, which starts at the first sample.
    Whole,
    /// Into buckets of so many ns, aligned to whole multiples since 1970. At least 1.
    Every(i64),
}

/// A part of an interval in which a coarser level stands for samples that were let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelSpan {
    /// The first time, ns.
    pub from: i64,
    /// The last time, ns.
    pub to: i64,
    /// The length of a step, ns.
    pub step_ns: u64,
}

/// The samples of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesData {
    /// The source.
    pub source: SourceId,
    /// Its measurement and tags.
    pub key: Arc<SourceKey>,
    /// The field.
    pub field: Arc<str>,
    /// The times in ns, strictly ascending, at least one.
    pub times: Vec<i64>,
    /// As many values.
    pub values: Column,
}

/// The aggregates of one series.
#[derive(Clone, Debug)]
pub struct SeriesSummary {
    /// The source.
    pub source: SourceId,
    /// Its measurement and tags.
    pub key: Arc<SourceKey>,
    /// The field.
    pub field: Arc<str>,
    /// The field's type.
    pub field_type: FieldType,
    /// The buckets that hold samples, ascending.
    pub buckets: Vec<Bucket>,
}

/// Aggregates of the samples of one bucket. Numbers and booleans (0 and 1) are aggregated as
/// f64, integers exactly as well; texts have only a count and the times of the first and last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The bucket's first time, ns.
    pub start: i64,
    /// How many samples; at least one.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The smallest, NaNs left out; NaN where there is nothing else.
    pub min: f64,
    /// The largest, NaNs left out; NaN where there is nothing else.
    pub max: f64,
    /// Time and value of the earliest.
    pub first: (i64, f64),
    /// Time and value of the latest.
    pub last: (i64, f64),
    /// The same figures of integers, exactly. None for fields of other types, and for integers
    /// whose coarser level holds only rounded figures.
    pub exact: Option<Exact>,
}

/// Figures of integers, signed or unsigned, without rounding. The sum of 2^63 integers of 64 bits
/// fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// Their sum.
    pub sum: i128,
    /// The smallest.
    pub min: i128,
    /// The largest.
    pub max: i128,
    /// The earliest.
    pub first: i128,
    /// The latest.
    pub last: i128,
}

impl Bucket {
    /// The arithmetic mean.
    pub fn mean(&self) -> f64 {
        let sum = self.exact.map_or(self.sum, |exact| exact.sum as f64);
        sum / self.count as f64
    }

    /// A bucket of one sample.
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

    /// A bucket of one integer.
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

    /// Returns the bucket with the exact figures of integers of which only f64 figures were kept;
    /// `None` if one of them may have been rounded.
    pub fn of_integers(self) -> Option<Bucket> {
        /// All integers below are f64 values.
        const LIMIT: f64 = (1_u64 << 53) as f64;
        // Below the limit no intermediate sum was rounded.
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

    /// Takes in a later bucket's samples.
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

/// A value as aggregates see it.
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
