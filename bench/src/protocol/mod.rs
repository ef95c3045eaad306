//! Encodings of the lines of a workload in other protocols.

mod arrow;
mod graphite;
mod line;
mod otlp;
mod protobuf;
mod remote_write;

use anyhow::Result;

/// Protocol in which samples are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocol {
    /// Influx line protocol over HTTP.
    Lines,
    /// Prometheus remote write, version 1.
    RemoteWrite,
    /// OTLP metrics over HTTP, as protobuf.
    Otlp,
    /// Graphite's plaintext with tags, over TCP.
    Graphite,
    /// A stream of Arrow record batches over HTTP, with rows in the order of their times.
    Arrow,
    /// As [`Protocol::Arrow`], but with rows sorted by source, as a table of the history of sensors has them.
    ArrowBySource,
}

/// Body of a write request.
pub struct Body {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Lines of the request's head, each with its end.
    pub headers: &'static str,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Protocol; 6] = [
        Protocol::Lines,
        Protocol::RemoteWrite,
        Protocol::Otlp,
        Protocol::Graphite,
        Protocol::Arrow,
        Protocol::ArrowBySource,
    ];

    /// Returns the name for the tables.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Lines => "line protocol",
            Protocol::RemoteWrite => "remote write",
            Protocol::Otlp => "OTLP",
            Protocol::Graphite => "Graphite",
            Protocol::Arrow => "Arrow, by time",
            Protocol::ArrowBySource => "Arrow, by source",
        }
    }

    /// Returns the body for lines of a workload.
    pub fn body(self, lines: &[u8]) -> Result<Body> {
        match self {
            Protocol::Lines => Ok(Body {
                bytes: lines.to_vec(),
                headers: "",
            }),
            Protocol::RemoteWrite => remote_write::body(lines),
            Protocol::Otlp => otlp::body(lines),
            Protocol::Graphite => graphite::body(lines),
            Protocol::Arrow => arrow::body(lines, false),
            Protocol::ArrowBySource => arrow::body(lines, true),
        }
    }
}
