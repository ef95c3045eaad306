//! Values of some rows of a column.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayAccessor};
use arrow_schema::DataType;
use seiner_model::{Bitmap, Column, FieldColumn, Strings};

/// Returns the values of some rows of a field; `None` if no row has one.
pub fn field(array: &dyn Array, rows: &[u32]) -> Option<FieldColumn> {
    let present = match array.null_count() {
        0 => None,
        _ => Some(rows.iter().map(|&row| array.is_valid(row as usize))),
    };
    let present: Option<Bitmap> = present.map(Iterator::collect);
    let count = present.as_ref().map_or(rows.len(), Bitmap::count_ones);
    if count == 0 {
        return None;
    }
    let values = values(array, rows);
    Some(FieldColumn {
        present: present.filter(|_| count < rows.len()),
        values,
    })
}

/// Returns the values of those rows that have one.
fn values(array: &dyn Array, rows: &[u32]) -> Column {
    match array.data_type() {
        DataType::Float64 => Column::F64(numbers::<Float64Type, _>(array, rows)),
        DataType::Float32 => Column::F32(numbers::<Float32Type, _>(array, rows)),
        DataType::Int8 => Column::I64(numbers::<Int8Type, _>(array, rows)),
        DataType::Int16 => Column::I64(numbers::<Int16Type, _>(array, rows)),
        DataType::Int32 => Column::I64(numbers::<Int32Type, _>(array, rows)),
        DataType::Int64 => Column::I64(numbers::<Int64Type, _>(array, rows)),
        DataType::UInt8 => Column::U64(numbers::<UInt8Type, _>(array, rows)),
        DataType::UInt16 => Column::U64(numbers::<UInt16Type, _>(array, rows)),
        DataType::UInt32 => Column::U64(numbers::<UInt32Type, _>(array, rows)),
        DataType::UInt64 => Column::U64(numbers::<UInt64Type, _>(array, rows)),
        DataType::Boolean => {
            let array = array.as_boolean();
            let valid = valid(array, rows);
            Column::Bool(valid.map(|row| array.value(row)).collect())
        }
        _ => {
            let mut strings = Strings::default();
            let texts = Texts::new(array);
            for row in valid(array, rows) {
                strings.push(texts.get(row).unwrap_or_default());
            }
            Column::Str(strings)
        }
    }
}

fn numbers<T, V>(array: &dyn Array, rows: &[u32]) -> Vec<V>
where
    T: ArrowPrimitiveType,
    V: From<T::Native>,
{
    let array = array.as_primitive::<T>();
    let all = array.values();
    match array.null_count() {
        0 => rows.iter().map(|&row| all[row as usize].into()).collect(),
        _ => valid(array, rows).map(|row| all[row].into()).collect(),
    }
}

/// Returns those rows that have a value.
fn valid<'a, A: Array + ?Sized>(array: &'a A, rows: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
    let rows = rows.iter().map(|&row| row as usize);
    rows.filter(|&row| array.is_valid(row))
}

/// Column of texts: plain, or as a dictionary.
pub struct Texts<'a> {
    array: &'a dyn Array,
    /// Text of each row, or of each number of the dictionary; `None` for null.
    texts: Vec<Option<&'a str>>,
    /// Number of each row in the dictionary.
    numbers: Option<Vec<usize>>,
}

impl<'a> Texts<'a> {
    /// Reads a column whose type the roles have checked.
    pub fn new(array: &'a dyn Array) -> Texts<'a> {
        let DataType::Dictionary(..) = array.data_type() else {
            return Texts {
                array,
                texts: plain(array),
                numbers: None,
            };
        };
        let dictionary = array.as_any_dictionary();
        let texts = plain(dictionary.values().as_ref());
        let numbers = match texts.is_empty() {
            // All rows are null.
            true => Vec::new(),
            false => dictionary.normalized_keys(),
        };
        Texts {
            array,
            texts,
            numbers: Some(numbers),
        }
    }

    /// Returns the text of a row.
    pub fn get(&self, row: usize) -> Option<&'a str> {
        if self.array.is_null(row) {
            return None;
        }
        let at = match &self.numbers {
            Some(numbers) => *numbers.get(row)?,
            None => row,
        };
        self.texts.get(at).copied().flatten()
    }

    /// Returns whether two rows certainly have the same text. Rows with equal texts may have different numbers in a
    /// dictionary.
    pub fn is_same(&self, row: usize, other: usize) -> bool {
        match &self.numbers {
            Some(numbers) => {
                self.array.is_null(row) == self.array.is_null(other)
                    && numbers.get(row) == numbers.get(other)
            }
            None => self.get(row) == self.get(other),
        }
    }
}

fn plain(array: &dyn Array) -> Vec<Option<&str>> {
    match array.data_type() {
        DataType::Utf8 => all(array.as_string::<i32>()),
        DataType::LargeUtf8 => all(array.as_string::<i64>()),
        DataType::Utf8View => all(array.as_string_view()),
        // The roles permit no other type.
        _ => vec![None; array.len()],
    }
}

fn all<'a>(array: impl ArrayAccessor<Item = &'a str>) -> Vec<Option<&'a str>> {
    let rows = 0..array.len();
    rows.map(|row| array.is_valid(row).then(|| array.value(row)))
        .collect()
}
