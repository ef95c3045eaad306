//! OTLP metrics: requests become batches of rows, with the names that Prometheus gives them.
//!
//! The decoder reads the bytes of an `ExportMetricsServiceRequest` without a tree of messages in between. A row is one
//! sample of Prometheus: its name is in [`LabelNotation`](crate::remote_write::LabelNotation), so that remote write and
//! OTLP write to the same sources, and its only cell is the field [`VALUE`](crate::remote_write::VALUE).
//! A request in JSON is first converted to Protocol Buffers ([`from_json`]), so that both have the same meaning.

mod attributes;
mod base64;
mod bounds;
mod decoder;
mod histogram;
mod json;
mod messages;
mod metric;
mod names;
mod point;
mod resource;
mod shape;
#[cfg(test)]
mod tests;

pub use crate::protobuf::Malformed;
pub use decoder::MetricsDecoder;
pub use json::{BadJson, from_json};

/// Label of samples whose temporality is delta, and its value.
pub const TEMPORALITY: (&str, &str) = ("temporality", "delta");
/// Bits of the value that ends a series: Prometheus's stale marker.
pub const STALE: u64 = 0x7ff0_0000_0000_0002;
