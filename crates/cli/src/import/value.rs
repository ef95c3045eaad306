//! Parsers of values.

use clap::ValueEnum;
use seiner_model::{FieldType, Value};

/// Decimal mark of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Decimal {
    Point,
    Comma,
}

/// Parses a boolean in the usual spellings.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// Parses a number in Rust's notation as a value of a numeric type.
pub fn number(text: &str, field_type: FieldType) -> Option<Value<'static>> {
    match field_type {
        FieldType::F64 => text.parse().ok().map(Value::F64),
        FieldType::F32 => text.parse().ok().map(Value::F32),
        FieldType::I64 => text.parse().ok().map(Value::I64),
        FieldType::U64 => text.parse().ok().map(Value::U64),
        FieldType::Bool | FieldType::Str => None,
    }
}
