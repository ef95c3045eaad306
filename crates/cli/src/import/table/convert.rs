//! Conversion of columns into the types that bodies of Arrow have.

use anyhow::{Result, bail};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, StringArray, TimestampNanosecondArray};
use arrow_schema::{DataType, Field, TimeUnit};
use arrow_select::dictionary::garbage_collect_any_dictionary;
use std::sync::Arc;

/// Conversion of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// None, except that a dictionary keeps only the texts in use if it has more texts than rows.
    Keep,
    /// Numbers of this unit, in ns, become timestamps.
    Times(i64),
    /// Integers and booleans become texts.
    Texts,
}

impl Change {
    /// Returns the type of the converted column.
    pub fn data_type(self, data_type: &DataType) -> DataType {
        match self {
            Change::Keep => data_type.clone(),
            Change::Times(_) => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Change::Texts => DataType::Utf8,
        }
    }

    /// Converts a column. A time that does not fit becomes null.
    ///
    /// # Errors
    /// If the column has another type than its schema.
    pub fn apply(self, array: &ArrayRef) -> Result<ArrayRef> {
        Ok(match self {
            Change::Keep => match array.as_any_dictionary_opt() {
                Some(dictionary) if dictionary.values().len() > array.len() => {
                    garbage_collect_any_dictionary(dictionary)?
                }
                _ => array.clone(),
            },
            Change::Times(unit_ns) => {
                let times = integers(array)?.into_iter().map(|number| {
                    let ns = number?.checked_mul(unit_ns.into())?;
                    i64::try_from(ns).ok()
                });
                Arc::new(times.collect::<TimestampNanosecondArray>())
            }
            Change::Texts if array.data_type() == &DataType::Boolean => {
                let texts = array.as_boolean().iter();
                let texts = texts.map(|value| value.map(|value| value.to_string()));
                Arc::new(texts.collect::<StringArray>())
            }
            Change::Texts => {
                let texts = integers(array)?.into_iter();
                let texts = texts.map(|number| number.map(|number| number.to_string()));
                Arc::new(texts.collect::<StringArray>())
            }
        })
    }
}

/// Returns the conversion of a time column.
///
/// # Errors
/// If the type is none of a time, or integers have no unit.
pub fn time(field: &Field, unit_ns: Option<i64>) -> Result<Change, String> {
    match field.data_type() {
        DataType::Timestamp(..) => Ok(Change::Keep),
        integer if integer.is_integer() => unit_ns.map(Change::Times).ok_or_else(|| {
            format!(
                "column {:?} has integers without a unit; add --time-unit s, ms, us or ns",
                field.name()
            )
        }),
        _ => Err(unusable(
            field,
            "a time",
            "name another column by --time-column, or convert this one to timestamps or integers",
        )),
    }
}

/// Returns the conversion of a measurement or tag.
///
/// # Errors
/// If the type is none of a name.
pub fn name(field: &Field) -> Result<Change, String> {
    match field.data_type() {
        text if is_text(text) => Ok(Change::Keep),
        other if other.is_integer() || other == &DataType::Boolean => Ok(Change::Texts),
        _ => Err(unusable(
            field,
            "a tag",
            "leave it out by --tag-columns and --field-columns, or convert it to texts, integers or booleans",
        )),
    }
}

/// Returns the conversion of a field.
///
/// # Errors
/// If the type is none of a field.
pub fn field(field: &Field) -> Result<Change, String> {
    match field.data_type() {
        DataType::Float64 | DataType::Float32 | DataType::Boolean => Ok(Change::Keep),
        other if other.is_integer() || is_text(other) => Ok(Change::Keep),
        _ => Err(unusable(
            field,
            "a field",
            "name the columns to import by --field-columns, or convert this one to floats, integers, booleans or texts",
        )),
    }
}

fn unusable(field: &Field, role: &str, remedy: &str) -> String {
    format!(
        "column {:?} has the type {}, which {role} cannot have; {remedy}",
        field.name(),
        field.data_type()
    )
}

/// Returns true for texts, plain or as a dictionary.
pub fn is_text(data_type: &DataType) -> bool {
    is_plain_text(data_type) || is_dictionary_of_texts(data_type)
}

/// Returns true for a dictionary of texts.
pub fn is_dictionary_of_texts(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(_, values) if is_plain_text(values))
}

fn is_plain_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

fn integers(array: &ArrayRef) -> Result<Vec<Option<i128>>> {
    fn all<T>(array: &ArrayRef) -> Vec<Option<i128>>
    where
        T: ArrowPrimitiveType,
        i128: From<T::Native>,
    {
        let numbers = array.as_primitive::<T>().iter();
        numbers.map(|number| number.map(i128::from)).collect()
    }
    Ok(match array.data_type() {
        DataType::Int8 => all::<Int8Type>(array),
        DataType::Int16 => all::<Int16Type>(array),
        DataType::Int32 => all::<Int32Type>(array),
        DataType::Int64 => all::<Int64Type>(array),
        DataType::UInt8 => all::<UInt8Type>(array),
        DataType::UInt16 => all::<UInt16Type>(array),
        DataType::UInt32 => all::<UInt32Type>(array),
        DataType::UInt64 => all::<UInt64Type>(array),
        other => bail!("a column of {other} is in place of one of integers"),
    })
}
