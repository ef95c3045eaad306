//! Tests of lines.

use super::*;
use crate::Skipped;
use crate::line::LineNotation;
use proptest::prelude::*;
use seiner_model::{Notation, SourceKey};

fn metric(line: &str) -> Metric<'_> {
    match decode_line(line.as_bytes()) {
        Ok(Line::Metric(metric)) => metric,
        other => panic!("{line}: {other:?}"),
    }
}

fn key(line: &str) -> SourceKey {
    LineNotation.source_key(&metric(line).name).unwrap()
}

#[test]
fn every_type_has_values() {
    for (line, kind, values, weight) in [
        ("a:1|c", Kind::Counter, vec![Value::Number(1.0)], 1.0),
        (
            "a:-2|c|@0.1",
            Kind::Counter,
            vec![Value::Number(-2.0)],
            10.0,
        ),
        ("a:3.5|g", Kind::Gauge, vec![Value::Number(3.5)], 1.0),
        (
            "a:+3:-1:7|g\r",
            Kind::Gauge,
            vec![Value::Change(3.0), Value::Change(-1.0), Value::Number(7.0)],
            1.0,
        ),
        (
            "a:320:1|ms|@0.5",
            Kind::Timing,
            vec![Value::Number(320.0), Value::Number(1.0)],
            2.0,
        ),
        ("a:1|h", Kind::Histogram, vec![Value::Number(1.0)], 1.0),
        (
            "a:1|d|T1656581400|c:ci-1",
            Kind::Distribution,
            vec![Value::Number(1.0)],
            1.0,
        ),
        ("a:u:1|s", Kind::Set, vec![Value::Member("u:1")], 1.0),
    ] {
        let found = metric(line);
        assert_eq!((found.kind, found.values), (kind, values), "{line}");
        assert!((found.weight - weight).abs() < 1e-9, "{line}");
    }
}

#[test]
fn counters_and_gauges_may_have_a_time() {
    let times = |line| metric(line).time;
    assert_eq!(
        times("a:1:2|c|@0.5|#b:c|T1656581400|c:ci-1"),
        Some(1_656_581_400_000_000_000)
    );
    assert_eq!(times("a:-1|c|T31536000"), Some(31_536_000_000_000_000));
    assert_eq!(times("a:1|g|T9223372036"), Some(9_223_372_036_000_000_000));
    // DogStatsD defines no time for the other types.
    for line in ["a:1|c", "a:1|ms|T1656581400", "a:x|s|T1656581400"] {
        assert_eq!(times(line), None, "{line}");
    }
}

#[test]
fn tags_come_from_both_forms() {
    let expected = SourceKey::new(
        "a.b",
        [
            ("host", "x y"),
            ("flag", "true"),
            ("url", "http://c:1"),
            ("metric_type", "gauge"),
        ],
    );
    let found = key("a.b,host=x y:1|g|#flag,url:http://c:1,");
    assert_eq!(found, expected.unwrap());
    // The order of tags makes no difference, and the last one of a name counts.
    let names =
        ["a:1|c|#b:1,a:2", "a:1|c|#a:0,b:1,a:2,metric_type:x"].map(|line| metric(line).name);
    assert_eq!(names[0], names[1]);
}

#[test]
fn malformed_lines_have_reasons() {
    for (line, reason) in [
        ("a", "is not `name:value|type`"),
        ("a:1", "is not `name:value|type`"),
        ("a|c", "is not `name:value|type`"),
        (":1|c", "the name is empty"),
        ("a:1|x", "none of c, g"),
        ("a:|c", "is not a number"),
        ("a:1:x|ms", "is not a number"),
        ("a:|s", "member of the set is empty"),
        ("a:inf|g", "not finite"),
        ("a:1|c|@0", "sample rate 0"),
        ("a:1|c|@1e-320", "sample rate"),
        ("a:1|c|@x", "sample rate"),
        ("a:1|c|#:b", "no name"),
        ("a\\:1|c", "backslash"),
        ("a:1|c|T", "seconds since 1970"),
        ("a:1|c|T1.5", "seconds since 1970"),
        ("a:1|g|T1656581400000", "seconds since 1970"),
        ("a:1|g|T7", "from 1971"),
        ("a:1:+2|g|T1656581400", "cannot have a time"),
    ] {
        match decode_line(line.as_bytes()) {
            Err(Skipped::Rejected(found)) => assert!(found.contains(reason), "{line}: {found}"),
            other => panic!("{line}: {other:?}"),
        }
    }
    assert_eq!(decode_line(b"a:nan|g"), Err(Skipped::NotANumber));
    assert!(decode_line(b"a\xff:1|c").is_err());
    let long = format!("a{}|ms", ":1".repeat(MAX_VALUES + 1));
    assert!(decode_line(long.as_bytes()).is_err());
}

#[test]
fn blank_lines_and_events_are_no_metrics() {
    assert_eq!(decode_line(b" \r"), Ok(Line::Blank));
    assert_eq!(decode_line(b"_e{5,4}:title|text"), Ok(Line::Event));
    assert_eq!(decode_line(b"_sc|name|0"), Ok(Line::Event));
}

proptest! {
    #[test]
    fn no_line_causes_a_panic(line in "[a-zT:|@#,=\\\\+-1.]{0,40}") {
        if let Ok(Line::Metric(metric)) = decode_line(line.as_bytes()) {
            prop_assert!(LineNotation.source_key(&metric.name).is_ok());
            prop_assert!(!metric.values.is_empty() && metric.weight >= 1.0);
        }
    }
}
