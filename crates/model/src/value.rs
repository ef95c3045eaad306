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
    /// Returns the value in a type: itself, if it has the type, the same integer with or without a sign, or the same float
    /// with 32 or 64 bits. Returns `None` if the type cannot hold the value.
    pub fn in_type(self, field_type: FieldType) -> Option<Value<'a>> {
        match (self, field_type) {
            (Value::I64(value), FieldType::U64) => u64::try_from(value).ok().map(Value::U64),
            (Value::U64(value), FieldType::I64) => i64::try_from(value).ok().map(Value::I64),
            (Value::F64(value), FieldType::F32) => single(value).map(Value::F32),
            (Value::F32(value), FieldType::F64) => Some(Value::F64(value.into())),
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

/// Returns the 32-bit float that is a 64-bit float, or whose shortest text denotes it: sensors with 32-bit floats send
/// texts such as `21.37`. Returns `None` if there is no such float.
fn single(value: f64) -> Option<f32> {
    let single = value as f32;
    let is_equal = f64::from(single).to_bits() == value.to_bits();
    (is_equal || has_text_of(single, value)).then_some(single)
}

/// Returns true if the shortest text of a 32-bit float denotes a 64-bit float. A float halfway between two such texts has
/// both: Rust prints 7.47265625 as `7.4726563`, numpy prints it as `7.4726562`.
pub fn has_text_of(single: f32, value: f64) -> bool {
    let denotes = |text: &str| {
        text.parse::<f64>()
            .is_ok_and(|text| text.to_bits() == value.to_bits())
    };
    let up = format!("{single:e}");
    if denotes(&up) {
        return true;
    }
    // With a given number of digits, Rust rounds to the even one.
    let digits = up
        .split('e')
        .next()
        .unwrap_or_default()
        .bytes()
        .filter(u8::is_ascii_digit)
        .count();
    let even = format!("{single:.*e}", digits.saturating_sub(1));
    even.parse() == Ok(single) && denotes(&even)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_change_their_size_only_without_a_loss() {
        let to_single = |value: f64| match Value::F64(value).in_type(FieldType::F32) {
            Some(Value::F32(single)) => Some(single.to_bits()),
            other => {
                assert_eq!(other, None);
                None
            }
        };
        let exact = [1.5, -0.0, f64::INFINITY, f64::NAN];
        // The last two are the texts of one float, which is halfway between them.
        let shortest = [21.37, 1e30, 1.9400482, 3.4e38, 7.4726563, 7.4726562];
        for kept in exact.into_iter().chain(shortest) {
            assert_eq!(to_single(kept), Some((kept as f32).to_bits()), "{kept}");
        }
        let stale = f64::from_bits(0x7ff0_0000_0000_0002);
        for lost in [
            1.94004821,
            7.4726561,
            7.47265621,
            0.1 + 0.2,
            1e39,
            1e-60,
            16_777_217.0,
            stale,
        ] {
            assert_eq!(to_single(lost), None, "{lost}");
        }
        let double = Value::F32(21.37).in_type(FieldType::F64);
        assert_eq!(double, Some(Value::F64(f64::from(21.37f32))));
        assert_eq!(Value::I64(1).in_type(FieldType::F64), None);
    }
}
