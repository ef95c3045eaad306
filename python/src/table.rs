//! Tables: rows in record batches, from a wide query or from a server.

use crate::failure::{Failure, invalid};
use crate::stream::stream;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int32Type, Int64Type, TimestampNanosecondType,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_cast::cast;
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, DataType, SchemaRef, TimeUnit};
use arrow_select::concat::concat;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use pyo3_arrow::buffer::PyArrowBuffer;
use std::collections::HashMap;

/// Rows with one column for each tag and field, or the long form of an answer over HTTP.
#[pyclass(frozen, module = "seiner._seiner")]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

/// Column for NumPy: its type (`M8[ns]`, `f8`, `?`, …, `str` or `dictionary`), its values or codes, the mask of missing
/// values, and the texts that the codes number.
type NumpyColumn<'py> = (
    &'static str,
    Bound<'py, PyAny>,
    Option<PyArrowBuffer>,
    Vec<String>,
);

impl Table {
    /// Creates a table of record batches with one schema.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
    }

    fn parts(&self, at: usize) -> impl Iterator<Item = &ArrayRef> {
        self.batches.iter().map(move |batch| batch.column(at))
    }

    /// Returns a column as one array.
    fn whole(&self, at: usize) -> Result<ArrayRef, ArrowError> {
        let parts: Vec<&dyn Array> = self.parts(at).map(AsRef::as_ref).collect();
        match parts.is_empty() {
            true => Ok(arrow_array::new_empty_array(
                self.schema.field(at).data_type(),
            )),
            false => concat(&parts),
        }
    }

    /// Returns the codes of a column of texts, -1 for a missing text, and the texts in the order of their first rows.
    fn codes(&self, at: usize) -> Result<(Vec<i32>, Vec<String>), ArrowError> {
        let (mut codes, mut texts) = (Vec::new(), Vec::new());
        let mut known: HashMap<String, i32> = HashMap::new();
        let wanted = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        for part in self.parts(at) {
            let part = cast(part, &wanted)?;
            let part = part.as_dictionary::<Int32Type>();
            let values = part.values().as_string::<i32>();
            let mut numbers: Vec<Option<i32>> = vec![None; values.len()];
            codes.extend(part.keys().iter().map(|key| {
                let Some(key) = key else { return -1 };
                *numbers[key as usize].get_or_insert_with(|| {
                    let text = values.value(key as usize);
                    *known.entry(text.to_string()).or_insert_with(|| {
                        texts.push(text.to_string());
                        texts.len() as i32 - 1
                    })
                })
            }));
        }
        Ok((codes, texts))
    }
}

#[pymethods]
impl Table {
    /// Reads an IPC stream.
    #[staticmethod]
    fn read(py: Python<'_>, bytes: &[u8]) -> PyResult<Table> {
        let read = || -> Result<Table, ArrowError> {
            let mut reader = StreamReader::try_new(bytes, None)?;
            let batches = reader.by_ref().collect::<Result<_, _>>()?;
            Ok(Table::new(reader.schema(), batches))
        };
        let table = py.detach(read);
        Ok(table
            .or_else(|error| invalid(format!("the answer is not a stream of Arrow: {error}")))?)
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[getter]
    fn columns(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// Returns the metadata of the schema.
    #[getter]
    fn metadata(&self) -> HashMap<String, String> {
        self.schema.metadata().clone()
    }

    fn numpy<'py>(&self, py: Python<'py>, at: usize) -> PyResult<NumpyColumn<'py>> {
        let Some(field) = self.schema.fields().get(at) else {
            return Ok(invalid(format!("there is no column {at}"))?);
        };
        let broken = |error: ArrowError| Failure::Invalid(error.to_string());
        if let DataType::Dictionary(..) = field.data_type() {
            let (codes, texts) = py.detach(|| self.codes(at)).map_err(broken)?;
            let codes = PyArrowBuffer::new(Buffer::from_vec(codes));
            return Ok(("dictionary", codes.into_bound_py_any(py)?, None, texts));
        }
        if field.data_type().is_string() {
            // Parts are not joined: the texts of all may exceed the 2 GiB of an array.
            let texts = PyList::empty(py);
            for part in self.parts(at) {
                let part = cast(part, &DataType::Utf8View).map_err(broken)?;
                for text in part.as_string_view() {
                    texts.append(text)?;
                }
            }
            return Ok(("str", texts.into_any(), None, Vec::new()));
        }
        let array = py.detach(|| self.whole(at)).map_err(broken)?;
        let missing = (array.null_count() > 0).then(|| {
            let missing: Vec<u8> = (0..array.len())
                .map(|row| u8::from(array.is_null(row)))
                .collect();
            PyArrowBuffer::new(Buffer::from_vec(missing))
        });
        let (numpy_type, buffer) = match array.data_type() {
            DataType::Float64 => ("f8", buffer::<Float64Type>(&array)),
            DataType::Float32 => ("f4", buffer::<Float32Type>(&array)),
            DataType::Int64 => ("i8", buffer::<Int64Type>(&array)),
            DataType::UInt64 => ("u8", buffer::<UInt64Type>(&array)),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                ("M8[ns]", buffer::<TimestampNanosecondType>(&array))
            }
            DataType::Boolean => {
                let bits = array.as_boolean().values();
                let bytes: Vec<u8> = bits.iter().map(u8::from).collect();
                ("?", Buffer::from_vec(bytes))
            }
            other => return Ok(invalid(format!("column {:?} is {other}", field.name()))?),
        };
        let values = PyArrowBuffer::new(buffer).into_bound_py_any(py)?;
        Ok((numpy_type, values, missing, Vec::new()))
    }

    /// Returns the rows through the Arrow PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        stream(
            py,
            self.schema.clone(),
            self.batches.clone(),
            requested_schema,
        )
    }
}

fn buffer<T: ArrowPrimitiveType>(array: &ArrayRef) -> Buffer {
    array.as_primitive::<T>().values().inner().clone()
}
