//! Dates and times of day as text, in the proleptic Gregorian calendar.

const SECOND: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;

/// Parses a date, with or without a time of day, into ns since 1970: `2026-11-21`,
/// `2026-11-21T08:00:00.5+01:00`.
///
/// The separator is `T` or a space. The seconds are optional. The zone is `Z`, `UTC`, `+01:00`, `+0100` or
/// `+01`; without a zone the time is in UTC. Returns `None` if the text is not such a date, or if the time does
/// not fit in an i64 (years 1677 to 2262).
pub fn parse_date(text: &str) -> Option<i64> {
    let date = text.get(..10)?;
    let (year, month, day) = (date.get(..4)?, date.get(5..7)?, date.get(8..10)?);
    if date.as_bytes()[4] != b'-' || date.as_bytes()[7] != b'-' {
        return None;
    }
    let (year, month, day) = (number(year)?, number(month)?, number(day)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let seconds = days_from_civil(year, month, day) * DAY_S;
    let rest = &text[10..];
    if rest.is_empty() {
        return seconds.checked_mul(SECOND);
    }
    let clock = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, offset) = split_zone(clock)?;
    seconds
        .checked_sub(offset)?
        .checked_mul(SECOND)?
        .checked_add(time_of_day(clock)?)
}

/// Formats a time in ns since 1970 as RFC 3339 in UTC, with as many fractional digits of the second as
/// necessary.
pub fn rfc3339(ns: i64) -> String {
    let (days, of_day) = (ns.div_euclid(DAY_S * SECOND), ns.rem_euclid(DAY_S * SECOND));
    let (year, month, day) = civil_from_days(days);
    let (seconds, fraction) = (of_day / SECOND, of_day % SECOND);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}");
    if fraction != 0 {
        let digits = format!(".{fraction:09}");
        text.push_str(digits.trim_end_matches('0'));
    }
    text.push('Z');
    text
}

/// Parses digits only. (`str::parse` alone would accept a sign.)
fn number(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Splits off the zone. Returns the time of day, and the zone's offset from UTC in seconds.
fn split_zone(text: &str) -> Option<(&str, i64)> {
    let utc = ["Z", "z", "UTC"];
    if let Some(clock) = utc.iter().find_map(|zone| text.strip_suffix(zone)) {
        return Some((clock.trim_end(), 0));
    }
    let Some(at) = text.rfind(['+', '-']) else {
        return Some((text, 0));
    };
    let zone = &text[at + 1..];
    let (hours, minutes) = match zone.len() {
        2 => (zone, "0"),
        4 => (zone.get(..2)?, zone.get(2..)?),
        _ => zone.split_once(':')?,
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = hours * 3600 + minutes * 60;
    let sign = if text.as_bytes()[at] == b'-' { -1 } else { 1 };
    Some((text[..at].trim_end(), sign * seconds))
}

/// Parses `08:00`, `08:00:00` or `08:00:00.5` into ns since midnight.
fn time_of_day(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let (hours, minutes) = (number(parts.next()?)?, number(parts.next()?)?);
    let seconds = parts.next().unwrap_or("0");
    let (seconds, fraction) = match seconds.split_once(['.', ',']) {
        Some((seconds, fraction)) => (seconds, fraction),
        None => (seconds, "0"),
    };
    let seconds = number(seconds)?;
    if parts.next().is_some() || hours > 23 || minutes > 59 || seconds > 60 || fraction.len() > 9 {
        return None;
    }
    number(fraction)?;
    let nanos = number(&format!("{fraction:0<9}"))?;
    Some(((hours * 60 + minutes) * 60 + seconds) * SECOND + nanos)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Returns the number of days from 1970-01-01 to a date. Counts in eras of 400 years that begin in March, so
/// that the leap day is the last day of a year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Returns the year, month and day of a number of days since 1970-01-01. Inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_the_spellings_of_files_and_people() {
        let eight = 1_795_248_000 * SECOND;
        for text in [
            "2026-11-21T08:00:00Z",
            "2026-11-21 08:00:00",
            "2026-11-21T08:00",
            "2026-11-21 08:00:00 UTC",
            "2026-11-21 08:00:00.000",
            "2026-11-21T09:00:00+01:00",
            "2026-11-21 09:00+0100",
            "2026-11-21 03:00:00 -05",
            "2026-11-21T13:30:00+05:30",
        ] {
            assert_eq!(parse_date(text), Some(eight), "{text}");
        }
        for bad in [
            "",
            "2026-11-21X",
            "2026-11-21T",
            "2026-11-21T25:00:00Z",
            "2026-11-21T08:00:00+1",
            "2026-11-21T08:+1:00",
            "2026-11-21T08:00:00.1234567891Z",
            "2026-11-21T08:00:00.Z",
            "2026-13-01",
            "+026-11-21",
            "1700-01-01T00:00:00X",
            "1500-01-01",
        ] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_written_as_they_are_read() {
        for (ns, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (1_709_164_800_500_000_000, "2024-02-29T00:00:00.5Z"),
            (1_795_248_000 * SECOND, "2026-11-21T08:00:00Z"),
        ] {
            assert_eq!(rfc3339(ns), text);
        }
        let mut ns = i64::MIN;
        while let Some(next) = ns.checked_add(77_777_777_777_777_777) {
            ns = next;
            assert_eq!(parse_date(&rfc3339(ns)), Some(ns), "{}", rfc3339(ns));
        }
        assert_eq!(rfc3339(i64::MAX), "2262-04-11T23:47:16.854775807Z");
        assert_eq!(rfc3339(i64::MIN), "1677-09-21T00:12:43.145224192Z");
    }
}
