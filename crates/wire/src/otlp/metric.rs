//! Metrics: their type, temporality and names.

use super::histogram::Part;
use super::messages::{DATA, METRIC};
use super::names::{NameKind, put_metric, put_unit};
use crate::protobuf::{Content, Fault, Fields, Malformed};
use crate::remote_write::notation::put_label;
use crate::remote_write::{METRIC_NAME, Metadata};
use std::ops::Range;

/// Maximum number of metrics of a request whose metadata are noted. Further metadata are ignored.
const MAX_DESCRIBED: usize = 10_000;

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    Gauge,
    Sum { is_monotonic: bool },
    Histogram,
    Exponential,
    Summary,
}

/// Temporality of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temporality {
    /// Values since a start, or values without a temporality.
    Cumulative,
    /// Values since the point before.
    Delta,
    /// None of both, although the type requires one.
    Unstated,
}

/// `Metric`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric<'a> {
    pub name: &'a [u8],
    description: &'a [u8],
    unit: &'a [u8],
    pub data: Data,
    pub temporality: Temporality,
    /// Message with the points.
    pub points: Fields<'a>,
}

impl<'a> Metric<'a> {
    /// Reads a metric. Returns `None` if it has no data of a known type.
    pub fn read(mut fields: Fields<'a>) -> Result<Option<Metric<'a>>, Malformed> {
        let [mut name, mut description, mut unit]: [&[u8]; 3] = [b""; 3];
        let mut data = None;
        while let Some((number, content)) = fields.next()? {
            match (number, content) {
                (METRIC::NAME, Content::Bytes(bytes)) => name = bytes,
                (METRIC::DESCRIPTION, Content::Bytes(bytes)) => description = bytes,
                (METRIC::UNIT, Content::Bytes(bytes)) => unit = bytes,
                (
                    METRIC::GAUGE
                    | METRIC::SUM
                    | METRIC::HISTOGRAM
                    | METRIC::EXPONENTIAL
                    | METRIC::SUMMARY,
                    Content::Bytes(bytes),
                ) => data = Some((number, fields.inner(bytes))),
                (1..=3 | 5 | 7 | 9..=11, _) => return Err(fields.error(Fault::FieldType)),
                _ => {}
            }
        }
        let Some((number, points)) = data else {
            return Ok(None);
        };
        let (temporality, is_monotonic) = header(points)?;
        let data = match number {
            METRIC::GAUGE => Data::Gauge,
            METRIC::SUM => Data::Sum { is_monotonic },
            METRIC::HISTOGRAM => Data::Histogram,
            METRIC::EXPONENTIAL => Data::Exponential,
            _ => Data::Summary,
        };
        let temporality = match (data, temporality) {
            (Data::Gauge | Data::Summary, _) | (_, 2) => Temporality::Cumulative,
            (_, 1) => Temporality::Delta,
            _ => Temporality::Unstated,
        };
        Ok(Some(Metric {
            name,
            description,
            unit,
            data,
            temporality,
            points,
        }))
    }

    /// Returns the type, as the metadata of the Prometheus API name it.
    fn kind(&self) -> &'static str {
        match self.data {
            // A difference is no counter.
            Data::Sum { is_monotonic: true } if self.temporality == Temporality::Delta => "unknown",
            Data::Sum { is_monotonic: true } => "counter",
            Data::Gauge | Data::Sum { .. } => "gauge",
            Data::Histogram | Data::Exponential => "histogram",
            Data::Summary => "summary",
        }
    }
}

/// Returns the temporality and the monotony of a message with points.
fn header(mut fields: Fields<'_>) -> Result<(u64, bool), Malformed> {
    let (mut temporality, mut is_monotonic) = (0, false);
    while let Some(field) = fields.next()? {
        match field {
            (DATA::TEMPORALITY, Content::Number(number)) => temporality = number,
            (DATA::MONOTONIC, Content::Number(number)) => is_monotonic = number != 0,
            (DATA::TEMPORALITY | DATA::MONOTONIC, _) => {
                return Err(fields.error(Fault::FieldType));
            }
            _ => {}
        }
    }
    Ok((temporality, is_monotonic))
}

/// Labels with the names of the series of a metric.
#[derive(Debug, Default)]
pub(super) struct SeriesNames {
    family: Vec<u8>,
    encoded: Vec<u8>,
    ends: [usize; 4],
}

impl SeriesNames {
    /// Sets the names of a metric. Returns false if its name has no character that remains; then the names are empty.
    pub fn set_metric(&mut self, metric: &Metric<'_>) -> bool {
        let kind = match metric.data {
            Data::Gauge => NameKind::Gauge,
            Data::Sum { is_monotonic: true } => NameKind::Counter,
            _ => NameKind::Other,
        };
        self.family.clear();
        let is_named = put_metric(metric.name, metric.unit, kind, &mut self.family);
        self.encode(!matches!(metric.data, Data::Gauge | Data::Sum { .. }));
        is_named
    }

    /// Sets the name of a metric without parts.
    pub fn set_plain(&mut self, name: &[u8]) {
        self.family.clear();
        self.family.extend_from_slice(name);
        self.encode(false);
    }

    /// Returns the name of the metric, without the suffix of a part.
    pub fn family(&self) -> &[u8] {
        &self.family
    }

    fn encode(&mut self, has_parts: bool) {
        self.encoded.clear();
        let len = self.family.len();
        for (part, suffix) in ["", "_sum", "_count", "_bucket"].iter().enumerate() {
            if part == 0 || has_parts {
                self.family.extend_from_slice(suffix.as_bytes());
                put_label(METRIC_NAME.as_bytes(), &self.family, &mut self.encoded);
                self.family.truncate(len);
            }
            self.ends[part] = self.encoded.len();
        }
    }

    /// Returns the label of the name of a part.
    #[inline]
    pub fn label(&self, part: Part) -> &[u8] {
        let part = part as usize;
        let begin = part.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.encoded[begin..self.ends[part]]
    }
}

/// Metadata of the metrics of a request.
#[derive(Debug, Default)]
pub(super) struct Families<'a> {
    list: Vec<Described<'a>>,
    text: Vec<u8>,
}

#[derive(Debug)]
struct Described<'a> {
    family: Range<usize>,
    unit: Range<usize>,
    kind: &'static str,
    help: &'a [u8],
}

impl<'a> Families<'a> {
    /// Adds a metric. Returns false if there are too many.
    pub fn add(&mut self, family: &[u8], metric: &Metric<'a>) -> bool {
        if self.list.len() >= MAX_DESCRIBED {
            return false;
        }
        let begin = self.text.len();
        self.text.extend_from_slice(family);
        let middle = self.text.len();
        put_unit(metric.unit, &mut self.text);
        self.list.push(Described {
            family: begin..middle,
            unit: middle..self.text.len(),
            kind: metric.kind(),
            help: metric.description,
        });
        true
    }

    /// Returns the metadata.
    pub fn list(&self) -> Vec<Metadata<'_>> {
        let list = self.list.iter().map(|one| Metadata {
            family: &self.text[one.family.clone()],
            kind: one.kind,
            help: one.help,
            unit: &self.text[one.unit.clone()],
        });
        list.collect()
    }
}
