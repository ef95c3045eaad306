//! Rows on a cluster of Cassandra: the blocking side.

use crate::client::Client;
use crate::connect::{self, ConnectError};
use crate::contact::{Contact, Replication};
use crate::creation;
use crate::reads::read_all;
use crate::statistics::Statistics;
use seiner_cluster::{Found, Level, Range, Reading, Row, Rows, RowsError, Swap, TableSpec};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// Threads that serve the connections.
const THREADS: usize = 2;

/// Node of a cluster, as the driver sees the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Address of the query language.
    pub address: SocketAddr,
    /// Data centre, if the node has one.
    pub datacenter: Option<String>,
    /// True if the driver has a connection to the node. A node that hangs is up for another ten seconds.
    pub is_up: bool,
}

/// Rows on a cluster of Cassandra or ScyllaDB.
///
/// All methods block. They may be called from every thread that may block, also from one of
/// `tokio::task::spawn_blocking`, and panic in asynchronous code.
pub struct CassandraRows {
    client: Arc<Client>,
    /// `None` after the drop.
    runtime: Option<Runtime>,
}

impl CassandraRows {
    /// Connects to a cluster. Creates the keyspace if it does not exist. An existing keyspace keeps its replication.
    ///
    /// # Errors
    /// If no node answers within [`crate::Timeouts::connect`] and about 2 s, if the keyspace belongs to another program
    /// or another version of Seiner, or if the keyspace cannot be created.
    pub fn connect(
        contact: Contact,
        replication: Replication,
    ) -> Result<CassandraRows, ConnectError> {
        let runtime = start_threads()?;
        let client = runtime.block_on(connect::connect(&contact, replication))?;
        Ok(CassandraRows::of(client, runtime))
    }

    /// Connects to the keyspace of a cluster, and creates nothing.
    ///
    /// # Errors
    /// As [`CassandraRows::connect`], and if the keyspace does not exist.
    pub fn open(contact: &Contact) -> Result<CassandraRows, ConnectError> {
        let runtime = start_threads()?;
        let client = runtime.block_on(connect::open(contact))?;
        Ok(CassandraRows::of(client, runtime))
    }

    fn of(client: Client, runtime: Runtime) -> CassandraRows {
        CassandraRows {
            client: Arc::new(client),
            runtime: Some(runtime),
        }
    }

    /// Returns the counts of requests and bytes since the connection.
    pub fn statistics(&self) -> Statistics {
        self.client.counters.get()
    }

    /// Returns the nodes of the cluster, by address.
    pub fn nodes(&self) -> Vec<Node> {
        nodes(&self.client)
    }

    /// Returns the name of the keyspace.
    pub fn keyspace(&self) -> &str {
        &self.client.keyspace
    }

    fn wait<T>(&self, request: impl Future<Output = T>) -> T {
        let runtime = self.runtime.as_ref();
        runtime
            .expect("the drop is the last call")
            .block_on(request)
    }
}

impl Drop for CassandraRows {
    fn drop(&mut self) {
        // Without waiting, so that the drop is permitted in asynchronous code too.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts the threads of the driver.
pub(crate) fn start_threads() -> Result<Runtime, ConnectError> {
    let mut threads = Builder::new_multi_thread();
    threads
        .worker_threads(THREADS)
        .thread_name("cassandra")
        .enable_all()
        .build()
        .map_err(|error| ConnectError::Threads(error.to_string()))
}

/// Returns the nodes that a client has found, by address.
pub(crate) fn nodes(client: &Client) -> Vec<Node> {
    let state = client.session.get_cluster_state();
    let nodes = state.get_nodes_info().iter();
    let mut nodes: Vec<Node> = nodes
        .map(|node| Node {
            address: SocketAddr::new(node.address.ip(), node.address.port()),
            datacenter: node.datacenter.clone(),
            is_up: node.is_connected(),
        })
        .collect();
    nodes.sort_by_key(|node| node.address);
    nodes
}

impl Rows for CassandraRows {
    fn create(&self, tables: &[TableSpec]) -> Result<(), RowsError> {
        self.wait(creation::create(&self.client, tables))
    }

    fn tables(&self) -> Result<Vec<String>, RowsError> {
        self.wait(self.client.tables())
    }

    fn write(&self, rows: Vec<Row>, level: Level) -> Result<(), RowsError> {
        self.wait(self.client.write(rows, level))
    }

    fn read(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        level: Level,
    ) -> Result<Option<Vec<u8>>, RowsError> {
        self.wait(self.client.read(table, partition, key, level))
    }

    fn range(&self, range: &Range<'_>, level: Level) -> Result<Vec<(Vec<u8>, Vec<u8>)>, RowsError> {
        self.wait(self.client.range(range, level))
    }

    fn keys(&self, range: &Range<'_>, level: Level) -> Result<Vec<Vec<u8>>, RowsError> {
        if *range == Range::whole(range.table, range.partition) {
            return self.wait(self.client.keys(range.table, range.partition, level));
        }
        let found = self.range(range, level)?.into_iter();
        Ok(found.map(|(key, _)| key).collect())
    }

    fn read_all(&self, readings: Vec<Reading>) -> Result<Vec<Vec<Found>>, RowsError> {
        self.wait(read_all(&self.client, readings))
    }

    fn remove(
        &self,
        table: &str,
        partition: &[u8],
        key: Option<&[u8]>,
        level: Level,
    ) -> Result<(), RowsError> {
        self.wait(self.client.remove(table, partition, key, level))
    }

    fn swap(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<Swap, RowsError> {
        self.wait(self.client.swap(table, partition, key, expected, value))
    }

    fn partitions(&self, table: &str) -> Result<Vec<Vec<u8>>, RowsError> {
        self.wait(self.client.partitions(table))
    }
}
