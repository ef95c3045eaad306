//! Conversion of NumPy arrays and lists to Arrow, for programs without an Arrow library.

use crate::failure::{Failure, invalid};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt8Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, LargeStringArray, RecordBatch, make_array,
    new_empty_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use arrow_select::concat::concat;
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3_arrow::PyRecordBatch;
use pyo3_arrow::buffer::AnyBufferProtocol;
use pyo3_arrow::input::AnyArray;
use std::sync::Arc;

/// A column from Python: name, values, mask of missing values, and the kind of the values if they are not plain
/// numbers or texts.
type Given<'py> = (
    String,
    Bound<'py, PyAny>,
    Option<Bound<'py, PyAny>>,
    Option<String>,
);

/// Creates a record batch from columns.
///
/// The values of a column are a list of texts and `None`, Arrow data, or an object with a contiguous buffer of
/// numbers, which is not copied. Bytes of the kind `bool` become booleans. Integers with a unit of time as
/// their kind become timestamps. The values of the kind `dictionary` are a pair: codes, and Arrow texts.
#[pyfunction]
pub fn record_batch(columns: Vec<Given<'_>>) -> PyResult<PyRecordBatch> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (name, values, missing, kind) in columns {
        let array = match kind.as_deref() {
            Some("dictionary") => dictionary(&values, missing)?,
            kind => of_kind(with_missing(values_of(&values)?, missing)?, kind)?,
        };
        if let Some(other) = arrays
            .first()
            .map(|first: &ArrayRef| first.len())
            .filter(|len| *len != array.len())
        {
            let text = format!(
                "column {name:?} has {} rows, the first one {other}; they must be equally long",
                array.len()
            );
            return Err(Failure::Invalid(text).into());
        }
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|error| Failure::Invalid(error.to_string()))?;
    Ok(PyRecordBatch::new(batch))
}

fn values_of(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if let Ok(texts) = values.cast::<PyList>() {
        return Ok(Arc::new(LargeStringArray::from(
            texts.extract::<Vec<Option<String>>>()?,
        )));
    }
    if values.hasattr("__arrow_c_stream__")? || values.hasattr("__arrow_c_array__")? {
        return arrow_array(values);
    }
    array(values)
}

/// Creates a dictionary of texts from codes and the texts that the codes number. Missing codes may have any value.
fn dictionary(values: &Bound<'_, PyAny>, missing: Option<Bound<'_, PyAny>>) -> PyResult<ArrayRef> {
    let (codes, texts): (Bound<'_, PyAny>, Bound<'_, PyAny>) = values.extract()?;
    let convert = |array: &ArrayRef, wanted: &DataType| {
        cast(array, wanted).or_else(|error| invalid(error.to_string()))
    };
    let codes = with_missing(convert(&array(&codes)?, &DataType::Int32)?, missing)?;
    let texts = convert(&arrow_array(&texts)?, &DataType::Utf8)?;
    let dictionary =
        DictionaryArray::<Int32Type>::try_new(codes.as_primitive::<Int32Type>().clone(), texts)
            .map_err(|error| Failure::Invalid(error.to_string()))?;
    Ok(Arc::new(dictionary))
}

/// Converts an Arrow array, or a stream of arrays, to one array.
fn arrow_array(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let (arrays, field) = values
        .extract::<AnyArray>()?
        .into_chunked_array()?
        .into_inner();
    match arrays.as_slice() {
        [] => Ok(new_empty_array(field.data_type())),
        [array] => Ok(array.clone()),
        _ => {
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            Ok(concat(&arrays).map_err(|error| Failure::Invalid(error.to_string()))?)
        }
    }
}

/// Creates an Arrow array on the memory of an object with a buffer.
pub fn array(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    Ok(values.extract::<AnyBufferProtocol>()?.into_arrow_array()?)
}

fn with_missing(array: ArrayRef, missing: Option<Bound<'_, PyAny>>) -> PyResult<ArrayRef> {
    let Some(missing) = missing else {
        return Ok(array);
    };
    let missing = bits(&self::array(&missing)?)?;
    if missing.len() != array.len() {
        return Err(Failure::Invalid(format!(
            "a mask of {} for {} values",
            missing.len(),
            array.len()
        ))
        .into());
    }
    let nulls = NullBuffer::new(!&missing);
    let data = array.to_data().into_builder().nulls(Some(nulls)).build();
    Ok(make_array(
        data.map_err(|error| Failure::Invalid(error.to_string()))?,
    ))
}

/// Converts booleans of one byte each, as in NumPy.
fn bits(bytes: &ArrayRef) -> Result<BooleanBuffer, Failure> {
    let Some(bytes) = bytes.as_primitive_opt::<UInt8Type>() else {
        return invalid(format!("booleans are bytes, not {}", bytes.data_type()));
    };
    Ok(BooleanBuffer::collect_bool(bytes.len(), |at| {
        bytes.value(at) != 0
    }))
}

/// Converts plain values to their kind: booleans, or times in a unit.
fn of_kind(array: ArrayRef, kind: Option<&str>) -> Result<ArrayRef, Failure> {
    let unit = match kind {
        None => return Ok(array),
        Some("bool") => {
            return Ok(Arc::new(BooleanArray::new(
                bits(&array)?,
                array.nulls().cloned(),
            )));
        }
        Some("s") => TimeUnit::Second,
        Some("ms") => TimeUnit::Millisecond,
        Some("us") => TimeUnit::Microsecond,
        Some("ns") => TimeUnit::Nanosecond,
        Some(other) => {
            return invalid(format!(
                "{other:?} is not a kind of values; there are bool, s, ms, us and ns"
            ));
        }
    };
    cast(&array, &DataType::Timestamp(unit, None)).or_else(|error| invalid(error.to_string()))
}
