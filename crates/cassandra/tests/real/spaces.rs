//! Tables of retention classes with their own number of copies.

use crate::common::{connect, healthy, row, table};
use crate::connection::run;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::value::DeserializeValue;
use seiner_cassandra::local::LocalCluster;
use seiner_cassandra::{CassandraRows, ConnectError, Replication};
use seiner_cluster::{Level, Range, Rows, RowsError, TableSpec};
use std::collections::HashMap;

/// Returns the only value that a statement selects.
fn select<T>(cluster: &LocalCluster, statement: &str) -> T
where
    T: for<'frame> DeserializeValue<'frame, 'frame>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let hosts = cluster.contact("none").hosts;
        let hosts = hosts.iter().map(ToString::to_string);
        let session = SessionBuilder::new().known_nodes(hosts).build().await;
        let answer = session.unwrap().query_unpaged(statement, ()).await.unwrap();
        let rows = answer.into_rows_result().unwrap();
        rows.single_row::<(T,)>().unwrap().0
    })
}

/// Returns a table in a space.
fn spec(name: &str, copies: u32) -> TableSpec {
    TableSpec {
        copies: Some(copies),
        ..table(name)
    }
}

#[test]
fn a_class_with_its_own_copies_has_a_keyspace_that_belongs_to_the_cluster() {
    let Some(shared) = healthy() else { return };
    let store = connect(shared.cluster, "spaces");
    let specs = [
        spec("raw.blocks_raw", 1),
        spec("safe.blocks_safe", 3),
        table("blocks_rest"),
    ];
    store.create(&specs).unwrap();
    store.create(&specs).unwrap();
    for (name, level) in [
        ("raw.blocks_raw", Level::One),
        ("safe.blocks_safe", Level::All),
        ("blocks_rest", Level::Quorum),
    ] {
        let value = name.as_bytes();
        store
            .write(vec![row(name, b"p", b"k", value)], level)
            .unwrap();
        let read = store.read(name, b"p", b"k", Level::One).unwrap();
        assert_eq!(read.as_deref(), Some(value));
        let found = store.range(&Range::whole(name, b"p"), level).unwrap();
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(store.partitions(name).unwrap(), [b"p"]);
        store.remove(name, b"p", None, level).unwrap();
        assert_eq!(store.read(name, b"p", b"k", Level::Quorum), Ok(None));
    }
    assert_eq!(store.tables().unwrap(), ["blocks_rest"]);
    // The number of copies is that of the first table.
    for (keyspace, copies) in [("spaces", "3"), ("spaces_raw", "1"), ("spaces_safe", "3")] {
        let text = format!(
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '{keyspace}'"
        );
        let replication: HashMap<String, String> = select(shared.cluster, &text);
        let stated: Vec<&str> = replication.values().map(String::as_str).collect();
        assert!(stated.contains(&copies), "{keyspace}: {replication:?}");
    }
    let contact = shared.cluster.contact("spaces_raw");
    let error = CassandraRows::connect(contact, Replication::default()).err();
    let error = error.expect("the keyspace of a class is no keyspace of a cluster");
    assert!(
        matches!(&error, ConnectError::Setting(text) if text.contains("name spaces")),
        "{error}"
    );
}

#[test]
fn a_keyspace_in_use_is_not_taken_for_a_class() {
    let Some(shared) = healthy() else { return };
    // A cluster of its own, with a name that a class of another cluster would need.
    let other = connect(shared.cluster, "house_raw");
    other.create(&[table("grids")]).unwrap();
    let store = connect(shared.cluster, "house");
    let error = store.create(&[spec("raw.blocks_raw", 2)]).unwrap_err();
    let RowsError::Rejected(text) = &error else {
        panic!("{error}");
    };
    assert!(
        text.contains("house_raw") && text.contains("rename"),
        "{text}"
    );
    assert_eq!(other.tables().unwrap(), ["grids"], "nothing was written");
}

#[test]
fn a_keyspace_of_the_earlier_version_is_raised_when_tables_are_created() {
    let Some(shared) = healthy() else { return };
    drop(connect(shared.cluster, "earlier"));
    run(
        shared.cluster,
        "UPDATE earlier.seiner_schema SET value = '1' WHERE name = 'version'",
    );
    let version = || -> String {
        select(
            shared.cluster,
            "SELECT value FROM earlier.seiner_schema WHERE name = 'version'",
        )
    };
    let store = connect(shared.cluster, "earlier");
    assert_eq!(version(), "1", "a connection changes nothing");
    store.create(&[table("t")]).unwrap();
    assert_eq!(version(), "2");
}
