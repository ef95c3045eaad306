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
/// f64; of texts only the count and the times of the first and last are told.
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
}

impl Bucket {
    /// The arithmetic mean.
    pub fn mean(&self) -> f64 {
        self.sum / self.count as f64
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
        }
    }

    /// Takes in a later bucket's samples.
    pub fn absorb(&mut self, later: &Bucket) {
        self.count += later.count;
        self.sum += later.sum;
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
        if later.last.0 >= self.last.0 {
            self.last = later.last;
        }
    }
}

/// A value as aggregates see it.
pub(crate) fn number(value: Value<'_>) -> f64 {
    match value {
        Value::F64(value) => value,
        Value::F32(value) => f64::from(value),
        Value::I64(value) => value as f64,
        Value::U64(value) => value as f64,
        Value::Bool(value) => f64::from(u8::from(value)),
        Value::Str(_) => f64::NAN,
    }
}
