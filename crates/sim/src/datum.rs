//! Owned values that are compared by their bits.

use seiner_model::{FieldType, Value};
use std::hash::{DefaultHasher, Hash, Hasher};

/// An owned value, independent of its batch. Floats are stored as their bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Datum {
    F64(u64),
    F32(u32),
    I64(i64),
    U64(u64),
    Bool(bool),
    Str(String),
}

impl Datum {
    pub(crate) fn of(value: Value<'_>) -> Datum {
        match value {
            Value::F64(value) => Datum::F64(value.to_bits()),
            Value::F32(value) => Datum::F32(value.to_bits()),
            Value::I64(value) => Datum::I64(value),
            Value::U64(value) => Datum::U64(value),
            Value::Bool(value) => Datum::Bool(value),
            Value::Str(value) => Datum::Str(value.to_string()),
        }
    }

    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Datum::F64(bits) => Value::F64(f64::from_bits(*bits)),
            Datum::F32(bits) => Value::F32(f32::from_bits(*bits)),
            Datum::I64(value) => Value::I64(*value),
            Datum::U64(value) => Value::U64(*value),
            Datum::Bool(value) => Value::Bool(*value),
            Datum::Str(value) => Value::Str(value),
        }
    }

    pub(crate) fn field_type(&self) -> FieldType {
        self.value().field_type()
    }

    /// Returns the number that aggregates use for the value; NaN for strings.
    pub(crate) fn number(&self) -> f64 {
        match self.value() {
            Value::F64(value) => value,
            Value::F32(value) => f64::from(value),
            Value::I64(value) => value as f64,
            Value::U64(value) => value as f64,
            Value::Bool(value) => f64::from(u8::from(value)),
            Value::Str(_) => f64::NAN,
        }
    }
}

/// Returns a hash that is the same in every run of the program.
pub(crate) fn digest(item: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    item.hash(&mut hasher);
    hasher.finish()
}
