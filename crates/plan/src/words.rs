//! Formats of numbers, sizes and durations for people.

/// Seconds per day.
pub const DAY_S: f64 = 86_400.0;

/// Formats a number with three significant digits.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_string();
    }
    if value == 0.0 {
        return "0".to_string();
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// Formats a large number with groups of three digits.
pub fn count(value: f64) -> String {
    let whole = format!("{value:.0}");
    if value < 10_000.0 {
        return plain(value);
    }
    let groups: Vec<&str> = whole
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|digits| std::str::from_utf8(digits).unwrap_or_default())
        .collect();
    groups.join("\u{202f}")
}

/// Formats a number of bytes.
pub fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let step = if value.abs() < 1.0 {
        0.0
    } else {
        (value.abs().log2() / 10.0).floor().min(5.0)
    };
    format!(
        "{} {}",
        plain(value / 1024f64.powf(step)),
        units[step as usize]
    )
}

/// Formats a duration.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{} s", plain(s)),
        s if s < 7200.0 => format!("{} min", plain(s / 60.0)),
        s if s < 2.0 * DAY_S => format!("{} h", plain(s / 3600.0)),
        s if s < 730.0 * DAY_S => format!("{} days", plain(s / DAY_S)),
        s => format!("{} years", plain(s / DAY_S / 365.25)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted() {
        assert_eq!(plain(0.0), "0");
        assert_eq!(plain(123_456.0), "123456");
        assert_eq!(count(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!(count(12.34), "12.3");
        assert_eq!(bytes(0.82), "0.82 B");
        assert_eq!(bytes(3.0 * 1024f64.powi(3)), "3 GiB");
        assert_eq!(duration(90.0), "90 s");
        assert_eq!(duration(365.25 * DAY_S * 3.0), "3 years");
    }
}
