//! Numbers: the values of fields, and the time at the end of a line.

use super::scan;
use seiner_model::Value;

/// Errors of parsing a number.
pub enum NumberFault {
    /// The token is not a number.
    Syntax,
    /// The number is NaN or infinite, or too large for a finite float.
    NotFinite,
    /// An integer does not fit in 64 bits.
    Range,
}

/// Largest number up to which every integer is exactly representable as an f64.
const EXACT: u64 = 1 << 53;

/// Powers of ten up to 10^19, the largest that fits in 64 bits. Padded with ones to a power of two.
const INTEGER_POWERS: [u64; 32] = {
    let mut powers = [1; 32];
    let mut at = 1;
    while at < 20 {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// The same powers as floats. All of them are exact.
const POWERS: [f64; 32] = {
    let mut powers = [1.0; 32];
    let mut at = 1;
    while at < 20 {
        powers[at] = INTEGER_POWERS[at] as f64;
        at += 1;
    }
    powers
};

/// A number that [`short`] parsed.
#[derive(Clone, Copy)]
pub enum Number {
    /// A decimal without a suffix.
    Float(f64),
    /// Digits with the suffix `i`.
    Signed(i64),
    /// Digits with the suffix `u`.
    Unsigned(u64),
}

/// Fast path: parses the number at `at` if it has no exponent and few enough digits. Returns the number and the
/// index after its end. `None` means that [`value`] must decide.
#[inline(always)]
pub fn short(text: &[u8], at: usize) -> Option<(Number, usize)> {
    let negative = text.get(at) == Some(&b'-');
    let start = at + usize::from(negative);
    let (whole, whole_len) = digits(text, start)?;
    let end = start + whole_len;
    let (number, end) = match text.get(end)? {
        b'.' => {
            let (fraction, len) = digits(text, end + 1)?;
            (
                Number::Float(decimal(negative, whole, whole_len, fraction, len)?),
                end + 1 + len,
            )
        }
        b'i' => (
            Number::Signed(if negative {
                -(whole as i64)
            } else {
                whole as i64
            }),
            end + 1,
        ),
        b'u' if !negative => (Number::Unsigned(whole), end + 1),
        _ => (
            Number::Float(decimal(negative, whole, whole_len, 0, 0)?),
            end,
        ),
    };
    matches!(text.get(end), Some(b',' | b' ' | b'\n')).then_some((number, end))
}

/// Parses up to 16 digits from `at`. Returns their value and their number. Returns `None` if there is no digit,
/// or if the text ends within the words of eight bytes that it loads.
#[inline(always)]
pub fn digits(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let (high, len) = scan::digits(scan::load(text, at)?)?;
    if len < 8 {
        return Some((high, len));
    }
    match scan::digits(scan::load(text, at + 8)?) {
        Some((low, len)) => Some((high * INTEGER_POWERS[len & 15] + low, 8 + len)),
        None => Some((high, 8)),
    }
}

/// Returns the nearest float of a decimal, or `None` if more than one division is necessary to find it.
#[inline(always)]
fn decimal(negative: bool, whole: u64, whole_len: usize, fraction: u64, len: usize) -> Option<f64> {
    // With at most 19 digits the sum cannot overflow.
    if whole_len + len > 19 {
        return None;
    }
    let mantissa = whole
        .wrapping_mul(INTEGER_POWERS[len & 31])
        .wrapping_add(fraction);
    if mantissa > EXACT {
        return None;
    }
    // Both operands are exact floats, so the quotient is the float nearest to the decimal.
    let magnitude = mantissa as f64 / POWERS[len & 31];
    Some(if negative { -magnitude } else { magnitude })
}

/// Parses any number.
pub fn value(token: &[u8]) -> Result<Value<'static>, NumberFault> {
    match token.split_last() {
        Some((b'i', digits)) => integer(digits).map(Value::I64),
        Some((b'u', digits)) => unsigned(digits).map(Value::U64),
        _ => float(token).map(Value::F64),
    }
}

fn float(token: &[u8]) -> Result<f64, NumberFault> {
    // The standard library accepts a leading plus, line protocol does not.
    if token.first() == Some(&b'+') {
        return Err(NumberFault::Syntax);
    }
    let text = std::str::from_utf8(token).map_err(|_| NumberFault::Syntax)?;
    let value: f64 = text.parse().map_err(|_| NumberFault::Syntax)?;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(NumberFault::NotFinite)
    }
}

/// Parses a decimal integer with an optional minus.
pub fn integer(token: &[u8]) -> Result<i64, NumberFault> {
    match token.strip_prefix(b"-") {
        Some(digits) => 0i64
            .checked_sub_unsigned(unsigned(digits)?)
            .ok_or(NumberFault::Range),
        None => i64::try_from(unsigned(token)?).map_err(|_| NumberFault::Range),
    }
}

fn unsigned(digits: &[u8]) -> Result<u64, NumberFault> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(NumberFault::Syntax);
    }
    digits.iter().try_fold(0u64, |number, digit| {
        number
            .checked_mul(10)
            .and_then(|number| number.checked_add(u64::from(digit - b'0')))
            .ok_or(NumberFault::Range)
    })
}

/// Fast path: parses a time of exactly 19 digits followed by a newline, the form of ns from 2001 to 2262.
#[inline(always)]
pub fn nineteen_digits(text: &[u8], at: usize) -> Option<i64> {
    let time: &[u8; 20] = text.get(at..)?.first_chunk()?;
    let (front, middle) = (scan::load(time, 0)?, scan::load(time, 8)?);
    // Loads the last eight digits. Five of them are in `middle` too.
    let back = scan::load(time, 11)?;
    if !scan::are_digits([front, middle, back]) || time[19] != b'\n' {
        return None;
    }
    let back = scan::last_three_digits(back);
    i64::try_from(
        scan::eight_digits(front) * 100_000_000_000 + scan::eight_digits(middle) * 1000 + back,
    )
    .ok()
}
