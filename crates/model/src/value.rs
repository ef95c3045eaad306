//! Values and their types.

/// Type of a field. The first value of a series (source, field) fixes the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FieldType {
    /// 64-bit IEEE 754 float, bit-exact (NaN payloads and −0.0 included).
    F64 = 0,
    /// 32-bit IEEE 754 float, bit-exact.
    F32 = 1,
    /// Signed 64-bit integer.
    I64 = 2,
    /// Unsigned 64-bit integer.
    U64 = 3,
    /// Boolean.
    Bool = 4,
    /// UTF-8 text: a state or an event.
    Str = 5,
}

impl FieldType {
    /// All types, in the order of their codes.
    pub const ALL: [FieldType; 6] = [
        FieldType::F64,
        FieldType::F32,
        FieldType::I64,
        FieldType::U64,
        FieldType::Bool,
        FieldType::Str,
    ];

    /// Returns the type with this code; `None` if no type has the code.
    pub fn from_code(code: u8) -> Option<FieldType> {
        Self::ALL.get(code as usize).copied()
    }

    /// Returns the code that catalogs and blocks store.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the short lower-case name: `f64`, `f32`, `i64`, `u64`, `bool`, `string`.
    pub fn name(self) -> &'static str {
        match self {
            FieldType::F64 => "f64",
            FieldType::F32 => "f32",
            FieldType::I64 => "i64",
            FieldType::U64 => "u64",
            FieldType::Bool => "bool",
            FieldType::Str => "string",
        }
    }
}

/// One value, borrowed from the batch that contains it.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A 64-bit float.
    F64(f64),
    /// A 32-bit float.
    F32(f32),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A boolean.
    Bool(bool),
    /// Text.
    Str(&'a str),
}

impl<'a> Value<'a> {
    /// Returns the value in a type: itself, if it has the type, or the same integer with or without a sign. Returns
    /// `None` if the type cannot hold the value.
    pub fn in_type(self, field_type: FieldType) -> Option<Value<'a>> {
        match (self, field_type) {
            (Value::I64(value), FieldType::U64) => u64::try_from(value).ok().map(Value::U64),
            (Value::U64(value), FieldType::I64) => i64::try_from(value).ok().map(Value::I64),
            _ => (self.field_type() == field_type).then_some(self),
        }
    }

    /// Returns the type of this value.
    pub fn field_type(&self) -> FieldType {
        match self {
            Value::F64(_) => FieldType::F64,
            Value::F32(_) => FieldType::F32,
            Value::I64(_) => FieldType::I64,
            Value::U64(_) => FieldType::U64,
            Value::Bool(_) => FieldType::Bool,
            Value::Str(_) => FieldType::Str,
        }
    }
}

/// Bit-exact comparison: two NaNs with the same payload are equal, 0.0 and −0.0 are not.
impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::F64(a), Value::F64(b)) => a.to_bits() == b.to_bits(),
            (Value::F32(a), Value::F32(b)) => a.to_bits() == b.to_bits(),
            (Value::I64(a), Value::I64(b)) => a == b,
            (Value::U64(a), Value::U64(b)) => a == b,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Str(a), Value::Str(b)) => a == b,
            _ => false,
        }
    }
}
