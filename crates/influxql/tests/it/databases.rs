//! Databases that a tag distinguishes.

use crate::statements::rooms;
use crate::{NOW, text};
use seiner_influxql::{Databases, Limits, parse, run};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the answer of a statement for a database. The tag `room` contains the name of the database.
fn answer(chosen: &str, statement: &str) -> String {
    let databases = Databases {
        tag: Some("room".to_string()),
        chosen: chosen.to_string(),
    };
    let statements = parse(statement, &BTreeMap::new()).expect("valid");
    let (limits, stopper) = (Limits::default(), Arc::new(|| None));
    let answer = run(&rooms(), &statements[0], NOW, &databases, limits, stopper);
    text(&answer.expect("valid"))
}

#[test]
fn statements_read_the_chosen_database() {
    for (chosen, statement, expected) in [
        ("a", "SELECT max(t) FROM room", "room{} time,max: 30,25.0"),
        (
            "b",
            "SELECT sum(n), max(t) FROM room",
            "room{} time,sum,max: 0,15,14.0",
        ),
        ("b", "SELECT t FROM room LIMIT 1", "room{} time,t: 0,10.0"),
        (
            "b",
            "SELECT max(x) FROM (SELECT t AS x FROM room)",
            "room{} time,max: 20,14.0",
        ),
        // A database in the statement wins.
        (
            "a",
            "SELECT max(t) FROM b..room",
            "room{} time,max: 20,14.0",
        ),
        (
            "a",
            "SHOW TAG VALUES ON b WITH KEY = room",
            "room{} key,value: room,b",
        ),
        (
            "a",
            "SHOW TAG VALUES WITH KEY = room",
            "room{} key,value: room,a",
        ),
        ("a", "SHOW SERIES", "{} key: room,room=a"),
        ("a", "SHOW SERIES WHERE room = 'b'", ""),
        ("a", "SHOW MEASUREMENTS", "measurements{} name: room"),
        ("c", "SHOW MEASUREMENTS", ""),
        ("c", "SHOW MEASUREMENT CARDINALITY", "{} count: 0"),
        ("c", "SHOW FIELD KEYS", ""),
        ("c", "SELECT max(t) FROM room", ""),
        // Without a database, there are all sources.
        ("", "SHOW SERIES CARDINALITY", "{} count: 2"),
        ("a", "SHOW DATABASES", "databases{} name: a; b"),
    ] {
        assert_eq!(answer(chosen, statement), expected, "{chosen}: {statement}");
    }
}
