//! Latency of queries on an embedded store: small queries, means of many series, heavy queries.
//!
//! `cargo run --release -p seiner-engine --example query_speed [DIRECTORY]` writes a store to a directory
//! (a temporary one by default) and flushes it. The program prints the median time, the least time and the
//! number of runs of each query. Run it with `taskset -c 0` for the times on one core.
#![allow(clippy::unwrap_used, reason = "an example may panic")]

use seiner_engine::{Durability, Engine, Options, Query, Step};
use seiner_model::{Column, Columns, FieldColumn, Interval, Selector, SourceKey};
use std::path::Path;
use std::time::{Duration, Instant};

const SECOND: i64 = 1_000_000_000;
/// Sources with one field, and rows of each.
const SOURCES: usize = 400;
const ROWS: usize = 20_000;
/// Fields of the wide source, and its rows.
const FIELDS: usize = 10;
const WIDE_ROWS: usize = 1_000_000;

fn main() {
    let temporary = tempfile::tempdir().unwrap();
    let given = std::env::args().nth(1);
    let path = given.as_deref().map_or(temporary.path(), Path::new);
    let options = Options {
        durability: Durability::Memory,
        ..Options::default()
    };
    let engine = Engine::open_directory(path, options).unwrap();
    if engine.sources(&Selector::all()).unwrap().is_empty() {
        fill(&engine);
    }
    engine.flush().unwrap();

    let some = |text: &str, from: usize, to: usize| Query {
        selector: Selector::parse(text).unwrap(),
        fields: None,
        interval: Interval::new(from as i64 * SECOND, to as i64 * SECOND),
    };
    let samples = |query: &Query| {
        let found = engine.select(query).unwrap();
        found
            .map(|series| series.unwrap().times.len())
            .sum::<usize>()
    };
    let buckets = |query: &Query, step: Step| {
        let found = engine.aggregate(query, step).unwrap();
        found
            .map(|series| series.unwrap().buckets.len())
            .sum::<usize>()
    };
    println!("query                                      median us     least us   runs  results");
    let one = some("m{n=\"7\"}", 5000, 5100);
    measure("select, one series, 100 rows", || samples(&one));
    let one = some("m{n=\"7\"}", 4000, 8000);
    measure("mean, one series, 4,000 rows, by 60 s", || {
        buckets(&one, Step::Every(60 * SECOND))
    });
    let hundred = some("m{n=~\"1..\"}", 0, ROWS);
    measure("mean, 100 series, whole", || buckets(&hundred, Step::Whole));
    measure("mean, 100 series, by 60 s", || {
        buckets(&hundred, Step::Every(60 * SECOND))
    });
    let all = some("m", 0, ROWS);
    measure("select, 400 series, 8 M samples", || samples(&all));
    measure("mean, 400 series, by 60 s", || {
        buckets(&all, Step::Every(60 * SECOND))
    });
    let wide = some("wide", 0, WIDE_ROWS);
    measure("select, one source, 10 M samples", || samples(&wide));
    measure("mean, one source of 10 fields, by 60 s", || {
        buckets(&wide, Step::Every(60 * SECOND))
    });
    engine.close().unwrap();
}

fn fill(engine: &Engine) {
    let value = |source: usize, row: usize| {
        ((row as f64 / 40.0).sin() * 500.0 + (row * 7919 % 97 + source) as f64).round() / 10.0
    };
    for source in 0..SOURCES {
        let key = SourceKey::new("m", [("n", source.to_string())]).unwrap();
        let id = engine.register(&key).unwrap();
        for start in (0..ROWS).step_by(1000) {
            let times: Vec<i64> = (start..start + 1000)
                .map(|row| row as i64 * SECOND)
                .collect();
            let values: Vec<f64> = (start..start + 1000)
                .map(|row| value(source, row))
                .collect();
            let ids = vec![id; times.len()];
            engine
                .append_samples("value", &ids, &times, &values)
                .unwrap();
        }
    }
    let key = SourceKey::new("wide", [("n", "0")]).unwrap();
    let id = engine.register(&key).unwrap();
    let names: Vec<String> = (0..FIELDS).map(|field| format!("f{field}")).collect();
    let fields: Vec<&str> = names.iter().map(String::as_str).collect();
    for start in (0..WIDE_ROWS).step_by(1000) {
        let rows = start..start + 1000;
        let column = |field: usize| FieldColumn {
            present: None,
            values: Column::F64(rows.clone().map(|row| value(field, row)).collect()),
        };
        let columns = Columns {
            times: rows.clone().map(|row| row as i64 * SECOND).collect(),
            fields: (0..FIELDS).map(column).collect(),
        };
        engine.append_columns(id, &fields, &columns).unwrap();
    }
}

/// Runs a query for about a second and prints the times.
fn measure(name: &str, query: impl Fn() -> usize) {
    query();
    let (mut times, began) = (Vec::new(), Instant::now());
    let mut results = 0;
    while times.len() < 5 || (began.elapsed() < Duration::from_secs(2) && times.len() < 20_000) {
        let start = Instant::now();
        results = query();
        times.push(start.elapsed().as_nanos() as f64 / 1e3);
    }
    times.sort_by(f64::total_cmp);
    let (median, least, runs) = (times[times.len() / 2], times[0], times.len());
    println!("{name:40} {median:12.1} {least:12.1} {runs:6} {results:8}");
}
