//! Losses. Each loss is counted exactly, names its file, is kept until it is acknowledged, and affects
//! no other data.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod tiny;

use seiner_engine::inspect::{self, FileKind};
use seiner_engine::{Durability, Engine, Error, Loss, Options, Query, check};
use seiner_model::{Interval, Selector, SourceKey};
use seiner_platform::sim::{Rng, SimClock, SimDisk};
use seiner_platform::{Disk, File};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tiny::{disk_with, files};

type Files = BTreeMap<String, Vec<u8>>;

/// Number of sources at the beginning.
const SOURCES: usize = 5;

fn open(disk: &SimDisk) -> Engine {
    open_on(Arc::new(disk.clone())).unwrap()
}

fn open_on(disk: Arc<dyn Disk>) -> Result<Engine, Error> {
    let options = Options {
        durability: Durability::Sync,
        memory: 8 << 20,
        segment_bytes: 64 << 10,
        journal_bytes: 256 << 10,
        ..Options::default()
    };
    Engine::open(disk, Arc::new(SimClock::new(5)), options)
}

/// Disk on which one reading operation fails. Later operations succeed.
#[derive(Clone)]
struct Failing {
    disk: SimDisk,
    /// Number of reading operations so far.
    done: Arc<AtomicU64>,
    /// Index of the operation that fails, from 0.
    fails: u64,
}

impl Failing {
    fn new(files: &Files, fails: u64) -> Failing {
        Failing {
            disk: disk_with(files),
            done: Arc::default(),
            fails,
        }
    }

    fn read<T>(&self, read: io::Result<T>) -> io::Result<T> {
        const EMFILE: i32 = 24;
        match self.done.fetch_add(1, Ordering::Relaxed) == self.fails {
            true => Err(io::Error::from_raw_os_error(EMFILE)),
            false => read,
        }
    }

    fn file(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        let disk = self.clone();
        Arc::new(FailingFile { disk, file })
    }
}

impl Disk for Failing {
    fn list(&self) -> io::Result<Vec<String>> {
        self.read(self.disk.list())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.read(self.disk.open(name)).map(|file| self.file(file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.create(name).map(|file| self.file(file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }
}

struct FailingFile {
    disk: Failing,
    file: Arc<dyn File>,
}

impl File for FailingFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.disk.read(self.file.read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.file.reserve(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.read(self.file.len())
    }
}

fn register(engine: &Engine, name: usize) -> seiner_model::SourceId {
    let key = SourceKey::new("m", [("n", name.to_string())]).unwrap();
    engine.register(&key).unwrap()
}

/// Commits rows, with a new source in each commit. Returns the number of rows.
fn write(engine: &Engine, commits: usize, rows: usize, rng: &mut Rng) -> u64 {
    for _ in 0..commits {
        let mut ids: Vec<_> = (0..SOURCES).map(|name| register(engine, name)).collect();
        ids.push(register(engine, engine.status().sources as usize));
        for _ in 0..rows {
            let time = engine.status().rows_accepted as i64 + rng.below(2) as i64;
            let value = f64::from_bits(rng.next_u64() >> 2);
            let times = vec![time * 1000; ids.len()];
            let values = vec![value; ids.len()];
            let receipt = engine.append_samples("v", &ids, &times, &values).unwrap();
            assert_eq!(receipt.rows, ids.len());
        }
        engine.commit().unwrap();
    }
    (commits * rows * (SOURCES + 1)) as u64
}

/// Returns the number of rows that a query returns. The names of all rows must be readable.
fn answered(engine: &Engine) -> u64 {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let mut rows = 0;
    for series in engine.select(&query).unwrap() {
        let series = series.unwrap();
        assert_eq!(series.key.measurement(), "m", "{}", series.key);
        rows += series.times.len() as u64;
    }
    rows
}

fn lost(losses: &[Loss]) -> u64 {
    losses.iter().map(|loss| loss.rows.unwrap()).sum()
}

/// Opens the remaining files, compares the losses with a check, and follows the losses until they
/// are acknowledged. Returns the number of rows that a query returns.
fn open_damaged(left: &Files, place: &str) -> (u64, Vec<Loss>) {
    let disk = disk_with(left);
    let report = check(&disk, &mut |_, _| {}).unwrap();
    let engine = open(&disk);
    let losses = engine.losses();
    assert_eq!(losses, engine.recovery().losses, "{place}");
    assert_eq!(report.is_sound(), losses.is_empty(), "{place}: {report:?}");
    let rows = answered(&engine);
    assert_eq!(engine.status().lost_rows, engine.recovery().rows_lost);
    drop(engine);
    let disk = disk.crash();
    let engine = open(&disk);
    assert_eq!(engine.losses(), losses, "{place}: kept, and counted once");
    assert!(engine.recovery().losses.is_empty(), "{place}");
    assert_eq!(answered(&engine), rows, "{place}");
    assert_eq!(engine.acknowledge_losses().unwrap(), losses.len() as u64);
    engine.close().unwrap();
    drop(engine);
    let engine = open(&disk);
    assert!(engine.losses().is_empty(), "{place}");
    assert_eq!(engine.status().losses, losses.len() as u64);
    assert_eq!(answered(&engine), rows, "{place}");
    (rows, losses)
}

/// Returns a store with five journal files and a segment, and its number of rows.
fn store() -> (Files, u64) {
    let disk = SimDisk::new(1);
    let engine = open(&disk);
    let mut rng = Rng::new(5);
    let mut rows = write(&engine, 2, 10, &mut rng);
    engine.flush().unwrap();
    while engine.status().journal_files < 5 {
        rows += write(&engine, 1, 20, &mut rng);
    }
    (files(&disk), rows)
}

fn of_kind(files: &Files, kind: FileKind) -> Vec<String> {
    let names = files.keys().filter(|name| FileKind::of(name) == kind);
    names.cloned().collect()
}

#[test]
fn a_whole_store_has_lost_nothing() {
    let (files, rows) = store();
    assert_eq!(open_damaged(&files, "whole"), (rows, Vec::new()));
}

/// Regression: files before a missing file were removed unread, and names that only the missing
/// file contained were lost.
#[test]
fn a_journal_file_that_is_missing_or_empty_costs_its_rows_and_no_names() {
    let (whole, rows) = store();
    let names = of_kind(&whole, FileKind::Journal);
    assert_eq!(names.len(), 5);
    for (index, name) in names.iter().enumerate() {
        for empty in [false, true] {
            let place = format!("{name}, empty: {empty}");
            let mut left = whole.clone();
            match empty {
                true => left.get_mut(name).unwrap().clear(),
                false => drop(left.remove(name)),
            }
            let (found, losses) = open_damaged(&left, &place);
            assert_eq!(losses.len(), 1, "{place}: {losses:?}");
            assert_eq!(losses[0].file, *name, "{place}");
            // For sources whose blocks began earlier, the rows in segments are unknown.
            assert!(index == 0 || !losses[0].at_most, "{place}");
            match index + 1 == names.len() {
                // Without a later record, its number of rows is unknown.
                true => assert_eq!(losses[0].rows, None, "{place}"),
                false => assert_eq!(found + lost(&losses), rows, "{place}: {losses:?}"),
            }
            assert!(found > 0 && found < rows, "{place}");
        }
    }
}

/// Regression: files after a missing file were removed, although their rows would be readable with
/// the restored file.
#[test]
fn journal_files_with_rows_that_cannot_be_read_are_kept() {
    let (whole, _) = store();
    let names = of_kind(&whole, FileKind::Journal);
    let mut left = whole.clone();
    left.remove(&names[1]).unwrap();
    let disk = disk_with(&left);
    let engine = open(&disk);
    let kept = files(&disk);
    let name = format!("{}.damaged", names[2]);
    assert!(kept[&name].starts_with(b"SEINJRNL"), "{:?}", kept.keys());
    assert!(
        !kept.contains_key(&format!("{}.damaged", names[0])),
        "a journal file that was read is set aside"
    );
    assert_eq!(engine.losses().len(), 1);
}

#[test]
fn a_damaged_record_costs_no_names_and_is_counted() {
    let (whole, rows) = store();
    let views = inspect::journal(&disk_with(&whole)).unwrap();
    let records: usize = views.iter().map(|view| view.records.len()).sum();
    let mut seen = 0;
    for view in &views {
        for record in &view.records {
            seen += 1;
            // Damage to the last record looks like a power cut.
            if seen == records || seen > 3 && seen % 7 != 0 {
                continue;
            }
            let place = format!("{}, record {}", view.file, record.sequence);
            let mut left = whole.clone();
            let bytes = left.get_mut(&view.file).unwrap();
            bytes[(record.offset + record.bytes / 2) as usize] ^= 1;
            let (found, losses) = open_damaged(&left, &place);
            assert_eq!(losses.len(), 1, "{place}: {losses:?}");
            assert_eq!(losses[0].file, view.file, "{place}");
            // Same as above.
            assert!(seen == 1 || !losses[0].at_most, "{place}: {losses:?}");
            assert!(lost(&losses) >= record.rows, "{place}: {losses:?}");
            assert_eq!(found + lost(&losses), rows, "{place}: {losses:?}");
        }
    }
    assert!(seen > 20, "{seen} records");
}

#[test]
fn a_journal_file_without_its_header_loses_nothing() {
    let (whole, rows) = store();
    let of_whole = check(&disk_with(&whole), &mut |_, _| {}).unwrap();
    for name in of_kind(&whole, FileKind::Journal) {
        let mut left = whole.clone();
        left.get_mut(&name).unwrap()[20] ^= 1;
        let report = check(&disk_with(&left), &mut |_, _| {}).unwrap();
        let places: Vec<_> = report
            .damage
            .iter()
            .map(|one| (&one.file, one.offset))
            .collect();
        assert_eq!(places, [(&name, 0)], "a check reads the records, too");
        assert_eq!(report.journal_rows, of_whole.journal_rows, "{name}");
        let engine = open(&disk_with(&left));
        assert!(!engine.recovery().set_aside.is_empty());
        assert_eq!((answered(&engine), engine.losses()), (rows, Vec::new()));
    }
}

/// Regression: a removed segment was not noticed.
#[test]
fn a_missing_segment_is_reported_with_its_rows_and_times() {
    let disk = SimDisk::new(1);
    let engine = open(&disk);
    let mut rng = Rng::new(5);
    let mut rows = 0;
    for _ in 0..3 {
        rows += write(&engine, 1, 10, &mut rng);
        engine.flush().unwrap();
    }
    let segments = engine.segments();
    engine.close().unwrap();
    drop(engine);
    let whole = files(&disk);
    assert!(segments.len() >= 3);
    for segment in &segments {
        let mut left = whole.clone();
        left.remove(&segment.file).unwrap();
        let (found, losses) = open_damaged(&left, &segment.file);
        let [loss] = &losses[..] else {
            panic!("{losses:?}")
        };
        let span = Some((segment.first_time, segment.last_time));
        assert_eq!((&loss.file, loss.times), (&segment.file, span));
        assert_eq!((loss.rows, loss.at_most), (Some(segment.rows), false));
        assert_eq!(found + segment.rows, rows);
        assert!(loss.concerns(&Interval::new(segment.last_time, segment.last_time)));
        assert!(!loss.concerns(&Interval::new(segment.last_time + 1, i64::MAX)));
    }
}

/// A restored segment is in service again.
#[test]
fn a_restored_segment_is_in_service_again() {
    let (whole, rows) = store();
    let name = of_kind(&whole, FileKind::Segment).remove(0);
    let mut left = whole.clone();
    let segment = left.remove(&name).unwrap();
    let disk = disk_with(&left);
    let engine = open(&disk);
    assert!(answered(&engine) < rows);
    engine.close().unwrap();
    drop(engine);
    let mut back = files(&disk);
    back.insert(name, segment);
    let disk = disk_with(&back);
    let engine = open(&disk);
    assert_eq!(answered(&engine), rows);
    assert_eq!(
        engine.losses().len(),
        1,
        "a loss is listed until it is acknowledged"
    );
}

/// Without its ledger, a store cannot detect other missing files.
#[test]
fn a_missing_or_damaged_ledger_is_a_loss_of_its_own() {
    let (whole, rows) = store();
    for missing in [true, false] {
        let mut left = whole.clone();
        match missing {
            true => drop(left.remove("ledger")),
            false => left.get_mut("ledger").unwrap()[30] ^= 1,
        }
        let (found, losses) = open_damaged(&left, "ledger");
        assert_eq!(found, rows);
        let [loss] = &losses[..] else {
            panic!("{losses:?}")
        };
        assert_eq!((&loss.file[..], loss.rows), ("ledger", None));
    }
}

/// Regression: an unreadable block was reported only in the answer.
#[test]
fn a_damaged_block_found_by_a_query_is_a_loss_until_it_is_acknowledged() {
    let (whole, _) = store();
    let mut left = whole.clone();
    let name = of_kind(&whole, FileKind::Segment).remove(0);
    left.get_mut(&name).unwrap()[20] ^= 1;
    let disk = disk_with(&left);
    let engine = open(&disk);
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let errors = || {
        let all = engine.select(&query).unwrap();
        all.filter(|series| series.is_err()).count()
    };
    // The header of the first bundle is damaged, so each of its sources has an unreadable block.
    let sources = errors();
    assert!(
        (1..20).contains(&sources) && errors() == sources,
        "{sources}"
    );
    let losses = engine.losses();
    assert_eq!(losses.len(), sources, "{losses:?}");
    for loss in &losses {
        assert!(loss.rows.is_some() && loss.times.is_some());
    }
    while engine.step().unwrap() {}
    drop(engine);
    assert_eq!(open(&disk.crash()).losses(), losses);
}

/// Returns damaged stores, each with the name of the damaged part.
fn damaged_stores() -> Vec<(&'static str, Files)> {
    let (whole, _) = store();
    let journal = of_kind(&whole, FileKind::Journal);
    let segment = of_kind(&whole, FileKind::Segment).remove(0);
    let views = inspect::journal(&disk_with(&whole)).unwrap();
    let record = &views[1].records[views[1].records.len() / 2];
    let with = |change: &dyn Fn(&mut Files)| {
        let mut files = whole.clone();
        change(&mut files);
        files
    };
    let flip = |files: &mut Files, name: &str, at: usize| files.get_mut(name).unwrap()[at] ^= 1;
    let middle = (record.offset + record.bytes / 2) as usize;
    vec![
        ("nothing", with(&|_| {})),
        ("a record", with(&|files| flip(files, &journal[1], middle))),
        ("a header", with(&|files| flip(files, &journal[2], 20))),
        (
            "a journal file is missing",
            with(&|files| drop(files.remove(&journal[1]))),
        ),
        (
            "the trailer",
            with(&|files| {
                let end = files[&segment].len() - 20;
                flip(files, &segment, end);
            }),
        ),
        (
            "a segment is missing",
            with(&|files| drop(files.remove(&segment))),
        ),
        ("the ledger", with(&|files| flip(files, "ledger", 30))),
        ("the catalog", with(&|files| flip(files, "catalog", 60))),
    ]
}

fn set_aside(disk: &SimDisk) -> Vec<String> {
    let names = disk.files().into_iter().map(|(name, _)| name);
    names.filter(|name| name.ends_with(".damaged")).collect()
}

/// Regression: a failed read during the comparison of segments and journal was treated as damage or
/// as a missing file. Rows were replayed twice or counted as lost, and damaged journal files were
/// removed.
#[test]
fn a_read_error_during_a_start_ends_it_and_costs_nothing() {
    for (what, files) in damaged_stores() {
        let disk = Failing::new(&files, u64::MAX);
        let engine = open_on(Arc::new(disk.clone())).unwrap();
        let reads = disk.done.load(Ordering::Relaxed);
        assert!(reads > 20, "{reads} reads");
        let (rows, losses) = (answered(&engine), engine.losses());
        let kept = set_aside(&disk.disk);
        for fails in 0..reads {
            let place = format!("{what}, read {fails} of {reads}");
            let disk = Failing::new(&files, fails);
            let error = match open_on(Arc::new(disk.clone())) {
                Ok(_) => panic!("{place}: the store opens"),
                Err(error @ Error::Io { .. }) => error.to_string(),
                Err(error) => panic!("{place}: {error}"),
            };
            let names = [
                "journal", "segment", "catalog", "ledger", "rules", "clock", "listing",
            ];
            let named = names.iter().any(|name| error.contains(name));
            assert!(named, "{place}: {error}");
            let disk = disk.disk.restart();
            let engine = open(&disk);
            assert_eq!(answered(&engine), rows, "{place}: {error}");
            assert_eq!(engine.losses(), losses, "{place}: {error}");
            assert_eq!(set_aside(&disk), kept, "{place}: {error}");
        }
    }
}

/// Regression: a journal file with an unreadable length was noted as never begun.
#[test]
fn a_check_reports_every_read_error() {
    let (files, _) = store();
    let disk = Failing::new(&files, u64::MAX);
    assert!(check(&disk, &mut |_, _| {}).unwrap().is_sound());
    let reads = disk.done.load(Ordering::Relaxed);
    for fails in 0..reads {
        match check(&Failing::new(&files, fails), &mut |_, _| {}) {
            Ok(report) => assert!(!report.is_sound(), "read {fails} of {reads}: {report:?}"),
            Err(error) => assert!(matches!(error, Error::Io { .. }), "read {fails}: {error}"),
        }
    }
}
