//! Answers in the wide shape: one row for each row that was written, with one column per tag and per field.
//!
//! The order of calls is [`WideAnswer::begin`], [`WideAnswer::rows`] for the pieces of each source,
//! [`WideAnswer::end`]. [`WideBatches`] keeps the same rows in memory.

mod arrow;
mod columns;
mod csv;
mod json;
#[cfg(test)]
mod tests;

use super::{AnswerLevel, Format, TimeUnit};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
pub use columns::{Kind, MAX_COLUMNS, TooManyColumns, WideColumn, WideColumns};
use seiner_model::{Column, FieldColumn, FieldType, SourceKey};
use std::io::{self, Write};
use std::sync::Arc;

/// Properties of an answer that all rows share.
#[derive(Clone, Debug)]
pub struct WideHead {
    /// First time of the query's interval, ns since 1970.
    pub from: i64,
    /// Last time of the query's interval, ns since 1970.
    pub to: i64,
    /// Unit of times in JSON and CSV.
    pub time_unit: TimeUnit,
    /// Parts of the interval for which only roll-ups exist.
    pub levels: Vec<AnswerLevel>,
    /// Columns of every row.
    pub columns: WideColumns,
}

/// Rows of one source.
#[derive(Clone, Copy, Debug)]
pub struct WideRows<'a> {
    /// Measurement and tags of the source.
    pub key: &'a SourceKey,
    /// Times of the rows, ns since 1970.
    pub times: &'a [i64],
    /// Names and types of the fields.
    pub fields: &'a [(Arc<str>, FieldType)],
    /// Values of each field; `None` if no row has one.
    pub values: &'a [Option<FieldColumn>],
}

/// Error for rows with a tag or a field that the columns of the answer do not contain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {name:?} appeared while the answer was written; ask again")]
pub struct NewColumn {
    what: &'static str,
    name: String,
}

/// Rows with their cells assigned to the columns of the answer.
struct Assigned<'a> {
    key: &'a SourceKey,
    times: &'a [i64],
    /// Value of each tag column, in the order of the columns; `None` if the source has no such tag.
    tags: Vec<Option<&'a str>>,
    /// Values of each field column, in the order of the columns.
    fields: Vec<Option<&'a FieldColumn>>,
}

impl<'a> Assigned<'a> {
    fn new(columns: &WideColumns, rows: &WideRows<'a>) -> Result<Assigned<'a>, NewColumn> {
        let mut tags = vec![None; columns.tags().len()];
        for (name, value) in rows.key.tags() {
            let at = columns.tag_index(name).ok_or_else(|| NewColumn {
                what: "tag",
                name: name.to_string(),
            })?;
            tags[at] = Some(value);
        }
        let mut fields = vec![None; columns.fields().len()];
        for ((name, field_type), values) in rows.fields.iter().zip(rows.values) {
            let Some(values) = values else { continue };
            let index = columns.field_index(name, *field_type);
            let at = index.ok_or_else(|| NewColumn {
                what: "field",
                name: name.to_string(),
            })?;
            fields[at] = Some(values);
        }
        Ok(Assigned {
            key: rows.key,
            times: rows.times,
            tags,
            fields,
        })
    }

    /// Returns a reader of each field column, at the first row.
    fn cursors(&self) -> Vec<Cursor<'a>> {
        let fields = self.fields.iter();
        let cursors = fields.map(|&field| Cursor {
            field,
            row: 0,
            value: 0,
        });
        cursors.collect()
    }
}

/// Reader of the values of one field, row by row.
struct Cursor<'a> {
    /// Values; `None` if no row has one.
    field: Option<&'a FieldColumn>,
    /// Index of the next row, and of its value among the values.
    row: usize,
    value: usize,
}

impl<'a> Cursor<'a> {
    /// Returns the column and the index of the value of the next row, if the row has one.
    fn next(&mut self) -> Option<(&'a Column, usize)> {
        let FieldColumn { present, values } = self.field?;
        let present = present.as_ref();
        let has = present.is_none_or(|present| present.get(self.row));
        self.row += 1;
        has.then(|| {
            self.value += 1;
            (values, self.value - 1)
        })
    }
}

/// Rows of one answer as record batches in memory, with the schema of an Arrow answer.
pub struct WideBatches {
    columns: WideColumns,
    gathered: arrow::Batches,
    full: Vec<RecordBatch>,
}

impl WideBatches {
    /// Creates an answer without rows.
    pub fn new(columns: &WideColumns) -> WideBatches {
        WideBatches {
            columns: columns.clone(),
            gathered: arrow::Batches::new(columns.all(), &[]),
            full: Vec::new(),
        }
    }

    /// Returns the schema of all record batches.
    pub fn schema(&self) -> SchemaRef {
        self.gathered.schema.clone()
    }

    /// Adds rows of a source.
    ///
    /// # Errors
    /// [`NewColumn`] if the rows have a tag or a field without a column.
    ///
    /// # Panics
    /// If the values of a field have another type than the rows state.
    pub fn rows(&mut self, rows: &WideRows<'_>) -> Result<(), NewColumn> {
        let rows = Assigned::new(&self.columns, rows)?;
        let full = &mut self.full;
        self.gathered
            .push(&rows, &mut |batch| {
                full.push(batch);
                Ok(())
            })
            .expect("the columns have the types of the schema");
        Ok(())
    }

    /// Returns the rows, in record batches of at most 64 Ki rows.
    pub fn end(mut self) -> Vec<RecordBatch> {
        let last = self.gathered.take();
        self.full
            .extend(last.expect("the columns have the types of the schema"));
        self.full
    }
}

/// Writer of one answer.
pub struct WideAnswer<W: Write> {
    columns: WideColumns,
    writer: Writer<W>,
}

enum Writer<W: Write> {
    Json(json::JsonRows<W>),
    Csv(csv::CsvRows<W>),
    Arrow(Box<arrow::ArrowRows<W>>),
}

impl<W: Write> WideAnswer<W> {
    /// Begins an answer. Buffers about 64 KiB before each write to `out`, and with Arrow up to 64 Ki rows.
    ///
    /// # Errors
    /// If a write to `out` fails.
    pub fn begin(format: Format, out: W, head: &WideHead) -> io::Result<WideAnswer<W>> {
        let writer = match format {
            Format::Json => Writer::Json(json::JsonRows::begin(out, head)),
            Format::Csv => Writer::Csv(csv::CsvRows::begin(out, head)),
            Format::Arrow => Writer::Arrow(Box::new(arrow::ArrowRows::begin(out, head)?)),
        };
        Ok(WideAnswer {
            columns: head.columns.clone(),
            writer,
        })
    }

    /// Writes rows of a source.
    ///
    /// # Errors
    /// If a write to `out` fails. [`NewColumn`], with kind `InvalidInput`, if the rows have a tag or a field without a
    /// column.
    pub fn rows(&mut self, rows: &WideRows<'_>) -> io::Result<()> {
        let rows = Assigned::new(&self.columns, rows)
            .map_err(|new| io::Error::new(io::ErrorKind::InvalidInput, new))?;
        match &mut self.writer {
            Writer::Json(answer) => answer.rows(&rows),
            Writer::Csv(answer) => answer.rows(&rows),
            Writer::Arrow(answer) => answer.rows(&rows),
        }
    }

    /// Adds sentences for the reader, and the times of the first and the last sample outside the interval, for
    /// an interval without samples. Only JSON contains them.
    pub fn hint(&mut self, hints: &[String], range: Option<(i64, i64)>) {
        if let Writer::Json(answer) = &mut self.writer {
            answer.hint(hints, range);
        }
    }

    /// Ends the answer, flushes `out` and returns it. `warnings` describe missing parts of the answer and the reasons.
    /// Only JSON contains them.
    ///
    /// # Errors
    /// If a write to `out` fails.
    pub fn end(self, warnings: &[String]) -> io::Result<W> {
        let mut out = match self.writer {
            Writer::Json(answer) => answer.end(warnings),
            Writer::Csv(answer) => answer.end(),
            Writer::Arrow(answer) => answer.end(),
        }?;
        out.flush()?;
        Ok(out)
    }
}
