//! Rows of a healthy cluster.

use crate::common::{connect, healthy, row, table};
use seiner_cluster::{Level, Range, Rows, RowsError, TableSpec, conformance};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn rows_on_cassandra_conform() {
    let Some(shared) = healthy() else { return };
    let store = connect(shared.cluster, "conformance");
    let began = Instant::now();
    conformance::rows(&store);
    eprintln!(
        "conformance: {:.1?}, {:?}",
        began.elapsed(),
        store.statistics()
    );
}

#[test]
fn rows_expire() {
    let Some(shared) = healthy() else { return };
    let store = connect(shared.cluster, "expiry");
    let mut blocks = table("blocks");
    blocks.life = Some(Duration::from_secs(4));
    blocks.window = Some(Duration::from_secs(60));
    let mut days = table("days");
    (days.life, days.window) = (
        Some(Duration::from_secs(30 * 86_400)),
        Some(Duration::from_secs(86_400)),
    );
    store.create(&[blocks, days, table("forever")]).unwrap();
    let began = Instant::now();
    let with_life = |table, key: &[u8], seconds| {
        let mut row = row(table, b"p", key, b"v");
        row.life = Some(Duration::from_secs(seconds));
        row
    };
    let rows = vec![
        row("blocks", b"p", b"life of the table", b"v"),
        with_life("blocks", b"longer life", 3600),
        with_life("forever", b"short life", 3),
        row("forever", b"p", b"no life", b"v"),
    ];
    store.write(rows, Level::Quorum).unwrap();
    let keys = |table| {
        let range = Range {
            table,
            partition: b"p",
            from: b"",
            to: None,
            limit: 9,
        };
        let rows = store.range(&range, Level::Quorum).unwrap().into_iter();
        rows.map(|(key, _)| String::from_utf8(key).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys("blocks"), ["life of the table", "longer life"]);
    assert_eq!(keys("forever"), ["no life", "short life"]);
    while keys("blocks").len() + keys("forever").len() > 2 {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "rows with a life of 3 and 4 s do not expire"
        );
        thread::sleep(Duration::from_millis(100));
    }
    assert!(began.elapsed() > Duration::from_secs(3));
    assert_eq!(
        (keys("blocks"), keys("forever")),
        (vec!["longer life".to_string()], vec!["no life".to_string()])
    );
}

#[test]
fn tables_with_other_columns_are_rejected() {
    let Some(shared) = healthy() else { return };
    let store = connect(shared.cluster, "columns");
    store.create(&[table("good")]).unwrap();
    crate::connection::run(
        shared.cluster,
        "CREATE TABLE columns.bad (partition blob PRIMARY KEY, value blob)",
    );
    let error = store.create(&[table("bad")]).unwrap_err();
    assert!(
        matches!(&error, RowsError::Rejected(text) if text.contains("partition blob")),
        "{error}"
    );
    assert_eq!(
        store.tables(),
        Ok(vec!["bad".to_string(), "good".to_string()])
    );
}

#[test]
fn many_clients_create_the_same_tables() {
    let Some(shared) = healthy() else { return };
    let tables: Vec<TableSpec> = (0..3).map(|number| table(&format!("t{number}"))).collect();
    thread::scope(|threads| {
        for client in 0..4_u8 {
            let (cluster, tables) = (shared.cluster, &tables);
            threads.spawn(move || {
                let store = connect(cluster, "together");
                store.create(tables).unwrap();
                for table in tables {
                    store
                        .write(vec![row(&table.name, b"p", &[client], b"v")], Level::Quorum)
                        .unwrap();
                }
            });
        }
    });
    let store = connect(shared.cluster, "together");
    for table in &tables {
        let range = Range {
            table: &table.name,
            partition: b"p",
            from: b"",
            to: None,
            limit: 9,
        };
        assert_eq!(store.range(&range, Level::Quorum).unwrap().len(), 4);
    }
}

#[test]
fn requests_are_possible_beside_asynchronous_code() {
    let Some(shared) = healthy() else { return };
    let store = Arc::new(connect(shared.cluster, "blocking"));
    store.create(&[table("t")]).unwrap();
    let before = store.statistics();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async move {
        let shared = Arc::clone(&store);
        let request = move || {
            shared.write(vec![row("t", b"p", b"key", b"value")], Level::One)?;
            shared.read("t", b"p", b"key", Level::Quorum)
        };
        let value = tokio::task::spawn_blocking(request).await.unwrap();
        assert_eq!(value, Ok(Some(b"value".to_vec())));
        let after = store.statistics();
        assert_eq!(after.bytes_written - before.bytes_written, 9);
        assert_eq!(after.bytes_read - before.bytes_read, 5);
        assert!(after.requests >= before.requests + 2);
        // The drop of a store is permitted here.
        drop(store);
    });
}

/// Measures writes and reads. Not a check: the figures are for the reader of the output.
#[test]
#[ignore = "a measurement"]
fn rows_per_second() {
    let Some(shared) = healthy() else { return };
    let store = connect(shared.cluster, "speed");
    let began = Instant::now();
    let tables: Vec<TableSpec> = (0..5).map(|number| table(&format!("t{number}"))).collect();
    store.create(&tables).unwrap();
    eprintln!("5 tables: {:.2?}", began.elapsed());
    for (bytes, count) in [
        (40, 20_000_u32),
        (4 << 10, 5000),
        (64 << 10, 1000),
        (1 << 20, 60),
    ] {
        let value: Vec<u8> = (0..bytes)
            .map(|place: usize| ((place * place) >> 3) as u8)
            .collect();
        let rows = (0..count).map(|number| {
            let partition = [(number % 16) as u8, bytes.ilog2() as u8];
            row("t0", &partition, &number.to_be_bytes(), &value)
        });
        let began = Instant::now();
        store.write(rows.collect(), Level::Quorum).unwrap();
        let wrote = began.elapsed().as_secs_f64();
        let began = Instant::now();
        for first in 0..16 {
            let partition = [first, bytes.ilog2() as u8];
            let range = Range {
                table: "t0",
                partition: &partition,
                from: b"",
                to: None,
                limit: usize::MAX,
            };
            store.range(&range, Level::Quorum).unwrap();
        }
        let read = began.elapsed().as_secs_f64();
        let mb = f64::from(count) * bytes as f64 / 1e6;
        eprintln!(
            "{bytes} bytes: written {:.0} rows/s, {:.1} MB/s; read {:.0} rows/s, {:.1} MB/s",
            f64::from(count) / wrote,
            mb / wrote,
            f64::from(count) / read,
            mb / read
        );
    }
}
