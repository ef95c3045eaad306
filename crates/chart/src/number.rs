//! Numbers as text for people.

/// Formats a number with three significant digits and separated thousands.
pub fn plain(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 {
            "0".into()
        } else {
            "–".into()
        };
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    group(text)
}

fn group(text: &str) -> String {
    let (sign, text) = text
        .strip_prefix('-')
        .map_or(("", text), |rest| ("−", rest));
    let (whole, fraction) = text
        .split_once('.')
        .map_or((text, None), |(whole, part)| (whole, Some(part)));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) && whole.len() > 4 {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    match fraction {
        Some(fraction) => format!("{sign}{grouped}.{fraction}"),
        None => format!("{sign}{grouped}"),
    }
}

/// Formats a number of bytes with binary units.
pub fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let step = (value.max(1.0).log2() / 10.0).floor().min(5.0);
    format!(
        "{} {}",
        plain(value / 1024f64.powf(step)),
        units[step as usize]
    )
}

/// Formats a number for an axis: 1000 becomes 1k.
pub fn tick(value: f64) -> String {
    let steps = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match steps.iter().find(|(step, _)| value.abs() >= *step) {
        Some((step, letter)) => format!("{}{letter}", plain(value / step)),
        None => plain(value),
    }
}

/// Returns a duration as text for people.
pub fn about(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted() {
        assert_eq!(plain(0.0), "0");
        assert_eq!(plain(1.0), "1");
        assert_eq!(plain(0.01234), "0.0123");
        assert_eq!(plain(123.456), "123");
        assert_eq!(plain(12345.6), "12\u{202f}346");
        assert_eq!(plain(-2.5), "−2.5");
        assert_eq!(plain(100.0), "100");
        assert_eq!(bytes(4096.0), "4 KiB");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(tick(700_000.0), "700k");
    }

    #[test]
    fn durations_are_formatted() {
        assert_eq!(about(12.2), "12 s");
        assert_eq!(about(600.0), "10 min");
        assert_eq!(about(9000.0), "2.5 h");
    }
}
