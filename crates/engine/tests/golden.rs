//! Checks that stores of released versions are readable, and that the written bytes match the
//! format pages.
//!
//! Files are only added to `golden/engine/`, never edited. `v1/` contains stores without the file
//! `rules`, `rules-1/` a store with that file, `v2/` stores with the second version of the journal,
//! `rules-2/` a store with the second version of the file `rules`, `bundles-1/` a store with
//! segments that contain bundles, `names-1/` a store that has forgotten sources, and `pages-2/` stores in
//! which the pages of an index follow the blocks without zeros in between, `segments-3/` a store of a source
//! with short aggregates and a source with long ones, and `names-3/` a store that has forgotten sources, with the
//! third version of the catalog. `store/` is a store with all kinds of data. `store.txt` lists
//! every sample that this store must return. `morsel/` is a minimal store with one of each structure. Its bytes in
//! `segments-3/` equal the bytes that the engine writes today. `SEINER_BLESS=1` writes missing files.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod tiny;

use seiner_engine::{Bucket, Engine, Options, Query, Step, check};
use seiner_model::{Interval, Selector, SourceKey};
use seiner_platform::sim::{SimClock, SimDisk};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tiny::{Samples, Story, disk_with, files, many, morsel, story, write};

type Files = BTreeMap<String, Vec<u8>>;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../golden/engine")
        .join(name)
}

/// Returns the files of a store that has forgotten sources. A later source has one of their numbers.
fn forgetful() -> Files {
    let disk = SimDisk::new(1);
    let clock = SimClock::new(1_767_225_600_000_000_000);
    let engine = Engine::open(
        Arc::new(disk.clone()),
        Arc::new(clock.clone()),
        tiny::options(),
    );
    let engine = engine.unwrap();
    let append = |measurement: &str, time: i64| {
        let names: Vec<String> = (0..3).map(|n| format!("{measurement},n={n}")).collect();
        tiny::append_rows(&engine, &names, time);
        engine.flush().unwrap();
    };
    append("gone", 1);
    append("here", 2);
    let gone = Selector::parse("gone").unwrap();
    let all = Interval::ALL;
    engine.delete(&gone, all).unwrap();
    for _ in 0..2 {
        while engine.step().unwrap() {}
        clock.advance(61_000_000_000);
    }
    append("new", 3);
    assert_eq!(engine.status().numbers_reused, 3);
    engine.close().unwrap();
    files(&disk)
}

/// Returns 300 decimals and 300 numbers with all their bits, in the order of time.
fn long_values() -> [(&'static str, Vec<f64>); 2] {
    let decimals = (0..300).map(|n| f64::from(n * n % 97 - 30) / 10.0);
    let others = (0..300).map(|n| f64::from(n).sqrt() + 1.0);
    [
        ("decimals", decimals.collect()),
        ("others", others.collect()),
    ]
}

/// Returns the files of a store with a block of each of [`long_values`].
fn long_blocks() -> Files {
    let disk = SimDisk::new(1);
    let options = Options {
        block_bytes: 8192,
        ..tiny::options()
    };
    let clock = Arc::new(SimClock::new(1_767_225_600_000_000_000));
    let engine = Engine::open(Arc::new(disk.clone()), clock, options).unwrap();
    let times: Vec<i64> = (0..300).map(|n| n * 1_000_000_000).collect();
    for (name, values) in long_values() {
        let key = SourceKey::new(name, [("a", "b")]).unwrap();
        let ids = vec![engine.register(&key).unwrap(); values.len()];
        engine.append_samples("v", &ids, &times, &values).unwrap();
    }
    engine.close().unwrap();
    files(&disk)
}

fn written(story: &Story) -> Files {
    let disk = SimDisk::new(1);
    write(story, &disk).unwrap();
    files(&disk)
}

/// Returns the files of a golden store. With `SEINER_BLESS=1`, missing files are written first.
fn kept(name: &str, story: &Story) -> Files {
    let list = golden(&format!("{name}.txt"));
    if bless(name, || written(story)) {
        fs::write(list, Samples::of(story).to_text()).unwrap();
    }
    read(name)
}

/// Writes the files of a golden store if they are missing and `SEINER_BLESS=1`. Returns whether they
/// were written.
fn bless(name: &str, written: impl FnOnce() -> Files) -> bool {
    let folder = golden(name);
    let is_wanted = !folder.exists() && std::env::var_os("SEINER_BLESS").is_some();
    if is_wanted {
        fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in written() {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
    is_wanted
}

/// Returns the files of a golden store.
fn read(name: &str) -> Files {
    let folder = golden(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; SEINER_BLESS=1 writes what is missing",
            folder.display()
        )
    });
    let read = |entry: fs::DirEntry| {
        (
            entry.file_name().into_string().unwrap(),
            fs::read(entry.path()).unwrap(),
        )
    };
    entries.map(|entry| read(entry.unwrap())).collect()
}

fn is_read_as_listed(name: &str, story: &Story) {
    let disk = disk_with(&kept(name, story));
    let report = check(&disk, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{name}: {:?}", report.damage);
    let engine = tiny::open(&disk).unwrap();
    let (found, errors) = Samples::read(&engine);
    assert!(errors.is_empty(), "{name}: {errors:?}");
    let listed = fs::read_to_string(golden(&format!("{name}.txt"))).unwrap();
    let found = found.to_text();
    let differs = listed
        .lines()
        .zip(found.lines())
        .find(|(listed, found)| listed != found);
    assert!(
        differs.is_none(),
        "{name}: listed and found differ: {differs:?}"
    );
    assert_eq!(
        listed.lines().count(),
        found.lines().count(),
        "{name}: the number of samples differs from the list"
    );
}

#[test]
fn stores_of_version_1_are_read() {
    is_read_as_listed("v1/store", &story());
    is_read_as_listed("v1/morsel", &morsel());
}

#[test]
fn stores_with_rules_are_read() {
    is_read_as_listed("rules-1/morsel", &morsel());
    is_read_as_listed("rules-2/morsel", &morsel());
}

#[test]
fn stores_of_version_2_are_read() {
    is_read_as_listed("v2/store", &story());
    is_read_as_listed("v2/morsel", &morsel());
}

#[test]
fn stores_with_pages_directly_after_blocks_are_read() {
    is_read_as_listed("pages-2/store", &story());
    is_read_as_listed("pages-2/morsel", &morsel());
}

#[test]
fn stores_with_short_aggregates_are_read() {
    is_read_as_listed("segments-3/morsel", &morsel());
    bless("segments-3/store", long_blocks);
    let files = read("segments-3/store");
    let segment = &files["segment-00000001.log"];
    let trailer = &segment[segment.len() - 132..];
    assert_eq!((&trailer[..8], at(trailer, 8, 4)), (&b"SEINSEGM"[..], 3));
    let disk = disk_with(&files);
    assert!(check(&disk, &mut |_, _| {}).unwrap().is_sound());
    let engine = tiny::open(&disk).unwrap();
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let found = engine.aggregate(&query, Step::Whole).unwrap();
    let found: Vec<Bucket> = found.map(|found| found.unwrap().buckets[0]).collect();
    for (bucket, (name, values)) in found.iter().zip(long_values()) {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(bucket.sum, values.iter().sum::<f64>(), "{name}");
        assert_eq!((bucket.min, bucket.max), (least, most), "{name}");
        assert_eq!(
            (bucket.first.1, bucket.last.1),
            (values[0], values[299]),
            "{name}"
        );
        assert_eq!(bucket.count, 300, "{name}");
    }
    assert_eq!(found.len(), 2);
}

#[test]
fn stores_with_bundles_are_read() {
    is_read_as_listed("bundles-1/store", &many());
}

#[test]
fn stores_that_have_forgotten_sources_are_read() {
    has_forgotten("names-1/store", 2);
    has_forgotten("names-3/store", 3);
}

fn has_forgotten(name: &str, version: u64) {
    bless(name, forgetful);
    let files = read(name);
    let catalog = &files["catalog"];
    assert_eq!(files["catalog.copy"], *catalog);
    assert_eq!(
        (
            &catalog[..8],
            at(catalog, 8, 4),
            at(catalog, 20, 4),
            at(catalog, 24, 4)
        ),
        (&b"SEINCATL"[..], version, 1, crc(&catalog[..24])),
        "version, generation"
    );
    let disk = disk_with(&files);
    let report = check(&disk, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{:?}", report.damage);
    assert_eq!(report.sources, 6);
    let engine = tiny::open(&disk).unwrap();
    assert_eq!(engine.measurements().unwrap(), ["here", "new"]);
    let (found, errors) = Samples::read(&engine);
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(found.0.len(), 6);
    for ((key, _), samples) in &found.0 {
        let time = if key.starts_with("here") { 2 } else { 3 };
        assert!(samples.keys().eq([&time]), "{key}: {samples:?}");
    }
}

#[test]
fn the_format_page_states_the_parts_of_a_bundle() {
    let files = kept("bundles-1/store", &many());
    let segment = &files["segment-00000001.log"];
    let trailer = &segment[segment.len() - 132..];
    assert_eq!((&trailer[..8], at(trailer, 8, 4)), (&b"SEINSEGM"[..], 2));
    // Some sources have a second block, because their layout grew.
    let (blocks, rows) = (at(trailer, 28, 8), at(trailer, 36, 8));
    assert!(
        (200..=400).contains(&blocks) && rows == 600,
        "{blocks}, {rows}"
    );
    let bytes = &segment[..at(trailer, 44, 8) as usize];
    assert_eq!(at(bytes, 0, 4), crc(&bytes[4..32]));
    assert_eq!(&bytes[4..8], b"BNDL");
    let [first, last] = [8, 16].map(|offset| at(bytes, offset, 8));
    assert!(
        1 <= first && first < last && last <= blocks,
        "{first}, {last}"
    );
    let (directory, data) = (at(bytes, 24, 4) as usize, at(bytes, 28, 4) as usize);
    assert!(32 + directory + data <= bytes.len());
    assert_eq!(
        at(bytes, 32, 4),
        crc(&bytes[36..32 + directory]),
        "the directory"
    );
}

#[test]
fn the_bytes_written_are_those_of_the_latest_version() {
    let (kept, today) = (kept("segments-3/morsel", &morsel()), written(&morsel()));
    assert!(
        kept.keys().eq(today.keys()),
        "files are named otherwise today: {:?}, {:?}",
        kept.keys(),
        today.keys()
    );
    for (name, bytes) in &kept {
        let at = bytes
            .iter()
            .zip(&today[name])
            .position(|(kept, today)| kept != today);
        let at =
            at.or((bytes.len() != today[name].len()).then_some(bytes.len().min(today[name].len())));
        assert!(
            at.is_none(),
            "{name} is written otherwise today, from byte {at:?} on. If that is meant: raise the version in the file's \
             header, keep reading the old one, describe both in docs/format/, and add golden files beside these. If only \
             zstd finds other bytes for the same content, the samples above are still read: add a new morsel."
        );
    }
}

/// Reads a number at an offset, in the encoding of the format pages.
fn at(bytes: &[u8], offset: usize, width: usize) -> u64 {
    bytes[offset..offset + width]
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Computes CRC-32C, bit by bit.
fn crc(bytes: &[u8]) -> u64 {
    let step = |sum: u32, bit: u32| {
        if (sum ^ bit) & 1 == 1 {
            sum >> 1 ^ 0x82F6_3B78
        } else {
            sum >> 1
        }
    };
    let sum = bytes.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(sum, |sum, bit| step(sum, u32::from(byte >> bit)))
    });
    u64::from(!sum)
}

#[test]
fn the_format_pages_state_the_offsets() {
    let files = kept("v2/morsel", &morsel());
    let catalog = &files["catalog"];
    assert_eq!(files["catalog.copy"], *catalog);
    assert_eq!(
        (&catalog[..8], at(catalog, 8, 4), at(catalog, 20, 4)),
        (&b"SEINCATL"[..], 1, crc(&catalog[..20]))
    );
    let store = at(catalog, 12, 8);
    let frame = &catalog[24..];
    assert_eq!(
        (&frame[..4], at(frame, 32, 4), at(frame, 12, 4)),
        (&b"FRAM"[..], crc(&frame[..32]), crc(&frame[36..]))
    );
    assert_eq!(
        [16, 20, 24, 28].map(|offset| at(frame, offset, 4)),
        [0, 1, 1, 2],
        "first source, sources, first layout, layouts"
    );
    assert_eq!(at(frame, 4, 4) as usize, frame.len() - 36);

    let segment = &files["segment-00000001.log"];
    let trailer = &segment[segment.len() - 132..];
    assert_eq!(
        (&trailer[..8], at(trailer, 8, 4), at(trailer, 128, 4)),
        (&b"SEINSEGM"[..], 1, crc(&trailer[..128]))
    );
    assert_eq!(
        [12, 20, 28, 36].map(|offset| at(trailer, offset, 8)),
        [1, store, 1, 4],
        "number, store, blocks, rows"
    );
    assert_eq!(
        [52, 60, 68].map(|offset| at(trailer, offset, 8)),
        [0, 30_000_000_000, 1],
        "first and last time, last block"
    );
    assert_eq!(
        [108, 112].map(|offset| at(trailer, offset, 4)),
        [1, 3],
        "sources, layouts"
    );
    let block = &segment[..at(trailer, 44, 8) as usize];
    assert_eq!(at(block, 0, 4), crc(&block[4..]));
    assert_eq!(block[4..8], [0, 1, 2, 4], "source, number, layout, rows");
    let (sparse_index, page) = (at(trailer, 84, 8) as usize, 4096);
    let sparse_index = &segment[sparse_index..sparse_index + at(trailer, 116, 4) as usize];
    assert_eq!(
        (sparse_index.len(), at(trailer, 120, 4)),
        (16, crc(sparse_index))
    );
    assert_eq!(
        [0, 4].map(|offset| at(sparse_index, offset, 4)),
        [0, page as u64],
        "first source, offset"
    );
    assert_eq!(
        at(sparse_index, 12, 4),
        crc(&segment[page..page + at(sparse_index, 8, 4) as usize])
    );

    let journal = &files["journal-00000002"];
    assert_eq!(
        (&journal[..8], at(journal, 8, 4), at(journal, 32, 4)),
        (&b"SEINJRNL"[..], 2, crc(&journal[..32]))
    );
    assert_eq!(
        (at(journal, 12, 4), at(journal, 16, 8), at(journal, 24, 8)),
        (2, store, 2),
        "number, store, first sequence"
    );
    let (record, mark) = journal[36..].split_at(28 + at(journal, 40, 4) as usize);
    assert_eq!(
        (at(record, 0, 4), at(record, 8, 4)),
        (crc(&record[4..]), 2),
        "checksum, file"
    );
    assert_eq!(
        (at(record, 12, 8), at(record, 20, 8)),
        (2, 2),
        "sequence, next to be synced"
    );
    assert_eq!(
        record[28..34],
        [0, 0, 0, 0, 2, 4],
        "no names, no layouts, two rows, four before"
    );
    // Names and layouts are empty. There are two columns and two rows, source 0 twice, and block 2 of layout 2.
    assert_eq!(
        record[34..50],
        [0, 0, 0, 0, 2, 0, 2, 2, 2, 0, 0, 1, 3, 0, 4, 2],
        "streams"
    );
    assert_eq!(mark, [0; 28], "the end mark");

    let ledger = &files["ledger"];
    assert_eq!(
        (&ledger[..8], at(ledger, 8, 4), at(ledger, 12, 8)),
        (&b"SEINLEDG"[..], 1, store)
    );
    assert_eq!(at(ledger, 20, 4), crc(&ledger[..20]));
    let record = &ledger[24..];
    let body = &record[16..16 + at(record, 0, 4) as usize];
    assert_eq!(
        (at(record, 4, 8), at(record, 12, 4)),
        (1, crc(&[&record[..12], body].concat()))
    );
}

#[test]
fn writing_is_deterministic() {
    assert!(
        written(&story()) == written(&story()),
        "the same operations wrote other bytes"
    );
}

#[test]
fn a_written_story_is_returned_by_its_store() {
    let engine = tiny::open(&disk_with(&written(&story()))).unwrap();
    let (found, errors) = Samples::read(&engine);
    assert!(
        errors.is_empty() && found == Samples::of(&story()),
        "{errors:?}"
    );
}
