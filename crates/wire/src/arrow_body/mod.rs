//! Bodies of Arrow: a stream of record batches in the shape of a [wide answer](crate::answer::wide).
//!
//! The rows of a record batch are sorted by source, so that a store can append them by columns. Bytes come in pieces,
//! and at most one record batch is in memory.

mod gather;
mod names;
mod ranges;
mod roles;
mod singles;
mod sources;
#[cfg(test)]
mod tests;

use crate::line::Precision;
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::Schema;
use bytes::Bytes;
use ranges::Rows;
use roles::Roles;
use seiner_model::{Columns, SourceKey};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use singles::SingleRows;

/// Names and units that the schema of a stream does not contain.
#[derive(Clone, Debug, Default)]
pub struct BodyOptions {
    /// Measurement of all rows, for streams without the column `measurement`.
    pub measurement: Option<String>,
    /// Names of columns of texts that are tags. Columns with a dictionary always are, unless their metadata differ.
    pub tags: Vec<String>,
    /// Unit of times that are integers. Without one, only timestamps are accepted: a wrong guess would store rows at
    /// wrong times.
    pub precision: Option<Precision>,
}

/// Error for a body that is not a stream of Arrow, or whose columns cannot be rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArrowBodyError(String);

/// Returns the error of the library with a remedy. Compressed buffers could take any memory, so the decoder has no codec
/// for them.
fn not_decoded(error: &str) -> ArrowBodyError {
    let is_compressed = error.contains("lz4 feature") || error.contains("zstd feature");
    ArrowBodyError::new(match is_compressed {
        true => "the buffers in the body are compressed; send them without compression, and compress the body as a \
                 whole instead (Content-Encoding)"
            .to_string(),
        false => format!("the body is not a stream of Arrow: {error}"),
    })
}

impl ArrowBodyError {
    fn new(text: impl Into<String>) -> ArrowBodyError {
        ArrowBodyError(text.into())
    }
}

/// Rows of one source.
#[derive(Clone, Debug)]
pub struct SourceRows {
    /// Measurement and tags.
    pub key: SourceKey,
    /// Names of the fields.
    pub fields: Vec<String>,
    /// Times in ns since 1970, and a column for each field.
    pub columns: Columns,
    /// Rows of the record batch.
    rows: Rows,
    /// Number of rows of the stream before the record batch.
    before: u64,
}

impl SourceRows {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number in the stream, from 1, of the row at a position.
    ///
    /// # Panics
    /// If there are fewer rows.
    pub fn number(&self, at: usize) -> u64 {
        number(self.before, self.rows.get(at).expect("a row of the source"))
    }
}

/// Returns the number of a row in the stream, from 1, by the number of rows before its record batch.
fn number(before: u64, row: u32) -> u64 {
    before + u64::from(row) + 1
}

/// Rows that cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRows {
    /// Number of the first row in the stream, from 1.
    pub first: u64,
    /// Number of rows.
    pub count: u64,
    /// Reason, and the remedy.
    pub reason: String,
}

/// Contents of a record batch, or of a part of it.
#[derive(Debug, Default)]
pub struct BodyRows<'b> {
    /// Rows one by one, in the order of the stream.
    pub singles: SingleRows<'b>,
    /// Rows of other sources, by source. The rows of a source are in the order of the stream.
    pub sources: Vec<SourceRows>,
    /// Rows that cannot be stored.
    pub bad: Vec<BadRows>,
}

/// Divides record batches of one schema into rows.
pub struct BatchDivider {
    roles: Roles,
    /// Number of rows so far.
    rows: u64,
}

impl BatchDivider {
    /// Creates a divider for batches of a schema.
    ///
    /// # Errors
    /// If a column has no meaning, or a column is missing.
    pub fn new(schema: &Schema, options: &BodyOptions) -> Result<BatchDivider, ArrowBodyError> {
        let roles = Roles::new(schema, options)?;
        Ok(BatchDivider { roles, rows: 0 })
    }

    /// Passes the rows of the next batch to a function, in one or more calls. The batch must have the schema of this
    /// divider.
    ///
    /// # Errors
    /// Those of the function.
    pub fn divide<E>(
        &mut self,
        batch: &RecordBatch,
        rows: &mut impl FnMut(BodyRows<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.rows;
        self.rows += batch.num_rows() as u64;
        sources::divide(batch, &self.roles, before, rows)
    }
}

/// Decoder of one body.
pub struct ArrowDecoder {
    stream: StreamDecoder,
    options: BodyOptions,
    divider: Option<BatchDivider>,
    is_broken: bool,
}

impl ArrowDecoder {
    /// Creates a decoder at the beginning of a body.
    pub fn new(options: BodyOptions) -> ArrowDecoder {
        ArrowDecoder {
            stream: StreamDecoder::new(),
            options,
            divider: None,
            is_broken: false,
        }
    }

    /// Decodes the next bytes, and passes the rows of each record batch to a function, in one or more calls.
    ///
    /// # Errors
    /// The errors of the function, and [`ArrowBodyError`] if the bytes are not a stream of Arrow or a column has no
    /// meaning. The decoder rejects all further bytes then.
    pub fn take<E: From<ArrowBodyError>>(
        &mut self,
        bytes: Bytes,
        mut rows: impl FnMut(BodyRows<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut buffer = Buffer::from(bytes);
        while !buffer.is_empty() {
            if let Some(batch) = self.decode(&mut buffer)? {
                self.batch(&batch, &mut rows)?;
            }
        }
        Ok(())
    }

    /// Checks that the stream ended at the end of a message.
    ///
    /// # Errors
    /// If the body is empty or incomplete.
    pub fn finish(mut self) -> Result<(), ArrowBodyError> {
        if self.stream.schema().is_none() {
            return Err(ArrowBodyError::new(
                "the body has no schema; it is empty or incomplete",
            ));
        }
        let finished = self.stream.finish();
        finished.map_err(|error| ArrowBodyError::new(format!("the body is incomplete: {error}")))
    }

    fn decode(&mut self, buffer: &mut Buffer) -> Result<Option<RecordBatch>, ArrowBodyError> {
        if self.is_broken {
            return Err(ArrowBodyError::new(
                "an earlier part of the body is not valid",
            ));
        }
        // The library panics on some damaged messages (offsets beyond the body, unknown types). A body that breaks the
        // decoder is not used any further, so that no state of a broken decoder matters.
        let decoded = catch_unwind(AssertUnwindSafe(|| self.stream.decode(buffer)));
        let decoded = match decoded {
            Ok(decoded) => decoded.map_err(|error| not_decoded(&error.to_string())),
            Err(_) => Err(ArrowBodyError::new(
                "the body is not a stream of Arrow: a message is damaged",
            )),
        };
        self.is_broken = decoded.is_err();
        decoded
    }

    fn batch<E: From<ArrowBodyError>>(
        &mut self,
        batch: &RecordBatch,
        rows: &mut impl FnMut(BodyRows<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let divider = match &mut self.divider {
            Some(divider) => divider,
            None => {
                let divider = BatchDivider::new(&batch.schema(), &self.options);
                self.is_broken = divider.is_err();
                self.divider.insert(divider?)
            }
        };
        divider.divide(batch, rows)
    }
}
