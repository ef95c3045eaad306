//! Conversion of Arrow record batches to rows of one source, or of all sources that columns name.
//!
//! A null is a missing value; NaN is a value. Types are widened if that is exact (`int16` to `i64`, `float16`
//! to `f32`) and rejected otherwise. This module does not depend on Python.

use crate::failure::{Failure, invalid};
use crate::roles::{Named, Roles};
use crate::rows::{FieldValues, Measurement, TableRows};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int64Type, TimestampNanosecondType, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_schema::{DataType, TimeUnit};
use seiner_model::{Bitmap, Column, Columns, FieldColumn, SourceId, Strings};
use seiner_store::{Receipt, Store};

/// Number of rows converted at a time. It bounds the copied memory and the delay of signals.
pub const ROWS_AT_ONCE: usize = 1 << 15;

/// Outcome of an append.
#[derive(Default)]
pub struct Outcome {
    /// Number of rows accepted.
    pub rows: usize,
    /// Number of values accepted.
    pub samples: usize,
    /// First rejected rows: their index in the input, and the reason.
    pub rejected: Vec<(u64, String)>,
    /// Number of rows rejected in total.
    pub rejected_total: usize,
    /// Position for [`Store::wait_durable`].
    pub position: u64,
}

impl Outcome {
    /// Adds the outcome of more rows. `place` converts an index among them to an index in the input.
    pub fn add(&mut self, receipt: &Receipt, place: impl Fn(usize) -> u64) {
        self.rows += receipt.rows;
        self.samples += receipt.samples;
        self.rejected_total += receipt.rejected_total;
        self.position = receipt.position;
        for (row, reason) in &receipt.rejected {
            self.reject(place(*row), reason.to_string());
        }
    }

    /// Lists a rejected row that is already counted, up to the maximum length of the list.
    pub fn reject(&mut self, place: u64, reason: String) {
        if self.rejected.len() < Receipt::MAX_REJECTED {
            self.rejected.push((place, reason));
        }
    }
}

/// A converted piece of the input.
struct Piece {
    times: Vec<i64>,
    names: Vec<String>,
    fields: Vec<FieldColumn>,
    /// Texts of the measurements, if they are in a column.
    measurement: Option<ArrayRef>,
    /// Names and texts of the tags.
    tags: Vec<(String, ArrayRef)>,
    /// Indices of the rows in the batch, if some rows of the batch are omitted.
    places: Option<Vec<usize>>,
}

impl Piece {
    fn place(&self, row: usize) -> usize {
        self.places.as_ref().map_or(row, |places| places[row])
    }
}

/// Appends rows of one source. `first` is the index of the batch's first row in the input.
pub fn append_rows(
    store: &dyn Store,
    source: SourceId,
    roles: &Roles,
    batch: &RecordBatch,
    first: u64,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let mut piece = read(roles, batch, first)?;
    let columns = Columns {
        times: std::mem::take(&mut piece.times),
        fields: std::mem::take(&mut piece.fields),
    };
    let names: Vec<&str> = piece.names.iter().map(String::as_str).collect();
    let receipt = store.append_columns(source, &names, &columns)?;
    outcome.add(&receipt, |row| first + piece.place(row) as u64);
    Ok(())
}

/// Appends rows whose sources are given by the columns of the tags and of the measurement.
pub fn append_table(
    store: &dyn Store,
    roles: &Roles,
    batch: &RecordBatch,
    first: u64,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let piece = read(roles, batch, first)?;
    let tags: Vec<_> = piece
        .tags
        .iter()
        .map(|(name, texts)| (name.as_str(), texts.as_string_view()))
        .collect();
    let measurement = match &piece.measurement {
        Some(texts) => Measurement::Column(texts.as_string_view()),
        None => Measurement::Text(roles.measurement.as_deref().unwrap_or_default()),
    };
    let fields: Vec<_> = piece
        .names
        .iter()
        .zip(&piece.fields)
        .map(|(name, column)| FieldValues {
            name: name.as_bytes(),
            column,
        })
        .collect();
    let rows = TableRows::new(measurement, &tags, piece.times.len());
    let receipt = store.append(&rows.notation(), &rows.batch(&piece.times, &fields))?;
    outcome.add(&receipt, |row| first + piece.place(row) as u64);
    Ok(())
}

/// Converts a batch. `first` is the index of the batch's first row in the input.
fn read(roles: &Roles, batch: &RecordBatch, first: u64) -> Result<Piece, Failure> {
    let columns = roles.columns(batch.schema_ref())?;
    let field_places: Vec<usize> = columns.fields.iter().map(|field| field.at).collect();
    let (batch, places) = with_values(batch, &field_places)?;
    let times = times(&roles.time, batch.column(columns.time), |row| {
        first + places.as_ref().map_or(row, |places| places[row]) as u64
    })?;
    let text = |named: &Named| texts(&named.name, batch.column(named.at));
    let measurement = columns.measurement.as_ref().map(text).transpose()?;
    let tags = columns.tags.into_iter();
    let tags = tags.map(|tag| text(&tag).map(|texts| (tag.name, texts)));
    let (mut names, mut fields) = (Vec::new(), Vec::new());
    for Named { name, at } in columns.fields {
        if batch.column(at).logical_null_count() < batch.num_rows() {
            fields.push(field(&name, batch.column(at))?);
            names.push(name);
        }
    }
    Ok(Piece {
        times,
        names,
        fields,
        measurement,
        tags: tags.collect::<Result<_, _>>()?,
        places,
    })
}

/// Returns the rows that have a value in any field, and their indices if some rows are omitted.
pub fn with_values(
    batch: &RecordBatch,
    fields: &[usize],
) -> Result<(RecordBatch, Option<Vec<usize>>), Failure> {
    let mut any: Option<BooleanBuffer> = None;
    for place in fields {
        let Some(nulls) = batch
            .column(*place)
            .logical_nulls()
            .filter(|nulls| nulls.null_count() > 0)
        else {
            return Ok((batch.clone(), None));
        };
        any = Some(any.map_or(nulls.inner().clone(), |any| &any | nulls.inner()));
    }
    let Some(any) = any.filter(|any| any.count_set_bits() < batch.num_rows()) else {
        return Ok((batch.clone(), None));
    };
    let places = any.set_indices().collect();
    let kept = arrow_select::filter::filter_record_batch(batch, &any.into()).map_err(|error| {
        Failure::Invalid(format!("rows without values cannot be left out: {error}"))
    })?;
    Ok((kept, Some(places)))
}

/// Converts the times to ns since 1970. `place` converts a row's index to its index in the input, for errors.
pub fn times(
    name: &str,
    column: &ArrayRef,
    place: impl Fn(usize) -> u64,
) -> Result<Vec<i64>, Failure> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let rejection = |why: String| Failure::Invalid(format!("time column {name:?}: {why}"));
    if column.null_count() > 0 {
        let row = (0..column.len())
            .find(|row| column.is_null(*row))
            .unwrap_or_default();
        return Err(rejection(format!(
            "row {} has no time; every row needs one",
            place(row)
        )));
    }
    let nanoseconds = match column.data_type() {
        DataType::Int64 => column.clone(),
        DataType::Timestamp(_, zone) => {
            let wanted = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
            cast_with_options(column, &wanted, &strict).map_err(|error| {
                rejection(format!(
                    "a time lies outside the years 1677 to 2262, which 64-bit ns can express ({error})"
                ))
            })?
        }
        DataType::Date32 | DataType::Date64 => {
            let wanted = DataType::Timestamp(TimeUnit::Nanosecond, None);
            cast_with_options(column, &wanted, &strict)
                .map_err(|error| rejection(error.to_string()))?
        }
        other => {
            return Err(rejection(format!(
                "{other} is not a type for times; use a timestamp, or int64 with ns since 1970"
            )));
        }
    };
    Ok(match nanoseconds.data_type() {
        DataType::Int64 => nanoseconds.as_primitive::<Int64Type>().values().to_vec(),
        _ => nanoseconds
            .as_primitive::<TimestampNanosecondType>()
            .values()
            .to_vec(),
    })
}

/// Converts source numbers that `Store.source` returned.
pub fn sources(column: &ArrayRef) -> Result<Vec<SourceId>, Failure> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    if !column.data_type().is_integer() || column.null_count() > 0 {
        return invalid(format!(
            "sources are integers from Store.source, not {}",
            column.data_type()
        ));
    }
    let numbers = cast_with_options(column, &DataType::UInt32, &strict).map_err(|error| {
        Failure::Invalid(format!(
            "sources: {error}; take the numbers that Store.source gives"
        ))
    })?;
    Ok(numbers
        .as_primitive::<UInt32Type>()
        .values()
        .iter()
        .copied()
        .map(SourceId)
        .collect())
}

/// Converts a tag column to texts. Nulls are kept.
pub fn texts(name: &str, column: &ArrayRef) -> Result<ArrayRef, Failure> {
    let rejection = |what: &DataType| {
        invalid(format!(
            "tag column {name:?} is {what}; tags are texts, so convert it first"
        ))
    };
    match column.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {}
        DataType::Dictionary(_, values) if values.is_string() => {}
        other => return rejection(other),
    }
    cast(column, &DataType::Utf8View).or_else(|_| rejection(column.data_type()))
}

/// Converts the values of a field to the type in which they are stored.
pub fn field_array(name: &str, column: &ArrayRef) -> Result<ArrayRef, Failure> {
    let Some(wide) = wide_type(column.data_type()) else {
        return invalid(format!(
            "field {name:?} is {}; fields are floats, integers, booleans or texts, so convert or leave it out",
            column.data_type()
        ));
    };
    cast(column, &wide).or_else(|error| invalid(format!("field {name:?}: {error}")))
}

/// Converts the values of a field. Nulls are omitted.
fn field(name: &str, column: &ArrayRef) -> Result<FieldColumn, Failure> {
    let column = field_array(name, column)?;
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    let present = nulls.map(|nulls| Bitmap::from_iter(nulls.iter()));
    macro_rules! numbers {
        ($arrow:ty) => {{
            let array = column.as_primitive::<$arrow>();
            if nulls.is_some() {
                array.iter().flatten().collect()
            } else {
                array.values().to_vec()
            }
        }};
    }
    let values = match column.data_type() {
        DataType::Float64 => Column::F64(numbers!(Float64Type)),
        DataType::Float32 => Column::F32(numbers!(Float32Type)),
        DataType::Int64 => Column::I64(numbers!(Int64Type)),
        DataType::UInt64 => Column::U64(numbers!(UInt64Type)),
        DataType::Boolean => Column::Bool(column.as_boolean().iter().flatten().collect()),
        _ => {
            let mut texts = Strings::default();
            column
                .as_string_view()
                .iter()
                .flatten()
                .for_each(|text| texts.push(text));
            Column::Str(texts)
        }
    };
    Ok(FieldColumn { present, values })
}

/// Returns the type in which a field is stored. It represents all values of the given type exactly.
fn wide_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Float64 => DataType::Float64,
        DataType::Float16 | DataType::Float32 => DataType::Float32,
        signed if signed.is_signed_integer() => DataType::Int64,
        unsigned if unsigned.is_unsigned_integer() => DataType::UInt64,
        DataType::Boolean => DataType::Boolean,
        text if text.is_string() => DataType::Utf8View,
        DataType::Dictionary(_, values) if values.is_string() => DataType::Utf8View,
        _ => return None,
    })
}
