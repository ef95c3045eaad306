//! Texts of Python, as Arrow.

use crate::failure::{Failure, invalid};
use arrow_array::ArrayRef;
use arrow_array::builder::StringViewBuilder;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyList, PyString};
use pyo3_arrow::PyArray;
use std::sync::Arc;

/// Returns a list of texts as an Arrow array, or `None` if there is no text among the items, or anything else than
/// texts. `None`, NaN, `pandas.NA` and NaT are missing texts.
///
/// Reads the bytes of each text in place. `name` is the column's name, for errors.
#[pyfunction]
pub fn texts(name: &str, items: &Bound<'_, PyList>) -> PyResult<Option<PyArray>> {
    let mut texts = StringViewBuilder::with_capacity(items.len());
    let mut has_text = false;
    for (row, item) in items.iter().enumerate() {
        if let Ok(text) = item.cast::<PyString>() {
            texts.append_value(utf8(name, row, text)?);
            has_text = true;
        } else if is_missing(&item)? {
            texts.append_null();
        } else {
            return Ok(None);
        }
    }
    let array: ArrayRef = Arc::new(texts.finish());
    Ok(has_text.then(|| PyArray::from_array_ref(array)))
}

fn utf8<'a>(name: &str, row: usize, text: &'a Bound<'_, PyString>) -> Result<&'a str, Failure> {
    text.to_str().or_else(|error| {
        invalid(format!(
            "column {name:?}, row {row}: the text is not valid Unicode ({error}); replace its surrogates"
        ))
    })
}

fn is_missing(item: &Bound<'_, PyAny>) -> PyResult<bool> {
    if item.is_none() {
        return Ok(true);
    }
    if let Ok(number) = item.cast::<PyFloat>() {
        return Ok(number.value().is_nan());
    }
    let kind = item.get_type().name()?;
    Ok(matches!(&*kind.to_cow()?, "NAType" | "NaTType"))
}
