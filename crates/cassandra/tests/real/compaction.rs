//! The compaction strategy of this project on real nodes.

use crate::common::{healthy, row};
use crate::connection::{run, try_run};
use seiner_cassandra::local::{LocalCluster, Options, delete_cluster, obstacle};
use seiner_cassandra::{CassandraRows, Compaction, Replication};
use seiner_cluster::{Level, Rows, RowsError, TableSpec};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time for a compaction to begin and end.
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(cluster: &LocalCluster, keyspace: &str) -> CassandraRows {
    let mut contact = cluster.contact(keyspace);
    contact.compaction = Compaction::Fisherman;
    CassandraRows::connect(contact, Replication::default()).unwrap()
}

fn table(life: Option<Duration>) -> TableSpec {
    TableSpec {
        name: "blocks".to_string(),
        copies: None,
        life,
        window: Some(Duration::from_secs(3600)),
        is_compressed: false,
    }
}

/// Writes ten rows of 10 KB and brings them into a file on the first node.
fn write_file(cluster: &LocalCluster, store: &CassandraRows, name: u8, life: Option<Duration>) {
    write(store, name, life);
    cluster.tool(1, &["flush", store.keyspace()]).unwrap();
}

fn write(store: &CassandraRows, name: u8, life: Option<Duration>) {
    let rows = (0..10).map(|key| {
        let mut row = row("blocks", &[name], &[key], &[name; 10_000]);
        row.life = life;
        row
    });
    store.write(rows.collect(), Level::Quorum).unwrap();
}

/// Returns the files with the rows of the table `blocks` on the first node.
fn files(keyspace: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cassandra/node1/data");
    let mut files = Vec::new();
    for table in fs::read_dir(folder.join(keyspace)).unwrap().flatten() {
        if table.file_name().to_string_lossy().starts_with("blocks-") {
            let entries = fs::read_dir(table.path()).unwrap().flatten();
            let entries = entries.map(|entry| entry.path());
            files.extend(entries.filter(|path| path.to_string_lossy().ends_with("-Data.db")));
        }
    }
    files.sort();
    files
}

#[test]
fn files_that_died_whole_are_dropped_and_living_files_are_not_merged() {
    let Some(shared) = healthy() else { return };
    let store = connect(shared.cluster, "fisherman");
    let life = Duration::from_secs(10);
    store.create(&[table(Some(life))]).unwrap();
    write_file(shared.cluster, &store, 1, None);
    let first = files("fisherman");
    assert_eq!(first.len(), 1, "{first:?}");
    // The grace is as long as the life.
    std::thread::sleep(2 * life + Duration::from_secs(2));
    // A flush looks for dead files.
    for name in 2..=6 {
        write_file(shared.cluster, &store, name, Some(360 * life));
    }
    let end = Instant::now() + PATIENCE;
    while first[0].exists() {
        assert!(Instant::now() < end, "the dead file is still there");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(files("fisherman").len(), 5);
    shared.cluster.tool(1, &["compact", "fisherman"]).unwrap();
    let living = files("fisherman");
    assert_eq!(living.len(), 5, "{living:?}");
    let mut arguments = vec!["compact", "--user-defined"];
    arguments.extend(living.iter().take(2).map(|file| file.to_str().unwrap()));
    shared.cluster.tool(1, &arguments).unwrap();
    assert_eq!(files("fisherman").len(), 4);
    for name in 2..=6 {
        let value = store.read("blocks", &[name], &[9], Level::Quorum).unwrap();
        assert_eq!(value, Some(vec![name; 10_000]));
    }
}

#[test]
fn a_file_with_dead_rows_is_rewritten_alone_when_the_disk_fills() {
    let Some(shared) = healthy() else { return };
    let store = connect(shared.cluster, "hungry");
    store.create(&[table(None)]).unwrap();
    // No grace: expired rows may be removed at once.
    let alter = |merge_from: &str| {
        format!(
            "ALTER TABLE hungry.blocks WITH gc_grace_seconds = 0 AND compaction = \
             {{'class': 'io.seiner.FishermanCompaction', 'tombstone_compaction_interval': '1', \
             'merge_from': '{merge_from}'}}"
        )
    };
    // The disk is not as full as that.
    run(shared.cluster, &alter("0.999999"));
    write_file(shared.cluster, &store, 1, None);
    write(&store, 2, Some(Duration::from_secs(1)));
    write_file(shared.cluster, &store, 3, None);
    let mixed = files("hungry").pop().unwrap();
    let size = fs::metadata(&mixed).unwrap().len();
    // Cassandra counts expired rows by the minute.
    std::thread::sleep(Duration::from_secs(62));
    write_file(shared.cluster, &store, 4, None);
    assert!(mixed.exists() && files("hungry").len() == 3);
    run(shared.cluster, &alter("0.000001"));
    write_file(shared.cluster, &store, 5, None);
    let end = Instant::now() + PATIENCE;
    while mixed.exists() {
        assert!(Instant::now() < end, "the dead rows are still there");
        std::thread::sleep(Duration::from_millis(200));
    }
    let files = files("hungry");
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        let rest = fs::metadata(&file).unwrap().len();
        assert!(rest < size * 3 / 4, "{}: {rest} of {size}", file.display());
    }
    for name in [1, 3, 4, 5] {
        let value = store.read("blocks", &[name], &[0], Level::Quorum).unwrap();
        assert_eq!(value, Some(vec![name; 10_000]));
    }
    for wrong in ["1", "-0.1", "NaN", "much"] {
        let error = try_run(shared.cluster, &alter(wrong)).unwrap_err();
        assert!(error.contains("merge_from"), "{wrong}: {error}");
    }
}

#[test]
fn nodes_without_the_jar_reject_the_table() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cassandra-without-jar");
    let options = |has_fisherman| Options {
        has_fisherman,
        ..Options::new(1, &folder)
    };
    if obstacle(&options(false)).is_some() {
        return;
    }
    delete_cluster(&folder).unwrap();
    let cluster = LocalCluster::start(options(false)).unwrap();
    let store = connect(&cluster, "without");
    let error = store.create(&[table(None)]).unwrap_err();
    assert!(matches!(error, RowsError::Rejected(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("seiner-compaction"), "{text}");
    assert_eq!(store.tables(), Ok(Vec::new()));
    cluster.stop().unwrap();
    let cluster = LocalCluster::start(options(true)).unwrap();
    connect(&cluster, "without").create(&[table(None)]).unwrap();
    cluster.stop().unwrap();
    // A node that lost the jar cannot read the schema.
    let error = LocalCluster::start(options(false)).err().unwrap();
    assert!(error.to_string().contains("FishermanCompaction"), "{error}");
}
