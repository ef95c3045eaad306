//! Limits of memory and time.

use crate::statements::rooms;
use crate::{NOW, ask_within};
use seiner_influxql::{Databases, Error, Limits, Stop, parse, run};
use std::sync::Arc;

/// Returns whether a statement is rejected with so much memory.
fn is_rejected(text: &str, bytes: usize) -> bool {
    let limits = Limits {
        bytes,
        bytes_rule: "the rule",
    };
    match ask_within(&rooms(), text, limits) {
        Ok(_) => false,
        Err(Error::Limit(reason)) => {
            assert!(
                reason.contains("the rule") || reason.contains("buckets"),
                "{reason}"
            );
            true
        }
        Err(error) => panic!("{text}: {error}"),
    }
}

#[test]
fn rows_and_buckets_count_against_the_limit_of_memory() {
    for text in [
        "SELECT t FROM room",
        "SELECT median(t) FROM room",
        "SELECT max(mean) FROM (SELECT mean(t) FROM room GROUP BY room)",
        "SELECT mean(t) FROM room WHERE time >= 0 AND time < 1000s GROUP BY time(1s)",
        "SELECT difference(n) FROM room",
        "SHOW TAG VALUES WITH KEY = room",
    ] {
        assert!(is_rejected(text, 50), "{text}");
        assert!(!is_rejected(text, 1 << 20), "{text}");
    }
    // A limit of rows bounds the memory of long answers.
    assert!(!is_rejected("SELECT t FROM room LIMIT 1", 2_000));
    // One bucket for each ns of the time before now.
    assert!(is_rejected(
        "SELECT mean(t) FROM room GROUP BY time(1ns)",
        usize::MAX
    ));
}

#[test]
fn statements_end_when_their_reader_is_gone() {
    let statements = parse("SELECT t FROM room", &Default::default()).unwrap();
    for (stop, text) in [
        (Stop::TimedOut, "query timed out"),
        (Stop::Canceled, "query was interrupted"),
    ] {
        let stopper = Arc::new(move || Some(stop));
        let databases = Databases::default();
        let error = run(
            &rooms(),
            &statements[0],
            NOW,
            &databases,
            Limits::default(),
            stopper,
        )
        .unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}
