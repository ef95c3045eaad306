//! Rows of a record batch one by one, for record batches whose neighbouring rows are of different sources.
//!
//! Appending a source by columns pays from some rows on. A batch of a row of each sensor has one row per source.

use super::gather::Texts;
use super::names::Names;
use super::roles::{Named, Roles};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use memchr::memchr3;
use seiner_model::{Batch, Cell, Value};
use std::ops::Range;

/// Rows one by one. Names are in [`LineNotation`](crate::line::LineNotation).
#[derive(Debug, Default)]
pub struct SingleRows<'b> {
    /// Rows.
    pub batch: Batch<'b>,
    /// Number of each row in the stream, from 1.
    pub numbers: Vec<u64>,
}

/// Text that names a source, by row.
struct Part<'a> {
    /// Bytes before the text: nothing, or `,tag=`.
    lead: Vec<u8>,
    texts: &'a Texts<'a>,
    /// True for each distinct text that is the same in a name as alone.
    is_plain: Vec<bool>,
}

/// Columns of a record batch, for access by row.
pub struct Columns<'a> {
    /// Bytes with which all names begin.
    measurement: &'a str,
    parts: Vec<Part<'a>>,
    fields: Vec<(&'a [u8], &'a dyn Array, Texts<'a>)>,
}

impl<'a> Columns<'a> {
    /// Prepares the access by row. `None` if names of columns need escapes, or two columns are the same field.
    pub fn new(
        batch: &'a RecordBatch,
        roles: &'a Roles,
        names: &'a Names<'a>,
    ) -> Option<Columns<'a>> {
        let mut parts = Vec::new();
        let measurement = match &names.measurement {
            Ok(texts) => {
                parts.push(Part::new(Vec::new(), texts));
                ""
            }
            Err(text) => text,
        };
        let mut tags: Vec<_> = names.tags.iter().collect();
        tags.sort_by_key(|(name, _)| *name);
        for (name, texts) in tags {
            is_plain(name).then_some(())?;
            let lead = [b",", name.as_bytes(), b"="].concat();
            parts.push(Part::new(lead, texts));
        }
        let mut fields: Vec<(&[u8], &dyn Array, Texts<'a>)> = Vec::new();
        for Named { name, column } in &roles.fields {
            if fields.iter().any(|(known, ..)| *known == name.as_bytes()) {
                return None;
            }
            let array = batch.column(*column).as_ref();
            fields.push((name.as_bytes(), array, Texts::new(array)));
        }
        let is_named = measurement.is_empty() || is_plain(measurement);
        is_named.then_some(Columns {
            measurement,
            parts,
            fields,
        })
    }

    /// Appends the name of the source of a row, and returns its range. `None` if the name needs escapes, or is not valid.
    pub fn put_name(&self, row: usize, names: &mut Vec<u8>) -> Option<Range<usize>> {
        let begin = names.len();
        names.extend_from_slice(self.measurement.as_bytes());
        for part in &self.parts {
            match part.texts.find(row) {
                Some((at, text)) if part.is_plain[at] => {
                    names.extend_from_slice(&part.lead);
                    names.extend_from_slice(text.as_bytes());
                }
                // A tag without a value is no tag, but a row without a measurement is an error.
                None if !part.lead.is_empty() => {}
                _ => {
                    names.truncate(begin);
                    return None;
                }
            }
        }
        Some(begin..names.len())
    }

    /// Returns the values of a row.
    pub fn cells(&self, row: usize) -> impl Iterator<Item = Cell<'a>> {
        self.fields.iter().filter_map(move |(field, array, texts)| {
            let value = value(*array, texts, row)?;
            Some(Cell { field, value })
        })
    }
}

impl<'a> Part<'a> {
    fn new(lead: Vec<u8>, texts: &'a Texts<'a>) -> Part<'a> {
        let is_plain = texts.distinct().map(|text| text.is_some_and(is_plain));
        Part {
            lead,
            is_plain: is_plain.collect(),
            texts,
        }
    }
}

/// Returns whether a text has no character that a name escapes.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && memchr3(b',', b'=', b'\\', text.as_bytes()).is_none()
}

fn value<'a>(array: &'a dyn Array, texts: &Texts<'a>, row: usize) -> Option<Value<'a>> {
    if array.is_null(row) {
        return None;
    }
    macro_rules! number {
        ($type:ty) => {
            array.as_primitive::<$type>().value(row).into()
        };
    }
    Some(match array.data_type() {
        DataType::Float64 => Value::F64(number!(Float64Type)),
        DataType::Float32 => Value::F32(number!(Float32Type)),
        DataType::Int8 => Value::I64(number!(Int8Type)),
        DataType::Int16 => Value::I64(number!(Int16Type)),
        DataType::Int32 => Value::I64(number!(Int32Type)),
        DataType::Int64 => Value::I64(number!(Int64Type)),
        DataType::UInt8 => Value::U64(number!(UInt8Type)),
        DataType::UInt16 => Value::U64(number!(UInt16Type)),
        DataType::UInt32 => Value::U64(number!(UInt32Type)),
        DataType::UInt64 => Value::U64(number!(UInt64Type)),
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        _ => Value::Str(texts.get(row)?),
    })
}
