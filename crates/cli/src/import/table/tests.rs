//! Tests of the import.

use super::mapping::PathNames;
use super::*;
use crate::target::Open;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, new_null_array,
};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit as Unit};
use clap::Parser;
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;
use seiner_model::Selector;
use seiner_store::{MemoryStore, Store};
use seiner_wire::arrow_body::{BatchDivider, BodyOptions};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Command of the tests.
#[derive(Parser)]
struct Command {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(clap::Subcommand)]
enum Kind {
    Parquet(Parquet),
    Arrow(Arrow),
}

/// Imports files. Returns the numbers of rows that were stored and rejected.
pub fn import_folder(path: &Path, flags: &[&str], target: Open) -> (u64, u64) {
    let line = [&["import"], flags, &[path.to_str().unwrap()]].concat();
    let (flags, format) = match Command::try_parse_from(line).unwrap().kind {
        Kind::Parquet(parquet) => (parquet.flags, Format::Parquet),
        Kind::Arrow(arrow) => (arrow.flags, Format::Arrow),
    };
    let mut sink = TableSink::new(target);
    for file in flags.files(format).unwrap() {
        import(&file, format, &mut sink, &mut Rejects::default()).unwrap();
    }
    let counts = sink.finish().unwrap();
    (counts.taken, counts.rejected)
}

fn foreign() -> RecordBatch {
    let hosts: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().map(Some).collect();
    let columns: [(&str, ArrayRef); 6] = [
        (
            "when",
            Arc::new(TimestampMillisecondArray::from(vec![
                Some(1),
                None,
                Some(i64::MAX),
            ])),
        ),
        (
            "id",
            Arc::new(Int64Array::from(vec![Some(7), None, Some(-1)])),
        ),
        ("host", Arc::new(hosts)),
        ("up", Arc::new(BooleanArray::from(vec![true, false, true]))),
        (
            "value",
            Arc::new(Float64Array::from(vec![Some(1.5), None, None])),
        ),
        (
            "text",
            Arc::new(StringArray::from(vec![None, Some(""), Some("x")])),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn find(schema: &Schema, wanted: Wanted) -> Result<Vec<(&'static str, String)>, String> {
    let path = PathNames {
        folders: vec![("site".to_string(), "north".to_string())],
        stem: "scada".to_string(),
    };
    let mapping = Mapping::find(schema, &wanted, &path)?;
    let constants = mapping.constants.into_iter();
    let constants = constants.map(|(kind, _, text)| (kind, text));
    let columns = mapping.columns.into_iter();
    Ok(constants
        .chain(columns.map(|column| (column.kind, column.name)))
        .collect())
}

fn list(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(ToString::to_string).collect())
}

#[test]
fn roles_follow_flags_and_types() {
    let schema = foreign().schema();
    let own = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        pairs
            .iter()
            .map(|(kind, name)| (*kind, name.to_string()))
            .collect()
    };
    let found = find(&schema, Wanted::default()).unwrap();
    let expected = [
        ("measurement", "scada"),
        ("time", "when"),
        ("field", "id"),
        ("tag", "host"),
        ("field", "up"),
        ("field", "value"),
        ("field", "text"),
    ];
    assert_eq!(found, own(&expected));
    let wanted = Wanted {
        tags: list(&["id", "up", "site"]),
        fields: list(&["value"]),
        measurement: Some("m".to_string()),
        ..Wanted::default()
    };
    let expected = [
        ("measurement", "m"),
        ("tag", "north"),
        ("time", "when"),
        ("tag", "id"),
        ("tag", "up"),
        ("field", "value"),
    ];
    assert_eq!(find(&schema, wanted).unwrap(), own(&expected));
    for (time, tags, fields, words) in [
        (
            "none",
            None,
            None,
            "there is no column \"none\"; there are when, id",
        ),
        ("id", None, None, "add --time-unit"),
        ("value", None, None, "name another column by --time-column"),
        ("when", list(&["hots"]), None, "no column \"hots\""),
        ("when", list(&["value"]), None, "which a tag cannot have"),
        ("when", None, list(&["x"]), "no column \"x\""),
        ("when", list(&["id"]), list(&["id"]), "no column is left"),
    ] {
        let wanted = Wanted {
            time: Some(time.to_string()),
            tags,
            fields,
            ..Wanted::default()
        };
        let error = find(&schema, wanted).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn columns_that_no_field_can_store_are_named() {
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    for data_type in [
        DataType::List(item.clone()),
        DataType::Struct(Fields::from(vec![Field::new("x", DataType::Int64, true)])),
        DataType::Decimal128(10, 2),
        DataType::Date32,
        DataType::Binary,
        DataType::Float16,
        DataType::Timestamp(Unit::Second, None),
    ] {
        let time = Field::new("time", DataType::Timestamp(Unit::Nanosecond, None), false);
        let schema = Schema::new(vec![
            time,
            Field::new("v", DataType::Float64, true),
            Field::new("odd", data_type, true),
        ]);
        let error = find(&schema, Wanted::default()).unwrap_err();
        assert!(
            error.contains("\"odd\"") && error.contains("--field-columns"),
            "{error}"
        );
        let wanted = Wanted {
            fields: list(&["v"]),
            ..Wanted::default()
        };
        assert!(find(&schema, wanted).is_ok());
    }
}

fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn arrow(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn rows_of_foreign_files_are_stored_and_others_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let batch = foreign();
    for (kind, bytes) in [("parquet", parquet(&batch)), ("arrow", arrow(&batch))] {
        let file = folder.path().join(format!("m.{kind}"));
        fs::write(&file, bytes).unwrap();
        let store = Arc::new(MemoryStore::default());
        // One time is missing, and one is too late for nanoseconds.
        let counts = import_folder(
            &file,
            &[kind, "--tag-columns", "id"],
            Open::Store(store.clone()),
        );
        assert_eq!(counts, (1, 2), "{kind}");
        let source = store
            .sources(&Selector::parse("m{id=\"7\"}").unwrap())
            .unwrap();
        assert_eq!(source.len(), 1);
    }
}

/// Reads a file as the import does. Returns the number of rows.
fn read(path: &Path, format: Format) -> anyhow::Result<usize> {
    let schema = format.schema(path)?;
    let mapping = Mapping::find(&schema, &Wanted::default(), &PathNames::default());
    let mapping = mapping.map_err(anyhow::Error::msg)?;
    let mut divider = BatchDivider::new(&mapping.schema, &BodyOptions::default())?;
    let mut rows = 0;
    let bar = indicatif::ProgressBar::hidden();
    format.read(path, &mapping.indices(), &bar, &mut |batch| {
        rows += batch.num_rows();
        divider.divide(&mapping.apply(&batch)?, &mut |_| Ok(()))
    })?;
    Ok(rows)
}

/// Writes a new file. Some file systems sync a file that is overwritten.
fn put(path: &Path, bytes: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let batch = foreign();
    let files = [
        (Format::Parquet, parquet(&batch)),
        (Format::Arrow, arrow(&batch)),
    ];
    for (format, whole) in files {
        let path = folder.path().join("file");
        let other = match format {
            Format::Parquet => Format::Arrow,
            Format::Arrow => Format::Parquet,
        };
        put(&path, &whole);
        assert_eq!(read(&path, format).unwrap(), 3);
        assert!(read(&path, other).is_err());
        for length in 0..whole.len() {
            put(&path, &whole[..length]);
            assert!(read(&path, format).is_err(), "{format:?} of {length} bytes");
        }
        // A changed byte may go unnoticed, but must not stop the program.
        for at in 0..whole.len() {
            for flip in [0xff, 0x80, 0x01] {
                let mut damaged = whole.clone();
                damaged[at] ^= flip;
                put(&path, &damaged);
                let _ = read(&path, format);
            }
        }
    }
}

/// Types of columns, most of them with a role.
fn data_type() -> impl Strategy<Value = DataType> {
    let common = vec![
        DataType::Int64,
        DataType::Float64,
        DataType::Utf8,
        DataType::Boolean,
        DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()),
    ];
    prop_oneof![6 => prop::sample::select(common), 1 => any_type()]
}

/// Types of columns, with and without a role.
fn any_type() -> impl Strategy<Value = DataType> {
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let dictionary =
        |key: DataType, value: DataType| DataType::Dictionary(key.into(), value.into());
    prop::sample::select(vec![
        DataType::Null,
        DataType::Boolean,
        DataType::Int8,
        DataType::Int64,
        DataType::UInt16,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::Timestamp(Unit::Second, Some("Europe/Zurich".into())),
        DataType::Timestamp(Unit::Microsecond, None),
        DataType::Date64,
        DataType::Duration(Unit::Second),
        DataType::Decimal256(40, 3),
        DataType::List(item),
        DataType::Struct(Fields::empty()),
        dictionary(DataType::UInt8, DataType::Utf8),
        dictionary(DataType::Int64, DataType::LargeUtf8),
        dictionary(DataType::Int16, DataType::Int64),
    ])
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "time",
        "ts",
        "measurement",
        "a",
        "b",
        "",
        "ü",
        "\0",
        "a=1",
    ])
    .prop_map(str::to_string)
}

fn kind() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(
        0.2,
        prop::sample::select(vec!["time", "measurement", "tag", "field", "other"])
            .prop_map(str::to_string),
    )
}

/// Returns a column of some rows with and without values.
fn column(data_type: &DataType, rows: usize) -> ArrayRef {
    let numbers = (0..rows).map(|row| (row % 3 != 0).then_some(row as i64 * 977));
    match data_type {
        DataType::Int64 => Arc::new(numbers.collect::<Int64Array>()),
        DataType::Timestamp(Unit::Microsecond, None) => {
            Arc::new(numbers.collect::<TimestampMicrosecondArray>())
        }
        DataType::Dictionary(key, _) if **key == DataType::Int32 => {
            let texts = numbers.map(|number| number.map(|number| number.to_string()));
            let texts: Vec<Option<String>> = texts.collect();
            let texts = texts.iter().map(Option::as_deref);
            Arc::new(texts.collect::<DictionaryArray<Int32Type>>())
        }
        DataType::Float64 => Arc::new(
            numbers
                .map(|number| number.map(|number| number as f64))
                .collect::<Float64Array>(),
        ),
        DataType::Utf8 => Arc::new(
            numbers
                .map(|number| number.map(|number| "x".repeat(number as usize % 5)))
                .collect::<StringArray>(),
        ),
        other => new_null_array(other, rows),
    }
}

#[test]
fn a_column_of_measurements_without_values_is_left_out() {
    let kind = |kind: &str| HashMap::from([("kind".to_string(), kind.to_string())]);
    let schema = Schema::new(vec![
        Field::new("time", DataType::Timestamp(Unit::Microsecond, None), true),
        Field::new("measurement", DataType::Null, true).with_metadata(kind("measurement")),
        Field::new("n", DataType::Int64, true),
    ]);
    let path = PathNames {
        folders: Vec::new(),
        stem: "m".to_string(),
    };
    let mapping = Mapping::find(&schema, &Wanted::default(), &path).unwrap();
    assert_eq!(mapping.indices(), [0, 2]);
    assert!(BatchDivider::new(&mapping.schema, &BodyOptions::default()).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_schema_is_mapped_or_rejected(
        mut columns in prop::collection::vec((name(), data_type(), kind()), 0..8),
        has_times in prop::bool::weighted(0.7),
        rows in 0usize..20,
        tags in prop::option::of(prop::collection::vec(name(), 0..3)),
        fields in prop::option::of(prop::collection::vec(name(), 0..3)),
        time in prop::option::of(name()),
        has_unit: bool,
    ) {
        if has_times {
            let times = DataType::Timestamp(Unit::Microsecond, None);
            columns.insert(0, ("time".to_string(), times, None));
        }
        let schema = columns.iter().map(|(name, data_type, kind)| {
            let metadata = kind.iter().map(|kind| ("kind".to_string(), kind.clone()));
            let metadata: HashMap<String, String> = metadata.collect();
            Field::new(name, data_type.clone(), true).with_metadata(metadata)
        });
        let schema = Arc::new(Schema::new(schema.collect::<Vec<_>>()));
        let wanted = Wanted {
            time,
            unit_ns: has_unit.then_some(1_000_000_000),
            tags,
            fields,
            measurement: None,
            constants: vec![("site".to_string(), "x".to_string())],
        };
        let path = PathNames { folders: Vec::new(), stem: "m".to_string() };
        if let Ok(mapping) = Mapping::find(&schema, &wanted, &path) {
            let arrays = columns.iter().map(|(_, data_type, _)| column(data_type, rows));
            let batch = RecordBatch::try_new_with_options(
                schema,
                arrays.collect(),
                &arrow_array::RecordBatchOptions::new().with_row_count(Some(rows)),
            ).unwrap();
            let used = mapping.apply(&batch.project(&mapping.indices()).unwrap()).unwrap();
            // What the mapping accepts, every store and server accepts.
            let mut divider = BatchDivider::new(&mapping.schema, &BodyOptions::default()).unwrap();
            let mut found = 0;
            divider.divide(&used, &mut |divided| {
                found += divided.bad.iter().map(|bad| bad.count as usize).sum::<usize>();
                found += divided.sources.iter().map(|rows| rows.len()).sum::<usize>();
                found += divided.singles.numbers.len();
                Ok::<(), std::convert::Infallible>(())
            }).unwrap();
            prop_assert_eq!(found, rows);
        }
    }
}
