//! Connections to the other ports of a cluster, over HTTP.

use super::port_agent::PortAgent;
use crate::route::url;
use seiner_cluster::{ClusterStore, PeerError, Peers, PortRows, wire};
use seiner_model::{Interval, Selector};
use seiner_server::SECRET;
use seiner_store::{Error, Query};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::sync::{Arc, OnceLock, Weak};

/// Maximum length of an answer, in bytes: more than a port keeps before it hands over.
const MAX_ANSWER: u64 = 4 << 30;

/// Beginning of the published address of a port with TLS.
pub const SECURE: &str = "https://";

/// Query of another port, as it is sent.
#[derive(Serialize, Deserialize)]
struct About {
    selector: String,
    fields: Option<Vec<String>>,
    first_time: i64,
    last_time: i64,
}

/// Other ports, whose addresses are in the cluster's directory of ports.
pub struct HttpPeers {
    agent: PortAgent,
    /// Store and secret, which are known when the store is open.
    known: OnceLock<(Weak<ClusterStore>, String)>,
}

impl HttpPeers {
    /// Returns connections that answer when [`HttpPeers::begin`] has been called.
    pub fn new(agent: PortAgent) -> HttpPeers {
        HttpPeers {
            agent,
            known: OnceLock::new(),
        }
    }

    /// Sets the store, which knows the addresses of ports, and the secret that they share.
    pub fn begin(&self, store: &Arc<ClusterStore>, secret: String) {
        // A second call changes nothing.
        let _ = self.known.set((Arc::downgrade(store), secret));
    }

    /// Sends a request to a port and returns the answer.
    fn ask(&self, port: &str, request: &str, body: Vec<u8>) -> Result<Vec<u8>, PeerError> {
        let failed = |why: String| PeerError {
            port: port.to_string(),
            why,
        };
        let (store, secret) = self
            .known
            .get()
            .ok_or_else(|| failed("this port is starting".to_string()))?;
        let store = store
            .upgrade()
            .ok_or_else(|| failed("this port is stopping".to_string()))?;
        let ports = store.ports().map_err(|error| failed(error.to_string()))?;
        let address = ports
            .into_iter()
            .find(|info| info.name == port)
            .map(|info| info.address);
        let address = address.filter(|address| !address.is_empty());
        let address = address.ok_or_else(|| failed("it publishes no address".to_string()))?;
        let address = url(&address, "http://");
        let sent = self
            .agent
            .present()
            .post(format!("{address}/cluster/{request}"))
            .header(SECRET, secret)
            .send(&body);
        let mut answer = sent.map_err(|error| failed(error.to_string()))?;
        let mut bytes = Vec::new();
        let reader = answer
            .body_mut()
            .as_reader()
            .take(MAX_ANSWER)
            .read_to_end(&mut bytes);
        reader.map_err(|error| failed(error.to_string()))?;
        match answer.status().is_success() {
            true => Ok(bytes),
            false => Err(failed(format!(
                "{}: {}",
                answer.status(),
                String::from_utf8_lossy(&bytes)
            ))),
        }
    }
}

impl Peers for HttpPeers {
    fn unflushed(&self, port: &str, query: &Query) -> Result<PortRows, PeerError> {
        let about = About {
            selector: query.selector.to_string(),
            fields: query.fields.clone(),
            first_time: query.interval.start,
            last_time: query.interval.end,
        };
        let failed = |why: String| PeerError {
            port: port.to_string(),
            why,
        };
        let body = serde_json::to_vec(&about).map_err(|error| failed(error.to_string()))?;
        let answer = self.ask(port, "unflushed", body)?;
        wire::decode(&answer).map_err(failed)
    }

    fn apply_deletes(&self, port: &str) -> Result<(), PeerError> {
        self.ask(port, "delete", Vec::new()).map(drop)
    }
}

/// Answers a request of another port.
///
/// # Errors
/// If the request is invalid, or the store fails.
pub fn answer(store: &ClusterStore, request: &str, body: &[u8]) -> Result<Vec<u8>, Error> {
    match request {
        "unflushed" => Ok(wire::encode(&store.unflushed(&query(body)?)?)),
        "delete" => {
            store.apply_deletes()?;
            Ok(Vec::new())
        }
        other => Err(Error::Query(format!(
            "{other:?} is not a request between ports"
        ))),
    }
}

/// Reads a query from the body of a request.
fn query(body: &[u8]) -> Result<Query, Error> {
    let about: About = serde_json::from_slice(body)
        .map_err(|error| Error::Query(format!("the request cannot be read: {error}")))?;
    Ok(Query {
        selector: Selector::parse(&about.selector)?,
        fields: about.fields,
        interval: Interval::new(about.first_time, about.last_time),
    })
}
