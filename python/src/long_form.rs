//! The long form: one row per sample, with labels, as Arrow record batches.
//!
//! A long series is a record batch on the answer's own memory, with labels that cost four shared bytes per row.
//! Short series are copied into common batches, to avoid a batch for each of them.

use crate::failure::{Failure, invalid};
use crate::labels::Label;
use crate::series::{Series, times_array};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::concat;
use std::sync::Arc;

/// Number of rows from which a series is a record batch of its own.
const LONG_ROWS: usize = 4096;
/// Approximate number of rows in a batch of short series.
const BATCH_ROWS: usize = 64 << 10;

/// Returns the schema of the long form: labels, `time`, and value columns. Each value column is given with its
/// type for an answer without series.
///
/// Aggregates of several types share a column of floats.
///
/// # Errors
/// If a column of samples would need several types.
pub fn schema(
    series: &[Series],
    labels: &[Label],
    values: &[(String, DataType)],
    are_aggregates: bool,
) -> Result<SchemaRef, Failure> {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let label_field =
        |label: &Label| Field::new(label.name(), dictionary.clone(), label.may_lack());
    let mut fields: Vec<Field> = labels.iter().map(label_field).collect();
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    fields.push(Field::new("time", time, false));
    for (at, (name, without_series)) in values.iter().enumerate() {
        let first = series.first().map(|first| first.columns[at].data_type());
        let data_type = first.unwrap_or_else(|| without_series.clone());
        let other = series
            .iter()
            .find(|one| one.columns[at].data_type() != data_type);
        if let Some(other) = other {
            if are_aggregates {
                fields.push(Field::new(name, DataType::Float64, false));
                continue;
            }
            return invalid(format!(
                "one column cannot hold {} of field {:?} and {} of field {:?}; \
                 ask for fields of one type by fields=[...], or use by_series() or numpy()",
                series[0].field_type.name(),
                series[0].field,
                other.field_type.name(),
                other.field
            ));
        }
        fields.push(Field::new(name, data_type, false));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Returns the rows of all series, under a schema that [`schema`] returned for the same series and labels.
pub fn batches(
    series: &[Series],
    labels: &[Label],
    schema: &SchemaRef,
) -> Result<Vec<RecordBatch>, ArrowError> {
    let longest = series.iter().map(|series| series.times.len()).max();
    let zeros = ScalarBuffer::from(vec![0_i32; longest.unwrap_or(0)]);
    let batch = |run: &[Series]| {
        let mut columns = Vec::with_capacity(schema.fields().len());
        for label in labels {
            columns.push(label.column(run, &zeros)?);
        }
        columns.push(times_of(run));
        for at in 0..run[0].columns.len() {
            let field = schema.field(labels.len() + 1 + at);
            columns.push(values_of(run, at, field.data_type())?);
        }
        RecordBatch::try_new(schema.clone(), columns)
    };
    runs(series).into_iter().map(batch).collect()
}

/// Groups the series: long ones alone, short ones together.
fn runs(series: &[Series]) -> Vec<&[Series]> {
    let mut runs = Vec::new();
    let (mut start, mut rows) = (0, 0);
    for (at, one) in series.iter().enumerate() {
        let long = one.times.len() >= LONG_ROWS;
        if at > start && (long || rows >= BATCH_ROWS || series[start].times.len() >= LONG_ROWS) {
            runs.push(&series[start..at]);
            (start, rows) = (at, 0);
        }
        rows += one.times.len();
    }
    if start < series.len() {
        runs.push(&series[start..]);
    }
    runs
}

fn times_of(run: &[Series]) -> ArrayRef {
    let times = match run {
        [series] => series.times.clone(),
        _ => run
            .iter()
            .flat_map(|series| series.times.iter().copied())
            .collect::<Vec<i64>>()
            .into(),
    };
    Arc::new(times_array(times))
}

fn values_of(run: &[Series], column: usize, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let array = |series: &Series| {
        let array = series.columns[column].array();
        match array.data_type() == data_type {
            true => Ok(array),
            false => cast(&array, data_type),
        }
    };
    let arrays: Vec<ArrayRef> = run.iter().map(array).collect::<Result<_, _>>()?;
    match arrays.as_slice() {
        [array] => Ok(array.clone()),
        _ => concat(
            &arrays
                .iter()
                .map(AsRef::as_ref)
                .collect::<Vec<&dyn Array>>(),
        ),
    }
}
