//! Wide Arrow answers: `time`, `measurement` and the tags as dictionaries, and one column per field.
//!
//! Each column has `kind` and `name` in its metadata, so that readers can tell tags from fields and need not interpret
//! titles.

use super::super::{AnswerLevel, arrow::io_error, levels_text};
use super::{Assigned, Kind, WideColumn, WideHead};
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder, StringDictionaryBuilder,
};
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int32Type, Int64Type, TimestampNanosecondType,
    UInt64Type,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use seiner_model::{Bitmap, Column, FieldColumn, FieldType};
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of rows of a record batch.
const BATCH_ROWS: usize = 64 << 10;

/// Maximum number of cells of a record batch.
const BATCH_CELLS: usize = 2 << 20;

/// Bytes of a column of texts from which on a record batch is full. A column has less than 2 GiB, and the rows that a
/// store returns at a time have at most 512 MiB.
const BATCH_TEXT_BYTES: usize = 1 << 30;

pub struct ArrowRows<W: Write> {
    stream: StreamWriter<BufWriter<W>>,
    batches: Batches,
}

impl<W: Write> ArrowRows<W> {
    pub fn begin(out: W, head: &WideHead) -> io::Result<ArrowRows<W>> {
        let batches = Batches::new(head.columns.all(), &head.levels);
        Ok(ArrowRows {
            stream: StreamWriter::try_new_buffered(out, &batches.schema).map_err(io_error)?,
            batches,
        })
    }

    pub fn rows(&mut self, rows: &Assigned<'_>) -> io::Result<()> {
        let stream = &mut self.stream;
        self.batches
            .push(rows, &mut |batch| stream.write(&batch))
            .map_err(io_error)
    }

    pub fn end(mut self) -> io::Result<W> {
        if let Some(batch) = self.batches.take().map_err(io_error)? {
            self.stream.write(&batch).map_err(io_error)?;
        }
        self.stream.finish().map_err(io_error)?;
        Ok(self.stream.into_inner().map_err(io_error)?.into_inner()?)
    }
}

/// Rows gathered in record batches of one schema.
pub struct Batches {
    pub schema: SchemaRef,
    /// Number of rows of a full record batch.
    full: usize,
    batch: Batch,
}

impl Batches {
    pub fn new(columns: &[WideColumn], levels: &[AnswerLevel]) -> Batches {
        let fields: Vec<Field> = columns.iter().map(arrow_field).collect();
        let metadata = match levels.is_empty() {
            true => HashMap::new(),
            false => HashMap::from([("levels".to_string(), levels_text(levels))]),
        };
        Batches {
            schema: Arc::new(Schema::new(fields).with_metadata(metadata)),
            full: (BATCH_CELLS / columns.len()).min(BATCH_ROWS),
            batch: Batch::new(columns),
        }
    }

    /// Appends rows, and passes on each record batch that is full.
    pub fn push(
        &mut self,
        rows: &Assigned<'_>,
        pass: &mut impl FnMut(RecordBatch) -> Result<(), ArrowError>,
    ) -> Result<(), ArrowError> {
        // Number of values of each field before the next row.
        let mut used = vec![0; rows.fields.len()];
        let mut start = 0;
        while start < rows.times.len() {
            let space = self.full - self.batch.times.len();
            let end = rows.times.len().min(start + space);
            self.batch.push(rows, &mut used, start..end)?;
            start = end;
            let is_full =
                self.batch.times.len() == self.full || self.batch.text_bytes() >= BATCH_TEXT_BYTES;
            if is_full && let Some(batch) = self.take()? {
                pass(batch)?;
            }
        }
        Ok(())
    }

    /// Removes and returns the rows, if there are any.
    pub fn take(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.batch.times.len() == 0 {
            return Ok(None);
        }
        RecordBatch::try_new(self.schema.clone(), self.batch.take()).map(Some)
    }
}

fn arrow_field(column: &WideColumn) -> Field {
    let names = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let (data_type, may_lack) = match column.kind {
        Kind::Time => (
            DataType::Timestamp(arrow_schema::TimeUnit::Nanosecond, Some("UTC".into())),
            false,
        ),
        Kind::Measurement => (names, false),
        Kind::Tag => (names, true),
        Kind::Field(field_type) => (arrow_type(field_type), true),
    };
    let metadata = [("kind", column.kind.name()), ("name", column.name.as_str())];
    let metadata = metadata.map(|(key, text)| (key.to_string(), text.to_string()));
    Field::new(&column.title, data_type, may_lack).with_metadata(HashMap::from(metadata))
}

fn arrow_type(field_type: FieldType) -> DataType {
    match field_type {
        FieldType::F64 => DataType::Float64,
        FieldType::F32 => DataType::Float32,
        FieldType::I64 => DataType::Int64,
        FieldType::U64 => DataType::UInt64,
        FieldType::Bool => DataType::Boolean,
        FieldType::Str => DataType::Utf8,
    }
}

/// Rows of the next record batch.
struct Batch {
    times: PrimitiveBuilder<TimestampNanosecondType>,
    measurements: StringDictionaryBuilder<Int32Type>,
    tags: Vec<StringDictionaryBuilder<Int32Type>>,
    fields: Vec<Values>,
}

impl Batch {
    fn new(columns: &[WideColumn]) -> Batch {
        let tags = columns.iter().filter(|column| column.kind == Kind::Tag);
        let fields = columns.iter().filter_map(|column| match column.kind {
            Kind::Field(field_type) => Some(Values::new(field_type)),
            _ => None,
        });
        Batch {
            times: PrimitiveBuilder::new().with_timezone("UTC"),
            measurements: StringDictionaryBuilder::new(),
            tags: tags.map(|_| StringDictionaryBuilder::new()).collect(),
            fields: fields.collect(),
        }
    }

    /// Appends some rows. `used` is the number of values of each field before these rows, and is advanced.
    fn push(
        &mut self,
        rows: &Assigned<'_>,
        used: &mut [usize],
        range: Range<usize>,
    ) -> Result<(), ArrowError> {
        let count = range.len();
        self.times.append_slice(&rows.times[range.clone()]);
        self.measurements.append_n(rows.key.measurement(), count)?;
        for (column, tag) in self.tags.iter_mut().zip(&rows.tags) {
            match tag {
                Some(value) => {
                    column.append_n(*value, count)?;
                }
                None => column.append_nulls(count),
            }
        }
        for ((column, field), used) in self.fields.iter_mut().zip(&rows.fields).zip(used) {
            match field {
                Some(field) => column.push(field, used, range.clone()),
                None => column.lack(count),
            }
        }
        Ok(())
    }

    /// Returns the bytes of the largest column of texts.
    fn text_bytes(&self) -> usize {
        let bytes = self.fields.iter().map(|column| match column {
            Values::Str(texts) => texts.values_slice().len(),
            _ => 0,
        });
        bytes.max().unwrap_or(0)
    }

    /// Removes and returns the rows.
    fn take(&mut self) -> Vec<ArrayRef> {
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(self.times.finish()),
            Arc::new(self.measurements.finish()),
        ];
        let tags = self.tags.iter_mut();
        arrays.extend(tags.map(|tag| Arc::new(tag.finish()) as ArrayRef));
        arrays.extend(self.fields.iter_mut().map(Values::take));
        arrays
    }
}

/// Column of a field.
enum Values {
    F64(PrimitiveBuilder<Float64Type>),
    F32(PrimitiveBuilder<Float32Type>),
    I64(PrimitiveBuilder<Int64Type>),
    U64(PrimitiveBuilder<UInt64Type>),
    Bool(BooleanBuilder),
    Str(StringBuilder),
}

impl Values {
    fn new(field_type: FieldType) -> Values {
        match field_type {
            FieldType::F64 => Values::F64(PrimitiveBuilder::new()),
            FieldType::F32 => Values::F32(PrimitiveBuilder::new()),
            FieldType::I64 => Values::I64(PrimitiveBuilder::new()),
            FieldType::U64 => Values::U64(PrimitiveBuilder::new()),
            FieldType::Bool => Values::Bool(BooleanBuilder::new()),
            FieldType::Str => Values::Str(StringBuilder::new()),
        }
    }

    /// Appends rows of a field of the same type.
    fn push(&mut self, field: &FieldColumn, used: &mut usize, range: Range<usize>) {
        let present = field.present.as_ref();
        match (self, &field.values) {
            (Values::F64(column), Column::F64(values)) => {
                push(column, values, present, used, range)
            }
            (Values::F32(column), Column::F32(values)) => {
                push(column, values, present, used, range)
            }
            (Values::I64(column), Column::I64(values)) => {
                push(column, values, present, used, range)
            }
            (Values::U64(column), Column::U64(values)) => {
                push(column, values, present, used, range)
            }
            (Values::Bool(column), Column::Bool(values)) => each(present, used, range, |at| {
                column.append_option(at.map(|at| values[at]));
            }),
            (Values::Str(column), Column::Str(values)) => each(present, used, range, |at| {
                column.append_option(at.map(|at| values.get(at)));
            }),
            (_, values) => panic!("values of type {:?} in another column", values.field_type()),
        }
    }

    /// Appends rows without a value.
    fn lack(&mut self, rows: usize) {
        match self {
            Values::F64(column) => column.append_nulls(rows),
            Values::F32(column) => column.append_nulls(rows),
            Values::I64(column) => column.append_nulls(rows),
            Values::U64(column) => column.append_nulls(rows),
            Values::Bool(column) => column.append_nulls(rows),
            Values::Str(column) => column.append_nulls(rows),
        }
    }

    /// Removes and returns the rows.
    fn take(&mut self) -> ArrayRef {
        let column: &mut dyn ArrayBuilder = match self {
            Values::F64(column) => column,
            Values::F32(column) => column,
            Values::I64(column) => column,
            Values::U64(column) => column,
            Values::Bool(column) => column,
            Values::Str(column) => column,
        };
        column.finish()
    }
}

/// Appends rows of numbers.
fn push<T: ArrowPrimitiveType>(
    column: &mut PrimitiveBuilder<T>,
    values: &[T::Native],
    present: Option<&Bitmap>,
    used: &mut usize,
    range: Range<usize>,
) {
    if present.is_none() {
        *used += range.len();
        return column.append_slice(&values[range]);
    }
    each(present, used, range, |at| {
        column.append_option(at.map(|at| values[at]))
    });
}

/// Calls a function with the index of each row's value, or `None` for a row without one.
fn each(
    present: Option<&Bitmap>,
    used: &mut usize,
    range: Range<usize>,
    mut push: impl FnMut(Option<usize>),
) {
    for row in range {
        let has = present.is_none_or(|present| present.get(row));
        push(has.then_some(*used));
        *used += usize::from(has);
    }
}
