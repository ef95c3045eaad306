//! Tests of a store in a real directory, through the public interface.
#![allow(clippy::unwrap_used)]

mod aggregates;

use seiner_engine::{Bundling, Durability, Engine, Error, Exact, Options, Query, Reason, Step};
use seiner_model::{
    Batch, Bitmap, Cell, Column, Columns, FieldColumn, FieldType, Interval, KeyError, Notation,
    Selector, SourceKey, Value,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

struct Plain;

impl Notation for Plain {
    fn id(&self) -> u32 {
        1
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        let name =
            std::str::from_utf8(name).map_err(|error| KeyError::Notation(error.to_string()))?;
        let (measurement, tags) = name.split_once(',').unwrap_or((name, ""));
        SourceKey::new(
            measurement,
            tags.split_terminator(',')
                .filter_map(|tag| tag.split_once('=')),
        )
    }
}

fn small() -> Options {
    Options {
        durability: Durability::Interval(Duration::from_millis(5)),
        memory: 8 << 20,
        block_bytes: 512,
        segment_bytes: 64 << 10,
        journal_bytes: 256 << 10,
        idle_seal: Duration::from_secs(60),
        ..Options::default()
    }
}

/// Opens a store. Retries, because an engine that was dropped without a close unlocks its directory
/// only when the current step of its background threads ends.
fn open(path: &Path) -> Arc<Engine> {
    for _ in 0..1000 {
        match Engine::open_directory(path, small()) {
            Err(Error::Io { error, .. }) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened.unwrap(),
        }
    }
    panic!("{} is never unlocked", path.display());
}

fn all(text: &str) -> Query {
    Query {
        selector: Selector::parse(text).unwrap(),
        fields: None,
        interval: Interval::ALL,
    }
}

fn write(engine: &Engine, name: &str, samples: impl Iterator<Item = (i64, f64)>) {
    let mut batch = Batch::new();
    for (time, value) in samples {
        batch.push(
            name.as_bytes(),
            time,
            [Cell {
                field: b"value",
                value: Value::F64(value),
            }],
        );
    }
    let receipt = engine.append(&Plain, &batch).unwrap();
    assert_eq!(receipt.rejected_total, 0, "{:?}", receipt.rejected);
}

fn read(engine: &Engine, text: &str) -> Vec<(i64, f64)> {
    let mut samples = Vec::new();
    for series in engine.select(&all(text)).unwrap() {
        let series = series.unwrap();
        let Column::F64(values) = series.values else {
            panic!("floats")
        };
        samples.extend(series.times.into_iter().zip(values));
    }
    samples
}

fn walk(n: i64) -> impl Iterator<Item = (i64, f64)> + Clone {
    (0..n).map(|i| (i * 10_000_000_000, ((i * 7919) % 1000) as f64 / 100.0))
}

#[test]
fn samples_are_the_same_before_and_after_sealing_and_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    for host in ["a", "b", "c"] {
        write(&engine, &format!("cpu,host={host}"), walk(5000));
    }
    let expected: Vec<(i64, f64)> = walk(5000).collect();
    assert_eq!(read(&engine, "cpu{host=b}"), expected);
    engine.commit().unwrap();
    drop(engine);
    let engine = open(dir.path());
    assert!(engine.recovery().rows_replayed > 0, "{}", engine.recovery());
    assert_eq!(read(&engine, "cpu{host=b}"), expected);
    engine.flush().unwrap();
    assert_eq!(read(&engine, "cpu{host=b}"), expected);
    assert_eq!(engine.status().journal_files, 0);
    engine.close().unwrap();
    drop(engine);
    let engine = open(dir.path());
    assert_eq!(engine.recovery().rows_replayed, 0, "{}", engine.recovery());
    assert_eq!(read(&engine, "cpu{host=b}"), expected);
    assert_eq!(engine.sources(&Selector::all()).unwrap().len(), 3);
    assert_eq!(
        engine.fields(&Selector::all()).unwrap(),
        [("value".to_string(), FieldType::F64)]
    );
}

#[test]
fn a_dropped_engine_reopens_with_its_last_commit() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        durability: Durability::Sync,
        ..small()
    };
    let engine = Engine::open_directory(dir.path(), options.clone()).unwrap();
    let mut expected = Vec::new();
    for turn in 0..20 {
        let some: Vec<(i64, f64)> = (0..500).map(|i| (turn * 500 + i, i as f64 * 0.5)).collect();
        write(&engine, "m,s=1", some.iter().copied());
        write(&engine, &format!("m,s=x{turn}"), some.iter().copied());
        engine.commit().unwrap();
        expected.extend(some);
    }
    drop(engine);
    let engine = open(dir.path());
    assert_eq!(read(&engine, "m{s=\"1\"}"), expected);
    assert_eq!(engine.sources(&Selector::all()).unwrap().len(), 21);
}

#[test]
fn late_rows_and_overwrites_are_in_order_and_the_last_wins() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    write(&engine, "m,s=1", (0..3000).map(|i| (i * 100, 1.0)));
    engine.flush().unwrap();
    write(&engine, "m,s=1", (0..100).rev().map(|i| (i * 150, 2.0)));
    write(
        &engine,
        "m,s=1",
        [
            (0, 3.0),
            (0, 4.0),
            (-5, 5.0),
            (i64::MIN, 6.0),
            (i64::MAX, 7.0),
        ]
        .into_iter(),
    );
    let check = |engine: &Engine| {
        let samples = read(engine, "m{s=\"1\"}");
        assert!(samples.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(samples.len(), 3000 + 50 + 3);
        assert_eq!(
            samples[..4],
            [(i64::MIN, 6.0), (-5, 5.0), (0, 4.0), (100, 1.0)]
        );
        assert_eq!(samples[4], (150, 2.0));
        assert_eq!(samples[6], (300, 2.0));
        assert_eq!(samples.last(), Some(&(i64::MAX, 7.0)));
    };
    check(&engine);
    engine.flush().unwrap();
    check(&engine);
}

#[test]
fn every_type_is_read_bit_for_bit_with_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let floats = [
        0.1,
        -0.0,
        f64::NAN,
        f64::from_bits(0x7ff8_dead_beef_0001),
        f64::INFINITY,
        f64::MIN_POSITIVE,
        1e300,
    ];
    let mut batch = Batch::new();
    for i in 0..1000i64 {
        let mut cells = vec![Cell {
            field: b"f",
            value: Value::F64(floats[i as usize % 7]),
        }];
        if i % 2 == 0 {
            cells.push(Cell {
                field: b"i",
                value: Value::I64(if i % 4 == 0 { i64::MIN } else { i64::MAX }),
            });
        }
        if i % 3 == 0 {
            cells.push(Cell {
                field: b"u",
                value: Value::U64(u64::MAX - i as u64),
            });
        }
        if i > 500 {
            cells.push(Cell {
                field: b"s",
                value: Value::Str(if i % 5 == 0 { "on" } else { "off, \"really\"" }),
            });
        }
        cells.push(Cell {
            field: b"b",
            value: Value::Bool(i % 7 == 0),
        });
        cells.push(Cell {
            field: b"g",
            value: Value::F32(i as f32 * 0.1),
        });
        batch.push(b"all,x=y", i, cells);
    }
    let receipt = engine.append(&Plain, &batch).unwrap();
    assert_eq!((receipt.rows, receipt.rejected_total), (1000, 0));
    let check = |engine: &Engine| {
        let mut found = 0;
        for series in engine.select(&all("all")).unwrap() {
            let series = series.unwrap();
            for (index, &time) in series.times.iter().enumerate() {
                let row = &batch.rows[time as usize];
                let cell = batch
                    .cells_of(row)
                    .iter()
                    .find(|cell| cell.field == series.field.as_bytes())
                    .unwrap();
                assert_eq!(
                    series.values.get(index),
                    cell.value,
                    "{} at {time}",
                    series.field
                );
                found += 1;
            }
        }
        assert_eq!(found, receipt.samples);
    };
    check(&engine);
    engine.flush().unwrap();
    check(&engine);
    engine.close().unwrap();
    drop(engine);
    check(&open(dir.path()));
}

#[test]
fn bad_rows_are_rejected_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let mut batch = Batch::new();
    let good = Cell {
        field: b"v",
        value: Value::F64(1.0),
    };
    batch.push(b"m,a=1", 1, [good]);
    batch.push(
        b"m,a=1",
        2,
        [Cell {
            field: b"v",
            value: Value::I64(1),
        }],
    );
    batch.push(b",a=1", 3, [good]);
    batch.push(b"m,a=1", 4, [good, good]);
    batch.push(b"m,a=1", 5, []);
    batch.push(
        b"m,a=1",
        6,
        [Cell {
            field: b"",
            value: Value::Bool(true),
        }],
    );
    batch.push(b"m,a=1", 7, [good]);
    let receipt = engine.append(&Plain, &batch).unwrap();
    assert_eq!((receipt.rows, receipt.rejected_total), (2, 5));
    let reasons: Vec<(usize, Reason)> = receipt.rejected;
    assert!(matches!(reasons[0], (1, Reason::FieldType { .. })));
    assert_eq!(reasons[1], (2, Reason::Key(KeyError::EmptyMeasurement)));
    assert_eq!(
        reasons[2..],
        [
            (3, Reason::Fields),
            (4, Reason::Fields),
            (5, Reason::FieldName)
        ]
    );
    assert_eq!(read(&engine, "m"), [(1, 1.0), (7, 1.0)]);
    assert_eq!(engine.status().rows_rejected, 5);
}

/// Regression: 160 MiB were counted as used while the files had 8 MiB. Before the first seal, live
/// bytes were in no class.
#[test]
fn the_figures_of_a_young_store_agree() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    // Blocks do not wait for others.
    let options = Options {
        bundles: Bundling::Never,
        ..small()
    };
    let engine = Engine::open_directory(dir.path(), options).unwrap();
    write(&engine, "m,s=1", walk(5000));
    engine.commit().unwrap();
    while engine.step().unwrap() {}
    let (status, classes) = (engine.status(), engine.classes());
    assert_eq!((status.segments, status.open_segments), (0, 1));
    assert!(status.blocks_sealed > 0 && status.open_segment_bytes >= status.live_bytes);
    assert_eq!(status.live_bytes, status.block_bytes_sealed);
    assert_eq!(
        status.live_bytes,
        classes.iter().map(|class| class.live).sum()
    );
    let log = engine.log();
    assert_eq!(
        (log.fill.live, log.files),
        (status.live_bytes, status.disk_files)
    );
    assert_eq!(status.disk_used, status.disk_files + status.disk_allotted);
    let files = std::fs::read_dir(dir.path()).unwrap();
    let taken: u64 = files
        .map(|file| file.unwrap().metadata().unwrap().blocks() * 512)
        .sum();
    let difference = status.disk_files.abs_diff(taken);
    assert!(
        difference <= 64 << 10,
        "{} listed, {taken} taken",
        status.disk_files
    );
}

#[test]
fn columns_and_samples_are_appended_to_the_same_series() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let key = SourceKey::new("m", [("a", "1")]).unwrap();
    let source = engine.register(&key).unwrap();
    let columns = Columns {
        times: vec![1, 2, 3],
        fields: vec![
            FieldColumn {
                present: None,
                values: Column::F64(vec![1.5, 2.5, 3.5]),
            },
            FieldColumn {
                present: Some(Bitmap::from_iter([true, false, true])),
                values: Column::Bool(vec![true, false]),
            },
        ],
    };
    assert_eq!(
        engine
            .append_columns(source, &["x", "on"], &columns)
            .unwrap()
            .samples,
        5
    );
    engine
        .append_samples("x", &[source, source], &[4, 5], &[4.5, 5.5])
        .unwrap();
    let series: Vec<_> = engine
        .select(&all("m"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(series[0].times, [1, 2, 3, 4, 5]);
    assert_eq!(series[0].values, Column::F64(vec![1.5, 2.5, 3.5, 4.5, 5.5]));
    assert_eq!(
        (series[1].times.as_slice(), &series[1].values),
        ([1, 3].as_slice(), &Column::Bool(vec![true, false]))
    );
    let unknown = engine.append_samples("x", &[seiner_model::SourceId(9)], &[1], &[1.0]);
    assert!(matches!(unknown, Err(Error::UnknownSource(9))));
}

#[test]
fn little_memory_holds_many_sources_and_the_journal_stays_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    for turn in 0..60i64 {
        let names: Vec<String> = (0..20_000).map(|n| format!("m,n={n}")).collect();
        let mut batch = Batch::new();
        for name in &names {
            batch.push(
                name.as_bytes(),
                turn * 1_000_000_007,
                [Cell {
                    field: b"v",
                    value: Value::F64((turn as f64 + name.len() as f64).sqrt()),
                }],
            );
        }
        engine.append(&Plain, &batch).unwrap();
    }
    let status = engine.status();
    assert!(status.memory_used < 12 << 20, "{status:?}");
    assert!(status.journal_bytes < 512 << 10, "{status:?}");
    assert!(status.segments > 0, "{status:?}");
    assert_eq!(read(&engine, "m{n=\"77\"}").len(), 60);
    engine.close().unwrap();
    drop(engine);
    let engine = open(dir.path());
    for n in [0, 1, 999, 19_999] {
        assert_eq!(read(&engine, &format!("m{{n=\"{n}\"}}")).len(), 60);
    }
}

#[test]
fn the_directory_is_locked_and_a_closed_store_rejects() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let error = Engine::open_directory(dir.path(), small())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("in use by another process"), "{error}");
    engine.close().unwrap();
    let mut batch = Batch::new();
    batch.push(
        b"m",
        1,
        [Cell {
            field: b"v",
            value: Value::F64(1.0),
        }],
    );
    assert!(matches!(engine.append(&Plain, &batch), Err(Error::Closed)));
}

#[test]
fn an_abandoned_query_ends_between_two_blocks() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path());
    for source in ["m,a=1", "m,a=2"] {
        for round in 0..20 {
            let times = round * 1000..(round + 1) * 1000;
            write(
                &engine,
                source,
                times.map(|time| (time, time as f64 * 0.37)),
            );
        }
    }
    engine.flush().unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let until = |times: u64| -> seiner_engine::IsOver {
        let calls = calls.clone();
        calls.store(0, Relaxed);
        Arc::new(move || calls.fetch_add(1, Relaxed) >= times)
    };
    // The reader takes all results.
    let found = engine.select(&all("m")).unwrap().until(until(u64::MAX));
    assert_eq!(found.filter(Result::is_ok).count(), 2);
    assert!(calls.load(Relaxed) > 40, "asked before each block");
    // The reader abandons the query before the first source, and within it.
    let mut none = engine.select(&all("m")).unwrap().until(until(0));
    assert!(none.next().is_none());
    let mut half = engine.select(&all("m")).unwrap().until(until(3));
    assert!(matches!(half.next(), Some(Err(Error::Abandoned))));
    assert_eq!(calls.load(Relaxed), 4);
    let steps = engine.aggregate(&all("m"), Step::Every(7)).unwrap();
    let mut steps = steps.until(until(3));
    assert!(matches!(steps.next(), Some(Err(Error::Abandoned))));
    assert!(steps.next().is_none());
}
