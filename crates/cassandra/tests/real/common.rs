//! The cluster that all tests share.

use seiner_cassandra::local::{LocalCluster, Options, delete_cluster, obstacle};
use seiner_cassandra::{CassandraRows, Replication};
use seiner_cluster::{Row, TableSpec};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

/// Number of nodes.
pub const NODES: usize = 3;

static CLUSTER: OnceLock<Option<LocalCluster>> = OnceLock::new();
/// Held for writing by tests that stop nodes.
static HEALTHY: RwLock<()> = RwLock::new(());

/// Cluster with all nodes running, for the duration of a test.
pub struct Healthy {
    pub cluster: &'static LocalCluster,
    _turn: RwLockReadGuard<'static, ()>,
}

/// Cluster for a test that stops nodes, and starts them again.
pub struct Exclusive {
    pub cluster: &'static LocalCluster,
    _turn: RwLockWriteGuard<'static, ()>,
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        // A test that failed may have left nodes paused.
        for number in 1..=NODES {
            let _ = self.cluster.resume(number);
        }
    }
}

/// Returns the cluster, or `None` if this machine cannot run it.
pub fn healthy() -> Option<Healthy> {
    let cluster = cluster()?;
    let turn = HEALTHY.read().unwrap_or_else(PoisonError::into_inner);
    Some(Healthy {
        cluster,
        _turn: turn,
    })
}

/// Returns the cluster when no other test uses it, or `None` if this machine cannot run it.
pub fn exclusive() -> Option<Exclusive> {
    let cluster = cluster()?;
    let turn = HEALTHY.write().unwrap_or_else(PoisonError::into_inner);
    Some(Exclusive {
        cluster,
        _turn: turn,
    })
}

fn cluster() -> Option<&'static LocalCluster> {
    CLUSTER.get_or_init(start).as_ref()
}

fn start() -> Option<LocalCluster> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cassandra");
    let options = Options::new(NODES, &folder);
    if let Some(obstacle) = obstacle(&options) {
        let line = "=".repeat(100);
        say(&format!(
            "\n{line}\nNO TEST ON A REAL CASSANDRA CLUSTER RUNS HERE.\n{obstacle}\n{line}\n"
        ));
        let required = std::env::var("SEINER_REQUIRE_CASSANDRA");
        assert!(
            !required.is_ok_and(|value| value == "1"),
            "SEINER_REQUIRE_CASSANDRA=1: {obstacle}"
        );
        return None;
    }
    delete_cluster(&folder).unwrap();
    let began = Instant::now();
    let cluster = LocalCluster::start(options).unwrap();
    let memory: Vec<u64> = (1..=NODES)
        .map(|node| cluster.memory(node).unwrap() >> 20)
        .collect();
    say(&format!(
        "{NODES} nodes of Cassandra started in {:.1?}; MiB: {memory:?}",
        began.elapsed()
    ));
    Some(cluster)
}

/// Writes a line that is shown for tests that pass too: the test harness hides only the output of macros.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Connects to a keyspace with three copies.
pub fn connect(cluster: &LocalCluster, keyspace: &str) -> CassandraRows {
    let contact = cluster.contact(keyspace);
    CassandraRows::connect(contact, Replication::default()).unwrap()
}

/// Returns a table whose rows live until they are removed.
pub fn table(name: &str) -> TableSpec {
    TableSpec::lasting(name)
}

/// Returns a row.
pub fn row(table: &str, partition: &[u8], key: &[u8], value: &[u8]) -> Row {
    Row {
        table: Arc::from(table),
        partition: partition.to_vec(),
        key: key.to_vec(),
        value: value.to_vec(),
        life: None,
    }
}
