//! Notations of an answer: JSON, CSV, an Arrow stream, and a table for a person.

use crate::plain::{plain_batch, plain_schema};
use arrow::array::RecordBatch;
use arrow::csv::{Writer as CsvWriter, WriterBuilder as CsvBuilder};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::json::writer::{JsonArray, Writer as JsonWriter, WriterBuilder as JsonBuilder};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Notation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// List of objects.
    #[default]
    Json,
    /// Lines with a header.
    Csv,
    /// Arrow IPC stream.
    Arrow,
}

impl Format {
    /// Returns the content type of HTTP.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Csv => "text/csv; charset=utf-8",
            Format::Arrow => "application/vnd.apache.arrow.stream",
        }
    }
}

/// Bytes that a writer wrote and nobody took.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writer of an answer. The bytes are taken after each batch.
pub struct AnswerWriter {
    written: Written,
    inner: Inner,
}

enum Inner {
    Json(Box<JsonWriter<Written, JsonArray>>),
    Csv(Box<CsvWriter<Written>>),
    Arrow(Box<StreamWriter<Written>>, SchemaRef),
}

impl AnswerWriter {
    /// Starts an answer with these columns.
    ///
    /// # Errors
    /// If the notation does not have a type of a column.
    pub fn new(format: Format, schema: &SchemaRef) -> Result<AnswerWriter, ArrowError> {
        let written = Written::default();
        let inner = match format {
            Format::Json => {
                let builder = JsonBuilder::new().with_explicit_nulls(true);
                Inner::Json(Box::new(builder.build(written.clone())))
            }
            Format::Csv => {
                let mut writer = CsvBuilder::new().with_header(true).build(written.clone());
                // Writes the header, which an answer without rows has too.
                writer.write(&RecordBatch::new_empty(schema.clone()))?;
                Inner::Csv(Box::new(writer))
            }
            Format::Arrow => {
                let schema = plain_schema(schema);
                let writer = StreamWriter::try_new(written.clone(), &schema)?;
                Inner::Arrow(Box::new(writer), schema)
            }
        };
        Ok(AnswerWriter { written, inner })
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// If the notation cannot express a value.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        match &mut self.inner {
            Inner::Json(writer) => writer.write(batch),
            Inner::Csv(writer) => writer.write(batch),
            Inner::Arrow(writer, schema) => writer.write(&plain_batch(batch, schema)?),
        }
    }

    /// Writes the end.
    ///
    /// # Errors
    /// None is expected, because the bytes stay in memory.
    pub fn finish(&mut self) -> Result<(), ArrowError> {
        match &mut self.inner {
            Inner::Json(writer) => writer.finish(),
            Inner::Csv(_) => Ok(()),
            Inner::Arrow(writer, _) => writer.finish(),
        }
    }

    /// Returns the bytes written since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(
            &mut self
                .written
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}
