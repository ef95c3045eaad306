//! Tests that hold for every store. Each implementation runs [`all`] on its own stores.
//!
//! The functions panic if a store violates the documentation of [`Store`].

use crate::answer::{Query, Step};
use crate::error::{Error, Reason, Receipt};
use crate::piece::{PIECE_ROWS, Piece};
use crate::store::{Latest, Store};
use seiner_model::{
    Batch, Cell, Column, Columns, FieldColumn, FieldType, Interval, KeyError, Notation, Selector,
    SourceId, SourceKey, Value,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Notation of the tests: `measurement,tag=value`.
struct Commas;

impl Notation for Commas {
    fn id(&self) -> u32 {
        4_000_000_001
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        let text = String::from_utf8_lossy(name).into_owned();
        let mut parts = text.split(',');
        let measurement = parts.next().unwrap_or_default().to_string();
        let tags = parts.filter_map(|tag| tag.split_once('='));
        let tags: Vec<(String, String)> = tags.map(|(a, b)| (a.into(), b.into())).collect();
        SourceKey::new(measurement, tags)
    }
}

/// Row of the tests: source, time and fields.
type Line<'a> = (&'a str, i64, &'a [(&'a str, Value<'a>)]);

/// Runs all tests, each on a new store.
///
/// # Panics
/// If the store does not conform.
pub fn all(make: &dyn Fn() -> Arc<dyn Store>) {
    for test in [
        accepts_and_rejects_row_by_row,
        takes_columns_and_samples_of_registered_sources,
        takes_integers_with_and_without_a_sign,
        takes_floats_of_both_sizes,
        later_values_replace_earlier_ones,
        positions_become_durable,
        lists_names,
        omits_no_source_with_samples_in_an_interval,
        scans_an_interval_and_fields,
        pieces_are_bounded_and_in_order,
        pieces_and_series_are_the_same_samples,
        parts_are_the_same_samples,
        ends_when_nobody_wants_the_answer,
        aggregates_in_buckets,
        finds_the_latest_samples,
        deletes_earlier_samples,
        counts_in_its_status,
        rejects_when_closed,
    ] {
        let store = make();
        test(&*store);
        // Closing twice loses nothing.
        store.close().expect("the store is closed");
        store.close().expect("a second close succeeds");
    }
}

fn put(store: &dyn Store, lines: &[Line<'_>]) -> Result<Receipt, Error> {
    let mut batch = Batch::new();
    for (name, time, fields) in lines {
        let cells = fields.iter().map(|&(field, value)| Cell {
            field: field.as_bytes(),
            value,
        });
        batch.push(name.as_bytes(), *time, cells);
    }
    store.append(&Commas, &batch)
}

fn must_put(store: &dyn Store, lines: &[Line<'_>]) -> Receipt {
    let receipt = put(store, lines).expect("the store accepts rows");
    assert_eq!((receipt.rows, receipt.rejected_total), (lines.len(), 0));
    receipt
}

fn selector(text: &str) -> Selector {
    Selector::parse(text).expect("the selectors of the tests are valid")
}

fn query(select: &str, fields: &[&str], interval: Interval) -> Query {
    let fields: Vec<String> = fields.iter().map(|field| field.to_string()).collect();
    Query {
        selector: selector(select),
        fields: (!fields.is_empty()).then_some(fields),
        interval,
    }
}

fn pieces(store: &dyn Store, query: &Query) -> Vec<Piece> {
    let found = store.scan(query, None).expect("the query is answered");
    let found: Result<Vec<Piece>, Error> = found.collect();
    found.expect("all pieces are read")
}

/// Returns the samples by source and field.
type Samples = BTreeMap<(String, String), Vec<(i64, String)>>;

fn samples(store: &dyn Store, query: &Query) -> Samples {
    let mut found = Samples::new();
    let all = store.select(query, None).expect("the query is answered");
    for series in all {
        let series = series.expect("all series are read");
        let samples = series.times.iter().enumerate();
        let samples = samples.map(|(at, &time)| (time, format!("{:?}", series.values.get(at))));
        let name = (series.key.to_string(), series.field.to_string());
        let before = found.insert(name, samples.collect());
        assert!(before.is_none(), "a series is returned twice");
    }
    found
}

fn values(store: &dyn Store, query: &Query) -> Vec<(i64, String)> {
    let mut found = samples(store, query).into_values();
    let only = found.next().unwrap_or_default();
    assert_eq!(found.next(), None, "the query is about one series");
    only
}

fn text(value: Value<'_>) -> String {
    format!("{value:?}")
}

fn accepts_and_rejects_row_by_row(store: &dyn Store) {
    must_put(store, &[("a", 1, &[("x", Value::F64(1.0))])]);
    let receipt = put(
        store,
        &[
            ("a", 2, &[("x", Value::I64(2))]),
            ("a", 3, &[("x", Value::F64(3.0))]),
            ("a", 4, &[("", Value::F64(4.0))]),
            ("", 5, &[("x", Value::F64(5.0))]),
            ("a", 6, &[("x", Value::F64(6.0)), ("x", Value::F64(7.0))]),
        ],
    )
    .expect("the store accepts rows");
    assert_eq!((receipt.rows, receipt.samples), (1, 1));
    assert_eq!(receipt.rejected_total, 4);
    let rows: Vec<usize> = receipt.rejected.iter().map(|(row, _)| *row).collect();
    assert_eq!(rows, [0, 2, 3, 4]);
    let reasons: Vec<&Reason> = receipt.rejected.iter().map(|(_, why)| why).collect();
    let expected = Reason::FieldType {
        field: "x".to_string(),
        stored: FieldType::F64,
        sent: FieldType::I64,
    };
    assert_eq!(reasons[0], &expected);
    assert_eq!(reasons[1], &Reason::FieldName);
    assert!(matches!(reasons[2], Reason::Key(_)));
    assert_eq!(reasons[3], &Reason::Fields);
    let found = values(store, &query("a", &[], Interval::ALL));
    let expected = [(1, text(Value::F64(1.0))), (3, text(Value::F64(3.0)))];
    assert_eq!(found, expected);
}

/// Checks that the first value fixes the type of an integer, and that later ones are converted if they fit.
fn takes_integers_with_and_without_a_sign(store: &dyn Store) {
    must_put(
        store,
        &[("a", 1, &[("i", Value::I64(-1)), ("u", Value::U64(1))])],
    );
    let receipt = put(
        store,
        &[
            ("a", 2, &[("i", Value::U64(2)), ("u", Value::I64(2))]),
            ("a", 3, &[("i", Value::U64(1 << 63))]),
            ("a", 4, &[("u", Value::I64(-1))]),
        ],
    )
    .expect("the store accepts rows");
    assert_eq!((receipt.rows, receipt.samples), (1, 2));
    let rows: Vec<usize> = receipt.rejected.iter().map(|(row, _)| *row).collect();
    assert_eq!(rows, [1, 2]);
    let key = SourceKey::new("a", [("", ""); 0]).expect("a valid key");
    let source = store.register(&key).expect("the store accepts sources");
    let columns = Columns {
        times: vec![5, 6],
        fields: vec![FieldColumn {
            present: None,
            values: Column::U64(vec![5, u64::MAX]),
        }],
    };
    let receipt = store.append_columns(source, &["i"], &columns);
    let receipt = receipt.expect("the store accepts rows");
    assert_eq!((receipt.rows, receipt.rejected_total), (1, 1));
    let found = values(store, &query("a", &["i"], Interval::ALL));
    let expected = [(1, -1), (2, 2), (5, 5)].map(|(time, value)| (time, text(Value::I64(value))));
    assert_eq!(found, expected);
    let found = values(store, &query("a", &["u"], Interval::ALL));
    assert_eq!(
        found,
        [1, 2].map(|time| (time as i64, text(Value::U64(time))))
    );
}

/// Checks that a float is stored in a field of floats of the other size, if nothing is lost.
fn takes_floats_of_both_sizes(store: &dyn Store) {
    let first = [("s", Value::F32(0.5)), ("d", Value::F64(0.1))];
    must_put(store, &[("a", 1, &first)]);
    let other = [("s", Value::F64(21.37)), ("d", Value::F32(1.5))];
    let lost = [("s", Value::F64(1.0 / 3.0))];
    let receipt = put(store, &[("a", 2, &other), ("a", 3, &lost)]);
    let receipt = receipt.expect("the store accepts rows");
    assert_eq!((receipt.samples, receipt.rejected[0].0), (2, 1));
    let found = |field| values(store, &query("a", &[field], Interval::ALL));
    assert_eq!(found("s")[1..], [(2, text(Value::F32(21.37)))]);
    assert_eq!(found("d")[1..], [(2, text(Value::F64(1.5)))]);
}

fn takes_columns_and_samples_of_registered_sources(store: &dyn Store) {
    let register = |name: &str| {
        let key = SourceKey::new(name, [("tag", "value")]).expect("a valid key");
        store.register(&key).expect("the store accepts sources")
    };
    let (a, b) = (register("a"), register("b"));
    assert_eq!(
        (register("a"), register("b")),
        (a, b),
        "a source has one number"
    );
    must_put(store, &[("a,tag=value", 1, &[("x", Value::F64(1.0))])]);
    let columns = Columns {
        times: vec![2, 3, 4],
        fields: vec![
            FieldColumn {
                present: None,
                values: Column::F64(vec![2.0, 3.0, 4.0]),
            },
            FieldColumn {
                present: Some([false, true, false].into_iter().collect()),
                values: Column::I64(vec![33]),
            },
        ],
    };
    let receipt = store.append_columns(a, &["x", "n"], &columns);
    let receipt = receipt.expect("the store accepts rows");
    assert_eq!((receipt.rows, receipt.samples), (3, 4));
    let samples = store.append_samples("x", &[b, a, b], &[1, 5, 2], &[10.0, 5.0, 20.0]);
    let samples = samples.expect("the store accepts samples");
    assert_eq!((samples.rows, samples.samples), (3, 3));
    // Texts for a field of numbers: the rows are rejected one by one.
    let mut values_of_x = Column::new(FieldType::Str);
    for text in ["six", "seven"] {
        values_of_x.push(Value::Str(text));
    }
    let texts = Columns {
        times: vec![6, 7],
        fields: vec![FieldColumn {
            present: None,
            values: values_of_x,
        }],
    };
    let rejected = store.append_columns(a, &["x"], &texts);
    let rejected = rejected.expect("the store answers");
    assert_eq!((rejected.rows, rejected.rejected_total), (0, 2));
    let times = |select: &str, field: &str| {
        let found = values(store, &query(select, &[field], Interval::ALL));
        found
            .into_iter()
            .map(|(time, _)| time)
            .collect::<Vec<i64>>()
    };
    assert_eq!(times("a", "x"), [1, 2, 3, 4, 5]);
    assert_eq!(times("a", "n"), [3]);
    assert_eq!(times("b", "x"), [1, 2]);
    let stranger = store.append_columns(SourceId(99), &["x", "n"], &columns);
    assert!(matches!(stranger, Err(Error::UnknownSource(99))));
    let unnamed = store.append_columns(a, &["x"], &columns);
    assert!(matches!(unnamed, Err(Error::Query(_))));
    let uneven = store.append_samples("x", &[a, b], &[1], &[1.0]);
    assert!(matches!(uneven, Err(Error::Query(_))));
}

fn later_values_replace_earlier_ones(store: &dyn Store) {
    let both: &[(&str, Value<'_>)] = &[("x", Value::I64(1)), ("y", Value::Str("old"))];
    must_put(store, &[("a", 5, both), ("a", 3, both)]);
    must_put(store, &[("a", 5, &[("x", Value::I64(2))])]);
    let found = values(store, &query("a", &["x"], Interval::ALL));
    assert_eq!(found, [(3, text(Value::I64(1))), (5, text(Value::I64(2)))]);
    let kept = values(store, &query("a", &["y"], Interval::new(5, 5)));
    assert_eq!(kept, [(5, text(Value::Str("old")))]);
}

fn positions_become_durable(store: &dyn Store) {
    let first = must_put(store, &[("a", 1, &[("x", Value::F64(1.0))])]);
    let second = must_put(store, &[("a", 2, &[("x", Value::F64(1.0))])]);
    assert!(first.position < second.position);
    let position = second.position;
    store.wait_durable(position).expect("rows become durable");
    assert!(store.is_durable(position) && store.is_durable(first.position));
}

fn lists_names(store: &dyn Store) {
    let x: &[(&str, Value<'_>)] = &[("x", Value::F64(1.0))];
    let y: &[(&str, Value<'_>)] = &[("y", Value::Bool(true)), ("x", Value::U64(1))];
    must_put(
        store,
        &[
            ("mem,host=b", 1, y),
            ("cpu,host=b,core=1", 1, x),
            ("cpu,host=a", 1, x),
        ],
    );
    let all = Selector::all();
    assert_eq!(store.measurements().expect("names"), ["cpu", "mem"]);
    assert_eq!(store.tag_names(&all).expect("names"), ["core", "host"]);
    let mem = selector("mem");
    assert_eq!(store.tag_names(&mem).expect("names"), ["host"]);
    let hosts = |limit| store.tag_values(&all, "host", limit).expect("names");
    assert_eq!(hosts(9), ["a", "b"]);
    assert_eq!(hosts(1), ["a"]);
    let fields = [("x", FieldType::U64), ("y", FieldType::Bool)];
    let fields = fields.map(|(name, kind)| (name.to_string(), kind));
    assert_eq!(store.fields(&mem).expect("names"), fields);
    assert_eq!(store.fields(&all).expect("names").len(), 3, "of two types");
    let found = store.sources(&selector("cpu{host=\"b\"}")).expect("names");
    assert_eq!(found.len(), 1);
    let key = store.source_key(found[0]).expect("names");
    let expected = SourceKey::new("cpu", [("core", "1"), ("host", "b")]);
    assert_eq!(key, expected.ok());
    let sources = store.sources(&all).expect("names");
    assert_eq!(sources.len(), 3);
    assert!(sources.is_sorted(), "{sources:?}");
    assert!(store.sources(&selector("disk")).expect("names").is_empty());
}

fn omits_no_source_with_samples_in_an_interval(store: &dyn Store) {
    let x: &[(&str, Value<'_>)] = &[("x", Value::F64(1.0))];
    must_put(
        store,
        &[("a", 1, x), ("a", 9, x), ("b", 5, x), ("c", 20, x)],
    );
    let all = selector("");
    for (start, end) in [(1, 1), (2, 8), (5, 9), (10, 30), (40, 50)] {
        let interval = Interval::new(start, end);
        let found = store.sources_within(&all, interval).expect("names");
        assert!(found.is_sorted(), "{found:?}");
        let pieces = pieces(store, &query("", &[], interval));
        assert!(pieces.iter().all(|piece| found.contains(&piece.source)));
    }
    let only = store.sources_within(&selector("b"), Interval::ALL);
    assert_eq!(only.expect("names").len(), 1);
}

fn scans_an_interval_and_fields(store: &dyn Store) {
    let fields = |value| [("x", Value::I64(value)), ("y", Value::I64(-value))];
    for time in 0..10 {
        must_put(
            store,
            &[("a", time, &fields(time)), ("b", -time, &fields(time))],
        );
    }
    let found = pieces(store, &query("a", &["y"], Interval::new(3, 5)));
    assert_eq!(found.len(), 1);
    let piece = &found[0];
    assert_eq!(piece.times, [3, 4, 5]);
    let named = piece.fields.iter().zip(&piece.columns);
    let with_values: Vec<&str> = named
        .filter(|(_, column)| column.is_some())
        .map(|((name, _), _)| &**name)
        .collect();
    assert_eq!(with_values, ["y"]);
    let columns = piece.columns.iter().flatten();
    let columns: Vec<&Column> = columns.map(|column| &column.values).collect();
    assert_eq!(columns, [&Column::I64(vec![-3, -4, -5])]);
    assert_eq!(piece.key.measurement(), "a");
    let early = query("", &[], Interval::new(-9, -8));
    assert_eq!(samples(store, &early).len(), 2, "two fields of b");
    assert!(pieces(store, &query("", &[], Interval::new(100, 200))).is_empty());
    assert!(pieces(store, &query("", &["none"], Interval::ALL)).is_empty());
    assert!(pieces(store, &query("", &[], Interval::new(5, 3))).is_empty());
    let range = store.time_range(&query("", &[], Interval::ALL), 16);
    assert_eq!(range.map(|range| (range.start, range.end)), Some((-9, 9)));
    assert_eq!(store.time_range(&query("c", &[], Interval::ALL), 16), None);
}

fn pieces_are_bounded_and_in_order(store: &dyn Store) {
    let rows = 2 * PIECE_ROWS as i64 + 100;
    let fields = |time: i64| [("x", Value::I64(time)), ("y", Value::I64(time))];
    // Rows in no order, with `y` in every other row.
    for time in (0..rows).rev() {
        let fields = fields(time);
        let some = &fields[..1 + (time % 2) as usize];
        must_put(store, &[("a", time, some), ("b", time, some)]);
    }
    let found = pieces(store, &query("", &[], Interval::ALL));
    for name in ["a", "b"] {
        let of: Vec<&Piece> = found
            .iter()
            .filter(|piece| piece.key.measurement() == name)
            .collect();
        assert!(of.len() >= 3);
        assert!(of.iter().all(|piece| piece.fields == of[0].fields));
        let times: Vec<i64> = of.iter().flat_map(|piece| piece.times.clone()).collect();
        assert_eq!(times, (0..rows).collect::<Vec<i64>>());
    }
    for piece in &found {
        assert!((1..=PIECE_ROWS).contains(&piece.times.len()));
        assert_eq!(piece.fields.len(), piece.columns.len());
        for column in piece.columns.iter().flatten() {
            match &column.present {
                None => assert_eq!(column.values.len(), piece.times.len()),
                Some(bits) => {
                    assert_eq!(bits.len(), piece.times.len());
                    assert_eq!(bits.count_ones(), column.values.len());
                }
            }
        }
    }
    let changes = found.windows(2);
    let changes = changes.filter(|pair| pair[0].source != pair[1].source);
    assert_eq!(changes.count(), 1, "pieces are not in the order of sources");
}

fn pieces_and_series_are_the_same_samples(store: &dyn Store) {
    for time in 0..500 {
        let value = time as f64;
        let x: &[(&str, Value<'_>)] = &[("x", Value::F64(value)), ("t", Value::Str("é"))];
        let y: &[(&str, Value<'_>)] = &[("y", Value::F32(0.5))];
        must_put(store, &[("a", time, x), ("a", 2 * time, y)]);
    }
    let all = query("", &[], Interval::new(10, 900));
    let found = joined(pieces(store, &all));
    assert_eq!(found.len(), 3);
    assert_eq!(found, samples(store, &all));
}

/// Returns the samples of pieces by source and field.
fn joined(pieces: Vec<Piece>) -> Samples {
    let mut found = Samples::new();
    for series in pieces.into_iter().flat_map(Piece::into_series) {
        let name = (series.key.to_string(), series.field.to_string());
        let samples = series.times.iter().enumerate();
        let samples = samples.map(|(at, &time)| (time, text(series.values.get(at))));
        found.entry(name).or_default().extend(samples);
    }
    found
}

fn parts_are_the_same_samples(store: &dyn Store) {
    for time in 0..300 {
        let number = format!("m,n={}", time % 7);
        let x: &[(&str, Value<'_>)] = &[("x", Value::I64(time)), ("y", Value::Bool(true))];
        must_put(store, &[(&number, time, x), ("other", time, x)]);
    }
    let some = query("m", &["x"], Interval::new(5, 290));
    let parts = store.parts(&some, 3, None).expect("the query is answered");
    // A store need not divide its sources.
    let Some(parts) = parts else { return };
    assert_eq!(parts.sources(), 7);
    let expected = pieces(store, &some);
    for size in [1, 2, 7] {
        let starts = (0..7).step_by(size);
        let found = starts.flat_map(|start| parts.scan(start..7.min(start + size)));
        let found: Result<Vec<Piece>, Error> = found.collect();
        let found = found.expect("all pieces are read");
        let sources = |pieces: &[Piece]| pieces.iter().map(|piece| piece.source).collect();
        let (found_sources, all): (Vec<SourceId>, Vec<SourceId>) =
            (sources(&found), sources(&expected));
        assert_eq!(found_sources, all);
        assert_eq!(joined(found), joined(expected.clone()));
    }
    let nothing = query("m", &["x"], Interval::new(1, 0));
    let parts = store
        .parts(&nothing, 3, None)
        .expect("the query is answered");
    assert_eq!(parts.map_or(0, |parts| parts.sources()), 0);
}

fn ends_when_nobody_wants_the_answer(store: &dyn Store) {
    for name in ["a", "b", "c"] {
        must_put(store, &[(name, 1, &[("x", Value::F64(1.0))])]);
    }
    let over = Arc::new(AtomicBool::new(false));
    let flag = over.clone();
    let is_over = Arc::new(move || flag.load(Relaxed));
    let all = query("", &[], Interval::ALL);
    let mut found = store
        .scan(&all, Some(is_over))
        .expect("the query is answered");
    assert!(found.next().is_some_and(|piece| piece.is_ok()));
    over.store(true, Relaxed);
    let rest: Vec<Result<Piece, Error>> = found.collect();
    let ended = rest
        .iter()
        .filter(|item| !matches!(item, Err(Error::Abandoned)));
    assert!(ended.count() < 2, "the third source is not read");
}

fn aggregates_in_buckets(store: &dyn Store) {
    for time in 0..10 {
        must_put(store, &[("a", time, &[("x", Value::I64(time))])]);
    }
    let all = query("a", &[], Interval::ALL);
    let whole = store.aggregate(&all, Step::Every(4), None);
    let found: Result<Vec<_>, Error> = whole.expect("the query is answered").collect();
    let found = found.expect("all series are read");
    assert_eq!(found.len(), 1);
    let buckets = found[0].buckets.iter();
    let figures = buckets.map(|bucket| {
        let exact = bucket.exact.expect("integers have exact figures");
        (bucket.start, bucket.count, exact.sum, exact.min, exact.max)
    });
    let expected = [(0, 4, 6, 0, 3), (4, 4, 22, 4, 7), (8, 2, 17, 8, 9)];
    assert_eq!(figures.collect::<Vec<_>>(), expected);
    assert!(store.aggregate(&all, Step::Every(0), None).is_err());
}

fn finds_the_latest_samples(store: &dyn Store) {
    let early: &[(&str, Value<'_>)] = &[("x", Value::I64(i64::MAX)), ("t", Value::Str("old"))];
    must_put(store, &[("a", 7, early), ("b", 9, early)]);
    must_put(store, &[("a", 9, &[("t", Value::Str("new"))])]);
    must_put(store, &[("a", 8, &[("t", Value::Str("late"))])]);
    let all = query("", &[], Interval::ALL);
    let found = store.latest(&all, None).expect("the query is answered");
    let found: Result<Vec<Latest>, Error> = found.collect();
    let mut found: Vec<(String, String, i64, String)> = found
        .expect("all series are read")
        .iter()
        .map(|latest| {
            let (key, field) = (latest.key.to_string(), latest.field.to_string());
            (key, field, latest.time, text(latest.value.get(0)))
        })
        .collect();
    found.sort();
    let (most, new, old) = (
        text(Value::I64(i64::MAX)),
        text(Value::Str("new")),
        text(Value::Str("old")),
    );
    let expected = [
        ("a", "t", 9, new),
        ("a", "x", 7, most.clone()),
        ("b", "t", 9, old),
        ("b", "x", 9, most),
    ];
    let expected = expected.map(|(a, b, c, d)| (a.to_string(), b.to_string(), c, d));
    assert_eq!(found, expected);
}

fn deletes_earlier_samples(store: &dyn Store) {
    for time in 0..10 {
        let x: &[(&str, Value<'_>)] = &[("x", Value::I64(time))];
        must_put(store, &[("a,host=1", time, x), ("a,host=2", time, x)]);
    }
    let first = selector("a{host=\"1\"}");
    let deleted = store.delete(&first, Interval::new(3, 7));
    assert_eq!(deleted.expect("the store deletes"), 1);
    let times = |select: &str| {
        let found = values(store, &query(select, &[], Interval::ALL));
        found.into_iter().map(|(time, _)| time).collect::<Vec<_>>()
    };
    assert_eq!(times("a{host=\"1\"}"), [0, 1, 2, 8, 9]);
    assert_eq!(times("a{host=\"2\"}").len(), 10);
    must_put(store, &[("a,host=1", 5, &[("x", Value::I64(50))])]);
    assert_eq!(times("a{host=\"1\"}"), [0, 1, 2, 5, 8, 9]);
    let none = store.delete(&selector("none"), Interval::ALL);
    assert_eq!(none.expect("the store deletes"), 0);
}

fn counts_in_its_status(store: &dyn Store) {
    let two: &[(&str, Value<'_>)] = &[("x", Value::F64(1.0)), ("y", Value::F64(1.0))];
    must_put(store, &[("a", 1, two), ("b", 1, &two[..1])]);
    let wrong: &[(&str, Value<'_>)] = &[("x", Value::Bool(true))];
    put(store, &[("a", 2, wrong)]).expect("the store accepts rows");
    let status = store.status();
    assert_eq!((status.sources, status.series), (2, 3));
    assert_eq!((status.rows_accepted, status.samples_accepted), (2, 3));
    assert_eq!(status.rows_rejected, 1);
    assert_eq!(status.poisoned, None);
}

fn rejects_when_closed(store: &dyn Store) {
    let x: &[(&str, Value<'_>)] = &[("x", Value::F64(1.0))];
    must_put(store, &[("a", 1, x)]);
    store.close().expect("the store is closed");
    assert!(matches!(put(store, &[("a", 2, x)]), Err(Error::Closed)));
    let key = SourceKey::new("new", [("a", "b")]).expect("a valid key");
    assert!(matches!(store.register(&key), Err(Error::Closed)));
    let samples = store.append_samples("x", &[SourceId(0)], &[2], &[1.0]);
    assert!(matches!(samples, Err(Error::Closed)));
    let deleted = store.delete(&selector("a"), Interval::ALL);
    assert!(matches!(deleted, Err(Error::Closed)));
    assert_eq!(store.status().rows_accepted, 1);
}
