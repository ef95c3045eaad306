//! Answers in the JSON of Prometheus.

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
            write_time(out, *time)?;
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

fn points(
    out: &mut impl Write,
    found: &Labels,
    points: impl Iterator<Item = (i64, f64)>,
) -> io::Result<()> {
    out.write_all(b"{\"metric\":")?;
    labels(out, found)?;
    out.write_all(b",\"values\":[")?;
    for (nth, (time, value)) in points.enumerate() {
        if nth > 0 {
            out.write_all(b",")?;
        }
        point(out, time, value)?;
    }
    out.write_all(b"]}")
}

fn point(out: &mut impl Write, time: i64, value: f64) -> io::Result<()> {
    out.write_all(b"[")?;
    write_time(out, time)?;
    out.write_all(b",\"")?;
    write_value(out, value)?;
    out.write_all(b"\"]")
}

/// Writes a time in seconds, with as many digits as it needs.
fn write_time(out: &mut impl Write, ns: i64) -> io::Result<()> {
    let sign = if ns < 0 { "-" } else { "" };
    let (seconds, rest) = (
        ns.unsigned_abs() / 1_000_000_000,
        ns.unsigned_abs() % 1_000_000_000,
    );
    match (rest, rest % 1_000_000) {
        (0, _) => write!(out, "{sign}{seconds}"),
        (_, 0) => write!(out, "{sign}{seconds}.{:03}", rest / 1_000_000),
        _ => write!(out, "{sign}{seconds}.{rest:09}"),
    }
}

/// Writes a value. Numbers that are very small or very large have an exponent.
fn write_value(out: &mut impl Write, value: f64) -> io::Result<()> {
    let size = value.abs();
    if size.is_finite() && size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return write!(out, "{digits}e{sign}{exponent:0>2}");
    }
    match value.is_finite() {
        true => write!(out, "{value}"),
        false => out.write_all(seiner_promql::number_text(value).as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
