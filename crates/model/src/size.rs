//! Parsers of sizes and counts, such as `64KiB` and `1e6`.

/// Parses bytes: `64KiB`, `4k`, `1G`, `4096`.
///
/// # Errors
/// A sentence with the remedy.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let split = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1u64,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => {
            return Err(
                "write a number with B, KiB, MiB, GiB or TiB (or kB, MB, GB, TB)".to_string(),
            );
        }
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "it must begin with a number".to_string())?;
    Ok((number * unit as f64) as u64)
}

/// Parses a count: `100000`, `1e6`, `700k`.
///
/// # Errors
/// A sentence with the remedy.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.strip_suffix(['k', 'M']) {
        Some(number) if text.ends_with('k') => (number, 1e3),
        Some(number) => (number, 1e6),
        None => (text, 1.0),
    };
    let value = number
        .parse::<f64>()
        .map_err(|_| "write a number such as 100000, 700k or 1e6".to_string())?
        * unit;
    if !(value >= 0.0 && value.fract() == 0.0) {
        return Err("it must be a whole number".to_string());
    }
    Ok(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_parsed() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("4K"), Ok(4096));
        assert_eq!(parse_bytes("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse_bytes("290TB"), Ok(290_000_000_000_000));
        assert!(parse_bytes("many").is_err());
        assert!(parse_bytes("4 potatoes").is_err());
        assert_eq!(parse_count("1e6"), Ok(1_000_000));
        assert_eq!(parse_count("700k"), Ok(700_000));
        assert_eq!(parse_count("12"), Ok(12));
        for bad in ["1.5", "-1", "NaN"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
    }
}
