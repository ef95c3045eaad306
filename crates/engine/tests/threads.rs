//! Tests of a store with background threads and concurrent writers, readers and deletes.
#![allow(clippy::unwrap_used)]

mod tiny;

use seiner_engine::{Durability, Engine, Error, Options, Query};
use seiner_model::{Column, Columns, FieldColumn, Interval, Selector, SourceId, SourceKey};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier};
use std::time::Duration;

fn options() -> Options {
    Options {
        durability: Durability::Interval(Duration::from_millis(5)),
        memory: 4 << 20,
        block_bytes: 256,
        segment_bytes: 256 << 10,
        journal_bytes: 512 << 10,
        ..Options::default()
    }
}

fn source(engine: &Engine, name: &str) -> SourceId {
    let key = SourceKey::new("m", [("n", name)]).unwrap();
    engine.register(&key).unwrap()
}

/// Appends rows whose values are their times.
fn append(engine: &Engine, source: SourceId, times: std::ops::Range<i64>) {
    let values = times.clone().map(|time| time as f64 / 7.0).collect();
    let columns = Columns {
        times: times.collect(),
        fields: vec![FieldColumn {
            present: None,
            values: Column::F64(values),
        }],
    };
    let receipt = engine.append_columns(source, &["v"], &columns).unwrap();
    assert!(receipt.rejected.is_empty(), "{:?}", receipt.rejected);
}

fn times(engine: &Engine, name: &str) -> Vec<i64> {
    let query = Query {
        selector: Selector::parse(&format!("m{{n=\"{name}\"}}")).unwrap(),
        fields: None,
        interval: Interval::new(i64::MIN, i64::MAX),
    };
    let series = engine.select(&query).unwrap();
    series.flat_map(|series| series.unwrap().times).collect()
}

/// While queries run, buffers move from their sources to the queue, and from the queue to the log.
/// Each query must find each row exactly once.
#[test]
fn each_row_is_read_once_while_it_moves_to_the_log() {
    const ROWS: i64 = 60_000;
    const STEP: i64 = 500;
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open_directory(dir.path(), options()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = ["a", "b"]
            .map(|name| {
                let (engine, id) = (&engine, source(&engine, name));
                scope.spawn(move || {
                    for from in (0..ROWS).step_by(STEP as usize) {
                        append(engine, id, from..from + STEP);
                    }
                })
            })
            .into();
        for name in ["a", "b"] {
            let (engine, done) = (&engine, &done);
            scope.spawn(move || {
                let mut seen = 0;
                while !done.load(Relaxed) {
                    let found = times(engine, name);
                    assert!(found.iter().copied().eq(0..found.len() as i64), "a gap");
                    assert!(found.len() >= seen, "rows have disappeared");
                    seen = found.len();
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Relaxed);
    });
    let status = engine.status();
    assert!(status.segments > 0 && status.blocks_sealed > 100);
    engine.close().unwrap();
    assert_eq!(times(&engine, "a").len() as i64, ROWS);
}

/// A delete during writes removes the rows that were acknowledged before it, including rows in
/// memory. Later rows stay.
#[test]
fn a_delete_during_writes_removes_only_earlier_rows() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open_directory(dir.path(), options()).unwrap();
    let (own, other) = (source(&engine, "own"), source(&engine, "other"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut from = 0;
            while !done.load(Relaxed) {
                append(&engine, other, from..from + 100);
                from += 100;
            }
        });
        let selector = Selector::parse("m{n=\"own\"}").unwrap();
        for round in 0..40 {
            append(&engine, own, round * 100..round * 100 + 70);
            let interval = Interval::new(i64::MIN, i64::MAX);
            engine.delete(&selector, interval).unwrap();
            assert_eq!(times(&engine, "own"), []);
            append(&engine, own, round * 100 + 70..round * 100 + 90);
            let found = times(&engine, "own");
            let expected = round * 100 + 70..round * 100 + 90;
            assert!(found.into_iter().eq(expected), "round {round}");
        }
        done.store(true, Relaxed);
    });
    let found = times(&engine, "other");
    assert!(found.iter().copied().eq(0..found.len() as i64), "a gap");
    engine.close().unwrap();
}

/// Writers wait for the threads of the store. When the threads end, the waiting writers continue.
#[test]
fn waiting_writers_get_an_error_when_the_store_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open_directory(dir.path(), options()).unwrap();
    let start = Arc::new(Barrier::new(5));
    let writers: Vec<_> = (0..4)
        .map(|number| {
            let (engine, start) = (engine.clone(), start.clone());
            let id = source(&engine, &number.to_string());
            std::thread::spawn(move || {
                start.wait();
                let mut from = 0;
                loop {
                    let times: Vec<i64> = (from..from + 1000).collect();
                    let values = vec![0.1; 1000];
                    let ids = vec![id; 1000];
                    match engine.append_samples("v", &ids, &times, &values) {
                        Ok(_) => from += 1000,
                        Err(Error::Closed) => return from,
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    start.wait();
    std::thread::sleep(Duration::from_millis(300));
    engine.close().unwrap();
    for (number, writer) in writers.into_iter().enumerate() {
        let sent = writer.join().unwrap();
        let found = times(&engine, &number.to_string()).len() as i64;
        // A batch that was rejected in the middle is stored in part.
        assert!(found >= sent && found < sent + 1000, "{found} of {sent}");
    }
}

/// Appends a row to each source of a generation.
fn append_generation(engine: &Engine, generation: i64, time: i64) {
    let name = |n| format!("pods,generation=g{generation:02},n={n}");
    let names: Vec<String> = (0..100).map(name).collect();
    tiny::append_rows(engine, &names, time);
}

/// Regression: a search for sources without data locked the ledger after the log, and a commit the log
/// after the ledger, so that neither continued.
#[test]
fn sources_are_forgotten_while_others_are_written_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open_directory(dir.path(), options()).unwrap();
    let all = Interval::new(i64::MIN, i64::MAX);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (engine, done) = (&engine, &done);
        // Sources of a generation come and go. Those of the last stay, and get rows all the time.
        scope.spawn(move || {
            for time in 0.. {
                append_generation(engine, 99, time);
                engine.commit().unwrap();
                if done.load(Relaxed) {
                    break;
                }
            }
        });
        scope.spawn(move || {
            let query = Query {
                selector: Selector::all(),
                fields: None,
                interval: all,
            };
            while !done.load(Relaxed) {
                for series in engine.select(&query).unwrap() {
                    assert_eq!(series.unwrap().key.measurement(), "pods");
                }
            }
        });
        for generation in 0..20 {
            (0..3).for_each(|time| append_generation(engine, generation, time));
            engine.flush().unwrap();
            let gone = format!("pods{{generation=\"g{generation:02}\"}}");
            engine
                .delete(&Selector::parse(&gone).unwrap(), all)
                .unwrap();
        }
        let began = std::time::Instant::now();
        while engine.status().sources_forgotten == 0 && began.elapsed().as_secs() < 60 {
            engine.flush().unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
        done.store(true, Relaxed);
    });
    let status = engine.status();
    assert!(status.sources_forgotten > 0, "{status:?}");
    let last = Selector::parse("pods{generation=\"g99\"}").unwrap();
    assert_eq!(engine.sources(&last).unwrap().len(), 100);
}
