//! Tests of export and import together, and of repeated exports.

use super::*;
use crate::import::table::tests::import_folder;
use crate::target::Open;
use arrow_array::RecordBatch;
use clap::Parser;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use seiner_model::{Bitmap, Column, Columns, FieldColumn, SourceKey, Strings};
use seiner_store::{MemoryStore, Store};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const DAY_NS: i64 = 86_400_000_000_000;

/// Command of the tests.
#[derive(Parser)]
struct Command {
    #[command(flatten)]
    export: Export,
}

fn export(store: &Arc<MemoryStore>, folder: &Path, flags: &[&str]) -> Result<Counts, String> {
    let line = [&["export", folder.to_str().unwrap()], flags].concat();
    let export = Command::try_parse_from(line).unwrap().export;
    let plan = export.plan()?;
    let origin = Origin::Directory(store.clone());
    export.export(&plan, &origin).map_err(|error| match error {
        Failure::Usage(text) => text,
        other => format!("{other:?}"),
    })
}

fn append(
    store: &MemoryStore,
    key: (&str, &[(&str, &str)]),
    time: &[i64],
    field: &str,
    values: Column,
) {
    let key = SourceKey::new(key.0, key.1.iter().copied()).unwrap();
    let source = store.register(&key).unwrap();
    let columns = Columns {
        times: time.to_vec(),
        fields: vec![FieldColumn {
            present: None,
            values,
        }],
    };
    let receipt = store.append_columns(source, &[field], &columns).unwrap();
    assert_eq!(receipt.rejected_total, 0);
}

/// Returns a store with fields of all types, missing values, and names that are difficult.
fn store() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::default());
    let times: Vec<i64> = (0..100).map(|row| row * DAY_NS / 40 - DAY_NS).collect();
    let odd = |row: usize| f64::from_bits(0x7ff8_0000_0000_0000 | row as u64);
    let tags: &[(&str, &str)] = &[("day", "mon"), ("measurement", "x"), ("time", "ü=,")];
    let source = ("cpu load/..", tags);
    append(
        &store,
        source,
        &times,
        "a",
        Column::F64((0..100).map(odd).collect()),
    );
    let singles = (0..50).map(|row| f32::from_bits(0xffc0_0000 | row));
    append(
        &store,
        source,
        &times[..50],
        "b",
        Column::F32(singles.collect()),
    );
    append(
        &store,
        source,
        &times[25..],
        "c",
        Column::U64(vec![u64::MAX; 75]),
    );
    append(
        &store,
        source,
        &times,
        "day",
        Column::I64((0..100).map(|row| i64::MIN + row).collect()),
    );
    append(
        &store,
        source,
        &times[..3],
        "d",
        Column::Bool(vec![true, false, true]),
    );
    let mut texts = Strings::default();
    ["", "\"\n", "ü"].iter().for_each(|text| texts.push(text));
    append(
        &store,
        ("cpu load/..", &[]),
        &times[..3],
        "a",
        Column::Str(texts),
    );
    append(
        &store,
        ("zero", &[]),
        &[-1, 0],
        "v",
        Column::F64(vec![-0.0, 0.0]),
    );
    store
}

/// Returns the rows of all files below a folder, with the names of the files.
fn rows(folder: &Path) -> Vec<(String, Vec<RecordBatch>)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if path.extension().is_some_and(|end| end == "parquet") {
            let builder = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(&path).unwrap());
            let batches = builder.unwrap().build().unwrap();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            // The metadata have the time of the export.
            let plain = batches.map(|batch| {
                let batch = batch.unwrap();
                let fields = batch.schema().fields().clone();
                RecordBatch::try_new(
                    Arc::new(arrow_schema::Schema::new(fields)),
                    batch.columns().to_vec(),
                )
            });
            found.push((name, plain.map(Result::unwrap).collect()));
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

fn imported(folder: &Path, flags: &[&str]) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::default());
    let counts = import_folder(folder, flags, Open::Store(store.clone()));
    assert_eq!(counts, (105, 0));
    store
}

#[test]
fn rows_come_back_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let first = store();
    let counts = export(&first, &path("one"), &[]).unwrap();
    assert_eq!((counts.rows, counts.files, counts.failed), (105, 5, 0));
    let second = imported(&path("one"), &["parquet"]);
    export(&second, &path("two"), &[]).unwrap();
    let expected = rows(&path("one"));
    assert_eq!(expected.len(), 5);
    assert!(
        expected[0]
            .0
            .starts_with("measurement=cpu%20load%2F../day=1969-12-31")
    );
    assert_eq!(rows(&path("two")), expected);
    export(&first, &path("arrow"), &["--format", "arrow"]).unwrap();
    let third = imported(&path("arrow"), &["arrow"]);
    export(&third, &path("three"), &[]).unwrap();
    assert_eq!(rows(&path("three")), expected);
}

#[test]
fn finished_days_are_kept_and_others_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let store = store();
    let today = now();
    append(&store, ("zero", &[]), &[today], "v", Column::F64(vec![1.0]));
    let run = |flags: &[&str]| export(&store, &out, flags).unwrap();
    let (first, again) = (run(&[]), run(&[]));
    assert_eq!((first.files, first.kept, first.changing), (6, 0, 1));
    assert_eq!((again.files, again.kept, again.changing), (1, 5, 1));
    assert_eq!(run(&["--again"]).files, 6);
    assert_eq!(run(&["--late", "40000d"]).files, 6);
    // The times of a day select it as a whole.
    let some = run(&[
        "--again",
        "--from",
        "1970-01-01T12:00",
        "--to",
        "1970-01-01T12:00",
    ]);
    assert_eq!((some.files, some.kept), (2, 0));
    // A file that is not complete is not finished.
    let file = out.join("measurement=zero/day=1970-01-01/rows.parquet");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(run(&["--to", "1980-01-01"]).files, 1);
    assert_eq!(fs::read(&file).unwrap().len(), whole.len());
    let other = export(&store, &out, &["--fields", "v"]).unwrap_err();
    assert!(other.contains("--fields v"), "{other}");
}

#[test]
fn a_name_too_long_for_a_folder_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = store();
    append(
        &store,
        (&"m".repeat(300), &[]),
        &[0],
        "v",
        Column::F64(vec![1.0]),
    );
    let counts = export(&store, &folder.path().join("out"), &[]).unwrap();
    assert_eq!((counts.files, counts.failed), (5, 1));
}

#[test]
fn presence_is_kept_by_bitmaps() {
    // Canary of the round trip: a batch with another value, or another missing value, is not equal.
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    export(&store(), &path("one"), &[]).unwrap();
    let changed = store();
    let key = SourceKey::new("zero", [("", ""); 0]).unwrap();
    let source = changed.register(&key).unwrap();
    let columns = Columns {
        times: vec![-1, 0],
        fields: vec![FieldColumn {
            present: Some([false, true].into_iter().collect::<Bitmap>()),
            values: Column::F64(vec![-0.0]),
        }],
    };
    changed.append_columns(source, &["v"], &columns).unwrap();
    export(&changed, &path("two"), &[]).unwrap();
    let (one, two) = (rows(&path("one")), rows(&path("two")));
    let differing = one.iter().zip(&two).filter(|(one, two)| one != two);
    assert_eq!(differing.count(), 1, "-0.0 and 0.0 are different rows");
}
