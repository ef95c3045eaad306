//! Rows with one sample, for protocols whose samples have no fields.

use crate::Skipped;
use crate::line::{escape_measurement, escape_tag, shown};
use seiner_model::{Batch, Cell, Value};

/// Name of the field of all rows.
const FIELD: &[u8] = b"value";

/// Name of a source in the notation of lines, part by part.
pub(crate) struct Name(String);

impl Name {
    /// Begins a name with its measurement.
    ///
    /// # Errors
    /// If the notation of lines cannot contain the measurement.
    pub fn new(measurement: &str) -> Result<Name, Skipped> {
        let mut name = String::with_capacity(measurement.len());
        escape_measurement(in_lines(measurement)?, &mut name);
        Ok(Name(name))
    }

    /// Adds a tag.
    ///
    /// # Errors
    /// If the notation of lines cannot contain the tag.
    pub fn tag(&mut self, tag: &str, value: &str) -> Result<(), Skipped> {
        self.0.push(',');
        escape_tag(in_lines(tag)?, in_lines(value)?, &mut self.0);
        Ok(())
    }

    /// Returns the bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Checks that the notation of lines can contain a text.
fn in_lines(text: &str) -> Result<&str, Skipped> {
    match text.ends_with('\\') {
        true => Err(Skipped::because(format!(
            "{:?} ends in a backslash, which no name may",
            shown(text.as_bytes())
        ))),
        false => Ok(text),
    }
}

/// Parses a number. `part` is its name in the error.
pub(crate) fn number(part: &str, word: &[u8]) -> Result<f64, Skipped> {
    // Most times, and many values, are whole numbers. A float can store all with 15 digits.
    if (1..=15).contains(&word.len()) && word.iter().all(u8::is_ascii_digit) {
        let digits = word.iter().map(|digit| u64::from(digit - b'0'));
        return Ok(digits.fold(0, |number, digit| 10 * number + digit) as f64);
    }
    let parsed = std::str::from_utf8(word)
        .ok()
        .and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| Skipped::because(format!("{part} {:?} is not a number", shown(word))))
}

/// Returns a value that is a number and finite.
pub(crate) fn finite(value: f64) -> Result<f64, Skipped> {
    if value.is_nan() {
        return Err(Skipped::NotANumber);
    }
    if value.is_infinite() {
        let reason = "the value is not finite; leave the sample out instead";
        return Err(Skipped::because(reason));
    }
    Ok(value)
}

/// Appends a row. The time is in ns.
pub(crate) fn push<'b>(name: &'b [u8], time: i64, value: f64, batch: &mut Batch<'b>) {
    let cell = Cell {
        field: FIELD,
        value: Value::F64(value),
    };
    batch.push(name, time, [cell]);
}
