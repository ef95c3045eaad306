//! Figures that the head needs from the log and from queries.

use crate::retention::lateness::Lateness;

/// Figures of the log and of queries, as of some moment.
#[derive(Clone, Debug, Default)]
pub struct LogFigures {
    /// Time limits of rows.
    pub lateness: Lateness,
    /// Memory of the log, bytes.
    pub log_memory: usize,
    /// Memory of the log's data about each source, bytes.
    pub registry_memory: usize,
    /// Memory of running queries, bytes.
    pub query_memory: usize,
    /// True if more bytes wait to be written than allowed.
    pub is_log_behind: bool,
}
