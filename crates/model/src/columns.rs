//! Columns: the samples of one source over an interval.

use crate::{FieldType, Value};

/// List of bits, one per row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    len: usize,
}

impl Bitmap {
    /// Returns an empty bitmap.
    pub fn new() -> Bitmap {
        Bitmap::default()
    }

    /// Appends a bit.
    pub fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        if bit {
            self.words[self.len / 64] |= 1 << (self.len % 64);
        }
        self.len += 1;
    }

    /// Returns the bit at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Bitmap::len`].
    pub fn get(&self, index: usize) -> bool {
        assert!(index < self.len, "bit {index} of {}", self.len);
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    /// Returns the number of bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bits that are set.
    pub fn count_ones(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Returns the bits in words of 64, lowest bit first. Bits past the end are zero.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Iterates over the bits in order.
    pub fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        (0..self.len).map(|index| self.get(index))
    }
}

impl FromIterator<bool> for Bitmap {
    fn from_iter<I: IntoIterator<Item = bool>>(bits: I) -> Bitmap {
        let mut bitmap = Bitmap::new();
        bits.into_iter().for_each(|bit| bitmap.push(bit));
        bitmap
    }
}

/// Texts, stored end to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    /// End of each text in `bytes`.
    pub ends: Vec<u32>,
    /// UTF-8 bytes of all texts, without separators.
    pub bytes: Vec<u8>,
}

impl Strings {
    /// Appends a text.
    pub fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len() as u32);
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the text at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Strings::len`].
    pub fn get(&self, index: usize) -> &str {
        let start = if index == 0 {
            0
        } else {
            self.ends[index - 1] as usize
        };
        // Only `push`, and decoders that check for UTF-8, write to `bytes`.
        std::str::from_utf8(&self.bytes[start..self.ends[index] as usize]).expect("texts are UTF-8")
    }
}

/// Values of one type, stored end to end without gaps.
#[derive(Clone, Debug)]
pub enum Column {
    /// 64-bit floats.
    F64(Vec<f64>),
    /// 32-bit floats.
    F32(Vec<f32>),
    /// Signed integers.
    I64(Vec<i64>),
    /// Unsigned integers.
    U64(Vec<u64>),
    /// Booleans.
    Bool(Vec<bool>),
    /// Texts.
    Str(Strings),
}

impl Column {
    /// Creates an empty column of a type.
    pub fn new(field_type: FieldType) -> Column {
        match field_type {
            FieldType::F64 => Column::F64(Vec::new()),
            FieldType::F32 => Column::F32(Vec::new()),
            FieldType::I64 => Column::I64(Vec::new()),
            FieldType::U64 => Column::U64(Vec::new()),
            FieldType::Bool => Column::Bool(Vec::new()),
            FieldType::Str => Column::Str(Strings::default()),
        }
    }

    /// Returns the type of the values.
    pub fn field_type(&self) -> FieldType {
        match self {
            Column::F64(_) => FieldType::F64,
            Column::F32(_) => FieldType::F32,
            Column::I64(_) => FieldType::I64,
            Column::U64(_) => FieldType::U64,
            Column::Bool(_) => FieldType::Bool,
            Column::Str(_) => FieldType::Str,
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Column::F64(values) => values.len(),
            Column::F32(values) => values.len(),
            Column::I64(values) => values.len(),
            Column::U64(values) => values.len(),
            Column::Bool(values) => values.len(),
            Column::Str(values) => values.len(),
        }
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory of the values in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Column::F64(values) => values.len() * 8,
            Column::F32(values) => values.len() * 4,
            Column::I64(values) => values.len() * 8,
            Column::U64(values) => values.len() * 8,
            Column::Bool(values) => values.len(),
            Column::Str(values) => values.bytes.len() + values.ends.len() * 4,
        }
    }

    /// Returns the value at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Column::len`].
    pub fn get(&self, index: usize) -> Value<'_> {
        match self {
            Column::F64(values) => Value::F64(values[index]),
            Column::F32(values) => Value::F32(values[index]),
            Column::I64(values) => Value::I64(values[index]),
            Column::U64(values) => Value::U64(values[index]),
            Column::Bool(values) => Value::Bool(values[index]),
            Column::Str(values) => Value::Str(values.get(index)),
        }
    }

    /// Appends a value.
    ///
    /// # Panics
    /// If the value is not of the column's type.
    pub fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Column::F64(values), Value::F64(value)) => values.push(value),
            (Column::F32(values), Value::F32(value)) => values.push(value),
            (Column::I64(values), Value::I64(value)) => values.push(value),
            (Column::U64(values), Value::U64(value)) => values.push(value),
            (Column::Bool(values), Value::Bool(value)) => values.push(value),
            (Column::Str(values), Value::Str(value)) => values.push(value),
            (column, value) => panic!("a {:?} in a column of {:?}", value, column.field_type()),
        }
    }
}

/// Bit-exact comparison, as of [`Value`].
impl PartialEq for Column {
    fn eq(&self, other: &Column) -> bool {
        self.field_type() == other.field_type()
            && self.len() == other.len()
            && (0..self.len()).all(|index| self.get(index) == other.get(index))
    }
}

/// Values of one field in the rows of a [`Columns`].
#[derive(Clone, Debug, PartialEq)]
pub struct FieldColumn {
    /// Rows that have a value; `None` if all rows have one.
    pub present: Option<Bitmap>,
    /// Values of those rows, in row order.
    pub values: Column,
}

impl FieldColumn {
    /// Returns the values of some rows, given by ascending indices; `None` if none of these rows has a value.
    pub fn pick(&self, rows: &[usize]) -> Option<FieldColumn> {
        let mut values = Column::new(self.values.field_type());
        let mut present = Bitmap::new();
        let (mut at, mut passed) = (0, 0);
        for &row in rows {
            let has = match &self.present {
                None => {
                    at = row;
                    true
                }
                Some(bits) => {
                    at += (passed..row).filter(|&row| bits.get(row)).count();
                    passed = row;
                    bits.get(row)
                }
            };
            if has {
                values.push(self.values.get(at));
            }
            present.push(has);
        }
        let whole = values.len() == rows.len();
        (!values.is_empty()).then_some(FieldColumn {
            present: (!whole).then_some(present),
            values,
        })
    }
}

/// Rows of one source. All fields share the time column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// Times of the rows, ns since 1970.
    pub times: Vec<i64>,
    /// One column per field, in the order of the layout that belongs to these rows.
    pub fields: Vec<FieldColumn>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picked_rows_of_a_column_keep_their_gaps() {
        let gaps = FieldColumn {
            present: Some([true, false, true, true, false].into_iter().collect()),
            values: Column::I64(vec![10, 30, 40]),
        };
        let picked = |rows: &[usize]| gaps.pick(rows);
        assert_eq!(picked(&[1, 4]), None);
        assert_eq!(picked(&[2, 3]).unwrap().values, Column::I64(vec![30, 40]));
        assert_eq!(picked(&[2, 3]).unwrap().present, None);
        let some = picked(&[0, 1, 3]).unwrap();
        assert_eq!(some.values, Column::I64(vec![10, 40]));
        assert_eq!(
            some.present,
            Some([true, false, true].into_iter().collect())
        );
        let whole = FieldColumn {
            present: None,
            values: Column::I64(vec![1, 2, 3]),
        };
        assert_eq!(whole.pick(&[0, 2]).unwrap().values, Column::I64(vec![1, 3]));
    }
}
