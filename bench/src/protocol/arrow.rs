//! Streams of Arrow record batches.

use super::Body;
use super::line::{Line, lines};
use anyhow::{Context, Result};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, RecordBatch, TimestampNanosecondArray};
use arrow_ipc::writer::StreamWriter;
use std::sync::Arc;

/// Returns a stream of one record batch: the time, the measurement and the tags as dictionaries, and the fields.
pub fn body(text: &[u8], by_source: bool) -> Result<Body> {
    let mut lines = lines(text)?.collect::<Result<Vec<Line<'_>>>>()?;
    if by_source {
        lines.sort_by(|one, other| (&one.tags, one.time).cmp(&(&other.tags, other.time)));
    }
    let first = lines.first().context("a body without lines")?;
    let times = lines.iter().map(|line| line.time);
    let times = TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC");
    let mut columns: Vec<(&str, ArrayRef)> = vec![("time", Arc::new(times))];
    let measurements: DictionaryArray<Int32Type> =
        lines.iter().map(|line| Some(line.measurement)).collect();
    columns.push(("measurement", Arc::new(measurements)));
    for (at, (name, _)) in first.tags.iter().enumerate() {
        let values: DictionaryArray<Int32Type> =
            lines.iter().map(|line| Some(line.tags[at].1)).collect();
        columns.push((name, Arc::new(values)));
    }
    for (at, (name, _, _)) in first.fields.iter().enumerate() {
        let values = lines.iter().map(|line| line.fields[at].1);
        columns.push((name, Arc::new(Float64Array::from_iter_values(values))));
    }
    let batch = RecordBatch::try_from_iter(columns)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(&batch)?;
    Ok(Body {
        bytes: writer.into_inner()?,
        headers: "Content-Type: application/vnd.apache.arrow.stream\r\n",
    })
}
