//! Streams: record batches through the Arrow PyCapsule interface.

use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_schema::{Field, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};
use std::sync::Arc;

/// Returns record batches of one schema as a capsule.
pub fn stream<'py>(
    py: Python<'py>,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let field = Field::new_struct("", schema.fields().clone(), false)
        .with_metadata(schema.metadata().clone());
    let arrays = batches
        .into_iter()
        .map(|batch| Ok(Arc::new(StructArray::from(batch)) as ArrayRef));
    Ok(to_stream_pycapsule(
        py,
        Box::new(ArrayIterator::new(arrays, Arc::new(field))),
        requested_schema,
    )?)
}
