//! Columns: the samples of one source over an interval.

use crate::{FieldType, Value};

/// A list of bits, one a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    len: usize,
}

impl Bitmap {
    /// An empty bitmap.
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

    /// The bit at `index`, which must be below [`Bitmap::len`].
    pub fn get(&self, index: usize) -> bool {
        assert!(index < self.len, "bit {index} of {}", self.len);
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    /// How many bits there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bits are set.
    pub fn count_ones(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// The bits, 64 a word, lowest bit first; bits past the end are zero.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The bits one by one.
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

/// Texts, end to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    /// Where each text ends in `bytes`.
    pub ends: Vec<u32>,
    /// The texts, UTF-8, without separators.
    pub bytes: Vec<u8>,
}

impl Strings {
    /// Appends a text.
    pub fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len() as u32);
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text at `index`, which must be below [`Strings::len`].
    pub fn get(&self, index: usize) -> &str {
        let start = if index == 0 {
            0
        } else {
            self.ends[index - 1] as usize
        };
        // Only `push` and decoders that check for UTF-8 fill `bytes`.
        std::str::from_utf8(&self.bytes[start..self.ends[index] as usize]).expect("texts are UTF-8")
    }
}

/// Values of one type, end to end, without gaps.
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
    /// An empty column of a type.
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

    /// The type of its values.
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

    /// How many values there are.
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at `index`, which must be below [`Column::len`].
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

/// Bit-exact, as [`Value`] is.
impl PartialEq for Column {
    fn eq(&self, other: &Column) -> bool {
        self.field_type() == other.field_type()
            && self.len() == other.len()
            && (0..self.len()).all(|index| self.get(index) == other.get(index))
    }
}

/// One field's values over the rows of a [`Columns`].
#[derive(Clone, Debug, PartialEq)]
pub struct FieldColumn {
    /// Which rows have a value; `None` when all have.
    pub present: Option<Bitmap>,
    /// The values of those rows, in row order.
    pub values: Column,
}

impl FieldColumn {
    /// The values of some of the rows, by their places, ascending; `None` if none of them has one.
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

/// Rows of one source: one time column, shared by all fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// The rows' times in ns.
    pub times: Vec<i64>,
    /// A column a field, in the order of the layout that goes with it.
    pub fields: Vec<FieldColumn>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_rows_of_a_column() {
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
