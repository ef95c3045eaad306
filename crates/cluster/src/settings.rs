//! Settings of a port, and the outside world that it needs.

use crate::peers::Peers;
use crate::rows::{Level, Rows};
use crate::shelves::Grid;
use seiner_engine::Options;
use seiner_platform::{Clock, Disk};
use seiner_store::{Class, Error};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Failures that an acknowledged row survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// The row is in the journal on this machine's disk. If the machine is lost before the handover, so is the row.
    Local,
    /// The row is in the journal on this machine's disk and on this many replicas.
    Replicated(Level),
}

/// Settings of a port.
#[derive(Clone)]
pub struct PortOptions {
    /// Name of the port, unique in the cluster: letters, digits, dots, dashes and underscores.
    pub name: String,
    /// Address of the port's server for other ports and for clients, `host:port`. Empty: the port is not listed.
    pub address: String,
    /// Failures that an acknowledged row survives. `Replicated(Level::Quorum)` by default.
    pub acknowledge: Acknowledge,
    /// Longest time between handovers. A shorter time needs less journal; bundles become smaller.
    pub handover_every: Duration,
    /// Bytes of the local log at which a handover begins earlier.
    pub handover_bytes: u64,
    /// Time after which a replica has synced what it has acknowledged. The rows of a handover stay in the journal for
    /// this time. Cassandra syncs every 10 s by default, and may be late by half of that.
    pub replica_sync: Duration,
    /// Grid of a new cluster. An existing cluster has its own.
    pub grid: Grid,
    /// Retention classes of a new cluster. `None`: those that are stored.
    pub classes: Option<Vec<Class>>,
    /// Settings of the local engine: memory, disk, journal. Its durability and classes are not used.
    pub engine: Options,
}

impl PortOptions {
    /// Returns the default settings of a port.
    pub fn new(name: impl Into<String>) -> PortOptions {
        PortOptions {
            name: name.into(),
            address: String::new(),
            acknowledge: Acknowledge::Replicated(Level::Quorum),
            handover_every: Duration::from_secs(600),
            handover_bytes: 256 << 20,
            replica_sync: Duration::from_secs(20),
            grid: Grid::default(),
            classes: None,
            engine: Options::default(),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`Error::Options`] with the remedy.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name = &self.name;
        if name.is_empty() || name.len() > 200 || !name.chars().all(is_valid) {
            return Err(Error::Options(format!(
                "port name {name:?}: give 1 to 200 letters, digits, dots, dashes and underscores"
            )));
        }
        self.grid.check().map_err(Error::Options)
    }
}

/// Disks for the journals of failed ports.
pub trait SpareDisks: Send + Sync {
    /// Returns an empty disk with a name.
    ///
    /// # Errors
    /// If it cannot be created.
    fn create(&self, name: &str) -> io::Result<Arc<dyn Disk>>;

    /// Removes a disk. Removing a disk that does not exist is not an error.
    ///
    /// # Errors
    /// If it cannot be removed.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// Outside world of a port.
pub struct Surroundings {
    /// Distributed store.
    pub rows: Arc<dyn Rows>,
    /// Disk of the local engine.
    pub disk: Arc<dyn Disk>,
    /// Disks for the journals of failed ports.
    pub spare: Arc<dyn SpareDisks>,
    /// Clock.
    pub clock: Arc<dyn Clock>,
    /// Other ports.
    pub peers: Arc<dyn Peers>,
}
