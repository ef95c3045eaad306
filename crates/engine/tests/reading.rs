//! Reading of stores. Readers do not change the directory, and another process may write to it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use seiner_engine::{
    Class, Classes, Durability, Engine, Error, Keep, Options, Query, check_directory,
};
use seiner_model::{Interval, Selector, SourceKey};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn options() -> Options {
    Options {
        durability: Durability::Sync,
        memory: 4 << 20,
        block_bytes: 512,
        segment_bytes: 64 << 10,
        journal_bytes: 128 << 10,
        ..Options::default()
    }
}

/// Returns the state of a directory: names, bytes, times, inodes.
fn fingerprint(path: &Path) -> BTreeMap<String, (Vec<u8>, i64, i64, u64)> {
    let files = fs::read_dir(path).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        let bytes = fs::read(entry.path()).unwrap();
        let times = (metadata.mtime(), metadata.mtime_nsec());
        (
            entry.file_name().into_string().unwrap(),
            (bytes, times.0, times.1, metadata.ino()),
        )
    });
    let directory = fs::metadata(path).unwrap();
    files
        .chain([(
            ".".to_string(),
            (Vec::new(), directory.mtime(), directory.mtime_nsec(), 0),
        )])
        .collect()
}

fn rows(engine: &Engine) -> usize {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let series = engine.select(&query).unwrap();
    series.map(|series| series.unwrap().times.len()).sum()
}

fn append(engine: &Engine, from: i64, count: i64) {
    let ids: Vec<_> = (0..8)
        .map(|n| {
            let key = SourceKey::new("t", [("n", n.to_string())]).unwrap();
            engine.register(&key).unwrap()
        })
        .collect();
    for time in from..from + count {
        let values: Vec<f64> = (0..8)
            .map(|n: i32| (time as f64 * 31.0 + f64::from(n)).sqrt())
            .collect();
        engine
            .append_samples("v", &ids, &[time; 8], &values)
            .unwrap();
    }
    engine.commit().unwrap();
}

/// Creates a directory in a state that a power cut may leave: segments, checkpoints, a journal, an open
/// segment.
fn crashed(path: &Path) -> usize {
    let engine = Engine::open_directory(path, options()).unwrap();
    append(&engine, 0, 4000);
    let copy = path.with_extension("copy");
    // Copy of the directory of the open store, file by file, without concurrent writes.
    std::thread::sleep(Duration::from_millis(300));
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    fs::remove_dir_all(path).unwrap();
    fs::rename(copy, path).unwrap();
    32_000
}

#[test]
fn reading_a_store_that_needs_recovery_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let written = crashed(&path);
    fs::remove_file(path.join("lock")).unwrap();
    let before = fingerprint(&path);
    assert!(before.keys().any(|name| name.starts_with("journal-")));
    let engine = Engine::open_to_read(&path, options()).unwrap();
    assert_eq!(rows(&engine), written);
    assert!(engine.recovery().rows_replayed > 0);
    let key = SourceKey::new("new", [("n", "1")]).unwrap();
    assert!(matches!(engine.register(&key), Err(Error::ReadOnly)));
    assert!(matches!(
        engine.delete(&Selector::all(), Interval::ALL),
        Err(Error::ReadOnly)
    ));
    drop(engine);
    assert!(check_directory(&path, &mut |_, _| {}).unwrap().is_sound());
    assert!(
        fingerprint(&path) == before,
        "something in the directory changed"
    );
}

#[test]
fn a_directory_without_write_permission_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let written = crashed(&path);
    let mode = |mode: u32, files: u32| {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            fs::set_permissions(path, fs::Permissions::from_mode(files)).unwrap();
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o555, 0o444);
    let before = fingerprint(&path);
    let found = Engine::open_to_read(&path, options()).map(|engine| rows(&engine));
    let checked = check_directory(&path, &mut |_, _| {}).map(|report| report.is_sound());
    let after = fingerprint(&path);
    mode(0o755, 0o644);
    assert_eq!((found.unwrap(), checked.unwrap()), (written, true));
    assert!(before == after);
}

#[test]
fn a_directory_without_a_store_is_an_error_and_is_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    assert!(Engine::open_to_read(&missing, options()).is_err());
    assert!(!missing.exists());
    let error = Engine::open_to_read(dir.path(), options()).err().unwrap();
    assert!(error.to_string().contains("is not a store"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn rows_that_are_too_old_are_hidden_and_stay_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let aged = Class {
        name: "aged".to_string(),
        keep: Keep {
            age: Some(Duration::from_secs(1)),
            ..Keep::default()
        },
        ..Class::forever()
    };
    let rules = Options {
        classes: Classes::new(vec![aged]).unwrap(),
        ..options()
    };
    let engine = Engine::open_directory(dir.path(), rules).unwrap();
    let now = std::time::SystemTime::now();
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos() as i64;
    append(&engine, now, 5);
    engine.close().unwrap();
    drop(engine);
    std::thread::sleep(Duration::from_millis(1100));
    let before = fingerprint(dir.path());
    assert_eq!(
        rows(&Engine::open_to_read(dir.path(), options()).unwrap()),
        0
    );
    assert!(fingerprint(dir.path()) == before);
}

/// While a store accepts rows, seals and drops segments, and recycles its journal, readers find every
/// row that was acknowledged before they began. A check finds no damage.
#[test]
fn a_store_with_a_writer_is_readable_and_sound() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open_directory(dir.path(), options()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let reported = Arc::new(std::sync::atomic::AtomicI64::new(0));
    let writer = {
        let (engine, stop, reported) = (engine.clone(), stop.clone(), reported.clone());
        std::thread::spawn(move || {
            let mut from = 0;
            while !stop.load(Ordering::Relaxed) {
                append(&engine, from, 50);
                from += 50;
                reported.store(from, Ordering::SeqCst);
            }
        })
    };
    let began = Instant::now();
    let mut reads = 0;
    while began.elapsed() < Duration::from_secs(3) || reads < 3 {
        let least = reported.load(Ordering::SeqCst) as usize * 8;
        let reader = Engine::open_to_read(dir.path(), options()).unwrap();
        assert!(
            reader.recovery().set_aside.is_empty(),
            "{}",
            reader.recovery()
        );
        let found = rows(&reader);
        assert!(
            found >= least,
            "{found} rows of {least} that were acknowledged"
        );
        let report = check_directory(dir.path(), &mut |_, _| {}).unwrap();
        assert!(report.is_sound(), "{:?}", report.damage);
        reads += 1;
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert!(engine.status().journal_files > 0 && engine.status().segments > 2);
    engine.close().unwrap();
}
