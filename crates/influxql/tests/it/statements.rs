//! Answers of statements. Expected values were computed by hand.

use crate::{SECOND, ask, text};
use proptest::prelude::*;
use seiner_influxql::parse;
use seiner_model::{Bitmap, Column, Columns, FieldColumn, SourceKey};
use seiner_store::{MemoryStore, Store};
use std::collections::BTreeMap;

/// Returns rooms `a` and `b` with temperatures every 10 s from 0, and a state in some rows.
pub fn rooms() -> MemoryStore {
    let store = MemoryStore::new();
    for (room, temperatures) in [
        ("a", [20.0, 21.0, 22.0, 25.0]),
        ("b", [10.0, 10.0, 14.0, 12.0]),
    ] {
        let key = SourceKey::new("room", [("room", room)]).expect("valid");
        let source = store.register(&key).expect("open");
        let mut present = Bitmap::new();
        for has in [true, false, true, false] {
            present.push(has);
        }
        let mut states = Column::new(seiner_model::FieldType::Str);
        states.push(seiner_model::Value::Str("on"));
        states.push(seiner_model::Value::Str("off"));
        let columns = Columns {
            times: [0, 10, 20, 30].map(|time| time * SECOND).to_vec(),
            fields: vec![
                FieldColumn {
                    present: None,
                    values: Column::F64(temperatures.to_vec()),
                },
                FieldColumn {
                    present: None,
                    values: Column::I64(vec![1, 2, 4, 8]),
                },
                FieldColumn {
                    present: Some(present),
                    values: states,
                },
            ],
        };
        store
            .append_columns(source, &["t", "n", "state"], &columns)
            .expect("open");
    }
    store
}

#[test]
fn statements_have_the_answers_of_influxdb() {
    let store = rooms();
    for (statement, answer) in [
        (
            "SELECT t, state FROM room WHERE room = 'a' LIMIT 2",
            "room{} time,t,state: 0,20.0,on; 10,21.0,null",
        ),
        (
            "SELECT n FROM room WHERE state = 'off'",
            "room{} time,n: 20,4; 20,4",
        ),
        (
            "SELECT t FROM room WHERE t > 21 ORDER BY time DESC",
            "room{} time,t: 30,25.0; 20,22.0",
        ),
        (
            "SELECT mean(t), sum(n) FROM room",
            "room{} time,mean,sum: 0,16.75,30",
        ),
        (
            "SELECT max(t), room FROM room",
            "room{} time,max,room: 30,25.0,a",
        ),
        (
            "SELECT last(t) FROM room GROUP BY room",
            "room{room=a} time,last: 30,25.0\nroom{room=b} time,last: 30,12.0",
        ),
        (
            "SELECT mean(t) FROM room WHERE time >= 0 AND time < 60s GROUP BY time(20s)",
            "room{} time,mean: 0,15.25; 20,18.25; 40,null",
        ),
        (
            "SELECT count(state) FROM room WHERE time >= 0 AND time < 60s GROUP BY time(20s)",
            "room{} time,count: 0,2; 20,2; 40,0",
        ),
        (
            "SELECT non_negative_derivative(max(n), 10s) FROM room WHERE time >= 0 AND time <= 30s GROUP BY time(10s)",
            "room{} time,non_negative_derivative: 10,1.0; 20,2.0; 30,4.0",
        ),
        (
            "SELECT max(mean) FROM (SELECT mean(t) FROM room GROUP BY room)",
            "room{} time,max: 0,22.0",
        ),
        (
            "SELECT top(t, room, 1) FROM room",
            "room{} time,top,room: 30,25.0,a",
        ),
        (
            "SELECT distinct(state) FROM room",
            "room{} time,distinct: 0,off; 0,on",
        ),
        ("SELECT t FROM nothing", ""),
        ("SHOW MEASUREMENTS", "measurements{} name: room"),
        (
            "SHOW FIELD KEYS",
            "room{} fieldKey,fieldType: n,integer; state,string; t,float",
        ),
        (
            "SHOW TAG VALUES WITH KEY = room WHERE room != 'a'",
            "room{} key,value: room,b",
        ),
        ("SHOW SERIES WHERE room = 'b'", "{} key: room,room=b"),
        ("SHOW SERIES CARDINALITY", "{} count: 2"),
        ("CREATE DATABASE x", ""),
    ] {
        match ask(&store, statement) {
            Ok(found) => assert_eq!(text(&found), answer, "{statement}"),
            Err(error) => panic!("{statement}: {error}"),
        }
    }
}

#[test]
fn functions_only_see_the_interval_and_transformations_what_they_need() {
    // The difference of the first bucket needs the bucket before the interval, which the mean must not contain.
    let statement = "SELECT difference(max(n)), max(n), min(n) FROM room WHERE time >= 10s AND time <= 30s GROUP BY time(10s)";
    assert_eq!(
        text(&ask(&rooms(), statement).unwrap()),
        "room{} time,difference,max,min: 10,1,2,2; 20,2,4,4; 30,4,8,8"
    );
}

#[test]
fn statements_without_meaning_are_rejected_with_the_reason() {
    let store = rooms();
    for (statement, reason) in [
        ("SELECT mean(t), t FROM room", "mixing"),
        ("SELECT t FROM room GROUP BY time(1m)", "aggregate function"),
        ("SELECT mean(state) FROM room", "needs numbers"),
        ("SELECT median(mean(t)) FROM room", "expected a field"),
        (
            "SELECT derivative(mean(t)) FROM room",
            "requires GROUP BY time()",
        ),
        ("SELECT foo(t) FROM room", "undefined function foo()"),
        ("SELECT top(t) FROM room", "last argument of top"),
        (
            "SELECT percentile(t) FROM room",
            "second argument of percentile",
        ),
        ("SELECT mean() FROM room", "arguments for mean"),
        (
            "SELECT t FROM room WHERE time > 1 OR t > 1",
            "connected by AND",
        ),
        ("SHOW SERIES WHERE t > 1", "no fields"),
    ] {
        let error = ask(&store, statement).expect_err(statement).to_string();
        assert!(error.contains(reason), "{statement}: {error}");
    }
}

#[test]
fn extreme_times_cause_no_overflow() {
    let store = MemoryStore::new();
    let key = SourceKey::new("m", [("a", "b")]).unwrap();
    let source = store.register(&key).unwrap();
    let columns = Columns {
        times: vec![i64::MIN + 1, 0, i64::MAX],
        fields: vec![FieldColumn {
            present: None,
            values: Column::I64(vec![i64::MIN, 0, i64::MAX]),
        }],
    };
    store.append_columns(source, &["v"], &columns).unwrap();
    for call in [
        "elapsed(v)",
        "derivative(v)",
        "difference(v)",
        "integral(v)",
        "cumulative_sum(v)",
        "v * v",
        "abs(v)",
    ] {
        ask(&store, &format!("SELECT {call} FROM m")).unwrap();
    }
    for call in [
        "sum(v)",
        "spread(v)",
        "mean(v)",
        "integral(v)",
        "derivative(max(v))",
    ] {
        for by in ["time(106751d)", "time(1w, 3d)"] {
            for fill in ["none", "null", "linear"] {
                let _ = ask(
                    &store,
                    &format!("SELECT {call} FROM m GROUP BY {by} fill({fill})"),
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..14), other in "\\PC{0,12}") {
        let store = rooms();
        for text in [words.join(" "), words.concat(), format!("SELECT {other} FROM room")] {
            if let Ok(statements) = parse(&text, &BTreeMap::new()) && !statements.is_empty() {
                let _ = ask(&store, &text);
            }
        }
    }
}

const WORDS: &[&str] = &[
    "SELECT",
    "SELECT t FROM room",
    "FROM",
    "room",
    "WHERE",
    "GROUP BY",
    "time(10s)",
    "time",
    "fill(0)",
    "fill(linear)",
    "ORDER BY time DESC",
    "LIMIT 1",
    "OFFSET 1",
    "SHOW",
    "TAG",
    "VALUES",
    "WITH KEY",
    "FIELD KEYS",
    "(",
    ")",
    ",",
    "*",
    "mean(t)",
    "top(n, room, 2)",
    "derivative(max(n))",
    "'a'",
    "\"t\"",
    "/r/",
    "=~",
    "=",
    ">",
    "-",
    "+",
    "/",
    "1",
    "0.5",
    "10s",
    "now()",
    "AND",
    "OR",
    "::tag",
    "AS x",
    ";",
];
