//! Rows of many sources. The tag columns become names in a notation of this package.

use arrow_array::{Array, StringViewArray};
use seiner_model::{Batch, Cell, FieldColumn, KeyError, Notation, Row, SourceKey};

/// Number of this notation, unique among all notations that write to a store.
const NOTATION: u32 = 0x7079;

/// Notation of a measurement and tags in which a length of four bytes, little-endian, precedes each text.
pub struct Lengths;

impl Notation for Lengths {
    fn id(&self) -> u32 {
        NOTATION
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        let mut texts = Vec::new();
        let mut rest = name;
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let broken = || KeyError::Notation("a name ends within a text".to_string());
            let (text, after) = after
                .split_at_checked(u32::from_le_bytes(*len) as usize)
                .ok_or_else(broken)?;
            texts.push(
                std::str::from_utf8(text).map_err(|error| KeyError::Notation(error.to_string()))?,
            );
            rest = after;
        }
        let (measurement, tags) = texts.split_first().ok_or(KeyError::EmptyMeasurement)?;
        SourceKey::new(
            *measurement,
            tags.chunks_exact(2).map(|pair| (pair[0], pair[1])),
        )
    }
}

fn push_text(name: &mut Vec<u8>, text: &str) {
    name.extend_from_slice(&(text.len() as u32).to_le_bytes());
    name.extend_from_slice(text.as_bytes());
}

/// One field of the rows.
pub struct FieldValues<'a> {
    /// Name of the field.
    pub name: &'a [u8],
    /// Values of the field.
    pub column: &'a FieldColumn,
}

/// Measurement of rows.
#[derive(Clone, Copy)]
pub enum Measurement<'a> {
    /// Measurement of all rows.
    Text(&'a str),
    /// Measurement of each row. A missing one is empty, and its row is rejected.
    Column(&'a StringViewArray),
}

/// Names of rows, stored end to end.
pub struct TableRows {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl TableRows {
    /// Creates a name for each row of the tag columns. Tags are in the order of their names, so that each
    /// source has one name. Absent and empty tags are omitted.
    pub fn new(
        measurement: Measurement<'_>,
        tags: &[(&str, &StringViewArray)],
        rows: usize,
    ) -> TableRows {
        let mut names = TableRows {
            bytes: Vec::new(),
            ends: Vec::with_capacity(rows),
        };
        for row in 0..rows {
            let measurement = match measurement {
                Measurement::Text(text) => text,
                Measurement::Column(texts) if texts.is_valid(row) => texts.value(row),
                Measurement::Column(_) => "",
            };
            push_text(&mut names.bytes, measurement);
            for (tag, column) in tags {
                if column.is_valid(row) && !column.value(row).is_empty() {
                    push_text(&mut names.bytes, tag);
                    push_text(&mut names.bytes, column.value(row));
                }
            }
            names.ends.push(names.bytes.len());
        }
        names
    }

    /// Returns the notation of the names.
    pub fn notation(&self) -> Lengths {
        Lengths
    }

    /// Returns the rows with their cells.
    pub fn batch<'a>(&'a self, times: &[i64], fields: &[FieldValues<'a>]) -> Batch<'a> {
        let mut batch = Batch::new();
        let mut next = vec![0; fields.len()];
        let mut start = 0;
        for (row, (&time, &end)) in times.iter().zip(&self.ends).enumerate() {
            let first_cell = batch.cells.len();
            for (field, next) in fields.iter().zip(&mut next) {
                if field
                    .column
                    .present
                    .as_ref()
                    .is_none_or(|present| present.get(row))
                {
                    batch.cells.push(Cell {
                        field: field.name,
                        value: field.column.values.get(*next),
                    });
                    *next += 1;
                }
            }
            batch.rows.push(Row {
                name: &self.bytes[start..end],
                time,
                first_cell: first_cell as u32,
                cells: (batch.cells.len() - first_cell) as u32,
            });
            start = end;
        }
        batch
    }
}
