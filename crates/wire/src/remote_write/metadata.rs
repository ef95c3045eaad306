//! Metadata of metrics: type, help and unit.

use super::symbols::Symbols;
use crate::protobuf::{Content, Fault, Fields, Malformed};

/// Types of metrics by their number on the wire, as the metadata of the Prometheus API names them.
pub const METRIC_TYPES: [&str; 8] = [
    "unknown",
    "counter",
    "gauge",
    "histogram",
    "gaugehistogram",
    "summary",
    "info",
    "stateset",
];

/// Type of a classic or native histogram in [`METRIC_TYPES`].
const HISTOGRAMS: [&str; 2] = ["histogram", "gaugehistogram"];
const SUMMARY: &str = "summary";

/// Metadata of a family of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// Name of the family: of the metric, without the suffixes of a histogram.
    pub family: &'a [u8],
    /// Type, one of [`METRIC_TYPES`].
    pub kind: &'static str,
    /// Description for people.
    pub help: &'a [u8],
    /// Unit of the values.
    pub unit: &'a [u8],
}

/// Decodes a `MetricMetadata` of version 1.
pub(super) fn of_version_1<'a>(mut fields: Fields<'a>) -> Result<Metadata<'a>, Malformed> {
    let mut metadata = Metadata {
        family: b"",
        kind: METRIC_TYPES[0],
        help: b"",
        unit: b"",
    };
    while let Some(field) = fields.next()? {
        match field {
            (1, Content::Number(number)) => metadata.kind = kind(number),
            (2, Content::Bytes(bytes)) => metadata.family = bytes,
            (4, Content::Bytes(bytes)) => metadata.help = bytes,
            (5, Content::Bytes(bytes)) => metadata.unit = bytes,
            (1 | 2 | 4 | 5, _) => return Err(fields.error(Fault::FieldType)),
            _ => {}
        }
    }
    Ok(metadata)
}

/// Decodes the `Metadata` of a series of version 2. Returns `None` for metadata without content.
pub(super) fn of_version_2<'a>(
    mut fields: Fields<'a>,
    metric: &'a [u8],
    symbols: &Symbols<'a>,
) -> Result<Option<Metadata<'a>>, Malformed> {
    let (mut number, mut help, mut unit) = (0, 0, 0);
    while let Some(field) = fields.next()? {
        match field {
            (1, Content::Number(given)) => number = given,
            (3, Content::Number(given)) => help = given,
            (4, Content::Number(given)) => unit = given,
            (1 | 3 | 4, _) => return Err(fields.error(Fault::FieldType)),
            _ => {}
        }
    }
    let kind = kind(number);
    Ok((number != 0 || help != 0 || unit != 0).then(|| Metadata {
        family: family(metric, kind),
        kind,
        help: symbols.get(help).unwrap_or_default(),
        unit: symbols.get(unit).unwrap_or_default(),
    }))
}

fn kind(number: u64) -> &'static str {
    let index = usize::try_from(number).unwrap_or(0);
    METRIC_TYPES.get(index).copied().unwrap_or(METRIC_TYPES[0])
}

/// Returns the family of a metric of version 2, whose metadata describes a single series.
fn family<'a>(metric: &'a [u8], kind: &str) -> &'a [u8] {
    let suffixes: &[&[u8]] = match kind {
        kind if HISTOGRAMS.contains(&kind) => &[b"_bucket", b"_sum", b"_count"],
        SUMMARY => &[b"_sum", b"_count"],
        _ => &[],
    };
    let stem = suffixes
        .iter()
        .find_map(|suffix| metric.strip_suffix(*suffix));
    stem.unwrap_or(metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_have_families() {
        assert_eq!(family(b"x_bucket", "histogram"), b"x");
        assert_eq!(family(b"x_count", "summary"), b"x");
        assert_eq!(family(b"x_count", "counter"), b"x_count");
        assert_eq!(family(b"x", "histogram"), b"x");
        assert_eq!(
            (kind(1), kind(7), kind(8)),
            ("counter", "stateset", "unknown")
        );
    }
}
