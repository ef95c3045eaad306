//! Nodes that crash, hang and return.

use crate::common::{NODES, connect, exclusive, row, table};
use seiner_cassandra::local::{LocalCluster, Options, delete_cluster, obstacle};
use seiner_cassandra::{CassandraRows, Replication};
use seiner_cluster::{Level, Range, Rows, RowsError};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Rows that a thread writes one by one, while nodes crash.
#[derive(Default)]
struct Writer {
    acknowledged: AtomicU32,
    failed: AtomicU32,
    /// Longest write, in milliseconds.
    longest: AtomicU32,
    ends: AtomicBool,
}

impl Writer {
    /// Writes rows with rising numbers until the end. A row that fails is written again.
    fn run(&self, store: &CassandraRows) {
        while !self.ends.load(Ordering::SeqCst) {
            let number = self.acknowledged.load(Ordering::SeqCst);
            let began = Instant::now();
            match store.write(vec![numbered(number)], Level::Quorum) {
                Ok(()) => drop(self.acknowledged.fetch_add(1, Ordering::SeqCst)),
                Err(_) => drop(self.failed.fetch_add(1, Ordering::SeqCst)),
            }
            let took = began.elapsed().as_millis() as u32;
            self.longest.fetch_max(took, Ordering::SeqCst);
        }
    }

    /// Waits until the writer has written this many more rows.
    fn wait_for(&self, more: u32) {
        let (began, before) = (Instant::now(), self.acknowledged.load(Ordering::SeqCst));
        while self.acknowledged.load(Ordering::SeqCst) < before + more {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "writes do not go on"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn report(&self, when: &str) {
        let longest = self.longest.swap(0, Ordering::SeqCst);
        let failed = self.failed.swap(0, Ordering::SeqCst);
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        eprintln!("{when}: {acknowledged} rows, {failed} failed, longest {longest} ms");
    }
}

fn partition(number: u32) -> [u8; 1] {
    [(number % 64) as u8]
}

fn numbered(number: u32) -> seiner_cluster::Row {
    row(
        "t",
        &partition(number),
        &number.to_be_bytes(),
        &number.to_be_bytes(),
    )
}

/// Checks that the store has the rows up to a number.
fn assert_complete(store: &CassandraRows, count: u32) {
    for first in 0..64 {
        let range = Range {
            table: "t",
            partition: &partition(first),
            from: b"",
            to: Some(&count.to_be_bytes()),
            limit: usize::MAX,
        };
        let found = store.range(&range, Level::Quorum).unwrap().into_iter();
        let rows = (first..count).step_by(64).map(|number| {
            let row = numbered(number);
            (row.key, row.value)
        });
        assert!(
            found.eq(rows),
            "partition {first}: a row of {count} is missing"
        );
    }
}

/// Ends a writer when it is dropped, so that a test that fails does not wait for it.
struct Ending<'a>(&'a Writer);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::SeqCst);
    }
}

/// Checks requests while one of three nodes answers.
fn assert_minority(cluster: &LocalCluster) {
    let mut contact = cluster.contact("crash");
    contact.timeouts.total = Duration::from_secs(3);
    let store = CassandraRows::connect(contact, Replication::default()).unwrap();
    let began = Instant::now();
    let row = |value: &[u8]| vec![row("minority", b"p", b"k", value)];
    let error = store.write(row(b"quorum"), Level::Quorum).unwrap_err();
    assert!(matches!(error, RowsError::Unavailable(_)), "{error}");
    let swap = store.swap("minority", b"p", b"swap", None, b"v");
    assert!(matches!(swap, Err(RowsError::Unavailable(_))), "{swap:?}");
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    store.write(row(b"one"), Level::One).unwrap();
    // The node may ask the paused one, until it notices that this one does not answer.
    let mut reads = (0..4).map(|_| store.read("minority", b"p", b"k", Level::One));
    let value = reads.find(|value| !matches!(value, Err(RowsError::Unavailable(_))));
    assert_eq!(value, Some(Ok(Some(b"one".to_vec()))));
    eprintln!("one of three nodes: {:.1?}; {error}", began.elapsed());
}

fn wait_for_nodes(store: &CassandraRows, up: usize) {
    let began = Instant::now();
    while store.nodes().iter().filter(|node| node.is_up).count() != up {
        let nodes = store.nodes();
        assert!(
            began.elapsed() < Duration::from_secs(40),
            "{up} nodes should be up: {nodes:?}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// A starting node reads its schema before its commit log, and skips the rows of tables that it does not know.
#[test]
fn a_killed_node_knows_its_tables_and_rows() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cassandra-killed");
    let options = Options::new(1, &folder);
    if obstacle(&options).is_some() {
        return;
    }
    delete_cluster(&folder).unwrap();
    let cluster = LocalCluster::start(options).unwrap();
    let alone = || CassandraRows::connect(cluster.contact("killed"), Replication { factor: 1 });
    let store = alone().unwrap();
    store.create(&[table("t")]).unwrap();
    store
        .write((0..100).map(numbered).collect(), Level::One)
        .unwrap();
    drop(store);
    // A node replays its commit log up to the last mark, which it sets every 100 ms.
    thread::sleep(Duration::from_secs(1));
    cluster.kill(1).unwrap();
    cluster.restart(1).unwrap();
    assert_complete(&alone().unwrap(), 100);
}

#[test]
fn no_acknowledged_row_is_lost_when_a_node_crashes() {
    let Some(shared) = exclusive() else { return };
    let cluster = shared.cluster;
    let store = connect(cluster, "crash");
    store.create(&[table("t"), table("minority")]).unwrap();
    let writer = Writer::default();
    thread::scope(|threads| {
        let _ending = Ending(&writer);
        threads.spawn(|| writer.run(&store));
        writer.wait_for(100);
        writer.report("three nodes");
        cluster.kill(2).unwrap();
        writer.wait_for(300);
        writer.report("after kill -9 of node 2");
        wait_for_nodes(&store, NODES - 1);
        // Tables can be created, and other clients can connect, while a node is down.
        let other = connect(cluster, "crash");
        other.create(&[table("created_without_node_2")]).unwrap();
        cluster.pause(3).unwrap();
        assert_minority(cluster);
        cluster.resume(3).unwrap();
        writer.wait_for(10);
        writer.report("after one of three nodes");
        let began = Instant::now();
        cluster.restart(2).unwrap();
        wait_for_nodes(&store, NODES);
        eprintln!("node 2 returned after {:.1?}", began.elapsed());
        writer.wait_for(100);
        writer.report("all nodes again");
        cluster.pause(3).unwrap();
        writer.wait_for(20);
        writer.report("node 3 hangs");
        cluster.resume(3).unwrap();
    });
    assert_complete(&store, writer.acknowledged.load(Ordering::SeqCst));
    wait_for_nodes(&store, NODES);
    let rows = vec![row("created_without_node_2", b"p", b"k", b"v")];
    store.write(rows, Level::Quorum).unwrap();
}
