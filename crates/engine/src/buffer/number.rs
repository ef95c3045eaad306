//! Numbers: values of rows that are not texts, and the limit of the block that takes them.

use super::line::OpenState;
use super::row::{self, Coded, ColumnState};
use seiner_model::Value;

/// Maximum bytes of a row of one number: a byte of codes, and two words.
pub const NUMBER_BYTES: usize = 17;

/// Numeric value of a row, not a text.
#[derive(Clone, Copy)]
pub enum Number {
    /// A 64-bit float.
    F64(f64),
    /// A 32-bit float.
    F32(f32),
    /// An integer or a boolean, as bits.
    Integer(u64),
}

impl Number {
    /// Converts a value to a number. Returns `None` for a text.
    #[inline(always)]
    pub fn of(value: Value<'_>) -> Option<Number> {
        Some(match value {
            Value::F64(value) => Number::F64(value),
            Value::F32(value) => Number::F32(value),
            Value::I64(value) => Number::Integer(value as u64),
            Value::U64(value) => Number::Integer(value),
            Value::Bool(value) => Number::Integer(u64::from(value)),
            Value::Str(_) => return None,
        })
    }

    /// Encodes the number, which follows `state`.
    #[inline(always)]
    pub fn code(self, state: &mut ColumnState) -> Coded {
        match self {
            Number::F64(value) => row::code_f64(value, state),
            Number::F32(value) => row::code_f32(value, state),
            Number::Integer(value) => row::code_integer(value, state),
        }
    }
}

/// Condition on an open block that accepts another row.
#[derive(Clone, Copy)]
pub struct Limit {
    /// Maximum bytes of the rows before it.
    pub bytes: u32,
    /// Lowest number of a block that accepts rows.
    pub first_block: u64,
}

impl Limit {
    /// Returns whether an open block accepts no more rows.
    #[inline(always)]
    pub fn is_reached(self, open: OpenState) -> bool {
        open.bytes > self.bytes || open.rows == u16::MAX || open.block < self.first_block
    }
}
