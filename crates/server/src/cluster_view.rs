//! Cluster around the store, as the server sees it.

use seiner_store::Error;
use serde_json::Value;

/// Cluster around the store, which the program provides.
pub trait ClusterView: Send + Sync {
    /// Returns the ports with their weights, as JSON.
    ///
    /// # Errors
    /// If no replica answers.
    fn ports(&self) -> Result<Value, Error>;

    /// Returns the state of this port for `/status`, as JSON. Does not wait for other machines.
    fn status(&self) -> Value;

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
