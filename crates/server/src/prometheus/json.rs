//! Answers in the JSON of Prometheus.

use seiner_model::rfc3339;
use seiner_promql::{Answer, Data, Labels, Raw, Series, Steps, is_absent};
use std::io::{self, Write};

/// Writes the result of a query, with at most `limit` series.
pub fn write_answer(out: &mut impl Write, answer: &Answer, limit: Option<usize>) -> io::Result<()> {
    let kind = match &answer.data {
        Data::Scalar(..) => "scalar",
        Data::Text(..) => "string",
        Data::Vector(..) => "vector",
        Data::Matrix(..) | Data::Samples(_) => "matrix",
    };
    write!(
        out,
        r#"{{"status":"success","data":{{"resultType":"{kind}","result":"#
    )?;
    let limit = limit.unwrap_or(usize::MAX);
    let found = match &answer.data {
        Data::Scalar(time, value) => {
            point(out, *time, *value)?;
            0
        }
        Data::Text(time, text) => {
            out.write_all(b"[")?;
            let mut stamp = Vec::new();
            put_time(&mut stamp, *time);
            out.write_all(&stamp)?;
            out.write_all(b",")?;
            serde_json::to_writer(&mut *out, text)?;
            out.write_all(b"]")?;
            0
        }
        Data::Vector(time, samples) => {
            list(
                out,
                &samples[..samples.len().min(limit)],
                |out, (found, value)| {
                    out.write_all(b"{\"metric\":")?;
                    labels(out, found)?;
                    out.write_all(b",\"value\":")?;
                    point(out, *time, *value)?;
                    out.write_all(b"}")
                },
            )?;
            samples.len()
        }
        Data::Matrix(steps, series) => {
            list(out, &series[..series.len().min(limit)], |out, series| {
                matrix(out, steps, series)
            })?;
            series.len()
        }
        Data::Samples(raw) => {
            list(out, &raw[..raw.len().min(limit)], samples)?;
            raw.len()
        }
    };
    out.write_all(b"}")?;
    let mut warnings = answer.warnings.clone();
    if found > limit {
        warnings.push(super::catalog::TRUNCATED.to_string());
    }
    notes(out, "warnings", &warnings)?;
    notes(out, "infos", &answer.infos)?;
    out.write_all(b"}")
}

/// Writes a list of texts, if there are any.
pub fn notes(out: &mut impl Write, name: &str, texts: &[String]) -> io::Result<()> {
    if texts.is_empty() {
        return Ok(());
    }
    write!(out, ",\"{name}\":")?;
    serde_json::to_writer(out, texts).map_err(io::Error::from)
}

/// Returns the text of the time of the last scrape or evaluation; `None` if there was none.
pub fn last_time(time: Option<i64>) -> String {
    time.map_or("0001-01-01T00:00:00Z".to_string(), rfc3339)
}

/// Writes items in brackets.
pub fn list<W: Write, T>(
    out: &mut W,
    items: &[T],
    write: impl Fn(&mut W, &T) -> io::Result<()>,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (nth, item) in items.iter().enumerate() {
        if nth > 0 {
            out.write_all(b",")?;
        }
        write(out, item)?;
    }
    out.write_all(b"]")
}

/// Writes labels as an object.
pub fn labels(out: &mut impl Write, labels: &Labels) -> io::Result<()> {
    out.write_all(b"{")?;
    for (nth, (name, value)) in labels.iter().enumerate() {
        if nth > 0 {
            out.write_all(b",")?;
        }
        serde_json::to_writer(&mut *out, name)?;
        out.write_all(b":")?;
        serde_json::to_writer(&mut *out, value)?;
    }
    out.write_all(b"}")
}

fn matrix(out: &mut impl Write, steps: &Steps, series: &Series) -> io::Result<()> {
    let values = series
        .values
        .iter()
        .enumerate()
        .filter(|(_, value)| !is_absent(**value));
    points(
        out,
        &series.labels,
        values.map(|(at, value)| (steps.time(at), *value)),
    )
}

fn samples(out: &mut impl Write, raw: &Raw) -> io::Result<()> {
    let samples = raw.times.iter().copied().zip(raw.values.iter().copied());
    points(out, &raw.labels, samples)
}

/// Bytes of points that are gathered before they are written.
const GATHERED: usize = 16 << 10;

fn points(
    out: &mut impl Write,
    found: &Labels,
    points: impl Iterator<Item = (i64, f64)>,
) -> io::Result<()> {
    out.write_all(b"{\"metric\":")?;
    labels(out, found)?;
    out.write_all(b",\"values\":[")?;
    let mut text = Vec::new();
    for (nth, (time, value)) in points.enumerate() {
        if nth > 0 {
            text.push(b',');
        }
        put_point(&mut text, time, value);
        if text.len() >= GATHERED {
            out.write_all(&text)?;
            text.clear();
        }
    }
    out.write_all(&text)?;
    out.write_all(b"]}")
}

fn point(out: &mut impl Write, time: i64, value: f64) -> io::Result<()> {
    let mut text = Vec::with_capacity(64);
    put_point(&mut text, time, value);
    out.write_all(&text)
}

fn put_point(text: &mut Vec<u8>, time: i64, value: f64) {
    text.push(b'[');
    put_time(text, time);
    text.extend_from_slice(b",\"");
    put_value(text, value);
    text.extend_from_slice(b"\"]");
}

/// Appends a time in seconds, with as many digits as it needs.
fn put_time(text: &mut Vec<u8>, ns: i64) {
    if ns < 0 {
        text.push(b'-');
    }
    let (seconds, rest) = (
        ns.unsigned_abs() / 1_000_000_000,
        ns.unsigned_abs() % 1_000_000_000,
    );
    put_integer(text, seconds);
    // A leading one preserves the zeros after the decimal point.
    let digits = match (rest, rest % 1_000_000) {
        (0, _) => return,
        (_, 0) => 1_000 + rest / 1_000_000,
        _ => 1_000_000_000 + rest,
    };
    let at = text.len();
    put_integer(text, digits);
    text[at] = b'.';
}

fn put_integer(text: &mut Vec<u8>, integer: u64) {
    text.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
}

/// Appends a value as its shortest decimal. Numbers that are very small or very large have an exponent.
fn put_value(text: &mut Vec<u8>, value: f64) {
    let size = value.abs();
    if (1e-4..1e15).contains(&size) {
        // These have no exponent in either notation, and only a whole number ends in ".0".
        let mut buffer = zmij::Buffer::new();
        let digits = buffer.format_finite(value);
        let digits = digits.strip_suffix(".0").unwrap_or(digits);
        text.extend_from_slice(digits.as_bytes());
        return;
    }
    let written = match size.is_finite() {
        true if size != 0.0 && !(1e-6..1e21).contains(&size) => put_with_exponent(text, value),
        true => write!(text, "{value}"),
        false => text.write_all(seiner_promql::number_text(value).as_bytes()),
    };
    written.expect("a list of bytes takes all bytes");
}

fn put_with_exponent(text: &mut Vec<u8>, value: f64) -> io::Result<()> {
    let shown = format!("{value:e}");
    let (digits, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    write!(text, "{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(write: impl Fn(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn points_have_the_notation_of_prometheus() {
        for (time, value, expected) in [
            (1_435_781_430_781_000_000, 1.0, r#"[1435781430.781,"1"]"#),
            (-1_500_000_000, 0.1, r#"[-1.500,"0.1"]"#),
            (1, 1e21, r#"[0.000000001,"1e+21"]"#),
            (0, 1.5e-7, r#"[0,"1.5e-07"]"#),
            (0, f64::NAN, r#"[0,"NaN"]"#),
            (0, f64::NEG_INFINITY, r#"[0,"-Inf"]"#),
        ] {
            assert_eq!(text(|out| point(out, time, value)), expected);
        }
    }

    proptest! {
        /// Decimals without exponent are those of the standard library.
        #[test]
        fn values_are_the_shortest_decimals(bits in any::<u64>(), exponent in -5_i32..16, digits in -99_999_i64..99_999) {
            let scaled = digits as f64 * 10_f64.powi(exponent - 5);
            for value in [f64::from_bits(bits), scaled, digits as f64, f64::from_bits(bits) % 1e15] {
                let size = value.abs();
                if value == 0.0 || (1e-6..1e21).contains(&size) {
                    let mut text = Vec::new();
                    put_value(&mut text, value);
                    let text = String::from_utf8(text).unwrap();
                    // A value halfway between two shortest texts may have either.
                    prop_assert_eq!(text.parse::<f64>().unwrap(), value);
                    prop_assert_eq!(text.len(), value.to_string().len());
                }
            }
        }
    }

    #[test]
    fn a_limit_is_a_warning() {
        let answer = Answer {
            data: Data::Vector(0, vec![(Labels::new(), 1.0), (Labels::new(), 2.0)]),
            warnings: Vec::new(),
            infos: vec!["a hint".to_string()],
        };
        assert_eq!(
            text(|out| write_answer(out, &answer, Some(1))),
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[0,"1"]}]},"warnings":["results truncated due to limit"],"infos":["a hint"]}"#
        );
    }
}
