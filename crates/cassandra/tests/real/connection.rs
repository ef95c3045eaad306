//! Connections that succeed or fail.

use crate::common::{NODES, connect, healthy};
use scylla::client::session_builder::SessionBuilder;
use seiner_cassandra::local::LocalCluster;
use seiner_cassandra::{CassandraRows, ConnectError, Contact, Host, Replication};
use seiner_cluster::Rows;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Runs a statement, as another program would.
pub fn run(cluster: &LocalCluster, statement: &str) {
    try_run(cluster, statement).unwrap();
}

/// Runs a statement, and returns the error of the cluster.
pub fn try_run(cluster: &LocalCluster, statement: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let hosts = cluster.contact("none").hosts;
        let hosts = hosts.iter().map(ToString::to_string);
        let session = SessionBuilder::new()
            .known_nodes(hosts)
            .build()
            .await
            .unwrap();
        let outcome = session.query_unpaged(statement, ()).await;
        outcome.map(drop).map_err(|error| error.to_string())
    })
}

fn rejection(contact: Contact) -> ConnectError {
    match CassandraRows::connect(contact, Replication::default()) {
        Ok(_) => panic!("the connection was accepted"),
        Err(error) => error,
    }
}

#[test]
fn a_url_is_enough() {
    let Some(shared) = healthy() else { return };
    let hosts = shared.cluster.contact("none").hosts;
    let url = format!("cassandra://{}/by_url?rf=9", hosts[1]);
    let url: seiner_cassandra::ClusterUrl = url.parse().unwrap();
    let store = CassandraRows::connect(url.contact, url.replication).unwrap();
    let nodes = store.nodes();
    assert_eq!(nodes.len(), NODES);
    assert!(nodes.iter().all(|node| node.is_up), "{nodes:?}");
    assert_eq!(store.tables(), Ok(Vec::new()));
    assert_eq!(store.keyspace(), "by_url");
    drop(store);
    assert_eq!(connect(shared.cluster, "by_url").tables(), Ok(Vec::new()));
}

#[test]
fn the_keyspace_of_another_program_stays_unchanged() {
    let Some(shared) = healthy() else { return };
    let cluster = shared.cluster;
    run(
        cluster,
        "CREATE KEYSPACE theirs WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run(cluster, "CREATE TABLE theirs.users (id int PRIMARY KEY)");
    let error = rejection(cluster.contact("theirs"));
    let ConnectError::ForeignKeyspace { keyspace, tables } = &error else {
        panic!("{error}");
    };
    assert_eq!((&**keyspace, &**tables), ("theirs", "users"));
    // A table of the same name as the marker, and with other columns, does not make the keyspace ours.
    run(
        cluster,
        "CREATE TABLE theirs.seiner_schema (id int PRIMARY KEY)",
    );
    let error = rejection(cluster.contact("theirs"));
    assert!(
        matches!(error, ConnectError::ForeignKeyspace { .. }),
        "{error}"
    );
}

#[test]
fn a_missing_keyspace_is_opened_by_nobody_and_stays_missing() {
    let Some(shared) = healthy() else { return };
    for _ in 0..2 {
        let found = CassandraRows::open(&shared.cluster.contact("misspelt"));
        let error = found.map(drop).unwrap_err();
        assert_eq!(error, ConnectError::NoKeyspace("misspelt".to_string()));
    }
    drop(connect(shared.cluster, "opened"));
    let opened = CassandraRows::open(&shared.cluster.contact("opened")).unwrap();
    assert_eq!(opened.tables(), Ok(Vec::new()));
}

#[test]
fn another_version_of_the_schema_is_rejected() {
    let Some(shared) = healthy() else { return };
    drop(connect(shared.cluster, "newer"));
    run(
        shared.cluster,
        "UPDATE newer.seiner_schema SET value = '99' WHERE name = 'version'",
    );
    let error = rejection(shared.cluster.contact("newer"));
    assert!(
        matches!(&error, ConnectError::OtherSchema { found, .. } if found == "99"),
        "{error}"
    );
}

#[test]
fn unreachable_hosts_are_named_with_reasons() {
    // Accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = |name: &str, port| Host {
        name: name.to_string(),
        port,
    };
    let hosts = vec![
        host("127.0.0.1", closed.local_addr().unwrap().port()),
        host("no-such-host.invalid", 9042),
        host("127.0.0.1", silent.local_addr().unwrap().port()),
    ];
    drop(closed);
    let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let mut contact = Contact::new(hosts, "sensors");
    contact.timeouts.connect = Duration::from_secs(3);
    let began = Instant::now();
    let text = rejection(contact).to_string();
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    assert!(names.iter().all(|name| text.contains(&**name)), "{text}");
    assert!(
        text.contains("refus") && text.contains("no answer within"),
        "{text}"
    );
}

#[test]
fn settings_that_cannot_be_right_are_rejected() {
    let host = Host {
        name: "127.0.0.1".to_string(),
        port: 1,
    };
    let contacts = [
        Contact::new(Vec::new(), "sensors"),
        Contact::new(vec![host], "Sensors\"; DROP"),
    ];
    for contact in contacts {
        let error = rejection(contact);
        assert!(matches!(error, ConnectError::Setting(_)), "{error}");
    }
}
