//! Texts of sizes, durations and times for people.

use jiff::Timestamp;

/// Formats a number of bytes with three digits, such as `1.25 GiB`.
pub fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 || value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {}", units[unit])
}

/// Formats a duration in ns in its largest unit, such as `1.5 h`.
pub fn duration(ns: f64) -> String {
    let units = [
        (365.25 * 86_400e9, "y"),
        (86_400e9, "d"),
        (3600e9, "h"),
        (60e9, "min"),
        (1e9, "s"),
        (1e6, "ms"),
    ];
    let unit = units.iter().find(|(length, _)| ns >= *length);
    let (length, name) = unit.copied().unwrap_or((1.0, "ns"));
    let value = format!("{:.1}", ns / length);
    format!("{} {name}", value.strip_suffix(".0").unwrap_or(&value))
}

/// Formats a time in ns since 1970 to the second.
pub fn instant(ns: i64) -> String {
    Timestamp::from_nanosecond(i128::from(ns))
        .map_or_else(|_| ns.to_string(), |at| format!("{at:.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_durations_and_times_are_formatted() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(999), "999 B");
        assert_eq!(size(1000), "0.98 KiB");
        assert_eq!(size(100 << 30), "100 GiB");
        assert_eq!(size(3 << 19), "1.50 MiB");
        assert_eq!(duration(0.0), "0 ns");
        assert_eq!(duration(5400e9), "1.5 h");
        assert_eq!(duration(86_400e9 * 30.0), "30 d");
        assert_eq!(instant(1_700_000_000_000_000_000), "2023-11-14T22:13:20Z");
    }
}
