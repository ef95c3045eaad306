//! Times and intervals: i64 nanoseconds since 1970-01-01T00:00:00Z.

/// All times from `start` to `end`, both included, so that every i64 can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The first time, ns.
    pub start: i64,
    /// The last time, ns.
    pub end: i64,
}

impl Interval {
    /// Everything.
    pub const ALL: Interval = Interval {
        start: i64::MIN,
        end: i64::MAX,
    };

    /// From `start` to `end`, both included.
    pub fn new(start: i64, end: i64) -> Interval {
        Interval { start, end }
    }

    /// Whether it holds no time at all.
    pub fn is_empty(&self) -> bool {
        self.start > self.end
    }

    /// Whether it holds this time.
    pub fn contains(&self, time: i64) -> bool {
        self.start <= time && time <= self.end
    }

    /// Whether the two have a time in common.
    pub fn overlaps(&self, other: &Interval) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// Whether all of `other` lies in it.
    pub fn covers(&self, other: &Interval) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// Why a text is no time or no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}; write {remedy}")]
pub struct TimeError {
    text: String,
    what: &'static str,
    remedy: &'static str,
}

/// A duration such as `90s`, `1h30m`, `100ms`, `7d`, in ns. Units: ns, us, ms, s, m, h, d, w, y (365 d).
pub fn parse_duration(text: &str) -> Result<i64, TimeError> {
    let error = || TimeError {
        text: text.to_string(),
        what: "duration",
        remedy: "a number and a unit (ns, us, ms, s, m, h, d, w, y), such as 10s or 1h30m",
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

/// A duration in the longest units that tell it exactly, as [`parse_duration`] reads it: `1h30m`.
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

/// A time: integer ns, `now`, `now-1h`, `-1h` (before now), or RFC 3339
/// (`2026-11-21`, `2026-11-21T08:00:00Z`, `2026-11-21T08:00:00.5+01:00`). `now` is in ns.
pub fn parse_time(text: &str, now: i64) -> Result<i64, TimeError> {
    let error = || TimeError {
        text: text.to_string(),
        what: "time",
        remedy: "integer nanoseconds, RFC 3339 (2026-11-21T08:00:00Z), now, or an offset such as -1h",
    };
    if let Ok(ns) = text.parse::<i64>() {
        return Ok(ns);
    }
    let relative = text.strip_prefix("now").unwrap_or(text);
    if relative.is_empty() && !text.is_empty() {
        return Ok(now);
    }
    if let Some(back) = relative.strip_prefix('-')
        && let Ok(duration) = parse_duration(back)
    {
        return Ok(now.saturating_sub(duration));
    }
    if let Some(ahead) = relative.strip_prefix('+')
        && let Ok(duration) = parse_duration(ahead)
    {
        return Ok(now.saturating_add(duration));
    }
    parse_rfc3339(text).ok_or_else(error)
}

fn parse_rfc3339(text: &str) -> Option<i64> {
    let date = text.get(..10)?;
    let (year, month, day) = (date.get(..4)?, date.get(5..7)?, date.get(8..10)?);
    if date.as_bytes()[4] != b'-' || date.as_bytes()[7] != b'-' {
        return None;
    }
    let (year, month, day): (i64, i64, i64) =
        (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let seconds = days_from_civil(year, month, day) * 86_400;
    let rest = &text[10..];
    if rest.is_empty() {
        return seconds.checked_mul(1_000_000_000);
    }
    if !matches!(rest.as_bytes()[0], b'T' | b't' | b' ') {
        return None;
    }
    let (clock, offset) = split_offset(&rest[1..])?;
    seconds
        .checked_sub(offset)?
        .checked_mul(1_000_000_000)?
        .checked_add(clock)
}

/// The time of day in ns and the offset from UTC in seconds.
fn split_offset(text: &str) -> Option<(i64, i64)> {
    let (clock, offset) = if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        (clock, 0)
    } else {
        let at = text.rfind(['+', '-'])?;
        let (hours, minutes) = text[at + 1..].split_once(':')?;
        let seconds = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
        (
            &text[..at],
            if text.as_bytes()[at] == b'-' {
                -seconds
            } else {
                seconds
            },
        )
    };
    let mut parts = clock.split(':');
    let hours: i64 = parts.next()?.parse().ok()?;
    let minutes: i64 = parts.next()?.parse().ok()?;
    let (whole, fraction) = match parts.next().unwrap_or("0").split_once('.') {
        Some((whole, fraction)) => (whole.to_string(), fraction.to_string()),
        None => (
            clock.split(':').nth(2).unwrap_or("0").to_string(),
            String::new(),
        ),
    };
    let seconds: i64 = whole.parse().ok()?;
    if parts.next().is_some()
        || !(0..24).contains(&hours)
        || !(0..60).contains(&minutes)
        || !(0..61).contains(&seconds)
    {
        return None;
    }
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos: i64 = if fraction.is_empty() {
        0
    } else {
        format!("{fraction:0<9}").parse().ok()?
    };
    Some((
        ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanos,
        offset,
    ))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar, counted in
/// eras of 400 years that begin in March, so that the leap day comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
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
    fn durations() {
        assert_eq!(parse_duration("10s"), Ok(10_000_000_000));
        assert_eq!(parse_duration("1h30m"), Ok(5_400_000_000_000));
        assert_eq!(parse_duration("1.5ms"), Ok(1_500_000));
        for bad in ["", "s", "10", "10x", "99999999999y", "-1s"] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times() {
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
    fn intervals_include_both_ends() {
        let all = Interval::ALL;
        assert!(all.contains(i64::MIN) && all.contains(i64::MAX));
        assert!(Interval::new(1, 1).overlaps(&Interval::new(1, 5)));
        assert!(!Interval::new(1, 1).overlaps(&Interval::new(2, 5)));
        assert!(Interval::new(2, 1).is_empty());
    }
}
