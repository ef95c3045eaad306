//! Dialect of a CSV file: the separator of cells and the decimal mark.

use crate::source;
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

/// Number of bytes at the front of a file from which the dialect is detected.
const SAMPLE_BYTES: u64 = 256 << 10;

/// Separators that can be detected. Of several equally frequent ones, the first is taken.
const SEPARATORS: [u8; 4] = *b",;\t|";

/// Decimal mark of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Decimal {
    Point,
    Comma,
}

/// Dialect of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Byte between cells.
    pub separator: u8,
    /// Mark between the integer part and the fraction of a number.
    pub decimal: Decimal,
}

impl Dialect {
    /// Detects the missing parts of a dialect from the front of a file: the separator from the first
    /// line, the decimal mark from the cells.
    pub fn detect(path: &Path, separator: Option<u8>, decimal: Option<Decimal>) -> Result<Dialect> {
        let source = source::open(path)?;
        let mut front = Vec::new();
        source
            .reader
            .take(SAMPLE_BYTES)
            .read_to_end(&mut front)
            .with_context(|| format!("{} cannot be read", source.name))?;
        source.bar.finish_and_clear();
        let separator = separator.unwrap_or_else(|| separator_of(&front));
        let decimal = decimal.unwrap_or_else(|| decimal_of(&front, separator));
        Ok(Dialect { separator, decimal })
    }

    /// Converts a number to Rust's notation. A text that is not a number in this dialect does not become one.
    pub fn number<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.decimal {
            Decimal::Point => Cow::Borrowed(text),
            // The point separates thousands in this dialect. The cell is rejected rather than misread.
            Decimal::Comma if text.contains('.') => Cow::Borrowed(""),
            Decimal::Comma => Cow::Owned(text.replacen(',', ".", 1)),
        }
    }

    /// Returns the name of the separator for messages.
    pub fn separator_name(&self) -> String {
        match self.separator {
            b'\t' => "tab".to_string(),
            byte => format!("{:?}", char::from(byte)),
        }
    }
}

fn separator_of(front: &[u8]) -> u8 {
    let mut counts = [0; SEPARATORS.len()];
    let mut quoted = false;
    for byte in front {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' | b'\r' if !quoted => break,
            _ if quoted => {}
            _ => {
                if let Some(at) = SEPARATORS.iter().position(|separator| separator == byte) {
                    counts[at] += 1;
                }
            }
        }
    }
    let most = counts.iter().max().copied().unwrap_or(0);
    let at = counts.iter().position(|count| *count == most).unwrap_or(0);
    SEPARATORS[at]
}

fn decimal_of(front: &[u8], separator: u8) -> Decimal {
    if separator == b',' {
        return Decimal::Point;
    }
    let (mut points, mut commas) = (0, 0);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .flexible(true)
        .from_reader(front);
    for record in reader.records().map_while(Result::ok) {
        for cell in record.iter().map(str::trim) {
            points += usize::from(cell.contains('.') && cell.parse::<f64>().is_ok());
            let mut parts = cell.splitn(2, ',');
            let is_number =
                |text: Option<&str>| text.is_some_and(|text| text.parse::<i64>().is_ok());
            commas += usize::from(is_number(parts.next()) && is_number(parts.next()));
        }
    }
    match commas > points {
        true => Decimal::Comma,
        false => Decimal::Point,
    }
}

/// Parses a separator from the command line.
pub fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => Err(format!(
            "{text:?} is not a separator; give one character, or tab"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_counted_outside_quotes() {
        assert_eq!(separator_of(b"ts,a,b\n1;2;3;4;5\n"), b',');
        assert_eq!(separator_of(b"ts;\"a,b,c\";d\n"), b';');
        assert_eq!(separator_of(b"ts\ta\n"), b'\t');
        assert_eq!(separator_of(b"ts\n"), b',');
    }

    #[test]
    fn decimal_commas_are_detected_only_where_commas_do_not_separate() {
        assert_eq!(decimal_of(b"ts;a\n1;2,5\n2;-0,25\n", b';'), Decimal::Comma);
        assert_eq!(decimal_of(b"ts;a\n1;2.5\n2;3\n", b';'), Decimal::Point);
        assert_eq!(decimal_of(b"ts,a\n1,2\n", b','), Decimal::Point);
        let comma = Dialect {
            separator: b';',
            decimal: Decimal::Comma,
        };
        assert_eq!(comma.number("2,5"), "2.5");
        assert_eq!(
            comma.number("1.234"),
            "",
            "a point is ambiguous beside a decimal comma"
        );
    }

    #[test]
    fn separators_are_read_from_the_command_line() {
        assert_eq!(separator("tab"), Ok(b'\t'));
        assert_eq!(separator(";"), Ok(b';'));
        assert!(separator("").is_err() && separator("::").is_err() && separator("\"").is_err());
    }
}
