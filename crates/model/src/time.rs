//! Times and intervals: i64 nanoseconds since 1970-01-01T00:00:00Z.

use crate::calendar::{parse_date, rfc3339};
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// Interval of times from `start` to `end`, both included, so that an interval can contain every i64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// First time of the interval, ns since 1970.
    pub start: i64,
    /// Last time of the interval, ns since 1970.
    pub end: i64,
}

impl Interval {
    /// The interval of all times.
    pub const ALL: Interval = Interval {
        start: i64::MIN,
        end: i64::MAX,
    };

    /// Creates the interval from `start` to `end`, both included.
    pub fn new(start: i64, end: i64) -> Interval {
        Interval { start, end }
    }

    /// Returns whether the interval contains no time.
    pub fn is_empty(&self) -> bool {
        self.start > self.end
    }

    /// Returns whether the interval contains `time`.
    pub fn contains(&self, time: i64) -> bool {
        self.start <= time && time <= self.end
    }

    /// Returns whether the two intervals have a time in common.
    pub fn overlaps(&self, other: &Interval) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// Returns whether the interval contains all of `other`.
    pub fn covers(&self, other: &Interval) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// Error of parsing a time or a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {what}; write {remedy}")]
pub struct TimeError {
    text: String,
    what: &'static str,
    remedy: Cow<'static, str>,
}

/// Parses a duration such as `90s`, `1h30m`, `100ms` or `7d` into ns. Units: ns, us, ms, s, m, h, d, w, y (365
/// d).
///
/// # Errors
/// If the text is not a duration, or the duration exceeds the range of i64.
pub fn parse_duration(text: &str) -> Result<i64, TimeError> {
    let error = || TimeError {
        text: text.to_string(),
        what: "duration",
        remedy: "a number and a unit (ns, us, ms, s, m, h, d, w, y), such as 10s or 1h30m".into(),
    };
    let mut rest = text;
    let mut total: i64 = 0;
    if rest.is_empty() {
        return Err(error());
    }
    while !rest.is_empty() {
        let digits = rest
            .bytes()
            .take_while(|b| b.is_ascii_digit() || *b == b'.')
            .count();
        let unit_end = digits
            + rest[digits..]
                .bytes()
                .take_while(|b| !b.is_ascii_digit())
                .count();
        let unit: i64 = match &rest[digits..unit_end] {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            "w" => 604_800_000_000_000,
            "y" => 31_536_000_000_000_000,
            _ => return Err(error()),
        };
        let number = &rest[..digits];
        let part = match number.parse::<i64>() {
            Ok(whole) => whole.checked_mul(unit).ok_or_else(error)?,
            Err(_) => {
                let part = number.parse::<f64>().map_err(|_| error())? * unit as f64;
                if part >= i64::MAX as f64 {
                    return Err(error());
                }
                part as i64
            }
        };
        total = total.checked_add(part).ok_or_else(error)?;
        rest = &rest[unit_end..];
    }
    Ok(total)
}

/// Formats a duration in ns in the longest units that represent it exactly, such as `1h30m`. [`parse_duration`]
/// reads the text back if the duration fits in an i64.
pub fn duration_text(ns: u64) -> String {
    const UNITS: [(&str, u64); 7] = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let mut rest = ns;
    let mut text = String::new();
    for (unit, length) in UNITS {
        if rest >= length {
            text.push_str(&format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    match text.is_empty() {
        true => "0s".to_string(),
        false => text,
    }
}

/// A time that a person typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Time, ns since 1970.
    pub ns: i64,
    /// Sentence that states the unit, if a bare number was read in another unit than nanoseconds.
    pub note: Option<String>,
}

/// Units of bare numbers: suffix, name for notes, length in ns.
const UNITS: [(&str, &str, i64); 4] = [
    ("s", "seconds", 1_000_000_000),
    ("ms", "milliseconds", 1_000_000),
    ("us", "microseconds", 1_000),
    ("ns", "nanoseconds", 1),
];

/// Plausible times of a bare number: the years 1990 to 2100, in seconds since 1970. In these years the ranges
/// of the four units do not overlap, so a number determines its unit.
const PLAUSIBLE_S: (i64, i64) = (631_152_000, 4_102_444_800);

/// Returns the unit in which `number` is a time between 1990 and 2100: its suffix and its length in ns. Returns
/// `None` if there is no such unit.
pub fn plausible_unit(number: i64) -> Option<(&'static str, i64)> {
    UNITS
        .into_iter()
        .find(|(_, _, ns)| {
            let scale = 1_000_000_000 / ns;
            (PLAUSIBLE_S.0 * scale..PLAUSIBLE_S.1 * scale).contains(&number)
        })
        .map(|(name, _, ns)| (name, ns))
}

/// Returns the times between 1990 and 2100 in ns. A number of any unit with a time among them is plausible in no other
/// unit.
pub fn plausible_times() -> RangeInclusive<i64> {
    PLAUSIBLE_S.0 * 1_000_000_000..=PLAUSIBLE_S.1 * 1_000_000_000 - 1
}

/// Parses a time that a person typed. `now` is the current time in ns since 1970. Accepted texts:
///
/// - `now`, or an offset from it: `now-1h`, `now+1h`, `-1h`, `+1h`;
/// - a date ([`parse_date`](crate::parse_date));
/// - a number since 1970 with a unit, such as `1700000000s` or `5ns`. Unless the unit is `ns`, the time must be
///   between 1990 and 2100;
/// - a bare number since 1970. Its unit is the one in which the time is between 1990 and 2100
///   ([`plausible_unit`]), otherwise nanoseconds.
///
/// # Errors
/// If the text is none of these. The error text lists the accepted forms. A bare number from 1970 to 2100 is an
/// error as well, because it is likely a year. The error text states how to write the year, and how to write a
/// number of nanoseconds or seconds.
pub fn parse_moment(text: &str, now: i64) -> Result<Moment, TimeError> {
    let exact = |ns| Moment { ns, note: None };
    if let Some(year) = year(text) {
        return Err(TimeError {
            text: text.to_string(),
            what: "time",
            remedy: format!(
                "{year}-01-01 for the year, or, since 1970, {} for seconds and {year}ns for nanoseconds",
                rfc3339(year * 1_000_000_000)
            )
            .into(),
        });
    }
    if let Some(moment) = bare_number(text) {
        return Ok(moment);
    }
    let relative = text.strip_prefix("now").unwrap_or(text);
    if relative.is_empty() && !text.is_empty() {
        return Ok(exact(now));
    }
    if let Some(back) = relative.strip_prefix('-')
        && let Ok(duration) = parse_duration(back)
    {
        return Ok(exact(now.saturating_sub(duration)));
    }
    if let Some(ahead) = relative.strip_prefix('+')
        && let Ok(duration) = parse_duration(ahead)
    {
        return Ok(exact(now.saturating_add(duration)));
    }
    let since_1970 = || {
        let (unit, _, ns) = *UNITS.iter().rev().find(|(unit, ..)| text.ends_with(unit))?;
        // `10s` is more likely the offset `-10s` without its sign than a time in 1970.
        let number = text.strip_suffix(unit)?;
        let whole = number.split('.').next()?.parse().ok()?;
        let plausible = unit == "ns" || plausible_unit(whole).is_some_and(|(name, _)| name == unit);
        plausible.then(|| parse_units(number, ns)).flatten()
    };
    since_1970()
        .or_else(|| parse_date(text))
        .map(exact)
        .ok_or_else(|| TimeError {
            text: text.to_string(),
            what: "time",
            remedy: "a date as in RFC 3339 (2026-11-21, 2026-11-21 08:00:00, 2026-11-21T08:00:00+01:00), now, an offset such as \
                     -1h, or a number since 1970 (1700000000, 1700000000000000000)".into(),
        })
}

/// Parses a time as [`parse_moment`] does. Drops the note.
///
/// # Errors
/// As [`parse_moment`].
pub fn parse_time(text: &str, now: i64) -> Result<i64, TimeError> {
    parse_moment(text, now).map(|moment| moment.ns)
}

/// Returns the year from 1970 to 2100 that `text` is, without anything beside it.
fn year(text: &str) -> Option<i64> {
    let is_bare = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    let year = text.parse().ok().filter(|_| is_bare)?;
    (1970..=2100).contains(&year).then_some(year)
}

fn bare_number(text: &str) -> Option<Moment> {
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    let unit = whole.parse().ok().and_then(plausible_unit);
    let (name, unit) = unit.unwrap_or(("ns", 1));
    let ns = parse_units(text, unit)?;
    let words = UNITS.iter().find(|(known, ..)| *known == name)?.1;
    let note = (unit != 1).then(|| {
        format!(
            "{text} was read as {words} since 1970, {}; write {text}{name} or {whole}ns to be explicit",
            rfc3339(ns)
        )
    });
    Some(Moment { ns, note })
}

/// Parses a number of units of `unit_ns` nanoseconds into ns, exactly. Accepts an integer or a decimal. Returns
/// `None` if the result is not a whole number of ns or does not fit in an i64.
pub fn parse_units(text: &str, unit_ns: i64) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !fraction.is_empty() && !digits(fraction) || text.ends_with('.') {
        return None;
    }
    let units = whole.parse::<i64>().ok()?.checked_mul(unit_ns)?;
    let mut part = 0;
    let mut digit_ns = unit_ns;
    for digit in fraction.bytes() {
        // A zero beyond the last nanosecond adds nothing. Any other digit there cannot be represented.
        if digit_ns % 10 != 0 && digit != b'0' {
            return None;
        }
        digit_ns /= 10;
        part += i64::from(digit - b'0') * digit_ns;
    }
    match whole.starts_with('-') {
        true => units.checked_sub(part),
        false => units.checked_add(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_they_are_written() {
        for (ns, text) in [
            (0, "0s"),
            (60_000_000_000, "1m"),
            (31_536_000_000_000_000, "365d"),
            (5_400_000_000_001, "1h30m1ns"),
        ] {
            assert_eq!(duration_text(ns), text);
            assert_eq!(parse_duration(text), Ok(ns as i64));
        }
    }

    #[test]
    fn durations_are_parsed() {
        assert_eq!(parse_duration("10s"), Ok(10_000_000_000));
        assert_eq!(parse_duration("1h30m"), Ok(5_400_000_000_000));
        assert_eq!(parse_duration("1.5ms"), Ok(1_500_000));
        for bad in ["", "s", "10", "10x", "99999999999y", "-1s"] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_are_parsed() {
        let now = 1_000_000_000_000;
        assert_eq!(parse_time("-5", now), Ok(-5));
        assert_eq!(parse_time("now", now), Ok(now));
        assert_eq!(parse_time("-10s", now), Ok(now - 10_000_000_000));
        assert_eq!(parse_time("now-10s", now), Ok(now - 10_000_000_000));
        assert_eq!(parse_time("1970-01-01", now), Ok(0));
        assert_eq!(
            parse_time("2026-11-21T08:00:00Z", now),
            Ok(1_795_248_000_000_000_000)
        );
        assert_eq!(
            parse_time("2026-11-21T09:00:00.25+01:00", now),
            Ok(1_795_248_000_250_000_000)
        );
        assert_eq!(parse_time("1969-12-31T23:59:59Z", now), Ok(-1_000_000_000));
        assert_eq!(parse_time("2024-02-29", now), Ok(1_709_164_800_000_000_000));
        for bad in [
            "",
            "yesterday",
            "2026-13-01",
            "2023-02-29",
            "2026-11-21T25:00:00Z",
            "2026-11-21X",
            "9999-01-01",
        ] {
            assert!(parse_time(bad, now).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_unit_of_a_bare_number_follows_from_its_size() {
        let ns = 1_795_408_380_000_000_000;
        for text in [
            "1795408380",
            "1795408380000",
            "1795408380000000",
            "1795408380000000000",
            "1795408380s",
            "1795408380000ms",
            "1795408380000000000ns",
        ] {
            assert_eq!(parse_time(text, 0), Ok(ns), "{text}");
        }
        let note = |text| parse_moment(text, 0).unwrap().note;
        assert!(
            note("1795408380").is_some_and(
                |note| note.contains("seconds") && note.contains("2026-11-23T04:33:00Z")
            )
        );
        assert_eq!(note("1795408380000000000"), None);
        assert_eq!(note("1795408380s"), None);
        assert_eq!(
            parse_time("1700000000.123", 0),
            Ok(1_700_000_000_123_000_000)
        );
        // A number that is implausible in every unit, and a number with the unit ns, count nanoseconds.
        assert_eq!(parse_time("5", 0), Ok(5));
        assert_eq!(parse_time("1700000000ns", 0), Ok(1_700_000_000));
        assert_eq!(parse_time("9223372036854775807", 0), Ok(i64::MAX));
        assert!(parse_time("5.5", 0).is_err());
        assert!(parse_time("10s", 0).is_err(), "no sign of an offset");
        assert!(parse_time("1700000000.", 0).is_err());
    }

    #[test]
    fn a_bare_year_is_an_error_that_names_the_remedies() {
        for year in ["1970", "2026", "2100"] {
            let error = parse_time(year, 0).unwrap_err().to_string();
            let first = error
                .split_whitespace()
                .find(|word| word.ends_with("-01-01"))
                .unwrap();
            assert_eq!(first, format!("{year}-01-01"), "{error}");
            assert!(parse_time(first, 0).is_ok());
        }
        let error = parse_time("2026", 0).unwrap_err().to_string();
        for (remedy, ns) in [
            ("2026-01-01", 1_767_225_600_000_000_000),
            ("1970-01-01T00:33:46Z", 2_026_000_000_000),
            ("2026ns", 2026),
        ] {
            assert!(error.contains(remedy), "{error}");
            assert_eq!(parse_time(remedy, 0), Ok(ns));
        }
        // Numbers that are not one of these years, or not only a year.
        for (text, ns) in [
            ("1969", 1969),
            ("2101", 2101),
            ("02026", 2026),
            ("-2026", -2026),
        ] {
            assert_eq!(parse_time(text, 0), Ok(ns), "{text}");
        }
    }

    #[test]
    fn units_with_fractions_are_exact() {
        assert_eq!(parse_units("-1.5", 1_000_000_000), Some(-1_500_000_000));
        assert_eq!(parse_units("-0.25", 1_000), Some(-250));
        assert_eq!(parse_units("1.0000", 1_000), Some(1_000));
        assert_eq!(parse_units("1.0001", 1_000), None);
        assert_eq!(parse_units("99999999999", 1_000_000_000), None);
        assert_eq!(parse_units("1e9", 1), None);
    }

    #[test]
    fn intervals_include_both_ends() {
        let all = Interval::ALL;
        assert!(all.contains(i64::MIN) && all.contains(i64::MAX));
        assert!(Interval::new(1, 1).overlaps(&Interval::new(1, 5)));
        assert!(!Interval::new(1, 1).overlaps(&Interval::new(2, 5)));
        assert!(Interval::new(2, 1).is_empty());
    }
}
