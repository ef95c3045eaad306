//! Ports of a cluster on real Cassandra.

use crate::common::{connect, exclusive, healthy};
use seiner_cluster::{
    ClusterStore, Found, Grid, Level, NoPeers, PortOptions, Range, Row, Rows, RowsError,
    SpareDisks, Surroundings, Swap, TableSpec, check,
};
use seiner_engine::Options;
use seiner_model::{Column, Columns, FieldColumn, Interval, Selector, SourceKey};
use seiner_platform::sim::SimDisk;
use seiner_platform::{Disk, SystemClock};
use seiner_store::{Query, Store, conformance};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Part of the rows of a store: all partitions with a prefix. Tests share the tables, whose creation takes a second each.
struct Scope {
    rows: Arc<dyn Rows>,
    prefix: Vec<u8>,
}

impl Scope {
    fn partition(&self, partition: &[u8]) -> Vec<u8> {
        [&self.prefix[..], partition].concat()
    }
}

impl Rows for Scope {
    fn create(&self, tables: &[TableSpec]) -> Result<(), RowsError> {
        self.rows.create(tables)
    }

    fn tables(&self) -> Result<Vec<String>, RowsError> {
        self.rows.tables()
    }

    fn write(&self, mut rows: Vec<Row>, level: Level) -> Result<(), RowsError> {
        for row in &mut rows {
            row.partition = self.partition(&row.partition);
        }
        self.rows.write(rows, level)
    }

    fn read(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        level: Level,
    ) -> Result<Option<Vec<u8>>, RowsError> {
        self.rows
            .read(table, &self.partition(partition), key, level)
    }

    fn range(&self, range: &Range<'_>, level: Level) -> Result<Vec<Found>, RowsError> {
        let partition = self.partition(range.partition);
        let inner = Range {
            partition: &partition,
            ..range.clone()
        };
        self.rows.range(&inner, level)
    }

    fn remove(
        &self,
        table: &str,
        partition: &[u8],
        key: Option<&[u8]>,
        level: Level,
    ) -> Result<(), RowsError> {
        self.rows
            .remove(table, &self.partition(partition), key, level)
    }

    fn swap(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<Swap, RowsError> {
        let partition = self.partition(partition);
        self.rows.swap(table, &partition, key, expected, value)
    }

    fn partitions(&self, table: &str) -> Result<Vec<Vec<u8>>, RowsError> {
        let all = self.rows.partitions(table)?.into_iter();
        let own =
            all.filter_map(|partition| Some(partition.strip_prefix(&self.prefix[..])?.to_vec()));
        Ok(own.collect())
    }
}

/// Spare disks in memory.
struct Spare;

impl SpareDisks for Spare {
    fn create(&self, _name: &str) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(SimDisk::new(1)))
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }
}

static SCOPES: AtomicU32 = AtomicU32::new(0);

/// Returns rows that no other test sees.
fn scope(rows: &Arc<dyn Rows>) -> Arc<dyn Rows> {
    let number = SCOPES.fetch_add(1, Ordering::SeqCst);
    Arc::new(Scope {
        rows: rows.clone(),
        prefix: format!("scope {number}/").into_bytes(),
    })
}

/// Opens a port with threads, on a disk in memory.
fn port(rows: &Arc<dyn Rows>, name: &str, disk: &SimDisk) -> Arc<ClusterStore> {
    let around = Surroundings {
        rows: rows.clone(),
        disk: Arc::new(disk.clone()),
        spare: Arc::new(Spare),
        clock: Arc::new(SystemClock::new()),
        peers: Arc::new(NoPeers),
    };
    let options = PortOptions {
        replica_sync: Duration::ZERO,
        grid: Grid {
            shelves: 2,
            period_ns: 3_600_000_000_000,
        },
        engine: Options {
            memory: 32 << 20,
            segment_bytes: 1 << 20,
            journal_bytes: 4 << 20,
            ..Options::default()
        },
        ..PortOptions::new(name)
    };
    ClusterStore::start(options, around).unwrap()
}

#[test]
fn a_port_conforms() {
    let Some(healthy) = healthy() else {
        return;
    };
    let rows: Arc<dyn Rows> = Arc::new(connect(healthy.cluster, "ports"));
    conformance::all(&|| port(&scope(&rows), "a", &SimDisk::new(1)));
}

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_700_000_000 * SECOND;

/// Appends rows of a source, durably.
fn put(port: &ClusterStore, from: i64, to: i64) {
    let key = SourceKey::new("m", [("a", "b")]).unwrap();
    let source = port.register(&key).unwrap();
    let columns = Columns {
        times: (from..to).map(|time| START + time * SECOND).collect(),
        fields: vec![FieldColumn {
            present: None,
            values: Column::I64((from..to).collect()),
        }],
    };
    let receipt = port.append_columns(source, &["v"], &columns).unwrap();
    port.wait_durable(receipt.position).unwrap();
}

/// Returns all values, by time.
fn values(port: &ClusterStore) -> Vec<i64> {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let mut found = Vec::new();
    for series in port.select(&query, None).unwrap() {
        let Column::I64(values) = series.unwrap().values else {
            panic!("the values are integers");
        };
        found.extend(values);
    }
    found
}

/// Writes through a port while a node crashes, loses the port's power, and reads everything at another port.
#[test]
fn a_crash_of_a_node_and_of_a_port_loses_nothing() {
    let Some(exclusive) = exclusive() else {
        return;
    };
    let cluster = exclusive.cluster;
    let rows = scope(&(Arc::new(connect(cluster, "ports")) as Arc<dyn Rows>));
    let disk = SimDisk::new(2);
    let a = port(&rows, "a", &disk);
    put(&a, 0, 1000);
    a.hand_over().unwrap();
    cluster.kill(2).unwrap();
    for batch in 1..20 {
        put(&a, batch * 1000, (batch + 1) * 1000);
    }
    // The port is gone, with its disk.
    disk.crash_after(Some(1));
    drop(a);
    let b = port(&rows, "b", &SimDisk::new(3));
    let expected: Vec<i64> = (0..20_000).collect();
    assert_eq!(values(&b), expected, "from the replicated journal");
    cluster.restart(2).unwrap();
    b.hand_over().unwrap();
    assert_eq!(values(&b), expected);
    let mut damages = Vec::new();
    let found = check(&rows, &mut |line| damages.push(line.to_string())).unwrap();
    assert_eq!(damages, [""; 0]);
    assert_eq!(found.sources, 1);
    b.close().unwrap();
}

#[test]
fn an_outage_stops_acknowledgements_and_loses_nothing() {
    let Some(exclusive) = exclusive() else {
        return;
    };
    let cluster = exclusive.cluster;
    let rows = scope(&(Arc::new(connect(cluster, "ports")) as Arc<dyn Rows>));
    let a = port(&rows, "a", &SimDisk::new(4));
    put(&a, 0, 1000);
    for node in [2, 3] {
        cluster.pause(node).unwrap();
    }
    let waiting = std::thread::spawn({
        let a = a.clone();
        move || put(&a, 1000, 2000)
    });
    std::thread::sleep(Duration::from_secs(3));
    assert!(!waiting.is_finished(), "no majority has the rows");
    for node in [2, 3] {
        cluster.resume(node).unwrap();
    }
    waiting.join().unwrap();
    assert_eq!(values(&a), (0..2000).collect::<Vec<i64>>());
    a.close().unwrap();
}
