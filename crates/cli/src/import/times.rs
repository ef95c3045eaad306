//! Times of records: the columns that contain them, and their format.

use super::value::Decimal;
use csv::StringRecord;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::Offset;
use seiner_model::{parse_date, parse_units, plausible_unit};
use std::borrow::Cow;

/// Unit of numbers: its name and its length in ns.
pub type Unit = (&'static str, i64);

/// Unit of numbers that no unit places between 1990 and 2100.
pub const SECONDS: Unit = ("s", 1_000_000_000);

/// Format of the times of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Numbers in a unit, or dates as [`parse_date`] reads them.
    Standard,
    /// Dates that match a pattern of `strptime`.
    Pattern(String),
}

/// One or two columns with the time of a row.
#[derive(Clone, Debug)]
pub struct TimeColumn {
    /// Names of the columns, for messages.
    pub title: String,
    /// Indices of the columns. Their texts are joined by a space.
    pub places: Vec<usize>,
    pub format: Format,
    /// Unit of bare numbers.
    pub unit: Unit,
    /// True if the unit was inferred from the first times of the file.
    pub is_unit_inferred: bool,
    pub decimal: Decimal,
}

impl TimeColumn {
    /// Returns the text of the time of a record. The text is empty if one of its parts is.
    pub fn text<'r>(&self, record: &'r StringRecord) -> Cow<'r, str> {
        joined(record, &self.places)
    }

    /// Returns the time of a record in ns since 1970.
    ///
    /// # Errors
    /// If the text is not a time or does not fit in an i64 of nanoseconds.
    pub fn time(&self, record: &StringRecord) -> Result<i64, String> {
        let text = self.text(record);
        match &self.format {
            Format::Standard => self.standard(&text),
            Format::Pattern(pattern) => parse_pattern(pattern, &text)
                .ok_or_else(|| format!("{text:?} is not a time of the form {pattern}")),
        }
    }

    fn standard(&self, text: &str) -> Result<i64, String> {
        let number = number(text, self.decimal);
        let (unit, unit_ns) = self.unit;
        if let Some(ns) = parse_units(&number, unit_ns).or_else(|| parse_date(text)) {
            return Ok(ns);
        }
        let whole = number.split('.').next().unwrap_or_default();
        match whole.parse::<i64>() {
            Ok(units) => Err(match plausible_unit(units) {
                Some((meant, _)) if meant != unit => format!(
                    "time {text} in {unit} is outside the years 1677 to 2262; --time-unit {meant} would fit"
                ),
                _ => format!(
                    "time {text} in {unit} is outside the years 1677 to 2262, or finer than 1 ns; is --time-unit right?"
                ),
            }),
            Err(_) => Err(format!(
                "{text:?} is not a time; write a number in {unit}, or a date such as 2026-11-21 08:00:00 or \
                 2026-11-21T08:00:00+01:00; --time-format states another form"
            )),
        }
    }

    /// Returns the name of the coarser unit in which a time is plausible (1990 to 2100), if it is not plausible
    /// in the given unit.
    pub fn better_unit(&self, time: i64) -> Option<&'static str> {
        let (meant, unit) = plausible_unit(time / self.unit.1)?;
        (unit > self.unit.1).then_some(meant)
    }

    /// Returns true if the unit was inferred, and a time is not between 1990 and 2100 in this unit.
    pub fn is_doubtful(&self, time: i64) -> bool {
        self.is_unit_inferred
            && plausible_unit(time / self.unit.1).is_none_or(|unit| unit != self.unit)
    }

    /// Returns the format, for the preview.
    pub fn form(&self) -> String {
        match &self.format {
            Format::Pattern(pattern) => pattern.clone(),
            Format::Standard => format!("numbers in {} or dates", self.unit.0),
        }
    }
}

/// Returns the texts of some cells, joined by spaces. The text is empty if one of the cells is.
pub fn joined<'r>(record: &'r StringRecord, places: &[usize]) -> Cow<'r, str> {
    let cell = |place: &usize| record.get(*place).unwrap_or_default().trim();
    match places {
        [only] => Cow::Borrowed(cell(only)),
        places if places.iter().any(|place| cell(place).is_empty()) => Cow::Borrowed(""),
        places => Cow::Owned(places.iter().map(cell).collect::<Vec<_>>().join(" ")),
    }
}

/// Returns a time that is a number in Rust's notation. A text that is not a number does not become one.
pub fn number(text: &str, decimal: Decimal) -> Cow<'_, str> {
    match decimal {
        Decimal::Comma if !text.contains(':') => Cow::Owned(text.replacen(',', ".", 1)),
        _ => Cow::Borrowed(text),
    }
}

/// Parses a time by a pattern of `strptime` into ns since 1970. A time without a zone is in UTC.
pub fn parse_pattern(pattern: &str, text: &str) -> Option<i64> {
    let parsed = BrokenDownTime::parse(pattern, text).ok()?;
    let stamp = parsed.to_timestamp().or_else(|_| {
        let civil = parsed.to_datetime()?;
        Offset::UTC.to_timestamp(civil)
    });
    i64::try_from(stamp.ok()?.as_nanosecond()).ok()
}

/// Checks a pattern from the command line.
///
/// # Errors
/// If the pattern does not state a date.
pub fn pattern(text: &str) -> Result<String, String> {
    let sample = jiff::civil::date(2014, 12, 31).at(23, 50, 59, 0);
    let sample = Offset::UTC
        .to_timestamp(sample)
        .map_err(|error| error.to_string())?;
    let zoned = sample.to_zoned(jiff::tz::TimeZone::UTC);
    let written = jiff::fmt::strtime::format(text, &zoned).map_err(|error| error.to_string())?;
    match parse_pattern(text, &written) {
        Some(_) => Ok(text.to_string()),
        None => Err(format!(
            "{text:?} does not state a date; write %Y, %m and %d, as in %d/%m/%Y %H:%M:%S"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(format: Format) -> TimeColumn {
        TimeColumn {
            title: "ts".into(),
            places: vec![0],
            format,
            unit: SECONDS,
            is_unit_inferred: false,
            decimal: Decimal::Point,
        }
    }

    #[test]
    fn times_are_numbers_with_fractions_or_dates() {
        let column = column(Format::Standard);
        let time = |text: &str| column.time(&StringRecord::from(vec![text, "1"]));
        assert_eq!(time("1700000000.123"), Ok(1_700_000_000_123_000_000));
        assert_eq!(time("2014-01-01 00:00:00"), Ok(1_388_534_400_000_000_000));
        assert_eq!(time("2026-11-23T04:40"), Ok(1_795_408_800_000_000_000));
        assert_eq!(time("2026-11-23 05:40+01:00"), time("2026-11-23T04:40"));
        for (bad, words) in [
            ("1795238428644", "--time-unit ms would fit"),
            ("now", "is not a time"),
            ("-1h", "is not a time"),
            ("", "is not a time"),
        ] {
            assert!(time(bad).is_err_and(|error| error.contains(words)), "{bad}");
        }
    }

    #[test]
    fn patterns_are_read_with_and_without_zones() {
        let column = |pattern: &str| column(Format::Pattern(pattern.into()));
        let time =
            |pattern: &str, text: &str| column(pattern).time(&StringRecord::from(vec![text]));
        let expected = Ok(1_420_069_800_000_000_000);
        assert_eq!(time("%d/%m/%Y %H:%M", "31/12/2014 23:50"), expected);
        assert_eq!(time("%m/%d/%y %I:%M %p", "12/31/14 11:50 PM"), expected);
        assert_eq!(
            time("%d.%m.%Y %H:%M %z", "01.01.2015 00:50 +0100"),
            expected
        );
        assert!(time("%d/%m/%Y", "12/31/2014").is_err_and(|error| error.contains("%d/%m/%Y")));
        assert!(pattern("%d/%m/%Y %H:%M").is_ok());
        for bad in ["%H:%M", "%Y", "%Q%", "text", "%y%%%"] {
            assert!(pattern(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_of_two_columns_needs_both() {
        let record = StringRecord::from(vec!["2014-12-31", " 23:50 ", ""]);
        assert_eq!(joined(&record, &[0, 1]), "2014-12-31 23:50");
        assert_eq!(joined(&record, &[0, 2]), "");
    }
}
