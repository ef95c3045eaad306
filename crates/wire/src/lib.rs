//! Formats on the socket: parses line protocol, remote write, scraped texts, OTLP, MQTT messages, Graphite, OpenTSDB,
//! StatsD and collectd into batches, decodes files of Whisper, dumps of RRD and blocks of Prometheus, and writes answers
//! as JSON, CSV and Arrow.
//!
//! This crate depends on the types of `seiner-model` only. It contains no stores, sockets or files.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod answer;
pub mod arrow_body;
pub mod collectd;
pub mod exposition;
pub mod graphite;
pub mod line;
pub mod mqtt;
pub mod opentsdb;
pub mod otlp;
mod protobuf;
pub mod remote_write;
pub mod rrd;
mod sample;
mod skipped;
pub mod statsd;
pub mod tsdb;
pub mod whisper;

pub use skipped::Skipped;
