//! Retention classes with copies of their own: tables, and replicas that must answer.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod samples;
mod world;

use samples::put;
use seiner_cluster::{
    ClusterStore, Found, Level, MemoryRows, Range, Row, Rows, RowsError, Swap, TableSpec, check,
};
use seiner_model::{Interval, Selector};
use seiner_store::{Class, Consistency, Copies, Keep, Query, Store};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use world::World;

/// Rows in memory that note the levels of requests to tables of bundles, and the copies of tables.
#[derive(Default)]
struct Recorded {
    rows: MemoryRows,
    writes: Mutex<BTreeSet<(String, u8)>>,
    reads: Mutex<BTreeSet<(String, u8)>>,
    copies: Mutex<BTreeSet<(String, Option<u32>)>>,
}

fn note(to: &Mutex<BTreeSet<(String, u8)>>, table: &str, level: Level) {
    let name = table.trim_end_matches("_late");
    if name.contains("blocks_") || name.contains("directories_") {
        to.lock().unwrap().insert((name.to_string(), level as u8));
    }
}

impl Rows for Recorded {
    fn create(&self, tables: &[TableSpec]) -> Result<(), RowsError> {
        let specs = tables.iter().map(|spec| (spec.name.clone(), spec.copies));
        self.copies.lock().unwrap().extend(specs);
        self.rows.create(tables)
    }

    fn tables(&self) -> Result<Vec<String>, RowsError> {
        self.rows.tables()
    }

    fn write(&self, rows: Vec<Row>, level: Level) -> Result<(), RowsError> {
        for row in &rows {
            note(&self.writes, &row.table, level);
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
        note(&self.reads, table, level);
        self.rows.read(table, partition, key, level)
    }

    fn range(&self, range: &Range<'_>, level: Level) -> Result<Vec<Found>, RowsError> {
        note(&self.reads, range.table, level);
        self.rows.range(range, level)
    }

    fn remove(
        &self,
        table: &str,
        partition: &[u8],
        key: Option<&[u8]>,
        level: Level,
    ) -> Result<(), RowsError> {
        self.rows.remove(table, partition, key, level)
    }

    fn swap(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<Swap, RowsError> {
        self.rows.swap(table, partition, key, expected, value)
    }

    fn partitions(&self, table: &str) -> Result<Vec<Vec<u8>>, RowsError> {
        self.rows.partitions(table)
    }
}

/// Creates a cluster without ports, on recorded rows.
fn world(seed: u64) -> (World, Arc<Recorded>) {
    let recorded = Arc::new(Recorded::default());
    let mut world = World::new(seed);
    world.rows = recorded.clone();
    (world, recorded)
}

fn class(name: &str, sources: &str, replication: Option<u32>, of: Consistency) -> Class {
    Class {
        name: name.to_string(),
        sources: sources.to_string(),
        keep: Keep {
            age: Some(Duration::from_secs(86_400 * 365)),
            ..Keep::default()
        },
        copies: Copies {
            replication,
            consistency: of,
        },
        ..Class::forever()
    }
}

fn port(world: &World, classes: &[Class]) -> Arc<ClusterStore> {
    let mut options = world.options("a");
    options.classes = Some(classes.to_vec());
    world.port_with(options)
}

/// Returns the number of all samples.
fn samples(port: &ClusterStore) -> usize {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let series = port.select(&query, None).unwrap();
    series.map(|series| series.unwrap().times.len()).sum()
}

/// Returns the levels of the requests to tables of a class.
fn levels(of: &Mutex<BTreeSet<(String, u8)>>, class: &str) -> Vec<u8> {
    let noted = of.lock().unwrap();
    let of = noted.iter().filter(|(table, _)| table.ends_with(class));
    let levels: BTreeSet<u8> = of.map(|(_, level)| *level).collect();
    levels.into_iter().collect()
}

#[test]
fn each_class_has_its_tables_and_levels() {
    let (world, rows) = world(1);
    let classes = [
        class("raw", "m", Some(1), Consistency::One),
        class("safe", "n", Some(5), Consistency::All),
        class("usual", "o", None, Consistency::Quorum),
    ];
    let a = port(&world, &classes);
    for name in ["m", "n", "o", "p"] {
        put(&a, name, 0..100, 0);
    }
    a.hand_over().unwrap();
    assert_eq!(samples(&a), 400);
    let (one, quorum, all) = (Level::One as u8, Level::Quorum as u8, Level::All as u8);
    assert_eq!(levels(&rows.writes, "_raw"), [one]);
    assert_eq!(levels(&rows.reads, "_raw"), [one]);
    assert_eq!(levels(&rows.writes, "_safe"), [all]);
    assert_eq!(levels(&rows.reads, "_safe"), [one]);
    for class in ["_usual", "_default"] {
        assert_eq!(levels(&rows.writes, class), [quorum], "{class}");
        assert_eq!(levels(&rows.reads, class), [quorum], "{class}");
    }
    let copies = |table: &str, copies| {
        let specs = rows.copies.lock().unwrap();
        assert!(specs.contains(&(table.to_string(), copies)), "{specs:?}");
    };
    copies("raw.blocks_raw", Some(1));
    copies("safe.directories_safe_late", Some(5));
    copies("blocks_usual", None);
    copies("blocks_default", None);
    // The bundles of all classes are checked.
    let found = check(&world.rows, &mut |line| panic!("{line}")).unwrap();
    assert_eq!((found.samples, found.sources, found.damages), (400, 4, 0));
    // A later start without classes in its settings has the stored ones.
    a.close().unwrap();
    let a = world.port("a");
    assert_eq!(samples(&a), 400);
    let stored: Vec<Copies> = a.retention().iter().map(|class| class.copies).collect();
    let given = classes.iter().map(|class| class.copies);
    assert_eq!(stored, given.chain([Copies::default()]).collect::<Vec<_>>());
}

#[test]
fn copies_are_stored_with_the_class_and_do_not_change() {
    let (world, _) = world(2);
    let first = class("raw", "m", None, Consistency::One);
    port(&world, std::slice::from_ref(&first)).close().unwrap();
    port(&world, std::slice::from_ref(&first)).close().unwrap();
    for (replication, of) in [(None, Consistency::Quorum), (Some(2), Consistency::One)] {
        let mut options = world.options("a");
        options.classes = Some(vec![class("raw", "m", replication, of)]);
        let error = world.try_with(options).err().unwrap().to_string();
        assert!(error.contains("differ from those"), "{error}");
    }
}

#[test]
fn a_number_of_copies_that_cannot_be_is_rejected() {
    for factor in [0, 101] {
        let (world, rows) = world(3);
        let mut options = world.options("a");
        options.classes = Some(vec![class("raw", "m", Some(factor), Consistency::One)]);
        let error = world.try_with(options).err().unwrap().to_string();
        assert!(error.contains("change replication"), "{error}");
        let tables = rows.tables().unwrap();
        assert!(!tables.iter().any(|table| table.contains("blocks")));
    }
}
