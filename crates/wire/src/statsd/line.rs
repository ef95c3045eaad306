//! Decoder of a line.

use crate::Skipped;
use crate::line::shown;
use crate::sample::{Name, finite, number};
use seiner_model::SourceKey;
use std::collections::BTreeMap;

/// Maximum number of values in a line.
pub const MAX_VALUES: usize = 4096;
/// Bounds of a time in s: 1971, and the last second that fits in ns.
const TIMES: (i64, i64) = (31_536_000, i64::MAX / NS_PER_S);
const NS_PER_S: i64 = 1_000_000_000;
/// Tag that names the type of a metric.
const METRIC_TYPE: &str = "metric_type";
/// Value of a tag that has none.
const NO_VALUE: &str = "true";

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sum of the values.
    Counter,
    /// Last value, or the sum of changes.
    Gauge,
    /// Times in ms.
    Timing,
    /// Values that are aggregated.
    Histogram,
    /// The same, under the name of DogStatsD.
    Distribution,
    /// Number of different members.
    Set,
}

/// Value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'t> {
    /// A number.
    Number(f64),
    /// A change of a gauge.
    Change(f64),
    /// A member of a set.
    Member(&'t str),
}

/// Values of a metric from one line.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric<'t> {
    /// Name of the source, with its tags.
    pub name: Vec<u8>,
    /// Type.
    pub kind: Kind,
    /// Values, at least one and at most [`MAX_VALUES`].
    pub values: Vec<Value<'t>>,
    /// Number of values that each value stands for: the reciprocal of the sample rate.
    pub weight: f64,
    /// Time of the values in ns, for a counter or a gauge that states one.
    pub time: Option<i64>,
}

/// Content of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Line<'t> {
    /// Nothing.
    Blank,
    /// An event or a service check of DogStatsD, which is not kept.
    Event,
    /// Values.
    Metric(Metric<'t>),
}

impl Kind {
    /// Returns the value of the tag `metric_type`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Timing => "timing",
            Kind::Histogram => "histogram",
            Kind::Distribution => "distribution",
            Kind::Set => "set",
        }
    }
}

/// Decodes a line without its newline.
///
/// # Errors
/// If the line is malformed. None of its values counts then.
pub fn decode_line(line: &[u8]) -> Result<Line<'_>, Skipped> {
    let text = std::str::from_utf8(line)
        .map_err(|_| Skipped::because(format!("{:?} is not UTF-8", shown(line))))?;
    let text = text.trim_matches([' ', '\t', '\r']);
    if text.is_empty() {
        return Ok(Line::Blank);
    }
    if text.starts_with("_e{") || text.starts_with("_sc|") {
        return Ok(Line::Event);
    }
    let malformed = || {
        Skipped::because(format!(
            "{:?} is not `name:value|type`",
            shown(text.as_bytes())
        ))
    };
    let mut parts = text.split('|');
    let first = parts.next().unwrap_or_default();
    let kind = kind(parts.next().ok_or_else(malformed)?)?;
    // Values contain no colon but those of sets, which may.
    let (bucket, values) = first.split_once(':').ok_or_else(malformed)?;
    let (mut weight, mut time, mut tags) = (1.0, None, BTreeMap::new());
    let name = bucket_tags(bucket, &mut tags)?;
    for part in parts {
        if let Some(rate) = part.strip_prefix('@') {
            weight = 1.0 / sample_rate(rate)?;
        } else if let Some(given) = part.strip_prefix('#') {
            let given = given.split(',').filter(|tag| !tag.is_empty());
            tags.extend(given.map(|tag| pair(tag, ':')));
        } else if let Some(given) = part.strip_prefix('T')
            && matches!(kind, Kind::Counter | Kind::Gauge)
        {
            time = Some(stated_time(given)?);
        }
        // Others, such as the container of DogStatsD, have no effect.
    }
    let values = read(values, kind)?;
    if time.is_some() && values.iter().any(|value| matches!(value, Value::Change(_))) {
        return Err(Skipped::because(
            "a change of a gauge cannot have a time; send the value of the gauge",
        ));
    }
    Ok(Line::Metric(Metric {
        name: source_name(name, tags, kind)?,
        values,
        kind,
        weight,
        time,
    }))
}

/// Reads a time in s since 1970, as ns.
fn stated_time(text: &str) -> Result<i64, Skipped> {
    let (first, last) = TIMES;
    match text.parse::<i64>() {
        Ok(seconds) if (first..=last).contains(&seconds) => Ok(seconds * NS_PER_S),
        _ => Err(Skipped::because(format!(
            "time {:?} is not a whole number of seconds since 1970, from 1971 to 2262",
            shown(text.as_bytes())
        ))),
    }
}

fn kind(word: &str) -> Result<Kind, Skipped> {
    match word {
        "c" | "m" => Ok(Kind::Counter),
        "g" => Ok(Kind::Gauge),
        "ms" => Ok(Kind::Timing),
        "h" => Ok(Kind::Histogram),
        "d" => Ok(Kind::Distribution),
        "s" => Ok(Kind::Set),
        _ => Err(Skipped::because(format!(
            "type {:?} is none of c, g, ms, h, d and s",
            shown(word.as_bytes())
        ))),
    }
}

/// Splits tags in the form of InfluxDB off the name: `name,tag=value`.
fn bucket_tags<'t>(
    bucket: &'t str,
    tags: &mut BTreeMap<&'t str, &'t str>,
) -> Result<&'t str, Skipped> {
    let mut parts = bucket.split(',');
    let name = parts.next().unwrap_or_default();
    if name.is_empty() {
        return Err(Skipped::because("the name is empty"));
    }
    let parts = parts.filter(|tag| !tag.is_empty());
    tags.extend(parts.map(|tag| pair(tag, '=')));
    Ok(name)
}

fn pair(tag: &str, separator: char) -> (&str, &str) {
    match tag.split_once(separator) {
        Some((tag, value)) if !value.is_empty() => (tag, value),
        Some((tag, _)) => (tag, NO_VALUE),
        None => (tag, NO_VALUE),
    }
}

fn sample_rate(text: &str) -> Result<f64, Skipped> {
    let rate = number("sample rate", text.as_bytes())?;
    match rate > 0.0 && rate <= 1.0 && (1.0 / rate).is_finite() {
        true => Ok(rate),
        false => Err(Skipped::because(format!(
            "sample rate {rate} is not above 0 and at most 1"
        ))),
    }
}

fn source_name(
    measurement: &str,
    mut tags: BTreeMap<&str, &str>,
    kind: Kind,
) -> Result<Vec<u8>, Skipped> {
    tags.insert(METRIC_TYPE, kind.word());
    let mut name = Name::new(measurement)?;
    for (tag, value) in tags {
        if tag.is_empty() {
            return Err(Skipped::because("a tag has no name; write #tag:value"));
        }
        name.tag(tag, value)?;
    }
    let name = name.as_bytes();
    match name.len() > SourceKey::MAX_BYTES {
        true => Err(Skipped::because(format!(
            "the name with its tags is longer than {} bytes",
            SourceKey::MAX_BYTES
        ))),
        false => Ok(name.to_vec()),
    }
}

fn read(values: &str, kind: Kind) -> Result<Vec<Value<'_>>, Skipped> {
    if kind == Kind::Set {
        return match values {
            "" => Err(Skipped::because("the member of the set is empty")),
            member => Ok(vec![Value::Member(member)]),
        };
    }
    let mut read = Vec::new();
    for text in values.split(':') {
        if read.len() >= MAX_VALUES {
            return Err(Skipped::because(format!(
                "the line has more than {MAX_VALUES} values; send several lines"
            )));
        }
        let value = finite(number("value", text.as_bytes())?)?;
        let is_change = kind == Kind::Gauge && text.starts_with(['+', '-']);
        read.push(match is_change {
            true => Value::Change(value),
            false => Value::Number(value),
        });
    }
    Ok(read)
}
