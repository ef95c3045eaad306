//! Values of some rows of a column.

use super::ranges::Rows;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayAccessor};
use arrow_schema::DataType;
use seiner_model::{Bitmap, Column, FieldColumn, Strings};

/// Returns the values of some rows of a field; `None` if no row has one.
pub fn field(array: &dyn Array, rows: &Rows) -> Option<FieldColumn> {
    let present = match array.null_count() {
        0 => None,
        _ => Some(rows.iter().map(|row| array.is_valid(row))),
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
fn values(array: &dyn Array, rows: &Rows) -> Column {
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

fn numbers<T, V>(array: &dyn Array, rows: &Rows) -> Vec<V>
where
    T: ArrowPrimitiveType,
    V: From<T::Native>,
{
    let array = array.as_primitive::<T>();
    let all = array.values();
    match array.null_count() {
        0 => rows.of(all, V::from),
        _ => valid(array, rows).map(|row| all[row].into()).collect(),
    }
}

/// Returns those rows that have a value.
fn valid<'a, A: Array + ?Sized>(array: &'a A, rows: &'a Rows) -> impl Iterator<Item = usize> + 'a {
    rows.iter().filter(|&row| array.is_valid(row))
}

/// Number of a row without a text.
const NULL: u32 = u32::MAX;

/// Column of texts: plain, or as a dictionary.
pub struct Texts<'a> {
    /// Text of each row, or of each number of the dictionary; `None` for null.
    texts: Vec<Option<&'a str>>,
    /// Number of each row in the dictionary, or [`NULL`].
    numbers: Option<Vec<u32>>,
}

impl<'a> Texts<'a> {
    /// Reads a column whose type the roles have checked.
    pub fn new(array: &'a dyn Array) -> Texts<'a> {
        let DataType::Dictionary(..) = array.data_type() else {
            return Texts {
                texts: plain(array),
                numbers: None,
            };
        };
        let dictionary = array.as_any_dictionary();
        let texts = plain(dictionary.values().as_ref());
        let numbers = match texts.is_empty() {
            // All rows are null.
            true => vec![NULL; array.len()],
            false => numbers_by_row(array, &dictionary.normalized_keys()),
        };
        Texts {
            texts,
            numbers: Some(numbers),
        }
    }

    /// Returns the text of a row.
    pub fn get(&self, row: usize) -> Option<&'a str> {
        self.find(row).map(|(_, text)| text)
    }

    /// Returns the text of a row, and its number in [`Texts::distinct`].
    #[inline]
    pub fn find(&self, row: usize) -> Option<(usize, &'a str)> {
        let at = match &self.numbers {
            Some(numbers) => numbers[row] as usize,
            None => row,
        };
        let text = self.texts.get(at).copied().flatten()?;
        Some((at, text))
    }

    /// Returns the texts of the dictionary, or those of all rows.
    pub fn distinct(&self) -> impl Iterator<Item = Option<&'a str>> {
        self.texts.iter().copied()
    }

    /// Marks rows whose text may differ from that of the row before. Equal texts may have different numbers in a
    /// dictionary.
    pub fn mark_changes(&self, changes: &mut [bool]) {
        match &self.numbers {
            Some(numbers) => mark_changes(numbers, changes),
            None => mark_changes(&self.texts, changes),
        }
    }
}

fn mark_changes<T: PartialEq>(items: &[T], changes: &mut [bool]) {
    let later = changes.iter_mut().skip(1);
    for ((change, item), before) in later.zip(items.iter().skip(1)).zip(items) {
        *change |= item != before;
    }
}

/// Returns the numbers of a dictionary by row. A dictionary has less than 2³² texts: each takes a byte of a body.
fn numbers_by_row(array: &dyn Array, keys: &[usize]) -> Vec<u32> {
    match array.null_count() {
        0 => keys.iter().map(|key| *key as u32).collect(),
        _ => {
            let rows = keys.iter().enumerate();
            let number = |(row, key): (usize, &usize)| match array.is_null(row) {
                true => NULL,
                false => *key as u32,
            };
            rows.map(number).collect()
        }
    }
}

fn plain(array: &dyn Array) -> Vec<Option<&str>> {
    match array.data_type() {
        DataType::Utf8 => all(array.as_string::<i32>()),
        DataType::LargeUtf8 => all(array.as_string::<i64>()),
        DataType::Utf8View => all(array.as_string_view()),
        // The roles permit no other type for a text.
        _ => Vec::new(),
    }
}

fn all<'a>(array: impl ArrayAccessor<Item = &'a str>) -> Vec<Option<&'a str>> {
    let rows = 0..array.len();
    rows.map(|row| array.is_valid(row).then(|| array.value(row)))
        .collect()
}
