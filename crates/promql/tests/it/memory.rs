//! Memory of one query: hostile expressions are rejected before they hold more than the limit.

use seiner_model::{Column, Columns, FieldColumn, SourceKey};
use seiner_promql::{Error, Limits, Options, instant, range};
use seiner_store::{MemoryStore, Store};

const MEBIBYTE: usize = 1 << 20;
const SERIES: usize = 2_000;

/// Returns a store with many series of the metric `x`, with a sample each second, and a source with many fields.
fn store() -> MemoryStore {
    let store = MemoryStore::new();
    let row = |times: &[i64], fields: usize| Columns {
        times: times.to_vec(),
        fields: (0..fields)
            .map(|field| FieldColumn {
                present: None,
                values: Column::F64(vec![field as f64; times.len()]),
            })
            .collect(),
    };
    for at in 0..SERIES {
        let key = SourceKey::new("x", [("n", at.to_string()), ("text", "t".repeat(50))]).unwrap();
        let source = store.register(&key).unwrap();
        store
            .append_columns(source, &["value"], &row(&[0, 1_000_000_000], 1))
            .unwrap();
    }
    let source = store
        .register(&SourceKey::new("wide", [("a", "1")]).unwrap())
        .unwrap();
    let names: Vec<String> = (0..500).map(|field| format!("f{field}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let times: Vec<i64> = (0..2_000).map(|at| at * 1_000_000).collect();
    store
        .append_columns(source, &names, &row(&times, 500))
        .unwrap();
    store
}

fn rejected(store: &MemoryStore, text: &str, steps: i64, bytes: usize) -> bool {
    let options = Options {
        limits: Limits {
            bytes,
            ..Limits::default()
        },
        ..Options::default()
    };
    let second = 1_000_000_000;
    let answer = match steps {
        0 => instant(store, text, 2 * second, &options, None),
        steps => range(
            store,
            text,
            (0, (steps - 1) * second, second),
            &options,
            None,
        ),
    };
    match answer {
        Ok(_) => false,
        Err(Error::Limit(error)) => {
            assert!(error.contains("max_bytes_held"), "{text}: {error}");
            true
        }
        Err(error) => panic!("{text}: {error}"),
    }
}

/// Returns an expression that doubles a label as often as given.
fn doubled(times: usize) -> String {
    let mut text = r#"x{n="1"}"#.to_string();
    for _ in 0..times {
        text = format!(r#"label_replace({text}, "text", "$1$1", "text", "(.*)")"#);
    }
    text
}

fn joined(times: usize) -> String {
    let mut text = r#"x{n="1"}"#.to_string();
    for _ in 0..times {
        text = format!(r#"label_join({text}, "text", "", "text", "text")"#);
    }
    text
}

/// The series that others exceed are not held until the last has come.
#[test]
fn the_best_of_many_series_need_little_memory() {
    let store = store();
    for text in ["topk(3, x)", "bottomk(3, x)", "limitk(3, x)"] {
        assert!(!rejected(&store, text, 0, 400_000), "{text}");
        assert!(!rejected(&store, text, 2, 400_000), "{text}");
    }
    assert!(rejected(&store, "sort(x)", 0, 400_000));
}

#[test]
fn hostile_expressions_are_rejected() {
    let store = store();
    // The limits are above what the other parts of each expression hold.
    let wide = r#"{__name__=~"wide_.*"}[1h]"#;
    let cases = [
        ("many series", "x".to_string(), 200, 3_000_000),
        (
            "operators between vectors",
            "x + on (n) x".to_string(),
            100,
            6_500_000,
        ),
        (
            "set operators",
            "x unless on (n) x".to_string(),
            100,
            5_600_000,
        ),
        ("groups", "sum by (n) (x)".to_string(), 100, 3_000_000),
        (
            "values as labels",
            r#"count_values("v", x + time())"#.to_string(),
            200,
            4_500_000,
        ),
        (
            "rows that are read",
            format!("sum_over_time({wide})"),
            0,
            3_000_000,
        ),
        ("ranges", format!("sum_over_time({wide})"), 0, 12_000_000),
        ("samples", wide.to_string(), 0, 12_000_000),
        (
            "steps of subqueries",
            "sum_over_time(vector(1)[500000s:1s])".to_string(),
            0,
            3_000_000,
        ),
        (
            "subqueries",
            "sum_over_time(vector(1)[500000s:1s])".to_string(),
            0,
            10_000_000,
        ),
        (
            "samples of subqueries",
            "vector(1)[500000s:1s]".to_string(),
            0,
            10_000_000,
        ),
        ("replaced labels", doubled(40), 0, 3_000_000),
        ("joined labels", joined(40), 0, 3_000_000),
    ];
    for (kind, text, steps, bytes) in cases {
        assert!(rejected(&store, &text, steps, bytes), "{kind}: {text}");
    }
}

#[test]
fn usual_expressions_are_answered() {
    let store = store();
    for (text, steps) in [
        ("sum(x)", 100),
        ("avg(rate(x[2s]))", 100),
        ("sum(sum_over_time(x[10s:1s]))", 10),
        (doubled(3).as_str(), 0),
        (joined(3).as_str(), 0),
    ] {
        assert!(!rejected(&store, text, steps, 8 * MEBIBYTE), "{text}");
    }
}
