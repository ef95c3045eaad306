//! Metrics of a port of a cluster. A server without a cluster has their descriptions, and no values.

use crate::cluster_view::ClusterStatus;
use crate::metric_text::{known, known_counter, labelled};
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

/// Counter: name, description, and the function that reads it.
type Count = (&'static str, &'static str, fn(&ClusterStatus) -> u64);
/// Gauge: name, description, and the function that reads it.
type Gauge = (&'static str, &'static str, fn(&ClusterStatus) -> f64);

const GAUGES: [Gauge; 3] = [
    (
        "cluster_unflushed_rows",
        "Rows that this port has not handed over",
        |status| status.unflushed_rows as f64,
    ),
    (
        "cluster_handover_lag_seconds",
        "Time since the last handover of this port",
        |status| status.handover_lag_s,
    ),
    (
        "cluster_trouble",
        "1 if this port acknowledges late or not at all, or its maintenance fails, as /status reports",
        |status| f64::from(status.trouble.is_some()),
    ),
];

const COUNTERS: [Count; 10] = [
    (
        "cluster_handovers",
        "Completed handovers of this port",
        |status| status.handovers,
    ),
    (
        "cluster_handed_over_samples",
        "Samples that this port has handed over",
        |status| status.samples_handed_over,
    ),
    (
        "cluster_bundles",
        "Bundles that this port has written",
        |status| status.bundles,
    ),
    (
        "cluster_bundle_bytes",
        "Bytes of these bundles, once for all replicas",
        |status| status.bundle_bytes,
    ),
    (
        "cluster_expired_samples",
        "Samples that were too old for their class when they were handed over",
        |status| status.expired_samples,
    ),
    (
        "cluster_takeovers",
        "Journals of failed ports that this port has finished",
        |status| status.takeovers,
    ),
    (
        "cluster_requests",
        "Requests to the nodes of the distributed store, with retries",
        |status| status.requests,
    ),
    (
        "cluster_retries",
        "Repeated requests to the nodes",
        |status| status.retries,
    ),
    (
        "cluster_written_bytes",
        "Bytes written to the nodes, once for all replicas",
        |status| status.written_bytes,
    ),
    (
        "cluster_read_bytes",
        "Bytes read from the nodes",
        |status| status.read_bytes,
    ),
];

/// Encodes the metrics of a port. `None`: the server is no port of a cluster.
///
/// # Errors
/// If the text cannot be written.
pub fn encode(status: Option<&ClusterStatus>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (name, help, of) in GAUGES {
        known(encoder, name, help, status.map(of))?;
    }
    for (name, help, of) in COUNTERS {
        known_counter(encoder, name, help, status.map(of))?;
    }
    let nodes: Vec<(&str, f64)> = status.map_or_else(Vec::new, |status| {
        let up = status.nodes.iter().filter(|node| node.is_up).count();
        let down = status.nodes.len() - up;
        vec![("up", up as f64), ("down", down as f64)]
    });
    let help = "Nodes of the distributed store, by the connection of this port to them";
    labelled(encoder, "cluster_nodes", help, "state", &nodes)
}
