//! The protocol of lines, whose values are aggregated.

use crate::text::{RowLines, TextProtocol};
use seiner_wire::Skipped;
use seiner_wire::statsd::{Line, decode_line};

/// Name of the protocol in metrics.
pub const PROTOCOL: &str = "statsd";

/// The protocol, whose lines become no rows at once.
pub static LINES: TextProtocol = TextProtocol {
    name: "StatsD",
    metric: PROTOCOL,
    ingest: |app, counters| {
        let lines = RowLines::new(&*app.store, counters, |line, _, _, _| {
            match decode_line(line)? {
                Line::Blank => Ok(()),
                // Events are counted as ignored.
                Line::Event => Err(Skipped::NotANumber),
                Line::Metric(metric) => app.statsd.accept(&metric).map_err(Skipped::Rejected),
            }
        });
        Box::new(lines)
    },
};
