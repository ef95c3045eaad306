//! Graphite: plaintext over TCP and UDP, and pickles over TCP.

pub mod pickle;

use crate::text::{RowLines, TextProtocol};
use seiner_wire::graphite::decode_line;

/// Name of both protocols in metrics.
pub const METRIC: &str = "graphite";

/// The plaintext protocol.
pub static PLAINTEXT: TextProtocol = TextProtocol {
    name: "plaintext of Graphite",
    metric: METRIC,
    ingest: |app, counters| Box::new(RowLines::new(&*app.store, counters, decode_line)),
};
