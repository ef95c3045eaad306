//! Values of the settings of StatsD.

use std::net::SocketAddr;
use std::time::Duration;

/// Values of the settings of StatsD.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatsdSettings {
    /// Address of the port, over TCP and UDP, if there is one.
    pub listen: Option<SocketAddr>,
    /// Time for which values are aggregated.
    pub interval: Duration,
    /// Maximum memory for metrics and values, bytes.
    pub memory: u64,
}
