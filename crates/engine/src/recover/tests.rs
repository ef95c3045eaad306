//! Tests of starts with one fault in a journal or a catalog.

use crate::buffer::row;
use crate::bytes::put_text;
use crate::catalog::put_key;
use crate::catalog::{self, Catalog, LOST};
use crate::engine::Engine;
use crate::journal::files::JournalWriter;
use crate::journal::staging::Staging;
use crate::options::Options;
use seiner_codec::varint;
use seiner_model::{FieldType, Selector, SourceKey};
use seiner_platform::Disk;
use seiner_platform::sim::{SimClock, SimDisk};
use std::sync::Arc;

/// Replays a journal of one record. The record registers a source and a layout with one text, and
/// contains the staged rows. Returns the replayed rows, and the files set aside. Fails if a check
/// differs.
fn replay(stage: impl FnOnce(&mut Staging)) -> (u64, usize) {
    let disk = SimDisk::new(1);
    let store = Catalog::create(&disk, 7).unwrap().store;
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut journal = JournalWriter::new(disk.clone(), store, 64 << 10, (1, 0), Vec::new());
    let staging = &mut journal.staging;
    let tags = [(&b"tag"[..], &b"value"[..])];
    put_key((b"m", tags.into_iter()), &mut staging.names);
    (staging.new_sources, staging.first_layout) = (1, 1);
    staging.new_layouts = 1;
    staging.layouts.extend([0, FieldType::Str.code()]);
    put_text("text", &mut staging.layouts);
    stage(staging);
    journal.write(1).unwrap();
    journal.sync().unwrap();
    let report = crate::check(&*disk, &mut |_, _| {}).unwrap();
    let engine = Engine::open(disk, Arc::new(SimClock::new(0)), Options::default()).unwrap();
    let recovery = engine.recovery();
    assert_eq!(
        report.is_sound(),
        recovery.set_aside.is_empty(),
        "{report:?}"
    );
    (recovery.rows_replayed, recovery.set_aside.len())
}

/// Builds rows of the source that begin a block, each with a text of this many bytes.
fn texts(staging: &mut Staging, source: i64, block: u64, rows: u64, bytes: u16) {
    const TEXT: u8 = 12;
    staging.rows = rows;
    varint::put_u64(1, &mut staging.widths);
    varint::put_u64(rows, &mut staging.widths);
    varint::put_i64(block as i64, &mut staging.starts);
    varint::put_u64(1, &mut staging.starts);
    varint::put_u64(0, &mut staging.starts);
    for row in 0..rows {
        let first = row == 0;
        varint::put_i64(if first { source } else { -1 }, &mut staging.sources);
        staging
            .codes
            .push(TEXT << 4 | if first { row::START } else { 0 });
        staging.payload.extend([0; 8].iter().filter(|_| first));
        staging.payload.extend(bytes.to_le_bytes());
        staging.payload.extend(vec![b'x'; bytes.into()]);
    }
}

#[test]
fn a_duplicate_name_in_the_catalog_shifts_no_source_numbers() {
    let disk = SimDisk::new(1);
    let mut catalog = Catalog::create(&disk, 7).unwrap();
    let mut frame = catalog::Frame::default();
    for name in [&b"a"[..], b"b", b"a", b"c"] {
        put_key((name, [].into_iter()), &mut frame.names);
        frame.sources += 1;
    }
    frame.first_layout = 1;
    catalog.add(&frame).unwrap();
    let mut frame = catalog::Frame {
        first_source: 4,
        first_layout: 1,
        sources: 1,
        ..catalog::Frame::default()
    };
    put_key((b"d", [].into_iter()), &mut frame.names);
    catalog.add(&frame).unwrap();
    let report = crate::check(&disk, &mut |_, _| {}).unwrap();
    assert_eq!(report.damaged, 1, "{report:?}");
    let clock = Arc::new(SimClock::new(0));
    let engine = Engine::open(Arc::new(disk), clock, Options::default()).unwrap();
    assert_eq!(engine.recovery().set_aside.len(), 1);
    let name = |id| {
        engine
            .source_key(seiner_model::SourceId(id))
            .unwrap()
            .unwrap()
    };
    let names: Vec<String> = (0..5)
        .map(|id| name(id).measurement().to_string())
        .collect();
    assert_eq!(names, ["a", "b", LOST, LOST, "d"]);
}

#[test]
fn a_record_with_bytes_behind_its_rows_is_damage() {
    let (rows, damaged) = replay(|staging| {
        texts(staging, 0, 0, 3, 5);
        staging.payload.push(0);
    });
    assert_eq!((rows, damaged), (3, 1));
}

#[test]
fn a_whole_record_is_replayed() {
    assert_eq!(replay(|staging| texts(staging, 0, 0, 3, 5)), (3, 0));
}

#[test]
fn a_row_of_the_last_source_number_is_damage() {
    let (rows, damaged) = replay(|staging| texts(staging, i64::MAX, 0, 1, 5));
    assert_eq!((rows, damaged), (0, 1));
}

#[test]
fn an_uncountable_block_number_is_damage() {
    let (rows, damaged) = replay(|staging| texts(staging, 0, u64::MAX, 1, 5));
    assert_eq!((rows, damaged), (0, 1));
}

/// Regression: a check had no limit of rows.
#[test]
fn a_block_with_more_rows_than_any_buffer_is_damage() {
    let (rows, damaged) = replay(|staging| texts(staging, 0, 0, 1 << 16, 1));
    assert_eq!((rows, damaged), (65_535, 1));
    assert_eq!(
        replay(|staging| texts(staging, 0, 0, 65_535, 1)),
        (65_535, 0)
    );
}

/// Regression: a check skipped deletes and rules that a start cannot read.
#[test]
fn malformed_deletes_are_damage_for_a_check_as_well() {
    let disk = SimDisk::new(1);
    let frame = catalog::Frame {
        first_layout: 1,
        dead: vec![u8::MAX],
        ..catalog::Frame::default()
    };
    Catalog::create(&disk, 7).unwrap().add(&frame).unwrap();
    let report = crate::check(&disk, &mut |_, _| {}).unwrap();
    let clock = Arc::new(SimClock::new(0));
    let engine = Engine::open(Arc::new(disk), clock, Options::default()).unwrap();
    let damage = report.damage.iter().map(|one| &one.what);
    let aside = engine.recovery().set_aside.iter().map(|(_, what)| what);
    assert_eq!(report.damaged, 1);
    assert!(damage.eq(aside), "{report:?}");
}

/// Regression: a start ignored the numbers in a frame, and assigned the next numbers to its
/// sources.
#[test]
fn a_frame_with_used_numbers_moves_no_source() {
    let disk = SimDisk::new(1);
    let mut catalog = Catalog::create(&disk, 7).unwrap();
    for (name, first_source) in [(&b"a"[..], 0), (b"b", 0), (b"c", 1)] {
        let mut frame = catalog::Frame {
            first_source,
            first_layout: 1,
            sources: 1,
            ..catalog::Frame::default()
        };
        put_key((name, [].into_iter()), &mut frame.names);
        catalog.add(&frame).unwrap();
    }
    let report = crate::check(&disk, &mut |_, _| {}).unwrap();
    assert_eq!(report.damaged, 1, "{report:?}");
    let clock = Arc::new(SimClock::new(0));
    let engine = Engine::open(Arc::new(disk), clock, Options::default()).unwrap();
    assert_eq!(engine.recovery().set_aside.len(), 1);
    let name = |id| engine.source_key(seiner_model::SourceId(id)).unwrap();
    let names: Vec<_> = (0..3).map_while(name).collect();
    let names: Vec<_> = names.iter().map(SourceKey::measurement).collect();
    assert_eq!(names, ["a", "c"]);
}

#[test]
fn a_block_larger_than_any_buffer_is_damage() {
    let (rows, damaged) = replay(|staging| texts(staging, 0, 0, 40, u16::MAX));
    assert_eq!((rows, damaged), (31, 1));
}

/// Names of any form come before the damage: some are read ahead without a key.
#[test]
fn names_before_a_malformed_one_are_kept() {
    let disk = SimDisk::new(1);
    let mut frame = catalog::Frame {
        first_layout: 1,
        sources: 300,
        ..catalog::Frame::default()
    };
    for number in 0..200 {
        let (name, value) = (format!("m{}", number / 2), format!("a,=\\{number}"));
        let tag: (&[u8], &[u8]) = (b"t", value.as_bytes());
        let tags = [tag].into_iter().take(number % 2);
        let key = (name.as_bytes(), tags.collect::<Vec<_>>().into_iter());
        put_key(key, &mut frame.names);
    }
    // A text that is longer than the rest.
    frame.names.push(100);
    Catalog::create(&disk, 7).unwrap().add(&frame).unwrap();
    let seen = crate::inspect::sources(&disk, &Selector::all()).unwrap();
    let clock = Arc::new(SimClock::new(0));
    let engine = Engine::open(Arc::new(disk), clock, Options::default()).unwrap();
    assert_eq!(engine.recovery().set_aside.len(), 1);
    assert_eq!(seen.len(), 300, "a hundred are lost");
    for source in seen {
        assert_eq!(engine.source_key(source.id).unwrap(), Some(source.key));
    }
}
