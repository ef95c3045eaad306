//! Sizes as settings contain them: `256 MiB`.

const UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Parses a size such as `256 MiB`, `1.5GiB` or `4096`, in bytes.
///
/// # Errors
/// A sentence with the remedy.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let error = || format!("{text:?} is not a size; write a number and a unit, such as 256 MiB");
    let (number, unit) = match UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
    {
        Some((number, unit)) => (number.trim_end(), unit),
        None => (text, 1),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(error);
    }
    match number.parse::<f64>() {
        Ok(number) if (0.0..1e6).contains(&number) => Ok((number * unit as f64) as u64),
        _ => Err(error()),
    }
}

/// Returns a size in the largest unit that gives a whole number: `256 MiB`.
pub fn format_size(bytes: u64) -> String {
    UNITS[..4]
        .iter()
        .find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit))
        .map_or_else(
            || format!("{bytes} B"),
            |(name, unit)| format!("{} {name}", bytes / unit),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4 KiB", 4096),
            ("1.5MiB", 3 << 19),
            ("2 GB", 2_000_000_000),
            ("7B", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for bad in [
            "",
            "MiB",
            "-1",
            "1 mb",
            "lots",
            "99999999999999999999",
            "1e30 GiB",
            "NaN",
        ] {
            assert!(parse_size(bad).is_err(), "{bad:?}");
        }
        assert_eq!(format_size(256 << 20), "256 MiB");
        assert_eq!(format_size(1000), "1000 B");
    }
}
