//! A series of an answer: times and values in the engine's memory, for Arrow and NumPy.

use crate::failure::{Failure, invalid};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, LargeStringArray,
    TimestampNanosecondArray, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use seiner_engine::{Bucket, Exact, SeriesData, SeriesSummary};
use seiner_model::{Column, FieldType, SourceId, SourceKey, Strings};
use std::sync::Arc;

/// A series with its samples or its aggregates.
pub struct Series {
    /// Number of the source.
    pub source: SourceId,
    /// Measurement and tags.
    pub key: Arc<SourceKey>,
    /// Name of the field.
    pub field: Arc<str>,
    /// Type of the field.
    pub field_type: FieldType,
    /// Times in ns since 1970, ascending.
    pub times: ScalarBuffer<i64>,
    /// Values, or one column per aggregate. Each is as long as `times`.
    pub columns: Vec<Values>,
}

/// Values in shared memory.
pub enum Values {
    /// An Arrow array.
    Array(ArrayRef),
    /// Booleans of one byte each, as in NumPy. Arrow needs one bit each.
    Bools(Buffer),
}

impl Series {
    /// Creates a series of samples. Takes over their memory.
    pub fn of_samples(series: SeriesData) -> Series {
        Series {
            source: series.source,
            key: series.key,
            field: series.field,
            field_type: series.values.field_type(),
            times: series.times.into(),
            columns: vec![Values::from(series.values)],
        }
    }

    /// Creates a series of aggregates.
    pub fn of_aggregates(series: SeriesSummary, aggregates: &[Aggregate]) -> Series {
        let buckets = &series.buckets;
        Series {
            times: buckets
                .iter()
                .map(|bucket| bucket.start)
                .collect::<Vec<i64>>()
                .into(),
            columns: aggregates
                .iter()
                .map(|aggregate| aggregate.of(series.field_type, buckets))
                .collect(),
            source: series.source,
            key: series.key,
            field: series.field,
            field_type: series.field_type,
        }
    }
}

impl From<Column> for Values {
    fn from(column: Column) -> Values {
        Values::Array(match column {
            Column::F64(values) => Arc::new(Float64Array::new(values.into(), None)),
            Column::F32(values) => Arc::new(Float32Array::new(values.into(), None)),
            Column::I64(values) => Arc::new(Int64Array::new(values.into(), None)),
            Column::U64(values) => Arc::new(UInt64Array::new(values.into(), None)),
            Column::Bool(values) => {
                return Values::Bools(Buffer::from_vec(
                    values.into_iter().map(u8::from).collect::<Vec<u8>>(),
                ));
            }
            Column::Str(texts) => Arc::new(text_array(texts)),
        })
    }
}

/// Converts texts to Arrow. Their bytes are not copied; the offsets are widened.
fn text_array(texts: Strings) -> LargeStringArray {
    let offsets = OffsetBuffer::from_lengths((0..texts.len()).map(|at| {
        let start = if at == 0 { 0 } else { texts.ends[at - 1] };
        (texts.ends[at] - start) as usize
    }));
    LargeStringArray::new(offsets, Buffer::from_vec(texts.bytes), None)
}

/// Converts times to Arrow.
pub fn times_array(times: ScalarBuffer<i64>) -> TimestampNanosecondArray {
    TimestampNanosecondArray::new(times, None).with_timezone("UTC")
}

impl Values {
    /// Returns the values as an Arrow array.
    pub fn array(&self) -> ArrayRef {
        match self {
            Values::Array(array) => array.clone(),
            Values::Bools(bytes) => Arc::new(BooleanArray::new(
                BooleanBuffer::collect_bool(bytes.len(), |at| bytes[at] != 0),
                None,
            )),
        }
    }

    /// Returns the type of the Arrow array.
    pub fn data_type(&self) -> DataType {
        match self {
            Values::Array(array) => array.data_type().clone(),
            Values::Bools(_) => DataType::Boolean,
        }
    }
}

// ---- aggregates

/// A column of aggregates.
#[derive(Clone, Copy)]
pub enum Aggregate {
    /// Number of samples.
    Count,
    /// A number derived from the samples. The second function computes it exactly for integers.
    Number(fn(&Bucket) -> f64, fn(&Exact) -> i128),
    /// Mean of the samples.
    Mean,
    /// Time of one of the samples.
    Time(fn(&Bucket) -> i64),
}

const AGGREGATES: [(&str, Aggregate); 9] = [
    ("count", Aggregate::Count),
    (
        "sum",
        Aggregate::Number(|bucket| bucket.sum, |exact| exact.sum),
    ),
    (
        "min",
        Aggregate::Number(|bucket| bucket.min, |exact| exact.min),
    ),
    (
        "max",
        Aggregate::Number(|bucket| bucket.max, |exact| exact.max),
    ),
    ("mean", Aggregate::Mean),
    (
        "first",
        Aggregate::Number(|bucket| bucket.first.1, |exact| exact.first),
    ),
    (
        "last",
        Aggregate::Number(|bucket| bucket.last.1, |exact| exact.last),
    ),
    ("first_time", Aggregate::Time(|bucket| bucket.first.0)),
    ("last_time", Aggregate::Time(|bucket| bucket.last.0)),
];

impl Aggregate {
    /// Returns the aggregate of a name.
    pub fn named(name: &str) -> Result<Aggregate, Failure> {
        match AGGREGATES.iter().find(|(known, _)| *known == name) {
            Some((_, aggregate)) => Ok(*aggregate),
            None => {
                let known: Vec<&str> = AGGREGATES.iter().map(|(known, _)| *known).collect();
                invalid(format!(
                    "{name:?} is not an aggregate; there are {}",
                    known.join(", ")
                ))
            }
        }
    }

    /// Returns the aggregate of each bucket. Fields of integers give integers, or floats if one of the values
    /// (such as a sum) exceeds the range of the type.
    pub fn of(self, field_type: FieldType, buckets: &[Bucket]) -> Values {
        Values::Array(match self {
            Aggregate::Count => Arc::new(UInt64Array::from_iter_values(
                buckets.iter().map(|bucket| bucket.count),
            )),
            Aggregate::Number(number, exact) => integers(field_type, buckets, exact)
                .unwrap_or_else(|| floats(buckets.iter().map(number))),
            Aggregate::Mean => floats(buckets.iter().map(Bucket::mean)),
            Aggregate::Time(time) => Arc::new(times_array(
                buckets.iter().map(time).collect::<Vec<i64>>().into(),
            )),
        })
    }
}

fn floats(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

/// Returns exact figures of integers in the field's type, if the field has integers and all figures fit.
fn integers(
    field_type: FieldType,
    buckets: &[Bucket],
    figure: fn(&Exact) -> i128,
) -> Option<ArrayRef> {
    let figures = buckets
        .iter()
        .map(|bucket| bucket.exact.as_ref().map(figure));
    match field_type {
        FieldType::I64 => {
            let values = figures.map(|value| i64::try_from(value?).ok());
            let values: Vec<i64> = values.collect::<Option<_>>()?;
            Some(Arc::new(Int64Array::from(values)))
        }
        FieldType::U64 => {
            let values = figures.map(|value| u64::try_from(value?).ok());
            let values: Vec<u64> = values.collect::<Option<_>>()?;
            Some(Arc::new(UInt64Array::from(values)))
        }
        _ => None,
    }
}
