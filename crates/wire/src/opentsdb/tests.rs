use super::*;
use crate::Skipped;
use crate::line::{Arena, LineNotation};
use proptest::prelude::*;
use seiner_model::{Batch, Notation, SourceKey, Value};

type Decode = for<'b> fn(&'b [u8], i64, &'b Arena, &mut Batch<'b>) -> Result<(), Skipped>;

/// Returns the only row: source, time and value.
fn row(decode: Decode, text: &str) -> Result<(SourceKey, i64, f64), Skipped> {
    let arena = Arena::new();
    let mut batch = Batch::new();
    decode(text.as_bytes(), 5, &arena, &mut batch)?;
    let row = batch.rows[0];
    let Value::F64(value) = batch.cells[0].value else {
        panic!("a value is a float")
    };
    let key = LineNotation.source_key(row.name).unwrap();
    Ok((key, row.time, value))
}

fn reason(decode: Decode, text: &str) -> String {
    match row(decode, text) {
        Err(Skipped::Rejected(reason)) => reason,
        other => panic!("{text:?} gives {other:?}"),
    }
}

#[test]
fn lines_and_points_become_rows() {
    let key = SourceKey::new("sys.cpu", [("cpu", "0"), ("host", "a b")]).unwrap();
    let json = r#"{"metric":"sys.cpu","timestamp":1356998400,"value":"42.5","tags":{"host":"a b","cpu":0}}"#;
    let expected = (key, 1_356_998_400_000_000_000, 42.5);
    assert_eq!(row(decode_point, json), Ok(expected));
    let key = SourceKey::new("sys.cpu", [("host", "a")]).unwrap();
    let line = "put sys.cpu  1356998400500 -1e3\thost=a\r";
    assert_eq!(
        row(decode_line, line),
        Ok((key, 1_356_998_400_500_000_000, -1e3))
    );
    let key = SourceKey::new("m", [] as [(&str, &str); 0]).unwrap();
    assert_eq!(
        row(decode_line, "put m 2.25 1"),
        Ok((key, 2_250_000_000, 1.0))
    );
    let (arena, mut batch) = (Arena::new(), Batch::new());
    decode_line(b" \r", 5, &arena, &mut batch).unwrap();
    assert!(batch.rows.is_empty());
}

#[test]
fn invalid_points_have_their_reasons() {
    let cases = [
        ("version", "is not `put"),
        ("get m 1 1", "is not `put"),
        ("put m 1", "is not `put"),
        ("put m 1 x", "value \"x\" is not a number"),
        ("put m 1 inf", "not finite"),
        ("put m 0 1", "time \"0\""),
        ("put m -1 1", "time \"-1\""),
        ("put m 1.2.3 1", "time \"1.2.3\""),
        ("put m 9300000000000000000 1", "time"),
        ("put m 1 1 host", "\"host=\" is not a tag"),
        ("put m 1 1 =a", "\"=a\" is not a tag"),
        ("put m\\ 1 1", "ends in a backslash"),
    ];
    for (line, expected) in cases {
        let reason = reason(decode_line, line);
        assert!(reason.contains(expected), "{line:?}: {reason}");
    }
    let long = format!("put {} 1 1", "m".repeat(SourceKey::MAX_BYTES + 1));
    assert!(reason(decode_line, &long).contains("longer than"));
    assert_eq!(
        row(decode_line, "put m 1 nan").unwrap_err(),
        Skipped::NotANumber
    );
    let cases = [
        ("7", "is not a point"),
        (r#"{"metric":"m","value":1}"#, "missing field `timestamp`"),
        (
            r#"{"metric":"","timestamp":1,"value":1}"#,
            "the metric is empty",
        ),
        (
            r#"{"metric":"m","timestamp":null,"value":1}"#,
            "neither a text nor a number",
        ),
        (
            r#"{"metric":"m","timestamp":1,"value":[]}"#,
            "neither a text nor a number",
        ),
        (
            r#"{"metric":"m","timestamp":1,"value":true}"#,
            "value \"true\" is not a number",
        ),
    ];
    for (json, expected) in cases {
        let reason = reason(decode_point, json);
        assert!(reason.contains(expected), "{json}: {reason}");
    }
}

#[test]
fn a_body_is_a_point_or_a_list_of_points() {
    let points = |body: &str| {
        let mut found = Vec::new();
        let read = each_point(body.as_bytes(), |point| {
            found.push(String::from_utf8(point.to_vec()).unwrap());
        });
        (found, read.is_ok())
    };
    assert_eq!(
        points(" {\"a\":[1]} "),
        (vec!["{\"a\":[1]}".to_string()], true)
    );
    assert_eq!(
        points("[{}, 7]"),
        (vec!["{}".to_string(), "7".to_string()], true)
    );
    assert_eq!(points("[]"), (Vec::new(), true));
    assert_eq!(points("[{}, {"), (vec!["{}".to_string()], false));
    assert_eq!(points("[{}] x"), (vec!["{}".to_string()], false));
    let deep = "[".repeat(100_000);
    assert!(!points(&deep).1);
}

proptest! {
    /// A library that is not ours writes the points.
    #[test]
    fn points_and_lines_give_the_same_rows(
        metric in "[a-zA-Z0-9._/-]{1,20}",
        tags in proptest::collection::btree_map("[a-z,\\\\]{0,7}[a-z]", "[a-z,\\\\]{0,7}[a-z]", 0..5),
        time in 1..i64::from(u32::MAX),
        value in proptest::num::f64::NORMAL,
    ) {
        let json = serde_json::json!({
            "metric": metric, "timestamp": time, "value": value, "tags": tags,
        });
        let words: Vec<String> = tags.iter().map(|(tag, value)| format!(" {tag}={value}")).collect();
        let line = format!("put {metric} {time} {value}{}", words.concat());
        let found = row(decode_point, &json.to_string());
        prop_assert_eq!(&found, &row(decode_line, &line));
        let (key, found_time, found_value) = found.unwrap();
        prop_assert_eq!(key.measurement(), metric);
        prop_assert_eq!(key.tags().len(), tags.len());
        prop_assert_eq!((found_time, found_value), (time * 1_000_000_000, value));
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let arena = Arena::new();
        let mut batch = Batch::new();
        let _ = decode_line(&bytes, 1, &arena, &mut batch);
        let _ = each_point(&bytes, |point| _ = decode_point(point, 1, &arena, &mut batch));
    }
}
