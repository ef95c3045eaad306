//! Dialect of a CSV file: the separator of cells and the decimal mark.

use super::patterns::{is_clock, is_date};
use super::value::Decimal;
use crate::source;
use anyhow::{Context, Result};
use csv::StringRecord;
use seiner_model::plausible_unit;
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

/// Number of bytes at the front of a file from which the dialect is detected.
const SAMPLE_BYTES: u64 = 256 << 10;

/// Separators that can be detected. Of several equally frequent ones, the first is taken.
const SEPARATORS: [u8; 4] = *b",;\t|";

/// Dialect of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Byte between cells.
    pub separator: u8,
    /// Mark between the integer part and the fraction of a number.
    pub decimal: Decimal,
    /// True if the first line contains the names of the columns.
    pub has_header: bool,
}

/// Parts of a dialect that the command line states.
pub struct DialectFlags {
    pub separator: Option<u8>,
    pub decimal: Option<Decimal>,
    pub has_header: Option<bool>,
    /// Names of columns. A first line with one of them is a header.
    pub names: Vec<String>,
}

impl Dialect {
    /// Dialect of numbers in JSON. The separator joins cells in reports.
    pub const JSON: Dialect = Dialect {
        separator: b',',
        decimal: Decimal::Point,
        has_header: false,
    };

    /// Detects the missing parts of a dialect from the front of a file: the separator from the first
    /// line, the decimal mark from the cells, the header from the first two lines. Returns the dialect, and the number
    /// of cells of the first line.
    pub fn detect(path: &Path, flags: &DialectFlags) -> Result<(Dialect, usize)> {
        let source = source::open(path)?;
        let mut front = Vec::new();
        source
            .reader
            .take(SAMPLE_BYTES)
            .read_to_end(&mut front)
            .with_context(|| format!("{} cannot be read", source.name))?;
        source.bar.finish_and_clear();
        let separator = flags.separator.unwrap_or_else(|| separator_of(&front));
        let detected = || decimal_of(&front, separator);
        let mut dialect = Dialect {
            separator,
            decimal: flags.decimal.unwrap_or_else(detected),
            has_header: true,
        };
        let first = first_records(&front, separator);
        let detected = || has_header(&first, &dialect, &flags.names);
        let has_header = flags.has_header.unwrap_or_else(detected);
        dialect.has_header = has_header;
        Ok((dialect, first.first().map_or(0, StringRecord::len)))
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

/// Returns the first two records that contain a text.
fn first_records(front: &[u8], separator: u8) -> Vec<StringRecord> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(false)
        .flexible(true)
        .from_reader(front);
    let records = reader.records().map_while(Result::ok);
    let has_text = |record: &StringRecord| record.iter().any(|cell| !cell.trim().is_empty());
    records.filter(has_text).take(2).collect()
}

/// Returns true if the first record contains names. It contains values if all cells are numbers or times, or if a cell
/// is a time above another time.
fn has_header(records: &[StringRecord], dialect: &Dialect, names: &[String]) -> bool {
    let Some(first) = records.first() else {
        return true;
    };
    let cells: Vec<&str> = first.iter().map(str::trim).collect();
    if names.iter().any(|name| cells.contains(&name.as_str())) {
        return true;
    }
    let is_number = |cell: &str| {
        let number = dialect.number(cell);
        number.parse::<f64>().is_ok() && !cell.starts_with(|first: char| first.is_alphabetic())
    };
    let is_epoch = |cell: &str| {
        let whole = cell.split('.').next().unwrap_or_default();
        whole.parse().ok().and_then(plausible_unit).is_some()
    };
    let is_time = |cell: &str| is_epoch(cell) || is_date(cell) || is_clock(cell);
    let filled = || cells.iter().filter(|cell| !cell.is_empty());
    let are_values = filled().all(|cell| is_number(cell) || is_time(cell));
    let second = records.get(1);
    let is_time_below = |at: usize| {
        let below = second.and_then(|second| second.get(at));
        below.is_some_and(|below| is_time(below.trim()))
    };
    let mut places = cells.iter().enumerate();
    let has_times = places.any(|(at, cell)| is_time(cell) && is_time_below(at));
    !are_values && !has_times
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
            has_header: true,
        };
        assert_eq!(comma.number("2,5"), "2.5");
        assert_eq!(
            comma.number("1.234"),
            "",
            "a point is ambiguous beside a decimal comma"
        );
    }

    #[test]
    fn a_first_line_of_values_is_no_header() {
        let is_header = |text: &str, names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let separator = separator_of(text.as_bytes());
            let dialect = Dialect {
                separator,
                decimal: decimal_of(text.as_bytes(), separator),
                has_header: true,
            };
            has_header(&first_records(text.as_bytes(), separator), &dialect, &names)
        };
        for values in [
            "1,2.5\n2,3.5\n",
            "2014-01-01 00:00:00;2,5;\n2014-01-01 00:01:00;3,5;\n",
            "host,1700000000,7\nhost,1700000001,8\n",
            "31/12/2014 23:50,ok\n01/01/2015 00:00,ok\n",
            "1700000000,1",
        ] {
            assert!(!is_header(values, &[]), "{values}");
        }
        for names in [
            "ts,a\n1,2\n",
            "region,2019,2020\nx,1,2\n",
            "time,2014-01-01\n00:10,5\n",
            "",
            "nan,inf\n1,2\n",
        ] {
            assert!(is_header(names, &[]), "{names}");
        }
        assert!(is_header("1,2,3\n4,5,6\n", &["2"]));
    }

    #[test]
    fn separators_are_read_from_the_command_line() {
        assert_eq!(separator("tab"), Ok(b'\t'));
        assert_eq!(separator(";"), Ok(b';'));
        assert!(separator("").is_err() && separator("::").is_err() && separator("\"").is_err());
    }
}
