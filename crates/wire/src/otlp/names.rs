//! Names of metrics and labels, as Prometheus translates them by default: underscores for other characters, with the
//! suffixes of the unit and the type.

/// Type of a metric, as far as its name depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    /// Gauge: the unit `1` gives the suffix `_ratio`.
    Gauge,
    /// Monotonic sum, with the suffix `_total`.
    Counter,
    /// All others.
    Other,
}

/// Words for units of UCUM, as Prometheus writes them.
const UNITS: [(&str, &str); 25] = [
    ("d", "days"),
    ("h", "hours"),
    ("min", "minutes"),
    ("s", "seconds"),
    ("ms", "milliseconds"),
    ("us", "microseconds"),
    ("ns", "nanoseconds"),
    ("By", "bytes"),
    ("KiBy", "kibibytes"),
    ("MiBy", "mebibytes"),
    ("GiBy", "gibibytes"),
    ("TiBy", "tibibytes"),
    ("KBy", "kilobytes"),
    ("MBy", "megabytes"),
    ("GBy", "gigabytes"),
    ("TBy", "terabytes"),
    ("m", "meters"),
    ("V", "volts"),
    ("A", "amperes"),
    ("J", "joules"),
    ("W", "watts"),
    ("g", "grams"),
    ("Cel", "celsius"),
    ("Hz", "hertz"),
    ("%", "percent"),
];
/// Words for units after a slash.
const PER_UNITS: [(&str, &str); 7] = [
    ("s", "second"),
    ("m", "minute"),
    ("h", "hour"),
    ("d", "day"),
    ("w", "week"),
    ("mo", "month"),
    ("y", "year"),
];
const NO_UNIT: &[u8] = b"1";

/// Appends the name of a metric. Returns false if nothing of it remains.
pub(super) fn put_metric(name: &[u8], unit: &[u8], kind: NameKind, out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    let last: &[u8] = match kind {
        NameKind::Counter => b"total",
        NameKind::Gauge if unit == NO_UNIT => b"ratio",
        _ => b"",
    };
    if name.first().is_some_and(u8::is_ascii_digit) {
        out.push(b'_');
    }
    let first = out.len();
    let put = |token: &[u8], out: &mut Vec<u8>| {
        if out.len() > first {
            out.push(b'_');
        }
        out.extend_from_slice(token);
    };
    let mut is_empty = true;
    for token in tokens(name) {
        is_empty = false;
        if token != last {
            put(token, out);
        }
    }
    if is_empty {
        out.truncate(begin);
        return false;
    }
    let (main, per) = suffixes(unit);
    if !main.is_empty() && !tokens(name).any(|token| token == main) {
        put(&main, out);
    }
    if !per.is_empty() {
        put(&per, out);
    }
    if !last.is_empty() {
        put(last, out);
    }
    true
}

/// Appends a unit in words, for metadata: `bytes_per_second`.
pub(super) fn put_unit(unit: &[u8], out: &mut Vec<u8>) {
    let (main, per) = suffixes(unit);
    out.extend_from_slice(&main);
    if !main.is_empty() && !per.is_empty() {
        out.push(b'_');
    }
    out.extend_from_slice(&per);
}

/// Returns the parts of a name between characters that a name of Prometheus does not have. An underscore separates, too.
fn tokens(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|&byte| !is_kept(byte))
        .filter(|token| !token.is_empty())
}

fn is_kept(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b':'
}

/// Returns the suffixes for a unit: of the unit itself, and of the part after a slash, with `per_`.
fn suffixes(unit: &[u8]) -> (Vec<u8>, Vec<u8>) {
    if unit.is_empty() || unit == NO_UNIT {
        return (Vec::new(), Vec::new());
    }
    let (main, per) = match memchr::memchr(b'/', unit) {
        Some(slash) => (&unit[..slash], &unit[slash + 1..]),
        None => (unit, &b""[..]),
    };
    let mut main = match main.trim_ascii() {
        NO_UNIT => Vec::new(),
        main => word(main, &UNITS),
    };
    let mut per = word(per.trim_ascii(), &PER_UNITS);
    while per.last() == Some(&b'_') {
        per.pop();
    }
    if !per.is_empty() {
        per.splice(0..0, *b"per_");
        while main.last() == Some(&b'_') {
            main.pop();
        }
    }
    (main, per)
}

/// Returns the word of a unit. Annotations in braces have none.
fn word(unit: &[u8], words: &[(&str, &str)]) -> Vec<u8> {
    if unit.iter().any(|byte| matches!(byte, b'{' | b'}')) {
        return Vec::new();
    }
    let known = words.iter().find(|(short, _)| short.as_bytes() == unit);
    if let Some((_, word)) = known {
        return word.as_bytes().to_vec();
    }
    // Other characters become an underscore, several in a row become one, and none begins the word.
    let mut word = Vec::with_capacity(unit.len());
    for &byte in unit {
        match byte {
            byte if is_kept(byte) => word.push(byte),
            _ if word.last().is_none_or(|&last| last == b'_') => {}
            _ => word.push(b'_'),
        }
    }
    word
}

/// Appends the name of a label for an attribute. Returns false if nothing of the name remains.
pub(super) fn put_label_name(key: &[u8], out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    for &byte in key {
        match byte {
            byte if is_in_label(byte) => out.push(byte),
            byte if is_first_of_character(byte) => out.push(b'_'),
            _ => {}
        }
    }
    let prefix: &[u8] = match out[begin..] {
        [b'0'..=b'9', ..] => b"key_",
        [b'_', b'_', ..] => b"",
        [b'_', ..] => b"key",
        _ => b"",
    };
    out.splice(begin..begin, prefix.iter().copied());
    let name = &out[begin..];
    let is_named = name == key || name.iter().any(|&byte| byte != b'_');
    if name.is_empty() || !is_named {
        out.truncate(begin);
        return false;
    }
    true
}

fn is_in_label(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns whether a byte of UTF-8 begins a character.
fn is_first_of_character(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str, unit: &str, kind: NameKind) -> Option<String> {
        let mut out = Vec::new();
        let is_named = put_metric(name.as_bytes(), unit.as_bytes(), kind, &mut out);
        is_named.then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn metrics_have_the_names_that_prometheus_gives_them() {
        use NameKind::{Counter, Gauge, Other};
        for (name, unit, kind, expected) in [
            (
                "http.server.duration",
                "s",
                Other,
                "http_server_duration_seconds",
            ),
            ("requests.count", "1", Counter, "requests_count_total"),
            ("memory.usage", "By", Gauge, "memory_usage_bytes"),
            ("memory.usage.bytes", "By", Gauge, "memory_usage_bytes"),
            ("io", "By/s", Gauge, "io_bytes_per_second"),
            ("io", "/s", Gauge, "io_per_second"),
            ("cpu.utilization", "1", Gauge, "cpu_utilization_ratio"),
            ("ratio.of", "1", Gauge, "of_ratio"),
            ("total.requests", "{request}", Counter, "requests_total"),
            ("requests_total", "", Counter, "requests_total"),
            ("a__b  c", "", Other, "a_b_c"),
            ("job:rate", "", Other, "job:rate"),
            ("2xx", "", Other, "_2xx"),
            ("temp", "°C", Gauge, "temp_C"),
            ("temp", "Cel", Gauge, "temp_celsius"),
            ("x", "{a}/{b}", Gauge, "x"),
            ("x", "foo.bar", Gauge, "x_foo_bar"),
            ("x", "%", Gauge, "x_percent"),
            ("Größe", "", Gauge, "Gr_e"),
            ("total", "", Counter, "total"),
        ] {
            assert_eq!(
                metric(name, unit, kind).as_deref(),
                Some(expected),
                "{name} {unit}"
            );
        }
        for name in ["", "_", "...", "ä"] {
            assert_eq!(metric(name, "", Gauge), None, "{name}");
        }
    }

    #[test]
    fn units_have_words() {
        for (unit, expected) in [
            ("By/s", "bytes_per_second"),
            ("s", "seconds"),
            ("1", ""),
            ("{request}", ""),
            ("/m", "per_minute"),
        ] {
            let mut out = Vec::new();
            put_unit(unit.as_bytes(), &mut out);
            assert_eq!(out, expected.as_bytes(), "{unit}");
        }
    }

    #[test]
    fn labels_have_the_names_that_prometheus_gives_them() {
        for (key, expected) in [
            ("http.method", "http_method"),
            ("123invalid", "key_123invalid"),
            ("__reserved__", "__reserved__"),
            ("_private", "key_private"),
            (".x", "key_x"),
            ("..x", "__x"),
            ("a..b", "a__b"),
            ("größe", "gr__e"),
            ("äb", "key_b"),
            ("_", "key_"),
            ("__", "__"),
        ] {
            let mut out = Vec::new();
            assert!(put_label_name(key.as_bytes(), &mut out), "{key}");
            assert_eq!(out, expected.as_bytes(), "{key}");
        }
        for key in ["", "...", "é.à"] {
            assert!(!put_label_name(key.as_bytes(), &mut Vec::new()), "{key}");
        }
    }
}
