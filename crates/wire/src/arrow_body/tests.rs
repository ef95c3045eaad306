//! Tests of bodies that Arrow's own writer and wide answers wrote.

use super::*;
use crate::answer::wide::{WideAnswer, WideColumns, WideHead, WideRows};
use crate::answer::{Format, TimeUnit};
use crate::line::LineNotation;
use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::{Int8Type, Int16Type};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, ListArray, StringArray,
    TimestampMillisecondArray,
};
use arrow_ipc::writer::StreamWriter;
use proptest::prelude::*;
use seiner_model::{Bitmap, Column, FieldColumn, FieldType, Notation, Strings};
use std::collections::BTreeMap;
use std::sync::Arc;

fn body(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("a Vec");
    writer.write(&batch).expect("a Vec");
    writer.into_inner().expect("a Vec")
}

/// Decodes a body whose record batches are too small to be passed on row by row.
fn decode(
    body: &[u8],
    options: BodyOptions,
    piece: usize,
) -> Result<BodyRows<'static>, ArrowBodyError> {
    let mut all = BodyRows::default();
    let mut decoder = ArrowDecoder::new(options);
    for piece in body.chunks(piece) {
        decoder.take(Bytes::copy_from_slice(piece), |rows| {
            assert!(rows.singles.numbers.is_empty());
            all.sources.extend(rows.sources);
            all.bad.extend(rows.bad);
            Ok::<(), ArrowBodyError>(())
        })?;
    }
    decoder.finish()?;
    Ok(all)
}

fn of(measurement: &str) -> BodyOptions {
    BodyOptions {
        measurement: Some(measurement.to_string()),
        ..BodyOptions::default()
    }
}

fn times(times: &[Option<i64>]) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from(times.to_vec()))
}

#[test]
fn a_record_batch_may_have_no_rows() {
    let host = StringDictionaryBuilder::<Int8Type>::new().finish();
    let body = body(vec![
        ("time", times(&[])),
        ("host", Arc::new(host)),
        ("note", Arc::new(StringArray::from(Vec::<&str>::new()))),
    ]);
    let rows = decode(&body, of("cpu"), 7).expect("a body");
    assert!(rows.sources.is_empty() && rows.bad.is_empty());
}

#[test]
fn rows_are_grouped_by_dictionaries_and_bad_rows_are_reported() {
    let mut host = StringDictionaryBuilder::<Int8Type>::new();
    for value in [Some("a"), Some("b"), None, Some("a"), Some("b")] {
        host.append_option(value);
    }
    let body = body(vec![
        (
            "time",
            times(&[Some(1), Some(1), Some(2), None, Some(i64::MAX)]),
        ),
        ("host", Arc::new(host.finish())),
        (
            "usage",
            Arc::new(Float64Array::from(vec![
                Some(1.0),
                Some(2.0),
                None,
                Some(4.0),
                Some(5.0),
            ])),
        ),
        (
            "n",
            Arc::new(Int32Array::from(vec![None, Some(2), None, None, None])),
        ),
    ]);
    for piece in [1, 100, usize::MAX] {
        let rows = decode(&body, of("cpu"), piece).expect("a body");
        let read: Vec<_> = rows
            .sources
            .into_iter()
            .map(|rows| {
                let numbers: Vec<u64> = (0..rows.len()).map(|at| rows.number(at)).collect();
                (
                    rows.key.to_string(),
                    rows.columns.times,
                    rows.fields,
                    numbers,
                )
            })
            .collect();
        let both = ["usage", "n"].map(str::to_string);
        assert_eq!(
            read,
            [
                (
                    "cpu{host=\"a\"}".into(),
                    vec![1_000_000],
                    vec!["usage".into()],
                    vec![1]
                ),
                (
                    "cpu{host=\"b\"}".into(),
                    vec![1_000_000],
                    both.to_vec(),
                    vec![2]
                ),
            ]
        );
        let bad: Vec<(u64, u64)> = rows.bad.iter().map(|bad| (bad.first, bad.count)).collect();
        assert_eq!(bad, [(4, 1), (5, 1), (3, 1)]);
    }
}

#[test]
fn texts_are_tags_if_the_parameter_says_so() {
    let body = body(vec![
        ("time", times(&[Some(1)])),
        ("host", Arc::new(StringArray::from(vec!["a"]))),
        ("state", Arc::new(StringArray::from(vec!["on"]))),
    ]);
    let options = |tags: &[&str]| BodyOptions {
        tags: tags.iter().map(ToString::to_string).collect(),
        ..of("m")
    };
    let rows = decode(&body, options(&["host"]), 9).expect("a body");
    assert_eq!(rows.sources[0].key.to_string(), "m{host=\"a\"}");
    assert_eq!(rows.sources[0].fields, ["state"]);
    let error = decode(&body, options(&["hosts"]), 9).expect_err("an unknown tag");
    assert!(error.to_string().contains("\"hosts\""), "{error}");
}

#[test]
fn bodies_without_meaning_are_rejected_with_the_remedy() {
    let value: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    let time = times(&[Some(1)]);
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int8Type, _, _>([Some([
        Some(1),
    ])]));
    for (columns, options, text) in [
        (vec![("v", value.clone())], of("m"), "no column \"time\""),
        (
            vec![("time", time.clone()), ("v", value.clone())],
            BodyOptions::default(),
            "no column \"measurement\"",
        ),
        (
            vec![("time", value.clone())],
            of("m"),
            "convert it to timestamps",
        ),
        (
            vec![("time", Arc::new(Int64Array::from(vec![1])) as ArrayRef)],
            of("m"),
            "add the parameter precision",
        ),
        (
            vec![("time", time.clone()), ("v", list)],
            of("m"),
            "convert it to floats",
        ),
    ] {
        let error = decode(&body(columns), options, 64).expect_err(text);
        assert!(error.to_string().contains(text), "{error}");
    }
    let whole = body(vec![("time", time), ("v", value)]);
    for end in [0, 3, 100, whole.len() - 20] {
        assert!(decode(&whole[..end], of("m"), 64).is_err(), "{end} bytes");
    }
    assert!(decode(b"cpu usage=1 1700000000000000000\n", of("m"), 64).is_err());
}

/// Value of a field, or none.
fn cell() -> impl Strategy<Value = Option<(usize, i64)>> {
    prop::option::of((0_usize..5, -3_i64..3))
}

/// Time, and the values of two fields.
type TimedRow = (i64, [Option<i64>; 2]);

/// One row: source, and type and value of each of two fields.
fn row() -> impl Strategy<Value = (usize, [Option<(usize, i64)>; 2])> {
    (0_usize..3, [cell(), cell()])
}

/// Returns the column of one type for the values of a field.
fn column(kind: usize, values: &[Option<i64>]) -> Option<FieldColumn> {
    let present: Bitmap = values.iter().map(Option::is_some).collect();
    let found = values.iter().copied().flatten();
    let values = match kind {
        0 => Column::F64(found.map(|value| value as f64 / 2.0).collect()),
        1 => Column::I64(found.collect()),
        2 => Column::U64(found.map(i64::unsigned_abs).collect()),
        3 => Column::Bool(found.map(|value| value > 0).collect()),
        _ => {
            let mut texts = Strings::default();
            found.for_each(|value| texts.push(&"x".repeat(value.unsigned_abs() as usize)));
            Column::Str(texts)
        }
    };
    (!values.is_empty()).then_some(FieldColumn {
        present: (present.count_ones() < present.len()).then_some(present),
        values,
    })
}

const TYPES: [FieldType; 5] = [
    FieldType::F64,
    FieldType::I64,
    FieldType::U64,
    FieldType::Bool,
    FieldType::Str,
];

/// Returns a valid body with columns of every kind.
fn varied() -> Vec<u8> {
    let mut host = StringDictionaryBuilder::<Int8Type>::new();
    [Some("a"), None, Some("b")]
        .into_iter()
        .for_each(|value| host.append_option(value));
    body(vec![
        ("time", times(&[Some(1), Some(2), None])),
        ("host", Arc::new(host.finish())),
        (
            "usage",
            Arc::new(Float64Array::from(vec![Some(1.0), None, Some(4.0)])),
        ),
        (
            "state",
            Arc::new(StringArray::from(vec![None, Some(""), Some("on")])),
        ),
        ("up", Arc::new(BooleanArray::from(vec![true, false, true]))),
    ])
}

/// Row of a body: its number, the key of its source, its time, and the fields with their values.
type NumberedRow = (u64, String, i64, Vec<(String, String)>);

/// Returns the rows of a body, the number of those that were passed on one by one, and the number of bad rows.
fn rows_of(body: &[u8]) -> (Vec<NumberedRow>, usize, usize) {
    let (mut all, mut singles, mut bad) = (Vec::new(), 0, 0);
    let mut decoder = ArrowDecoder::new(BodyOptions::default());
    let mut take = |rows: BodyRows<'_>| {
        singles += rows.singles.numbers.len();
        let batch = &rows.singles.batch;
        for (row, number) in batch.rows.iter().zip(&rows.singles.numbers) {
            let key = LineNotation
                .source_key(row.name)
                .expect("a name")
                .to_string();
            let cells = batch.cells_of(row).iter();
            let cells = cells.map(|cell| {
                let field = String::from_utf8_lossy(cell.field).into_owned();
                (field, format!("{:?}", cell.value))
            });
            all.push((*number, key, row.time, cells.collect()));
        }
        for source in &rows.sources {
            for (at, number) in (0..source.len()).map(|at| (at, source.number(at))) {
                let columns = source.fields.iter().zip(&source.columns.fields);
                let cells = columns.filter_map(|(field, column)| {
                    let index = match &column.present {
                        None => at,
                        Some(present) if present.get(at) => {
                            (0..at).filter(|row| present.get(*row)).count()
                        }
                        Some(_) => return None,
                    };
                    Some((field.clone(), format!("{:?}", column.values.get(index))))
                });
                let cells = cells.collect();
                all.push((
                    number,
                    source.key.to_string(),
                    source.columns.times[at],
                    cells,
                ));
            }
        }
        bad += rows
            .bad
            .iter()
            .map(|rows| rows.count as usize)
            .sum::<usize>();
        Ok::<(), ArrowBodyError>(())
    };
    decoder
        .take(Bytes::copy_from_slice(body), &mut take)
        .expect("a body");
    decoder.finish().expect("a whole body");
    all.sort();
    (all, singles, bad)
}

#[test]
fn rows_one_by_one_equal_rows_by_source() {
    const ROWS: usize = 600;
    let host = |row: usize| match row % 200 {
        0 => None,
        1 => Some("a b".to_string()),
        2 => Some("a,b".to_string()),
        3 => Some("a=b\\".to_string()),
        source => Some(format!("host-{source}")),
    };
    let rows = 0..ROWS;
    let mut hosts = StringDictionaryBuilder::<Int16Type>::new();
    rows.clone().for_each(|row| hosts.append_option(host(row)));
    let measurement =
        |row: usize| (row % 77 != 5).then_some(if row.is_multiple_of(2) { "cpu" } else { "m" });
    let measurements: StringArray = rows.clone().map(measurement).collect();
    let mut kinds = StringDictionaryBuilder::<Int8Type>::new();
    measurements
        .iter()
        .for_each(|text| kinds.append_option(text));
    let stamps: Vec<Option<i64>> = rows
        .clone()
        .map(|row| (row % 50 != 7).then_some(row as i64))
        .collect();
    let usage: Float64Array = rows
        .clone()
        .map(|row| (row % 3 > 0).then_some(row as f64))
        .collect();
    let count: Int32Array = rows
        .clone()
        .map(|row| (row % 5 > 0).then_some(-(row as i32)))
        .collect();
    let up: BooleanArray = rows
        .clone()
        .map(|row| (row % 4 > 1).then_some(row % 8 > 3))
        .collect();
    let state: StringArray = rows
        .map(|row| row.is_multiple_of(9).then_some("on, \"off\""))
        .collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("measurement", Arc::new(kinds.finish())),
        ("time", times(&stamps)),
        ("host", Arc::new(hosts.finish())),
        ("usage", Arc::new(usage)),
        ("count", Arc::new(count)),
        ("up", Arc::new(up)),
        ("state", Arc::new(state)),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let write = |length: usize| {
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("a Vec");
        for start in (0..ROWS).step_by(length) {
            writer.write(&batch.slice(start, length)).expect("a Vec");
        }
        writer.into_inner().expect("a Vec")
    };
    let (one_by_one, singles, bad) = rows_of(&write(ROWS));
    let (by_source, none, bad_by_source) = rows_of(&write(200));
    assert!(singles > ROWS / 2 && none == 0, "{singles} {none}");
    assert_eq!(one_by_one, by_source);
    assert_eq!(bad, bad_by_source);
    assert!(bad > 20 && bad + one_by_one.len() == ROWS);
}

proptest! {
    /// Damage of a body is an error, or changes rows, and never a panic.
    #[test]
    fn damaged_bodies_cause_no_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut body = varied();
        for (place, byte) in changes {
            let at = place.index(body.len());
            body[at] = byte;
        }
        if let Some(cut) = cut {
            body.truncate(cut.index(body.len()));
        }
        if let Ok(rows) = decode(&body, of("m"), usize::MAX) {
            prop_assert!(rows.sources.iter().all(|rows| rows.len() == rows.columns.times.len()));
        }
    }
    /// Every row of a wide answer comes back as it was. A source has one type for each field, and sources differ.
    #[test]
    fn wide_answers_are_bodies(rows in prop::collection::vec(row(), 1..40), piece in 1_usize..500) {
        let mut sources: BTreeMap<usize, Vec<TimedRow>> = BTreeMap::new();
        for (time, (source, cells)) in rows.iter().enumerate() {
            let cells = cells.map(|cell| cell.map(|(_, value)| value));
            if cells.iter().any(Option::is_some) {
                sources.entry(*source).or_default().push((time as i64, cells));
            }
        }
        let kinds = |source: usize| rows[source % rows.len()].1.map(|cell| cell.map_or(0, |(kind, _)| kind));
        let mut fields: Vec<(String, FieldType)> = sources
            .keys()
            .flat_map(|&source| {
                let [a, b] = kinds(source);
                [("a".to_string(), TYPES[a]), ("b".to_string(), TYPES[b])]
            })
            .collect();
        fields.sort();
        fields.dedup();
        let head = WideHead {
            from: 0,
            to: 99,
            time_unit: TimeUnit::Ns,
            levels: Vec::new(),
            columns: WideColumns::new(&["n".to_string()], &fields).expect("few columns"),
        };
        let mut answer = WideAnswer::begin(Format::Arrow, Vec::new(), &head).expect("a Vec");
        let mut expected = Vec::new();
        for (&source, rows) in &sources {
            let tags = (source > 0).then(|| ("n", source.to_string()));
            let key = seiner_model::SourceKey::new("m", tags).expect("a key");
            let times: Vec<i64> = rows.iter().map(|row| row.0).collect();
            let kinds = kinds(source);
            let values: Vec<Option<FieldColumn>> = (0..2)
                .map(|at| {
                    let values: Vec<Option<i64>> = rows.iter().map(|row| row.1[at]).collect();
                    column(kinds[at], &values)
                })
                .collect();
            let names = [("a".into(), TYPES[kinds[0]]), ("b".into(), TYPES[kinds[1]])];
            answer
                .rows(&WideRows { key: &key, times: &times, fields: &names, values: &values })
                .expect("a Vec");
            let values: Vec<FieldColumn> = values.into_iter().flatten().collect();
            expected.push((key.to_string(), times, values));
        }
        let body = answer.end(&[]).expect("a Vec");
        let read = decode(&body, BodyOptions::default(), piece).expect("a body");
        prop_assert_eq!(read.bad, vec![]);
        let read: Vec<_> = read
            .sources
            .into_iter()
            .map(|rows| (rows.key.to_string(), rows.columns.times, rows.columns.fields))
            .collect();
        prop_assert_eq!(format!("{read:?}"), format!("{expected:?}"));
    }
}
