//! OpenTSDB: lines `put …` over TCP, and points in JSON at `/api/put`.

pub mod put;

use crate::text::{RowLines, TextProtocol};
use seiner_wire::opentsdb::decode_line;

/// Name of both protocols in metrics.
pub const METRIC: &str = "opentsdb";

/// The telnet protocol.
pub static TELNET: TextProtocol = TextProtocol {
    name: "telnet protocol of OpenTSDB",
    metric: METRIC,
    ingest: |app, counters| Box::new(RowLines::new(&*app.store, counters, decode_line)),
};
