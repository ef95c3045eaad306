//! Properties of single queries: bad texts, limits, several threads, names.

use proptest::prelude::*;
use seiner_promql::{Limits, Options, instant, range};
use seiner_store::MemoryStore;

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in "[a-z0-9(){}\\[\\]\"=~!+*/^%,.:@ -]{0,60}|\\PC{0,40}") {
        let store = MemoryStore::new();
        let _ = instant(&store, &text, 0, &Options::default(), None);
    }
}

#[test]
fn numbers_out_of_range_are_errors() {
    let store = MemoryStore::new();
    for text in [
        "x[1e30]",
        "x[NaN]",
        "x offset 1e300",
        "x[5m:1e-9]",
        "x @ Inf",
        "99999999999999999999y",
        "x[-1s]",
    ] {
        assert!(
            instant(&store, text, 0, &Options::default(), None).is_err(),
            "{text}"
        );
    }
    for time in [i64::MIN, i64::MAX] {
        for text in [
            "x",
            "rate(x[5m] offset 1000y)",
            "x @ 1e18",
            "sum_over_time(x[10m:1m] offset -100y)",
            "time()",
        ] {
            let _ = instant(&store, text, time, &Options::default(), None);
        }
    }
}

#[test]
fn limits_are_named() {
    let store = MemoryStore::new();
    let options = Options {
        limits: Limits {
            bytes: 8_000,
            bytes_rule: "an eighth",
            steps: 100,
            ..Limits::default()
        },
        ..Options::default()
    };
    let error = range(&store, "vector(1)", (0, 1_000, 1), &options, None).unwrap_err();
    assert!(error.to_string().contains("max_steps"), "{error}");
    let error = instant(
        &store,
        "sum_over_time(vector(1)[1000s:1s])",
        0,
        &options,
        None,
    )
    .unwrap_err();
    assert!(error.to_string().contains("max_steps"), "{error}");
    let sums = format!("{}vector(1){}", "vector(1) + (".repeat(20), ")".repeat(20));
    let error = range(&store, &sums, (0, 99, 1), &options, None).unwrap_err();
    assert!(
        error.to_string().contains("max_bytes_held, an eighth"),
        "{error}"
    );
}
