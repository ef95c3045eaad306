//! Values of the settings of the ports for protocols without answers.

use std::net::SocketAddr;

/// Addresses of the ports for protocols without answers; `None` where there is no port.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextPorts {
    /// Line protocol over UDP.
    pub line_udp: Option<SocketAddr>,
    /// Plaintext of Graphite, over TCP and UDP.
    pub graphite: Option<SocketAddr>,
    /// Pickles of Graphite.
    pub graphite_pickle: Option<SocketAddr>,
    /// Telnet protocol of OpenTSDB.
    pub opentsdb: Option<SocketAddr>,
}
