//! Cluster around the store, as the server sees it.

use seiner_store::Error;
use serde::Serialize;
use serde_json::Value;

/// Cluster around the store, which the program provides.
pub trait ClusterView: Send + Sync {
    /// Returns the ports with their weights, as JSON.
    ///
    /// # Errors
    /// If no replica answers.
    fn ports(&self) -> Result<Value, Error>;

    /// Returns the state of this port. Does not wait for other machines.
    fn status(&self) -> ClusterStatus;

    /// Returns the reason why this port acknowledges late or not at all, if there is one.
    fn trouble(&self) -> Option<String>;

    /// Returns the address of the port to which a client should move that sends so many rows per second to this one.
    /// `None` if the client should stay. Does not wait.
    fn better_port(&self, rows_per_second: f64) -> Option<String>;

    /// Returns the addresses of the other ports that can receive more, the least loaded one first. Does not wait.
    fn able_ports(&self) -> Vec<String>;

    /// Hands over all rows accepted so far.
    ///
    /// # Errors
    /// If too few replicas answer, or the local disk fails.
    fn hand_over(&self) -> Result<(), Error>;

    /// Returns whether a text is the secret of the cluster.
    fn is_secret(&self, text: &str) -> bool;

    /// Answers a request of another port.
    ///
    /// # Errors
    /// If the request is invalid, or the store fails.
    fn exchange(&self, request: &str, body: &[u8]) -> Result<Vec<u8>, Error>;
}

/// State of a port, in the form of `/status`. Counts begin with the start of the port.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClusterStatus {
    /// Name of the port.
    pub port: String,
    /// Keyspace of the samples.
    pub keyspace: String,
    /// Rows that are not handed over.
    pub unflushed_rows: u64,
    /// Time since the last handover, in seconds.
    pub handover_lag_s: f64,
    /// Completed handovers.
    pub handovers: u64,
    /// Samples that were handed over.
    pub samples_handed_over: u64,
    /// Bundles.
    pub bundles: u64,
    /// Bytes of bundles, once for all replicas.
    pub bundle_bytes: u64,
    /// Samples that were too old when they were handed over.
    pub expired_samples: u64,
    /// Journals of other ports that this port has finished.
    pub takeovers: u64,
    /// Requests to the nodes, with retries.
    pub requests: u64,
    /// Repeated requests.
    pub retries: u64,
    /// Bytes written to the nodes, once for all replicas.
    pub written_bytes: u64,
    /// Bytes read from the nodes.
    pub read_bytes: u64,
    /// Nodes of the distributed store.
    pub nodes: Vec<NodeStatus>,
    /// Reason why the port acknowledges late or not at all.
    pub trouble: Option<String>,
}

/// Node of the distributed store.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Address.
    pub address: String,
    /// True if this port has a connection to the node.
    pub is_up: bool,
}
