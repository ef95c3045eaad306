//! Values of the settings of collectd.

use seiner_wire::collectd::Level;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Values of the settings of collectd.
#[derive(Clone, Debug, Default)]
pub struct CollectdSettings {
    /// Address of the port over UDP, if there is one.
    pub listen: Option<SocketAddr>,
    /// Files of types; empty for that of an installed collectd.
    pub types_db: Vec<PathBuf>,
    /// Protection that packets must have.
    pub security: Level,
    /// File with users and passwords.
    pub auth_file: Option<PathBuf>,
}
