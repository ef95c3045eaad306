//! Encoding of metrics as OpenMetrics text. A renamed metric is encoded under its old name as well.

use crate::renamed::old_name;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;

/// Content type of [`text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the present values of the registry's metrics.
///
/// # Errors
/// If the text cannot be formatted.
pub fn text(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry)?;
    Ok(text)
}

/// Joins two texts: only the last one keeps its end mark.
pub fn joined(mut first: String, second: &str) -> String {
    const END: &str = "# EOF\n";
    if first.ends_with(END) {
        first.truncate(first.len() - END.len());
    }
    first + second
}

/// Encodes a counter.
pub fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> fmt::Result {
    known_counter(encoder, name, help, Some(value))
}

/// Encodes a counter, without a value if it is unknown.
pub fn known_counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: Option<u64>,
) -> fmt::Result {
    let counter = value.map(ConstCounter::new);
    put(encoder, name, help, MetricType::Counter, counter.as_ref())
}

/// Encodes a counter of fractions.
pub fn float_counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: f64,
) -> fmt::Result {
    let counter = ConstCounter::new(value);
    put(encoder, name, help, MetricType::Counter, Some(&counter))
}

/// Encodes a gauge.
pub fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: f64,
) -> fmt::Result {
    known(encoder, name, help, Some(value))
}

/// Encodes a gauge, without a value if it is unknown.
pub fn known(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: Option<f64>,
) -> fmt::Result {
    let gauge = value.map(ConstGauge::new);
    put(encoder, name, help, MetricType::Gauge, gauge.as_ref())
}

/// Encodes a gauge with one value per value of a label.
pub fn labelled(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: &[(&str, f64)],
) -> fmt::Result {
    under_all_names(name, help, |name, help| {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (of, value) in values {
            ConstGauge::new(*value).encode(family.encode_family(&[(label, *of)])?)?;
        }
        Ok(())
    })
}

/// Encodes a counter with one value per value of a label.
pub fn labelled_counters(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: &[(&str, u64)],
) -> fmt::Result {
    under_all_names(name, help, |name, help| {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (of, value) in values {
            ConstCounter::new(*value).encode(family.encode_family(&[(label, *of)])?)?;
        }
        Ok(())
    })
}

fn put<M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric_type: MetricType,
    metric: Option<&M>,
) -> fmt::Result {
    under_all_names(name, help, |name, help| {
        let family = encoder.encode_descriptor(name, help, None, metric_type)?;
        metric.map_or(Ok(()), |metric| metric.encode(family))
    })
}

/// Calls `encode` with the name and help of a metric, and again with its old name, if it was renamed.
fn under_all_names(
    name: &str,
    help: &str,
    mut encode: impl FnMut(&str, &str) -> fmt::Result,
) -> fmt::Result {
    encode(name, help)?;
    match old_name(name) {
        Some(old) => encode(old, &format!("Deprecated name of {name}")),
        None => Ok(()),
    }
}
