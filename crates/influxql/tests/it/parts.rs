//! Queries with `LIMIT`, which read only a part of their interval.

use crate::{SECOND, ask, text};
use proptest::prelude::*;
use seiner_model::{Column, Columns, FieldColumn, SourceKey};
use seiner_store::{MemoryStore, Store};

/// Returns a store with sources `0`, `1` and so on, whose values are the numbers of their rows.
fn store(sources: &[Vec<i64>]) -> MemoryStore {
    let store = MemoryStore::new();
    for (number, times) in sources.iter().enumerate() {
        let name = number.to_string();
        let group = (number % 2).to_string();
        let key = SourceKey::new("m", [("s", &*name), ("g", &*group)]).expect("valid");
        let source = store.register(&key).expect("open");
        let mut times = times.clone();
        times.sort_unstable();
        times.dedup();
        let values = (0..times.len()).map(|n| (number * 1000 + n) as f64);
        let columns = Columns {
            fields: vec![FieldColumn {
                present: None,
                values: Column::F64(values.collect()),
            }],
            times: times.iter().map(|time| time * SECOND).collect(),
        };
        store
            .append_columns(source, &["v"], &columns)
            .expect("open");
    }
    store
}

/// Returns the lines of an answer, each with the first `limit` rows after `offset` of its rows.
fn cut(answer: &str, offset: usize, limit: usize) -> String {
    let lines = answer.lines().filter_map(|line| {
        let (head, rows) = line.split_once(": ")?;
        let rows: Vec<&str> = rows.split("; ").skip(offset).take(limit).collect();
        (!rows.is_empty()).then(|| format!("{head}: {}", rows.join("; ")))
    });
    lines.collect::<Vec<String>>().join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_part_of_the_interval_has_the_same_rows(
        sources in prop::collection::vec(
            prop::collection::vec(prop_oneof![0..20_i64, 0..1000_i64, 500..100_000_i64], 0..60),
            0..5,
        ),
        limit in 1..12_usize,
        offset in 0..4_usize,
        group in prop::sample::select(vec!["", "GROUP BY s", "GROUP BY g", "GROUP BY *"]),
        order in prop::sample::select(vec!["", "ORDER BY time DESC"]),
        condition in prop::sample::select(vec![
            "", "WHERE time >= 10s", "WHERE time < 700s AND time > 5s", "WHERE v > 1010", "WHERE s <> '1'",
        ]),
    ) {
        let store = store(&sources);
        let all = format!("SELECT v FROM m {condition} {group} {order}");
        let part = format!("{all} LIMIT {limit} OFFSET {offset}");
        let all = text(&ask(&store, &all).unwrap());
        prop_assert_eq!(text(&ask(&store, &part).unwrap()), cut(&all, offset, limit));
    }
}
