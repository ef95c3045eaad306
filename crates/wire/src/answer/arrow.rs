//! Arrow answers: `measurement`, `tags` and `field` as dictionaries, `time`, and the columns.
//!
//! Rows of many series share a record batch, so that short series do not cost a batch each. The schema is
//! written with the first batch. The first series determines the types of the columns, and all other series
//! must have the same types.

use super::{AnswerShape, Cells, Head, Series, levels_text, one_type, tags_text};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int32Array,
    Int64Array, RecordBatch, StringArray, TimestampNanosecondArray, UInt64Array,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Schema};
use seiner_model::{Column, FieldType};
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::sync::Arc;

/// Number of rows of a full record batch.
const BATCH_ROWS: usize = 64 << 10;

pub struct ArrowAnswer<W: Write> {
    /// Output, until the schema is written.
    out: Option<W>,
    /// Stream, after the schema was written.
    stream: Option<StreamWriter<BufWriter<W>>>,
    shape: AnswerShape,
    /// Metadata of the schema: `levels` if there are any, `truncated` if series are omitted.
    metadata: HashMap<String, String>,
    rows: Rows,
}

impl<W: Write> ArrowAnswer<W> {
    pub fn begin(out: W, head: &Head) -> ArrowAnswer<W> {
        ArrowAnswer {
            out: Some(out),
            stream: None,
            shape: head.shape.clone(),
            metadata: match head.levels.is_empty() {
                true => HashMap::new(),
                false => HashMap::from([("levels".to_string(), levels_text(&head.levels))]),
            },
            rows: Rows::default(),
        }
    }

    pub fn mark_truncated(&mut self, limit: usize) {
        let text = format!("only {limit} series, there are more; raise limit");
        self.metadata.insert("truncated".to_string(), text);
    }

    pub fn series(&mut self, series: &Series<'_>) -> io::Result<()> {
        self.rows.agree(series)?;
        let tags = tags_text(series.key);
        let mut start = 0;
        while start < series.times.len() {
            let end = series
                .times
                .len()
                .min(start + BATCH_ROWS - self.rows.times.len());
            self.rows.push(series, &tags, start..end);
            start = end;
            if self.rows.times.len() == BATCH_ROWS {
                self.write_batch().map_err(io_error)?;
            }
        }
        Ok(())
    }

    pub fn end(mut self) -> io::Result<W> {
        // A batch without rows is written too, because readers require a schema.
        self.write_batch().map_err(io_error)?;
        let mut stream = self.stream.expect("a batch has just been written");
        stream.finish().map_err(io_error)?;
        Ok(stream.into_inner().map_err(io_error)?.into_inner()?)
    }

    fn write_batch(&mut self) -> Result<(), ArrowError> {
        let columns = self.rows.take(&self.shape)?;
        let fields = columns
            .iter()
            .map(|(name, array, nulls)| Field::new(*name, array.data_type().clone(), *nulls));
        let schema = Schema::new(fields.collect::<Vec<_>>()).with_metadata(self.metadata.clone());
        let schema = Arc::new(schema);
        if let Some(out) = self.out.take() {
            self.stream = Some(StreamWriter::try_new_buffered(out, &schema)?);
        }
        let stream = self.stream.as_mut();
        let stream = stream
            .ok_or_else(|| ArrowError::IpcError("the schema could not be written".to_string()))?;
        let arrays: Vec<ArrayRef> = columns.into_iter().map(|(_, array, _)| array).collect();
        if arrays[0].is_empty() {
            return Ok(());
        }
        stream.write(&RecordBatch::try_new(schema, arrays)?)
    }
}

/// Name of a column, its values, and whether it may contain nulls.
type NamedArray<'a> = (&'a str, ArrayRef, bool);

/// A column of the next record batch.
#[derive(Debug)]
enum Gathered {
    Values(Column),
    /// Sums of integers, with `None` for a sum beyond the range of the type.
    Signed(Vec<Option<i64>>),
    Unsigned(Vec<Option<u64>>),
}

impl Gathered {
    /// Creates an empty column of the same type.
    fn like(cells: &Cells<'_>) -> Gathered {
        match cells {
            Cells::Values(column) => Gathered::Values(Column::new(column.field_type())),
            Cells::Sums(FieldType::U64, _) => Gathered::Unsigned(Vec::new()),
            Cells::Sums(..) => Gathered::Signed(Vec::new()),
        }
    }

    fn field_type(&self) -> FieldType {
        match self {
            Gathered::Values(column) => column.field_type(),
            Gathered::Signed(_) => FieldType::I64,
            Gathered::Unsigned(_) => FieldType::U64,
        }
    }

    /// Appends some rows of a column of the same type.
    fn extend(&mut self, more: &Cells<'_>, rows: Range<usize>) {
        match (self, more) {
            (Gathered::Values(column), Cells::Values(more)) => extend(column, more, rows),
            (Gathered::Signed(sums), Cells::Sums(_, more)) => {
                sums.extend(more[rows].iter().map(|&sum| i64::try_from(sum).ok()));
            }
            (Gathered::Unsigned(sums), Cells::Sums(_, more)) => {
                sums.extend(more[rows].iter().map(|&sum| u64::try_from(sum).ok()));
            }
            (column, more) => panic!("{more:?} among {:?}", column.field_type()),
        }
    }

    /// Removes and returns the rows. The flag states whether the array may contain nulls.
    fn take(&mut self) -> (ArrayRef, bool) {
        match self {
            Gathered::Values(column) => {
                let empty = Column::new(column.field_type());
                (array(std::mem::replace(column, empty)), false)
            }
            Gathered::Signed(sums) => (Arc::new(Int64Array::from(std::mem::take(sums))), true),
            Gathered::Unsigned(sums) => (Arc::new(UInt64Array::from(std::mem::take(sums))), true),
        }
    }
}

/// Rows of the next record batch.
#[derive(Debug, Default)]
struct Rows {
    measurements: Names,
    tags: Names,
    fields: Names,
    times: Vec<i64>,
    /// Columns of the types of the first series; empty before it.
    columns: Vec<Gathered>,
    /// Name of the first series' field.
    first_field: String,
}

impl Rows {
    /// Returns an error if the types of a series' columns differ from those of the first series.
    fn agree(&mut self, series: &Series<'_>) -> io::Result<()> {
        if self.columns.is_empty() {
            self.columns = series.columns.iter().map(Gathered::like).collect();
            self.first_field = series.field.to_string();
        }
        for (known, own) in self.columns.iter().zip(series.columns) {
            one_type([
                (self.first_field.as_str(), known.field_type()),
                (series.field, own.field_type()),
            ])
            .map_err(|mixed| io::Error::new(io::ErrorKind::InvalidInput, mixed))?;
        }
        Ok(())
    }

    fn push(&mut self, series: &Series<'_>, tags: &str, rows: Range<usize>) {
        self.measurements.push(series.key.measurement(), rows.len());
        self.tags.push(tags, rows.len());
        self.fields.push(series.field, rows.len());
        self.times.extend_from_slice(&series.times[rows.clone()]);
        for (column, more) in self.columns.iter_mut().zip(series.columns) {
            column.extend(more, rows.clone());
        }
    }

    /// Removes and returns the columns with their names and whether they may contain nulls. The types of the
    /// columns stay.
    fn take<'a>(&mut self, shape: &'a AnswerShape) -> Result<Vec<NamedArray<'a>>, ArrowError> {
        let times = std::mem::take(&mut self.times);
        let times = TimestampNanosecondArray::from(times).with_timezone("UTC");
        let mut columns: Vec<NamedArray<'a>> = vec![
            ("measurement", self.measurements.take()?, false),
            ("tags", self.tags.take()?, false),
            ("field", self.fields.take()?, false),
            ("time", Arc::new(times), false),
        ];
        for (index, name) in shape.columns().iter().enumerate() {
            let (array, nulls) = match self.columns.get_mut(index) {
                Some(column) => column.take(),
                None => (array(Column::new(FieldType::F64)), false),
            };
            columns.push((name, array, nulls));
        }
        Ok(columns)
    }
}

/// Dictionary-encoded column of names.
#[derive(Debug, Default)]
struct Names {
    names: Vec<String>,
    numbers: HashMap<String, i32>,
    keys: Vec<i32>,
}

impl Names {
    fn push(&mut self, name: &str, rows: usize) {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                // A batch does not contain more names than rows.
                let number = self.names.len() as i32;
                self.names.push(name.to_string());
                self.numbers.insert(name.to_string(), number);
                number
            }
        };
        self.keys.resize(self.keys.len() + rows, number);
    }

    fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        let Names { names, keys, .. } = std::mem::take(self);
        let names = Arc::new(StringArray::from(names));
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
            Int32Array::from(keys),
            names,
        )?))
    }
}

/// Appends some rows of a column of the same type.
fn extend(column: &mut Column, more: &Column, rows: Range<usize>) {
    match (column, more) {
        (Column::F64(values), Column::F64(more)) => values.extend_from_slice(&more[rows]),
        (Column::F32(values), Column::F32(more)) => values.extend_from_slice(&more[rows]),
        (Column::I64(values), Column::I64(more)) => values.extend_from_slice(&more[rows]),
        (Column::U64(values), Column::U64(more)) => values.extend_from_slice(&more[rows]),
        (Column::Bool(values), Column::Bool(more)) => values.extend_from_slice(&more[rows]),
        (Column::Str(values), Column::Str(more)) => rows.for_each(|row| values.push(more.get(row))),
        (column, more) => panic!(
            "a column of {:?} among {:?}",
            more.field_type(),
            column.field_type()
        ),
    }
}

fn array(column: Column) -> ArrayRef {
    match column {
        Column::F64(values) => Arc::new(Float64Array::from(values)),
        Column::F32(values) => Arc::new(Float32Array::from(values)),
        Column::I64(values) => Arc::new(Int64Array::from(values)),
        Column::U64(values) => Arc::new(UInt64Array::from(values)),
        Column::Bool(values) => Arc::new(BooleanArray::from(values)),
        Column::Str(values) => Arc::new(StringArray::from_iter_values(
            (0..values.len()).map(|row| values.get(row)),
        )),
    }
}

pub fn io_error(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        error => io::Error::other(error),
    }
}
