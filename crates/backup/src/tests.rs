//! Backups of stores in directories.

use crate::folder::Folder;
use crate::{Copied, Error, Place, Plan, Stage, back_up, restore};
use seiner_engine::{
    Column, Columns, Durability, Engine, FieldColumn, Interval, Options, Query, Selector, SourceKey,
};
use seiner_platform::SystemClock;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use tempfile::TempDir;

/// Small files, so that segments are sealed and journal files are reused all the time.
fn options() -> Options {
    Options {
        durability: Durability::Sync,
        memory: 16 << 20,
        journal_bytes: 1 << 20,
        segment_bytes: 1 << 20,
        block_bytes: 512,
        ..Options::default()
    }
}

pub fn open(path: &Path) -> Arc<Engine> {
    Engine::open_directory(path, options()).unwrap()
}

/// Appends rows to a source: row `n` has the time and the value `n`.
pub fn append(engine: &Engine, name: &str, rows: std::ops::Range<i64>) {
    let source = engine
        .register(&SourceKey::new(name, [("site", "a")]).unwrap())
        .unwrap();
    let columns = Columns {
        times: rows.clone().collect(),
        fields: vec![FieldColumn {
            present: None,
            values: Column::F64(
                rows.map(|row| (row * 7919 % 1_000_003) as f64 / 3.0)
                    .collect(),
            ),
        }],
    };
    let receipt = engine.append_columns(source, &["value"], &columns).unwrap();
    assert_eq!(receipt.rejected, []);
    engine.wait_durable(receipt.position).unwrap();
}

/// Returns the times of all rows of a source.
pub fn times(path: &Path, name: &str) -> Vec<i64> {
    let engine = Engine::open_to_read(path, options()).unwrap();
    assert_eq!(engine.recovery().losses, []);
    let query = Query {
        selector: Selector::parse(name).unwrap(),
        fields: None,
        interval: Interval::ALL,
    };
    engine
        .scan(&query)
        .flat_map(|piece| piece.unwrap().times)
        .collect()
}

/// Backs a store up into a folder.
fn save(data: &Path, folder: &Path) -> Result<Copied, Error> {
    let plan = Plan {
        clock: &SystemClock::new(),
        bytes_per_second: None,
        check_all: false,
    };
    back_up(
        data,
        &Place::Folder(folder.to_path_buf()),
        &plan,
        &mut |_, _, _| {},
    )
}

fn put_back(backup: &Path, data: &Path) -> Result<Copied, Error> {
    let plan = Plan {
        clock: &SystemClock::new(),
        bytes_per_second: None,
        check_all: true,
    };
    restore(
        &Place::Folder(backup.to_path_buf()),
        data,
        &plan,
        &mut |_, _, _| {},
    )
}

/// Folders of a test: one for the store, one for backups, one for a restored store.
pub fn folders() -> (TempDir, [std::path::PathBuf; 3]) {
    let above = tempfile::tempdir().unwrap();
    let of = |name: &str| above.path().join(name);
    let paths = [of("data"), of("backups"), of("restored")];
    (above, paths)
}

/// Returns name, length, time of change and contents of all files.
fn contents(path: &Path) -> Vec<(String, i64, Vec<u8>)> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            let changed = entry.metadata().unwrap().mtime_nsec();
            (name, changed, fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn backups_under_load_contain_all_rows_acknowledged_before() {
    let (_above, [data, folder, restored]) = folders();
    let engine = open(&data);
    let (acknowledged, is_over) = (AtomicI64::new(0), AtomicBool::new(false));
    append(&engine, "m", 0..1000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut row = 1000;
            while !is_over.load(SeqCst) {
                append(&engine, "m", row..row + 2000);
                row += 2000;
                acknowledged.store(row, SeqCst);
            }
        });
        for _ in 0..8 {
            let before = acknowledged.load(SeqCst);
            let copied = save(&data, &folder).unwrap();
            assert!(
                copied.work.report.is_sound(),
                "{:?}",
                copied.work.report.damage
            );
            let found = times(&copied.place, "m");
            let whole = (0..).zip(&found).all(|(row, time)| row == *time);
            assert!(
                whole && found.len() as i64 >= before,
                "{before} rows, {} found",
                found.len()
            );
        }
        is_over.store(true, SeqCst);
    });
    let names = Folder::open(&folder).unwrap().complete().unwrap();
    assert_eq!(names.len(), 8);
    let latest = folder.join(names.last().unwrap());
    let expected = times(&latest, "m");
    let copied = put_back(&folder, &restored).unwrap();
    assert!(copied.work.report.is_sound());
    assert_eq!(times(&restored, "m"), expected);
    let engine = open(&restored);
    append(&engine, "m", 90_000_000..90_000_010);
    engine.close().unwrap();
    assert_eq!(
        times(&latest, "m"),
        expected,
        "a restored store has files of its own"
    );
}

#[test]
fn a_further_backup_copies_new_segments_only_and_changes_nothing() {
    let (_above, [data, folder, _]) = folders();
    let engine = open(&data);
    append(&engine, "m", 0..200_000);
    engine.flush().unwrap();
    let first = save(&data, &folder).unwrap();
    assert!(first.work.segments > 0 && first.work.linked == 0);
    let kept = contents(&first.place);
    append(&engine, "m", 200_000..300_000);
    engine.close().unwrap();
    drop(engine);
    let before = contents(&data);
    let second = save(&data, &folder).unwrap();
    assert_eq!(contents(&data), before, "the store is unchanged");
    assert!(
        second.work.segments > 0 && second.work.linked > 0,
        "{second:?}"
    );
    assert!(second.work.bytes < first.work.bytes);
    assert_eq!(times(&second.place, "m").len(), 300_000);
    assert_eq!(
        contents(&first.place),
        kept,
        "the first backup is unchanged"
    );
    assert_eq!(times(&first.place, "m").len(), 200_000);
}

#[test]
fn an_interrupted_backup_is_continued() {
    let (_above, [data, folder, _]) = folders();
    let engine = open(&data);
    for part in 0..4 {
        append(&engine, "m", part * 75_000..(part + 1) * 75_000);
        engine.flush().unwrap();
    }
    let whole = save(&data, &folder).unwrap();
    // A backup that was killed: a segment is missing, one is not whole, and files have old contents.
    let partial = folder.join("2020-01-01T00-00-00Z.partial");
    fs::rename(&whole.place, &partial).unwrap();
    let files = fs::read_dir(&partial)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .collect();
    segments.sort();
    fs::remove_file(&segments[0]).unwrap();
    fs::rename(&segments[1], partial.join("unfinished")).unwrap();
    fs::write(partial.join("ledger"), "old").unwrap();
    append(&engine, "m", 300_000..300_010);
    let copied = save(&data, &folder).unwrap();
    assert_eq!(
        (copied.work.segments, copied.work.kept),
        (2, whole.work.segments - 2)
    );
    assert!(copied.work.report.is_sound() && !partial.exists());
    assert_eq!(times(&copied.place, "m").len(), 300_010);
}

#[test]
fn segments_of_a_restored_store_are_not_taken_for_those_of_the_first_one() {
    let (_above, [data, folder, restored]) = folders();
    let engine = open(&data);
    append(&engine, "m", 0..100_000);
    engine.close().unwrap();
    drop(engine);
    save(&data, &folder).unwrap();
    put_back(&folder, &restored).unwrap();
    // Both continue with the same numbers of segments.
    for (path, first) in [(&data, 1_000_000), (&restored, 2_000_000)] {
        let engine = open(path);
        append(&engine, "m", first..first + 100_000);
        engine.close().unwrap();
        drop(engine);
        let copied = save(path, &folder).unwrap();
        assert!(copied.work.report.is_sound() && copied.work.linked > 0);
        let latest = times(&copied.place, "m").pop();
        assert_eq!(latest, Some(first + 99_999));
    }
}

#[test]
fn damage_is_copied_and_reported() {
    let (_above, [data, folder, restored]) = folders();
    let engine = open(&data);
    append(&engine, "m", 0..100_000);
    engine.close().unwrap();
    drop(engine);
    let segment = "segment-00000001.log";
    let mut bytes = fs::read(data.join(segment)).unwrap();
    bytes[100] ^= 1;
    fs::write(data.join(segment), &bytes).unwrap();
    let copied = save(&data, &folder).unwrap();
    assert_eq!(copied.work.report.damage[0].file, segment);
    assert_eq!(fs::read(copied.place.join(segment)).unwrap(), bytes);
    let copied = put_back(&folder, &restored).unwrap();
    assert!(!copied.work.report.is_sound() && copied.place == restored);
}

#[test]
fn wrong_directories_are_named() {
    let (above, [data, folder, restored]) = folders();
    open(&data).close().unwrap();
    let other = above.path().join("other");
    open(&other).close().unwrap();
    let text = |result: Result<Copied, Error>| result.unwrap_err().to_string();
    let missing = text(save(&above.path().join("none"), &folder));
    assert!(missing.contains("none"), "{missing}");
    assert!(text(put_back(&folder, &restored)).contains("no complete backup"));
    save(&data, &folder).unwrap();
    assert!(text(save(&other, &folder)).contains("another store"));
    assert!(text(put_back(&folder, &data)).contains("not empty"));
    let held = Folder::open(&folder)
        .unwrap()
        .of("2999-01-01T00-00-00Z.partial");
    let lock = seiner_platform::Directory::open(&held).unwrap();
    assert!(text(save(&data, &folder)).contains("in use by another process"));
    drop(lock);
    fs::create_dir(&restored).unwrap();
    put_back(
        &folder.join(Folder::open(&folder).unwrap().complete().unwrap().remove(0)),
        &restored,
    )
    .unwrap();
    open(&restored).close().unwrap();
}

#[test]
fn progress_reaches_the_total_of_each_stage_at_the_given_pace() {
    let (_above, [data, folder, _]) = folders();
    let engine = open(&data);
    append(&engine, "m", 0..100_000);
    engine.close().unwrap();
    let clock = SystemClock::new();
    let plan = Plan {
        clock: &clock,
        bytes_per_second: Some(4 << 20),
        check_all: false,
    };
    let mut last: Vec<(Stage, u64, u64)> = Vec::new();
    let begun = std::time::Instant::now();
    let copied = back_up(
        &data,
        &Place::Folder(folder.clone()),
        &plan,
        &mut |stage, done, total| {
            last.retain(|(known, ..)| *known != stage);
            last.push((stage, done, total));
        },
    );
    let seconds = begun.elapsed().as_secs_f64();
    let bytes = copied.unwrap().work.bytes;
    assert!(
        seconds > 0.9 * bytes as f64 / f64::from(4 << 20),
        "{bytes} bytes in {seconds} s"
    );
    assert_eq!(last.len(), 2);
    assert!(
        last.iter()
            .all(|(_, done, total)| done == total && *total > 0),
        "{last:?}"
    );
    assert_eq!((last[0].0, last[1].0), (Stage::Copy, Stage::Check));
}

/// A store that has no memory for the names of its sources needs its names files at the first start.
#[test]
fn a_restored_store_has_its_names_files() {
    let (_all, [data, folder, restored]) = folders();
    let filing = Options {
        filing: seiner_engine::Filing::Always,
        ..options()
    };
    let engine = Engine::open_directory(&data, filing).unwrap();
    for number in 0..100 {
        append(&engine, &format!("sensor{number}"), 0..3);
    }
    while engine.status().sources_filed < 100 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::fs::write(data.join("names.new"), "being written").unwrap();
    let backup = save(&data, &folder).unwrap().place;
    drop(engine);
    assert!(!backup.join("names.new").exists());
    put_back(&backup, &restored).unwrap();
    let files = |path: &Path| {
        let all = contents(path).into_iter();
        all.filter(|(name, ..)| name.starts_with("names-"))
            .map(|(name, _, bytes)| (name, bytes))
            .collect::<Vec<_>>()
    };
    assert!(!files(&restored).is_empty());
    assert_eq!(files(&restored), files(&backup));
    let engine = open(&restored);
    assert_eq!(engine.status().sources_filed, 100);
    drop(engine);
    assert_eq!(times(&restored, "sensor42"), [0, 1, 2]);
}
