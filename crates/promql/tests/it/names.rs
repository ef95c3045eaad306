//! Names of labels and their values, with and without an interval.

use seiner_model::{Column, Columns, FieldColumn, Interval, SourceKey};
use seiner_promql::{Matcher, label_names, label_values, parse_selector};
use seiner_store::{MemoryStore, Store};

fn store() -> MemoryStore {
    let store = MemoryStore::new();
    for (name, tag, value, time) in [
        ("up", "host", "a", 10),
        ("up", "host", "b", 20),
        ("load", "core", "0", 30),
    ] {
        let source = store
            .register(&SourceKey::new(name, [(tag, value)]).unwrap())
            .unwrap();
        let columns = Columns {
            times: vec![time],
            fields: vec![FieldColumn {
                present: None,
                values: Column::F64(vec![1.0]),
            }],
        };
        store.append_columns(source, &["value"], &columns).unwrap();
    }
    store
}

fn selectors(texts: &[&str]) -> Vec<Vec<Matcher>> {
    texts
        .iter()
        .map(|text| parse_selector(text).unwrap())
        .collect()
}

#[test]
fn names_are_those_of_series_with_samples_in_the_interval() {
    let store = store();
    let within = |start, end| Some(Interval::new(start, end));
    let values = |texts: &[&str], interval, label| {
        label_values(&store, &selectors(texts), interval, label, 9).unwrap()
    };
    assert_eq!(values(&[], None, "host"), ["a", "b"]);
    assert_eq!(values(&[], within(15, 40), "host"), ["b"]);
    assert_eq!(values(&["up"], within(0, 15), "host"), ["a"]);
    assert_eq!(values(&["load"], within(0, 15), "core"), [""; 0]);
    assert_eq!(values(&[], within(15, 25), "__name__"), ["up"]);
    assert_eq!(values(&[], within(0, 40), "__name__"), ["load", "up"]);
    let names =
        |texts: &[&str], interval| label_names(&store, &selectors(texts), interval).unwrap();
    assert_eq!(names(&[], None), ["__name__", "core", "host"]);
    assert_eq!(names(&[], within(0, 25)), ["__name__", "host"]);
    assert_eq!(names(&["up"], within(30, 40)), [""; 0]);
}
