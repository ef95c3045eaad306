//! Bodies of writes over HTTP: rows as IPC streams, whose metadata contain the role of each column.

use crate::append::{ROWS_AT_ONCE, field_array, texts, times, with_values};
use crate::failure::{Failure, invalid};
use crate::roles::{Named, Roles, Tags};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_cast::cast;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::input::AnyRecordBatch;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Size from which on a body has fewer rows. Servers accept more by default.
const BODY_BYTES: usize = 8 << 20;

/// Iterator of the bodies of some rows.
#[pyclass(frozen, module = "seiner._seiner")]
pub struct Bodies {
    rows: Mutex<Rows>,
}

/// Rows that are not in a body yet.
struct Rows {
    reader: Box<dyn RecordBatchReader + Send>,
    roles: Roles,
    /// Record batch of the next rows, and the index of the first of them.
    batch: Option<(RecordBatch, usize)>,
    /// Index of the batch's first row in the input.
    first: u64,
    /// Number of rows of the next body.
    rows: usize,
}

/// A body.
struct Body {
    bytes: Vec<u8>,
    /// Index of each row in the input.
    places: Vec<u64>,
}

#[pymethods]
impl Bodies {
    #[new]
    fn new(
        data: AnyRecordBatch,
        measurement: Option<String>,
        time: String,
        tags: Option<Vec<String>>,
        fields: Option<Vec<String>>,
    ) -> PyResult<Bodies> {
        let rows = Rows {
            reader: data.into_reader()?,
            roles: Roles {
                time,
                measurement,
                tags: tags.map_or(Tags::Dictionaries, Tags::Named),
                fields,
            },
            batch: None,
            first: 0,
            rows: ROWS_AT_ONCE,
        };
        Ok(Bodies {
            rows: Mutex::new(rows),
        })
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Returns the next body, and the index of each of its rows in the input.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyBytes>, Vec<u64>)>> {
        let body = py.detach(|| {
            let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            rows.next()
        })?;
        Ok(body.map(|body| (PyBytes::new(py, &body.bytes), body.places)))
    }
}

impl Rows {
    fn next(&mut self) -> Result<Option<Body>, Failure> {
        loop {
            let Some((batch, start)) = self.batch.take() else {
                match self.reader.next() {
                    None => return Ok(None),
                    Some(Err(error)) => {
                        return invalid(format!("the rows cannot be read: {error}"));
                    }
                    Some(Ok(batch)) => self.batch = Some((batch, 0)),
                }
                continue;
            };
            if start >= batch.num_rows() {
                self.first += batch.num_rows() as u64;
                continue;
            }
            let rows = self.rows.min(batch.num_rows() - start);
            let body = body(
                &self.roles,
                &batch.slice(start, rows),
                self.first + start as u64,
            )?;
            if body.bytes.len() > BODY_BYTES && rows > 1 {
                self.rows = rows / 2;
                self.batch = Some((batch, start));
                continue;
            }
            self.batch = Some((batch, start + rows));
            if !body.places.is_empty() {
                return Ok(Some(body));
            }
        }
    }
}

/// Returns the rows that have a value as a body. `first` is the index of the batch's first row in the input.
fn body(roles: &Roles, batch: &RecordBatch, first: u64) -> Result<Body, Failure> {
    let columns = roles.columns(batch.schema_ref())?;
    let field_places: Vec<usize> = columns.fields.iter().map(|field| field.at).collect();
    let (batch, places) = with_values(batch, &field_places)?;
    let places: Vec<u64> = match places {
        Some(places) => places.into_iter().map(|row| first + row as u64).collect(),
        None => (first..first + batch.num_rows() as u64).collect(),
    };
    let (mut fields, mut arrays): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    let mut push = |kind: &str, name: &str, array: ArrayRef| {
        let metadata = [("kind", kind), ("name", name)];
        let metadata = metadata.map(|(key, text)| (key.to_string(), text.to_string()));
        let title = format!("{}", fields.len());
        let field = Field::new(title, array.data_type().clone(), true);
        fields.push(field.with_metadata(HashMap::from(metadata)));
        arrays.push(array);
    };
    let times = times(&roles.time, batch.column(columns.time), |row| places[row])?;
    push(
        "time",
        "time",
        Arc::new(crate::series::times_array(times.into())),
    );
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let text = |Named { name, at }: &Named| {
        let texts = texts(name, batch.column(*at))?;
        cast(&texts, &dictionary).or_else(|error| invalid(error.to_string()))
    };
    if let Some(measurement) = &columns.measurement {
        push("measurement", "measurement", text(measurement)?);
    }
    for tag in &columns.tags {
        push("tag", &tag.name, text(tag)?);
    }
    for Named { name, at } in &columns.fields {
        let column = batch.column(*at);
        if column.logical_null_count() < batch.num_rows() {
            let mut values = field_array(name, column)?;
            if *values.data_type() == DataType::Utf8View {
                let texts = cast(&values, &DataType::LargeUtf8);
                values = texts.or_else(|error| invalid(error.to_string()))?;
            }
            push("field", name, values);
        }
    }
    let bytes = stream(Schema::new(fields), arrays);
    let bytes = bytes.or_else(|error| invalid(format!("the rows are no stream: {error}")))?;
    Ok(Body { bytes, places })
}

fn stream(schema: Schema, arrays: Vec<ArrayRef>) -> Result<Vec<u8>, ArrowError> {
    let batch = RecordBatch::try_new(Arc::new(schema), arrays)?;
    let mut stream = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    stream.write(&batch)?;
    stream.into_inner()
}
