//! Checks of damaged stores, and the behaviour of a store with the same damage.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod tiny;

use seiner_engine::inspect::{self, FileKind};
use seiner_engine::{CheckReport, check};
use seiner_platform::sim::SimDisk;
use seiner_platform::{Disk, File};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use tiny::{Samples, disk_with, ever, files, morsel, story, write};

/// Disk that panics on every write.
struct ReadOnly(SimDisk);

impl Disk for ReadOnly {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(ReadOnlyFile(self.0.open(name)?)))
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        panic!("{name} is created")
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        panic!("{name} is removed")
    }
    fn rename(&self, from: &str, _: &str) -> io::Result<()> {
        panic!("{from} is renamed")
    }
    fn sync_names(&self) -> io::Result<()> {
        panic!("names are synced")
    }
}

struct ReadOnlyFile(Arc<dyn File>);

impl File for ReadOnlyFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buffer)
    }
    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        panic!("a file is written")
    }
    fn sync(&self) -> io::Result<()> {
        panic!("a file is synced")
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        panic!("a file's length is set")
    }
    fn reserve(&self, _: u64) -> io::Result<()> {
        panic!("space is reserved")
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

fn checked(files: &BTreeMap<String, Vec<u8>>) -> CheckReport {
    check(&ReadOnly(disk_with(files)), &mut |_, _| {}).unwrap()
}

fn store() -> BTreeMap<String, Vec<u8>> {
    let disk = SimDisk::new(1);
    write(&story(), &disk).unwrap();
    files(&disk)
}

fn flipped(
    files: &BTreeMap<String, Vec<u8>>,
    name: &str,
    offset: usize,
) -> BTreeMap<String, Vec<u8>> {
    let mut files = files.clone();
    files.get_mut(name).unwrap()[offset] ^= 1 << (offset % 8);
    files
}

/// Returns the offset of the last record of a ledger.
fn last_record(ledger: &[u8]) -> usize {
    let mut at = 24;
    loop {
        let len = u32::from_le_bytes(ledger[at..at + 4].try_into().unwrap());
        let next = at + 16 + len as usize;
        if next >= ledger.len() {
            return at;
        }
        at = next;
    }
}

/// Returns the offsets to damage: all offsets at both ends, some in between.
fn places(len: usize) -> impl Iterator<Item = usize> {
    let step = (len / 150).max(1);
    (0..len).filter(move |&at| at < 120 || at + 160 > len || at % step == 0)
}

#[test]
fn a_sound_store_is_reported_sound_and_not_changed() {
    let files = store();
    let mut last = (0, 1);
    let report = check(&ReadOnly(disk_with(&files)), &mut |done, total| {
        assert!(done >= last.0 && done <= total);
        last = (done, total);
    })
    .unwrap();
    assert!(
        report.is_sound()
            && report
                .notes
                .iter()
                .all(|note| FileKind::of(&note.file) == FileKind::OpenSegment),
        "{report:?}"
    );
    assert_eq!(last.0, last.1, "the progress ends at the end");
    assert_eq!(
        (report.segments, report.journal_files, report.sources),
        (2, 2, 7),
        "{:?}",
        files.keys()
    );
    let rows: usize = story().iter().flatten().map(Vec::len).sum();
    // In a segment, rows at the same time become one row.
    assert_eq!(report.rows + report.journal_rows, rows as u64, "{report:?}");
    assert!(
        report.blocks > 10 && report.pages == 2 && report.frames == 8 && report.records == 5,
        "{report:?}"
    );
}

#[test]
fn every_flipped_bit_is_found_where_it_is() {
    let files = store();
    let journals: Vec<&String> = files
        .keys()
        .filter(|name| FileKind::of(name) == FileKind::Journal)
        .collect();
    let views = inspect::journal(&disk_with(&files)).unwrap();
    let last_frame = inspect::catalog(&disk_with(&files))
        .unwrap()
        .frames
        .last()
        .unwrap()
        .offset;
    for (name, bytes) in &files {
        for offset in places(bytes.len()) {
            let report = checked(&flipped(&files, name, offset));
            let named = report.damage.iter().any(|damage| damage.file == *name);
            // At the end of the catalog, the ledger or a journal file, damage looks like a power cut.
            let in_last_frame = match FileKind::of(name) {
                FileKind::Catalog => offset as u64 >= last_frame,
                FileKind::Ledger => offset >= last_record(bytes),
                _ => false,
            };
            let at_end = in_last_frame
                || views
                    .iter()
                    .find(|view| view.file == *name)
                    .is_some_and(|view| {
                        let end = if Some(&name) == journals.last() {
                            view.records.last().unwrap().offset
                        } else {
                            view.used
                        };
                        offset as u64 >= end
                    });
            let noted = at_end && report.notes.iter().any(|note| note.file == *name);
            assert!(
                named || noted,
                "{name}, byte {offset} of {}: {report:?}",
                bytes.len()
            );
            assert!(at_end || !report.is_sound(), "{name}, byte {offset}");
        }
    }
}

#[test]
fn a_store_with_a_flipped_bit_serves_the_rest_and_invents_nothing() {
    let files = store();
    let (story, written) = (Samples::of(&story()), ever(&story()));
    for (name, bytes) in &files {
        for offset in places(bytes.len()).step_by(3) {
            let place = format!("{name}, byte {offset}");
            let engine = tiny::open(&disk_with(&flipped(&files, name, offset)))
                .unwrap_or_else(|error| panic!("{place}: {error}"));
            let (found, errors) = Samples::read(&engine);
            for ((source, field), samples) in &found.0 {
                for (time, value) in samples {
                    let sample = (source.clone(), field.clone(), *time, value.clone());
                    assert!(
                        written.contains(&sample),
                        "{place}: {sample:?} was never written"
                    );
                }
            }
            let recovery = engine.recovery();
            let is_reported =
                !errors.is_empty() || !recovery.set_aside.is_empty() || recovery.torn_bytes > 0;
            assert!(
                is_reported || found == story,
                "{place}: samples are missing without a report"
            );
            for error in errors {
                assert!(
                    error.to_string().starts_with(name.as_str()),
                    "{place}: {error}"
                );
            }
            // The catalog is stored twice, so everything is readable.
            assert!(
                FileKind::of(name) != FileKind::Catalog || found == story,
                "{place}"
            );
        }
    }
}

#[test]
fn a_damaged_segment_is_set_aside_and_stays_reported() {
    let mut files = store();
    let name = files
        .keys()
        .find(|name| FileKind::of(name) == FileKind::Segment)
        .unwrap()
        .clone();
    let end = files[&name].len() - 10;
    files.get_mut(&name).unwrap()[end] ^= 1;
    let disk = disk_with(&files);
    let engine = tiny::open(&disk).unwrap();
    assert_eq!(engine.status().damaged_segments, 1);
    let losses = engine.losses();
    assert_eq!((losses.len(), &losses[0].file), (1, &name), "{losses:?}");
    assert!(losses[0].rows.is_some() && losses[0].times.is_some() && !losses[0].at_most);
    engine.acknowledge_losses().unwrap();
    engine.close().unwrap();
    drop(engine);
    let report = check(&ReadOnly(disk), &mut |_, _| {}).unwrap();
    assert!(
        !report.is_sound()
            && report
                .damage
                .iter()
                .all(|damage| damage.file.ends_with(".damaged")),
        "{report:?}"
    );
}

#[test]
fn a_damaged_block_fails_its_source_alone() {
    let files = store();
    let disk = disk_with(&files);
    let mut blocks = Vec::new();
    let all = seiner_model::Selector::all();
    inspect::blocks::<seiner_engine::Error>(&disk, 1, &all, &mut |block| {
        blocks.push(block);
        Ok(())
    })
    .unwrap();
    let block = blocks.iter().find(|block| block.source.0 == 0).unwrap();
    let name = "segment-00000001.log";
    let engine = tiny::open(&disk_with(&flipped(
        &files,
        name,
        (block.offset + block.bytes / 2) as usize,
    )))
    .unwrap();
    let (found, errors) = Samples::read(&engine);
    let mut expected = Samples::of(&story());
    let usage = ("cpu{host=\"a\"}".to_string(), "usage".to_string());
    let rest = found.0.get(&usage).map_or(0, |samples| samples.len());
    let lost = expected.0[&usage].len() - rest;
    assert!(
        lost > 0 && lost <= block.rows as usize,
        "{lost} of {} rows are lost",
        block.rows
    );
    expected.0.insert(usage.clone(), found.0[&usage].clone());
    assert!(found == expected, "other series have changed");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0]
            .to_string()
            .starts_with(&format!("{name}, offset {}", block.offset)),
        "{}",
        errors[0]
    );
}

#[test]
fn truncated_and_missing_files_are_found() {
    let files = store();
    for (name, bytes) in files.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        for len in [0, 1, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let mut cut = files.clone();
            cut.get_mut(name).unwrap().truncate(len);
            let report = checked(&cut);
            let is_reported = report
                .damage
                .iter()
                .map(|damage| &damage.file)
                .chain(report.notes.iter().map(|note| &note.file))
                .any(|file| file == name);
            assert!(
                is_reported || FileKind::of(name) == FileKind::Journal,
                "{name} cut to {len}: {report:?}"
            );
        }
    }
    let mut gone = files.clone();
    gone.retain(|name, _| FileKind::of(name) != FileKind::Catalog);
    assert!(!checked(&gone).is_sound());
    assert!(
        check(&SimDisk::new(1), &mut |_, _| {}).is_err(),
        "an empty directory is not a store"
    );
}

#[test]
fn a_segment_of_another_store_is_found() {
    let other = SimDisk::new(1);
    let engine = seiner_engine::Engine::open(
        Arc::new(other.clone()),
        Arc::new(seiner_platform::sim::SimClock::new(5)),
        tiny::options(),
    )
    .unwrap();
    engine
        .register(&seiner_model::SourceKey::new("m", [("a", "b")]).unwrap())
        .unwrap();
    engine.close().unwrap();
    drop(engine);
    let mut mixed = files(&other);
    mixed.retain(|name, _| FileKind::of(name) == FileKind::Catalog);
    mixed.extend(
        store()
            .into_iter()
            .filter(|(name, _)| FileKind::of(name) == FileKind::Segment),
    );
    let report = checked(&mixed);
    assert!(
        report
            .damage
            .iter()
            .any(|damage| damage.what.contains("belongs to store")),
        "{report:?}"
    );
}

#[test]
fn the_remains_of_a_power_cut_are_no_damage() {
    let (story, written) = (story(), ever(&story()));
    let whole = SimDisk::new(1);
    write(&story, &whole).unwrap();
    let operations = whole.operations();
    let runs = std::env::var("SEINER_CHECK_RUNS").map_or(150, |runs| runs.parse().unwrap());
    let mut noted = 0;
    for seed in 0..runs {
        let disk = SimDisk::new(seed);
        disk.crash_after(Some(1 + seed * 7919 % operations));
        let _ = write(&story, &disk);
        let disk = disk.crash();
        disk.crash_after(None);
        match check(&ReadOnly(disk.clone()), &mut |_, _| {}) {
            Ok(report) => {
                assert!(report.is_sound(), "seed {seed}: {:?}", report.damage);
                noted += u64::from(!report.notes.is_empty());
            }
            // The power failed before the store existed.
            Err(error) => assert!(disk.files().is_empty(), "seed {seed}: {error}"),
        }
        // A start neither finds nor leaves damage.
        let engine = tiny::open(&disk).unwrap();
        let aside = &engine.recovery().set_aside;
        assert!(aside.is_empty(), "seed {seed}: {aside:?}");
        let (found, errors) = Samples::read(&engine);
        assert!(errors.is_empty(), "seed {seed}: {errors:?}");
        for ((source, field), samples) in found.0 {
            for (time, value) in samples {
                let sample = (source.clone(), field.clone(), time, value);
                assert!(written.contains(&sample), "seed {seed}: {sample:?}");
            }
        }
        engine.flush().unwrap();
        let report = check(&ReadOnly(disk), &mut |_, _| {}).unwrap();
        assert!(report.is_sound(), "seed {seed}: {:?}", report.damage);
    }
    assert!(noted > 0, "no run left anything to note");
}

#[test]
fn inspection_shows_the_written_data() {
    let disk = disk_with(&store());
    let catalog = inspect::catalog(&disk).unwrap();
    assert!(
        catalog.damage.is_empty() && catalog.frames.len() == 8,
        "{catalog:?}"
    );
    let sources = inspect::sources(&disk, &seiner_model::Selector::parse("cpu").unwrap()).unwrap();
    let shown: Vec<_> = sources
        .iter()
        .map(|source| {
            (
                source.key.to_string(),
                source.fields.len(),
                source.catalogued,
            )
        })
        .collect();
    let expected = [("a", 1, true), ("b", 2, true), ("c", 1, true)]
        .map(|(host, fields, known)| (format!("cpu{{host={host:?}}}"), fields, known));
    assert_eq!(shown, expected);
    let mut segments = inspect::segments(&disk).unwrap();
    segments.retain(|segment| segment.kind == FileKind::Segment);
    assert_eq!(segments.len(), 2);
    for segment in &segments {
        let trailer = segment.trailer.as_ref().unwrap();
        let pages = inspect::pages(&disk, segment.number).unwrap();
        assert_eq!(
            pages.iter().map(|page| page.entries).sum::<u64>(),
            trailer.blocks
        );
        let (mut blocks, mut bytes) = (0, 0);
        let all = seiner_model::Selector::all();
        inspect::blocks::<seiner_engine::Error>(&disk, segment.number, &all, &mut |block| {
            assert!(
                block.damage.is_none() && !block.columns.is_empty(),
                "{block:?}"
            );
            (blocks, bytes) = (blocks + 1, bytes + block.bytes);
            Ok(())
        })
        .unwrap();
        assert_eq!((blocks, bytes), (trailer.blocks, trailer.block_bytes));
    }
    let journal = inspect::journal(&disk).unwrap();
    let records: Vec<_> = journal.iter().flat_map(|file| &file.records).collect();
    assert!(
        records.iter().all(|record| record.whole)
            && records
                .windows(2)
                .all(|pair| pair[0].sequence + 1 == pair[1].sequence)
    );
    assert_eq!(
        records.iter().map(|record| record.new_sources).sum::<u64>(),
        2,
        "noise and cpu c"
    );
}

#[test]
fn a_morsel_has_one_item_of_each_kind() {
    let disk = SimDisk::new(1);
    write(&morsel(), &disk).unwrap();
    let report = check(&ReadOnly(disk), &mut |_, _| {}).unwrap();
    assert_eq!(
        (
            report.frames,
            report.segments,
            report.pages,
            report.blocks,
            report.records
        ),
        (1, 1, 1, 1, 1),
        "{report:?}"
    );
}
