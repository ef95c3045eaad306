//! Bodies of OTLP metrics (opentelemetry/proto/metrics/v1/metrics.proto).

use super::Body;
use super::line::lines;
use super::protobuf::{bytes, fixed};
use anyhow::Result;
use std::collections::BTreeMap;

/// Returns a body with one gauge per field, and one data point for each value.
pub fn body(text: &[u8]) -> Result<Body> {
    let mut gauges: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let (mut point, mut tag, mut value) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines(text)? {
        let line = line?;
        for (field, number, _) in &line.fields {
            point.clear();
            fixed(&mut point, 3, line.time as u64);
            fixed(&mut point, 4, number.to_bits());
            for (name, text) in &line.tags {
                tag.clear();
                value.clear();
                bytes(&mut value, 1, text.as_bytes());
                bytes(&mut tag, 1, name.as_bytes());
                bytes(&mut tag, 2, &value);
                bytes(&mut point, 7, &tag);
            }
            let metric = format!("{}_{field}", line.measurement);
            bytes(gauges.entry(metric).or_default(), 1, &point);
        }
    }
    let mut scope = Vec::new();
    for (name, gauge) in gauges {
        let mut metric = Vec::new();
        bytes(&mut metric, 1, name.as_bytes());
        bytes(&mut metric, 5, &gauge);
        bytes(&mut scope, 2, &metric);
    }
    let (mut resource, mut message) = (Vec::new(), Vec::new());
    bytes(&mut resource, 2, &scope);
    bytes(&mut message, 1, &resource);
    Ok(Body {
        bytes: message,
        headers: "Content-Type: application/x-protobuf\r\n",
    })
}
