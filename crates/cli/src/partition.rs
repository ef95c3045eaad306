//! Names of folders in the style of Hive: `name=value`, with percent-encoding.

/// Returns the name of a folder. No value leaves its folder: all bytes but letters, digits, `_`, `-` and `.` are
/// percent-encoded.
pub fn folder(name: &str, value: &str) -> String {
    let mut text = format!("{name}=");
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' => text.push(byte.into()),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

/// Returns the name and the value of a folder; `None` for a folder of another form, or if the value is not UTF-8.
pub fn parse(folder: &str) -> Option<(&str, String)> {
    let (name, encoded) = folder
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())?;
    let mut value = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                // Two digits of 16 fit in a byte.
                value.push((digit(*high)? * 16 + digit(*low)?) as u8);
                rest = after;
            }
            _ => {
                value.push(byte);
                rest = after;
            }
        }
    }
    Some((name, String::from_utf8(value).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back() {
        for value in ["cpu", "a b", "../../etc", "ü/%41", "100%", ".", "a=b\n"] {
            let folder = folder("measurement", value);
            assert!(!folder.contains('/'), "{folder}");
            assert_eq!(parse(&folder), Some(("measurement", value.to_string())));
        }
        assert_eq!(folder("measurement", "a b"), "measurement=a%20b");
    }

    #[test]
    fn other_folders_have_no_value() {
        for other in ["plain", "=x", "a=%FF", "a=%G1"] {
            assert_eq!(parse(other), None, "{other}");
        }
        assert_eq!(parse("a=5%"), Some(("a", "5%".to_string())));
    }
}
