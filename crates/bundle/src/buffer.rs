//! Rows of the sources of one layout, column by column, as they were pushed.

use std::sync::Arc;

use seiner_model::{Bitmap, Column, Columns, FieldColumn};

use crate::error::PushError;
use crate::layout::Layout;
use crate::limits::{MAX_CELLS, MAX_GROUP_TEXT, MAX_TEXT};

/// Values of one field of all sources.
pub(crate) struct FieldBuffer {
    pub(crate) values: Column,
    /// Number of values of each source.
    pub(crate) counts: Vec<u32>,
    /// Rows with a value, for the sources in which some rows have none.
    pub(crate) present: Vec<bool>,
}

/// Rows of the sources of one layout.
pub(crate) struct GroupBuffer {
    pub(crate) layout: Arc<Layout>,
    pub(crate) ids: Vec<u64>,
    /// End of the rows of each source in `times`.
    pub(crate) row_ends: Vec<usize>,
    pub(crate) times: Vec<i64>,
    pub(crate) fields: Vec<FieldBuffer>,
    pub(crate) samples: u64,
}

impl GroupBuffer {
    /// Creates an empty buffer.
    pub(crate) fn new(layout: Arc<Layout>) -> GroupBuffer {
        let fields = layout.fields().iter().map(|(_, field_type)| FieldBuffer {
            values: Column::new(*field_type),
            counts: Vec::new(),
            present: Vec::new(),
        });
        GroupBuffer {
            fields: fields.collect(),
            layout,
            ids: Vec::new(),
            row_ends: Vec::new(),
            times: Vec::new(),
            samples: 0,
        }
    }

    /// Removes all rows and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
        self.row_ends.clear();
        self.times.clear();
        self.samples = 0;
        for field in &mut self.fields {
            field.counts.clear();
            field.present.clear();
            clear(&mut field.values);
        }
    }

    /// Returns the range of rows of a source.
    pub(crate) fn rows(&self, source: usize) -> std::ops::Range<usize> {
        let start = source
            .checked_sub(1)
            .map_or(0, |before| self.row_ends[before]);
        start..self.row_ends[source]
    }

    /// Appends the rows of a source.
    pub(crate) fn push(&mut self, id: u64, rows: &Columns) -> Result<(), PushError> {
        self.check(id, rows)?;
        self.ids.push(id);
        self.times.extend_from_slice(&rows.times);
        self.row_ends.push(self.times.len());
        let count = rows.times.len();
        for (buffer, field) in self.fields.iter_mut().zip(&rows.fields) {
            let values = field.values.len();
            buffer.counts.push(values as u32);
            self.samples += values as u64;
            if values != 0
                && values != count
                && let Some(present) = &field.present
            {
                buffer.present.extend(present.iter());
            }
            append(&mut buffer.values, &field.values);
        }
        Ok(())
    }

    fn check(&self, id: u64, rows: &Columns) -> Result<(), PushError> {
        if rows.times.is_empty() {
            return Err(PushError::NoRows { id });
        }
        let shape = |what, expected, found| {
            if expected == found {
                Ok(())
            } else {
                Err(PushError::Shape {
                    id,
                    what,
                    expected,
                    found,
                })
            }
        };
        shape("number of fields", self.layout.len(), rows.fields.len())?;
        at_most(
            id,
            "cells",
            rows.times.len() * self.layout.cells(),
            MAX_CELLS,
        )?;
        if let Some(row) = rows.times.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(PushError::Times { id, row: row + 1 });
        }
        let mut text = 0;
        for ((buffer, field), (_, field_type)) in self
            .fields
            .iter()
            .zip(&rows.fields)
            .zip(self.layout.fields())
        {
            let expected = usize::from(field_type.code());
            let found = usize::from(field.values.field_type().code());
            shape("type of a field", expected, found)?;
            let present = field.present.as_ref().map_or(rows.times.len(), Bitmap::len);
            shape("bits of a field's presence", rows.times.len(), present)?;
            let values = field.present.as_ref().map(Bitmap::count_ones);
            shape(
                "values of a field",
                values.unwrap_or(rows.times.len()),
                field.values.len(),
            )?;
            text += text_bytes(&field.values);
            let all = text_bytes(&buffer.values) + text_bytes(&field.values);
            at_most(
                id,
                "bytes of texts with the sources before",
                all,
                MAX_GROUP_TEXT,
            )?;
        }
        at_most(id, "bytes of texts", text, MAX_TEXT)
    }
}

fn at_most(id: u64, what: &'static str, found: usize, most: usize) -> Result<(), PushError> {
    if found <= most {
        return Ok(());
    }
    Err(PushError::TooLarge {
        id,
        what,
        most,
        found,
    })
}

/// Returns the bytes of the texts of a column; 0 for other types.
pub(crate) fn text_bytes(values: &Column) -> usize {
    match values {
        Column::Str(texts) => texts.bytes.len(),
        _ => 0,
    }
}

/// Appends values of the same type.
pub(crate) fn append(all: &mut Column, values: &Column) {
    match (all, values) {
        (Column::F64(all), Column::F64(values)) => all.extend_from_slice(values),
        (Column::F32(all), Column::F32(values)) => all.extend_from_slice(values),
        (Column::I64(all), Column::I64(values)) => all.extend_from_slice(values),
        (Column::U64(all), Column::U64(values)) => all.extend_from_slice(values),
        (Column::Bool(all), Column::Bool(values)) => all.extend_from_slice(values),
        (Column::Str(all), Column::Str(values)) => {
            let base = all.bytes.len() as u32;
            all.bytes.extend_from_slice(&values.bytes);
            all.ends.extend(values.ends.iter().map(|end| base + end));
        }
        _ => debug_assert!(false, "the types were compared"),
    }
}

/// Removes all values and keeps the memory.
fn clear(values: &mut Column) {
    match values {
        Column::F64(values) => values.clear(),
        Column::F32(values) => values.clear(),
        Column::I64(values) => values.clear(),
        Column::U64(values) => values.clear(),
        Column::Bool(values) => values.clear(),
        Column::Str(texts) => {
            texts.ends.clear();
            texts.bytes.clear();
        }
    }
}

/// Returns the values of a range.
pub(crate) fn slice(values: &Column, range: std::ops::Range<usize>) -> Column {
    match values {
        Column::F64(values) => Column::F64(values[range].to_vec()),
        Column::F32(values) => Column::F32(values[range].to_vec()),
        Column::I64(values) => Column::I64(values[range].to_vec()),
        Column::U64(values) => Column::U64(values[range].to_vec()),
        Column::Bool(values) => Column::Bool(values[range].to_vec()),
        Column::Str(texts) => {
            let end_of = |index: usize| index.checked_sub(1).map_or(0, |index| texts.ends[index]);
            let start = end_of(range.start);
            let bytes = start as usize..end_of(range.end) as usize;
            let ends = texts.ends[range].iter().map(|end| end - start);
            Column::Str(seiner_model::Strings {
                ends: ends.collect(),
                bytes: texts.bytes[bytes].to_vec(),
            })
        }
    }
}

/// Returns the column of a field in rows of which some have values.
pub(crate) fn field_column(values: Column, rows: usize, present: Option<Bitmap>) -> FieldColumn {
    let present = match values.len() {
        count if count == rows => None,
        0 => Some((0..rows).map(|_| false).collect()),
        _ => present,
    };
    FieldColumn { present, values }
}
