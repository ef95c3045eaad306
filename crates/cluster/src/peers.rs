//! Other ports: the interface through which a port asks for rows that are not handed over yet.

use seiner_model::{Columns, FieldType, SourceKey};
use seiner_store::Query;
use std::sync::Arc;
use thiserror::Error;

/// Rows of a source that a port has not handed over.
#[derive(Clone, Debug, PartialEq)]
pub struct Unflushed {
    /// Measurement and tags.
    pub key: Arc<SourceKey>,
    /// Fields with their types, as many as columns.
    pub fields: Vec<(Arc<str>, FieldType)>,
    /// Times, ascending, and values.
    pub rows: Columns,
    /// Stamp of the rows; [`u64::MAX`] for rows of the port's present journal, which are later than all bundles.
    pub stamp: u64,
}

/// Rows of a query that a port has not handed over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortRows {
    /// Journals whose rows these are: the name of the port that wrote the journal, and the number of that port's start.
    pub journals: Vec<(String, u64)>,
    /// Rows.
    pub rows: Vec<Unflushed>,
}

/// Failure to reach a port.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the port {port} does not answer: {why}")]
pub struct PeerError {
    /// Name of the port.
    pub port: String,
    /// Cause.
    pub why: String,
}

/// Connections to other ports. All methods block.
pub trait Peers: Send + Sync {
    /// Returns the rows of a query that a port has accepted and not handed over.
    ///
    /// # Errors
    /// If the port does not answer.
    fn unflushed(&self, port: &str, query: &Query) -> Result<PortRows, PeerError>;

    /// Makes a port apply the stored deletes to the rows that it has not handed over.
    ///
    /// # Errors
    /// If the port does not answer. It may or may not have applied them then, and applies them later in any case.
    fn apply_deletes(&self, port: &str) -> Result<(), PeerError>;
}

/// Connections of a cluster with one port.
pub struct NoPeers;

impl Peers for NoPeers {
    fn unflushed(&self, port: &str, _query: &Query) -> Result<PortRows, PeerError> {
        Err(unknown(port))
    }

    fn apply_deletes(&self, port: &str) -> Result<(), PeerError> {
        Err(unknown(port))
    }
}

fn unknown(port: &str) -> PeerError {
    PeerError {
        port: port.to_string(),
        why: "its address is not known".to_string(),
    }
}
