//! Batches in the types that all readers of Arrow have: texts and bytes in their plain form, and no dictionaries.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::sync::Arc;

/// Returns the columns with plain types. Every column may contain NULL, so that the columns of a plan and of its
/// answer are equal.
pub fn plain_schema(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(
        schema.fields().iter().map(plain_field).collect::<Vec<_>>(),
    ))
}

fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(
        field.name(),
        plain_type(field.data_type()),
        true,
    ))
}

/// Returns the plain form of a type.
pub fn plain_type(of: &DataType) -> DataType {
    match of {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, value) => plain_type(value),
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) => DataType::LargeList(plain_field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    }
}

/// Returns a batch with the columns of `schema`.
///
/// # Errors
/// If a value does not fit, such as texts of more than 2 GiB in a batch.
pub fn plain_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns: Result<Vec<_>, _> = columns
        .map(|(column, field)| cast(column, field.data_type()))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns?, &options)
}
