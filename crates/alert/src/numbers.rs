//! Numbers as the templates of Prometheus write them.

use seiner_model::rfc3339;
use seiner_promql::number_text;

/// Significant digits of all functions for people.
const DIGITS: usize = 4;

/// Writes a number with a metric prefix: `1.234k`.
pub fn humanize(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return significant(value, DIGITS);
    }
    if value.abs() >= 1.0 {
        return scaled_down(value, 1000.0, &["k", "M", "G", "T", "P", "E", "Z", "Y"]);
    }
    scaled_up(value)
}

/// Writes a number with a prefix for powers of 1024: `1.206ki`.
pub fn humanize_1024(value: f64) -> String {
    match value.abs() <= 1.0 || !value.is_finite() {
        true => significant(value, DIGITS),
        false => scaled_down(
            value,
            1024.0,
            &["ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"],
        ),
    }
}

/// Writes a number of seconds as a duration: `1d 2h 3m 4s`.
pub fn humanize_duration(value: f64) -> String {
    if !value.is_finite() {
        return significant(value, DIGITS);
    }
    if value == 0.0 {
        return significant(value, DIGITS) + "s";
    }
    if value.abs() < 1.0 {
        return scaled_up(value) + "s";
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let whole = value.abs() as i64;
    let (days, hours, minutes, seconds) = (
        whole / 86_400,
        whole / 3600 % 24,
        whole / 60 % 60,
        whole % 60,
    );
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{sign}{}s", significant(value.abs(), DIGITS)),
        (0, 0, _) => format!("{sign}{minutes}m {seconds}s"),
        (0, _, _) => format!("{sign}{hours}h {minutes}m {seconds}s"),
        _ => format!("{sign}{days}d {hours}h {minutes}m {seconds}s"),
    }
}

/// Writes a share of 1 in percent.
pub fn humanize_percentage(value: f64) -> String {
    significant(value * 100.0, DIGITS) + "%"
}

/// Writes a time in seconds since 1970; `None` if it lies outside the years 1677 to 2262.
pub fn humanize_timestamp(value: f64) -> Option<String> {
    if !value.is_finite() {
        return Some(significant(value, DIGITS));
    }
    let ns = value * 1e9;
    // Times of Prometheus have milliseconds.
    let ns = (ns.abs() < 9.2e18).then_some(ns as i64 / 1_000_000 * 1_000_000)?;
    let text = rfc3339(ns).replace('T', " ");
    Some(text.replace('Z', " +0000 UTC"))
}

/// Divides a number until it is less than a step.
fn scaled_down(mut value: f64, step: f64, prefixes: &[&str]) -> String {
    let mut prefix = "";
    for next in prefixes {
        if value.abs() < step {
            break;
        }
        prefix = next;
        value /= step;
    }
    significant(value, DIGITS) + prefix
}

/// Multiplies a number until it is at least 1.
fn scaled_up(mut value: f64) -> String {
    let mut prefix = "";
    for next in ["m", "u", "n", "p", "f", "a", "z", "y"] {
        if value.abs() >= 1.0 {
            break;
        }
        prefix = next;
        value *= 1000.0;
    }
    significant(value, DIGITS) + prefix
}

/// Writes a number with a number of digits after the point, as `%f` does.
pub fn plain(value: f64, digits: usize) -> String {
    match value.is_finite() {
        true => format!("{value:.digits$}"),
        false => number_text(value),
    }
}

/// Writes a number with an exponent of at least two digits, as `%e` does.
pub fn scientific(value: f64, digits: usize) -> String {
    match value.is_finite() {
        true => {
            let (number, exponent) = rounded(value, digits);
            with_exponent(&number, exponent)
        }
        false => number_text(value),
    }
}

/// Writes a number with at most a number of significant digits, as `%g` does.
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return number_text(value);
    }
    let digits = digits.max(1);
    let (number, exponent) = rounded(value, digits - 1);
    if exponent < -4 || exponent >= digits as i32 {
        return with_exponent(trimmed(&number), exponent);
    }
    let after_point = (digits as i32 - 1 - exponent) as usize;
    trimmed(&plain(value, after_point)).to_string()
}

/// Rounds a finite number to a number of digits after the first one. Returns the digits, and the power of ten.
fn rounded(value: f64, digits: usize) -> (String, i32) {
    let text = format!("{value:.digits$e}");
    let (number, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (number.to_string(), exponent.parse().unwrap_or_default())
}

fn with_exponent(number: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{number}e{sign}{:02}", exponent.abs())
}

/// Removes zeros at the end of digits after a point.
fn trimmed(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values and texts of the tests of Prometheus (`template_test.go`), and of its documentation.
    #[test]
    fn numbers_are_written_as_prometheus_does() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (1234567.0, "1.235M"),
            (0.12, "120m"),
            (-0.000_012_34, "-12.34u"),
            (1e30, "1e+06Y"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(humanize(value), text);
        }
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (1048576.0, "1Mi"),
            (0.12, "0.12"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(humanize_1024(value), text);
        }
        for (value, text) in [
            (0.0, "0s"),
            (1.0, "1s"),
            (60.0, "1m 0s"),
            (3600.0, "1h 0m 0s"),
            (86400.0, "1d 0h 0m 0s"),
            (86400.0 + 3600.0, "1d 1h 0m 0s"),
            (
                -(86400.0 * 2.0 + 3600.0 * 3.0 + 60.0 * 4.0 + 5.0),
                "-2d 3h 4m 5s",
            ),
            (899.99, "14m 59s"),
            (0.1, "100ms"),
            (0.0001, "100us"),
            (0.12345, "123.5ms"),
            (60.1, "1m 0s"),
            (12.345_67, "12.35s"),
        ] {
            assert_eq!(humanize_duration(value), text);
        }
        for (value, text) in [(-0.22222, "-22.22%"), (0.0, "0%"), (0.1234567, "12.35%")] {
            assert_eq!(humanize_percentage(value), text);
        }
        assert_eq!(
            humanize_timestamp(1_435_065_584.128).unwrap(),
            "2015-06-23 13:19:44.128 +0000 UTC"
        );
        assert_eq!(humanize_timestamp(1e300), None);
    }

    #[test]
    fn digits_are_significant() {
        for (value, text) in [
            (12345.0, "1.234e+04"),
            (1234.5, "1234"),
            (0.00001234, "1.234e-05"),
            (0.0001, "0.0001"),
            (9999.9, "1e+04"),
            (-1.5, "-1.5"),
        ] {
            assert_eq!(significant(value, 4), text);
        }
    }
}
