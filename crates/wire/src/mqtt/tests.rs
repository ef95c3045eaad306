//! Tests of the mapping: rows of messages, rejections, and hostile messages. Patterns are compared with regular
//! expressions, and JSON with a tree of `serde_json`.

use super::*;
use crate::line::{Arena, LineNotation, Precision};
use proptest::prelude::*;
use seiner_model::{Batch, Notation, SourceKey, Value};

const NOW: i64 = 1_800_000_000_000_000_000;

fn draft(topic: &str) -> RuleDraft {
    RuleDraft {
        topic: topic.to_string(),
        measurement: "m".to_string(),
        ..RuleDraft::default()
    }
}

fn mapping(drafts: Vec<RuleDraft>) -> Mapping {
    let rules = drafts.into_iter().map(|draft| Rule::new(draft).unwrap());
    Mapping::new(rules.collect(), true)
}

/// Row as text: source, fields and time.
fn rows(mapping: &Mapping, topic: &str, payload: &[u8]) -> (Vec<String>, Result<(), Rejection>) {
    let (arena, mut batch) = (Arena::new(), Batch::new());
    let message = Message {
        topic,
        payload,
        received: NOW,
    };
    let decoded = mapping.decode(message, &arena, &mut batch);
    let row = |row: &seiner_model::Row<'_>| {
        let key = LineNotation.source_key(row.name).unwrap();
        let cells = batch.cells_of(row).iter().map(|cell| {
            let field = std::str::from_utf8(cell.field).unwrap();
            match cell.value {
                Value::F64(value) => format!("{field}={value}"),
                Value::Bool(value) => format!("{field}={value}"),
                Value::Str(value) => format!("{field}={value:?}"),
                other => format!("{field}={other:?}"),
            }
        });
        let cells: Vec<String> = cells.collect();
        let time = match row.time {
            NOW => "now".to_string(),
            time => (time / 1_000_000).to_string(),
        };
        format!("{} {} {time}", shown(&key), cells.join(","))
    };
    let rows = batch.rows.iter().map(row).collect();
    assert_eq!(
        batch.cells.len(),
        batch
            .rows
            .iter()
            .map(|row| row.cells as usize)
            .sum::<usize>(),
        "cells of rejected rows stayed"
    );
    (rows, decoded)
}

fn shown(key: &SourceKey) -> String {
    let mut name = Vec::new();
    key.put_name(&mut name);
    String::from_utf8(name).unwrap()
}

/// Returns the rows of a message that is not rejected.
fn accepted(mapping: &Mapping, topic: &str, payload: &str) -> Vec<String> {
    let (rows, decoded) = rows(mapping, topic, payload.as_bytes());
    assert_eq!(decoded, Ok(()), "{payload}");
    rows
}

/// Returns the reason of the rejection of a message without valid rows.
fn rejected(mapping: &Mapping, topic: &str, payload: &str) -> String {
    let (rows, decoded) = rows(mapping, topic, payload.as_bytes());
    assert_eq!(rows, [""; 0], "{payload}");
    decoded.expect_err(payload).reason
}

#[test]
fn numbers_become_one_field() {
    let mapping = mapping(vec![
        RuleDraft {
            measurement: "climate".into(),
            tags: vec![("site".into(), "north wing".into())],
            ..draft("home/{room}/{field}")
        },
        RuleDraft {
            measurement: String::new(),
            field: "level".into(),
            ..draft("{measurement}/{id}")
        },
        draft("plain"),
    ]);
    for (topic, payload, row) in [
        (
            "home/kitchen/temp",
            "21.5",
            "climate,room=kitchen,site=north wing temp=21.5 now",
        ),
        (
            "home/a=b,c d/x y",
            " -1e3\n",
            r"climate,room=a\=b\,c d,site=north wing x y=-1000 now",
        ),
        (
            "home/a/on",
            "true",
            "climate,room=a,site=north wing on=true now",
        ),
        ("tank, no=1/7", "5", r"tank\, no=1,id=7 level=5 now"),
        ("plain", "0", "m value=0 now"),
    ] {
        assert_eq!(accepted(&mapping, topic, payload), [row]);
    }
    for topic in ["home/kitchen/temp/x", "", "plain/", "home/+/x", "home/#"] {
        let (_, decoded) = rows(&mapping, topic, b"1");
        assert_eq!(decoded.unwrap_err().part, Part::Topic, "{topic}");
    }
    assert!(rejected(&mapping, r"home/a\/x", "1").contains("backslash"));
}

#[test]
fn numbers_that_are_none_are_rejected() {
    let mapping = mapping(vec![RuleDraft {
        payload: PayloadKind::Number,
        ..draft("a")
    }]);
    for payload in [
        "",
        "nan",
        "inf",
        "-infinity",
        "1e999",
        "0x10",
        "1,5",
        "21 C",
        "TRUE",
        "\u{e9}",
    ] {
        assert!(
            rejected(&mapping, "a", payload).contains("payload"),
            "{payload}"
        );
    }
    let (_, decoded) = rows(&mapping, "a", b"\xff\xfe");
    assert!(decoded.unwrap_err().reason.contains("not a number"));
}

#[test]
fn objects_become_rows_with_joined_names() {
    let mapping = mapping(vec![RuleDraft {
        time: "meta.sent".into(),
        ..draft("a/{id}")
    }]);
    for (payload, row) in [
        (
            r#"{"t":21,"on":true,"s":"x\"y","n":null}"#,
            r#"m,id=1 t=21,on=true,s="x\"y" now"#,
        ),
        (
            r#"{"a":{"b":1,"c":{"d":2}},"e":[3,{"f":4}]}"#,
            "m,id=1 a_b=1,a_c_d=2,e_0=3,e_1_f=4 now",
        ),
        (
            r#"{"t":1,"meta":{"sent":1700000000}}"#,
            "m,id=1 t=1 1700000000000",
        ),
        (
            r#"{"meta":{"sent":"2023-11-14T22:13:20.5Z"},"t":1}"#,
            "m,id=1 t=1 1700000000500",
        ),
        (
            r#"{"meta":{"sent":1700000000.25},"t":1}"#,
            "m,id=1 t=1 1700000000250",
        ),
        (r#""on""#, r#"m,id=1 value="on" now"#),
        ("[5]", "m,id=1 value=5 now"),
        // A float that a parser rounds if it does not take all digits into account.
        ("933337022.3300735", "m,id=1 value=933337022.3300735 now"),
        (
            r#"{"big":18446744073709551615}"#,
            "m,id=1 big=18446744073709552000 now",
        ),
    ] {
        assert_eq!(accepted(&mapping, "a/1", payload), [row], "{payload}");
    }
    let array = r#"[{"meta":{"sent":1700000000},"t":1},{"meta":{"sent":1700000001},"t":2}]"#;
    let expected = ["m,id=1 t=1 1700000000000", "m,id=1 t=2 1700000001000"];
    assert_eq!(accepted(&mapping, "a/1", array), expected);
}

#[test]
fn fields_of_objects_begin_with_the_field_of_the_topic() {
    let mapping = mapping(vec![RuleDraft {
        time: "at".into(),
        ..draft("a/{field}")
    }]);
    let payload = r#"{"x":1,"at":1700000000}"#;
    assert_eq!(
        accepted(&mapping, "a/acc", payload),
        ["m acc_x=1 1700000000000"]
    );
    assert_eq!(accepted(&mapping, "a/acc", "2"), ["m acc=2 now"]);
}

#[test]
fn json_that_cannot_be_rows_is_rejected_with_its_place() {
    let mapping = mapping(vec![RuleDraft {
        payload: PayloadKind::Json,
        time: "at".into(),
        ..draft("a")
    }]);
    let deep = format!("{}1{}", "[".repeat(40), "]".repeat(40));
    let many: Vec<String> = (0..300).map(|n| format!("\"f{n}\":1")).collect();
    for (payload, reason) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("{\"a\":1} x", "trailing"),
        ("{}", "no field"),
        ("[]", "empty"),
        ("null", "null"),
        ("{\"a\":null}", "no field"),
        ("{\"at\":1700000000}", "no field"),
        ("{\"a\":1,\"at\":5}", "time_unit"),
        ("{\"a\":1,\"at\":\"soon\"}", "2026-11-21"),
        ("{\"a\":1,\"at\":true}", ""),
        ("{\"a\":1,\"a\":2}", "twice"),
        ("{\"a_b\":1,\"a\":{\"b\":2}}", "twice"),
        ("{\"\":1}", "empty name"),
        ("{\"a\":1e999}", "out of range"),
        ("[{\"a\":1},{\"a\":2}]", "several rows"),
        (&*deep, "deep"),
        (&*format!("{{{}}}", many.join(",")), "256"),
        (&*format!("{{\"{}\":1}}", "x".repeat(2000)), "1024"),
    ] {
        let (found, decoded) = rows(&mapping, "a", payload.as_bytes());
        match payload.contains("\"at\":true") {
            // A truth value is no time, and becomes a field.
            true => assert_eq!(found.len(), 1),
            false => {
                assert_eq!(found, [""; 0], "{payload}");
                let found = decoded.expect_err(payload).reason;
                assert!(found.contains(reason), "{payload}: {found}");
            }
        }
    }
}

#[test]
fn lines_have_sources_of_their_own() {
    let mapping = mapping(vec![
        RuleDraft {
            measurement: String::new(),
            payload: PayloadKind::Line,
            unit: Some(Precision::S),
            ..draft("lines/#")
        },
        draft("auto"),
    ]);
    let text = "cpu,host=a usage=1 1700000000\nmem free=2\n";
    let expected = ["cpu,host=a usage=1 1700000000000", "mem free=2 now"];
    assert_eq!(accepted(&mapping, "lines/x/y", text), expected);
    // The valid lines of a message are kept.
    let (found, decoded) = rows(&mapping, "lines", b"a x=1\nbad\nb x=2\nworse\n");
    assert_eq!(found, ["a x=1 now", "b x=2 now"]);
    let rejection = decoded.unwrap_err();
    assert_eq!(rejection.rows, 2);
    assert!(
        rejection.reason.starts_with("line 2: "),
        "{}",
        rejection.reason
    );
    assert!(rejected(&mapping, "auto", "ON").contains("not a number"));
    assert!(rejected(&mapping, "auto", "").contains("no line"));
    assert_eq!(accepted(&mapping, "auto", "a x=1"), ["a x=1 now"]);
}

#[test]
fn several_messages_share_a_batch() {
    let mapping = mapping(vec![draft("a/{id}")]);
    let (arena, mut batch) = (Arena::new(), Batch::new());
    for (index, payload) in ["1", "{\"x\":2,\"x\":3}", "{\"x\":2,\"y\":3}", "b z=1", "4"]
        .iter()
        .enumerate()
    {
        let message = Message {
            topic: "a/7",
            payload: payload.as_bytes(),
            received: index as i64,
        };
        let decoded = mapping.decode(message, &arena, &mut batch);
        assert_eq!(decoded.is_err(), index == 1, "{payload}");
    }
    let cells: Vec<usize> = batch
        .rows
        .iter()
        .map(|row| batch.cells_of(row).len())
        .collect();
    assert_eq!(cells, [1, 2, 1, 1]);
    let times: Vec<i64> = batch.rows.iter().map(|row| row.time).collect();
    assert_eq!(times, [0, 2, 3, 4]);
}

/// Returns the fields of a JSON value by the rules of the documentation, from a tree of `serde_json`.
fn flattened(name: &str, value: &serde_json::Value, fields: &mut Vec<String>) {
    let inner = |key: &str| match name {
        "" => key.to_string(),
        name => format!("{name}_{key}"),
    };
    match value {
        serde_json::Value::Null => {}
        serde_json::Value::Bool(value) => fields.push(format!("{name}={value}")),
        serde_json::Value::Number(value) => {
            fields.push(format!("{name}={}", value.as_f64().unwrap()))
        }
        serde_json::Value::String(value) => fields.push(format!("{name}={value:?}")),
        serde_json::Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                flattened(&inner(&index.to_string()), value, fields);
            }
        }
        serde_json::Value::Object(values) => {
            for (key, value) in values {
                flattened(&inner(key), value, fields);
            }
        }
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e9..1e9).prop_map(|number: f64| number.into()),
        ".{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map("[a-z\\\\é\"]{1,4}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Level of a pattern, and a regular expression for it.
fn level() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        "[ab]{0,2}".prop_map(|text| (text.clone(), text)),
        Just(("+".to_string(), "([^/]+)".to_string())),
        "[ab]{0,1}".prop_map(|text| (format!("{text}{{}}b"), format!("{text}([^/]+)b"))),
    ]
}

proptest! {
    #[test]
    fn patterns_match_like_regular_expressions(
        levels in prop::collection::vec(level(), 1..4),
        is_open in any::<bool>(),
        topic in "[ab/]{0,8}",
    ) {
        let (texts, expressions): (Vec<String>, Vec<String>) = levels.into_iter().unzip();
        let (mut text, mut expression) = (texts.join("/"), expressions.join("/"));
        if is_open {
            text.push_str("/#");
            expression.push_str("(/.*)?");
        }
        prop_assume!(!text.is_empty());
        let pattern = Pattern::parse(&text).unwrap();
        let expected = regex::Regex::new(&format!("^{expression}$")).unwrap();
        prop_assert_eq!(pattern.captures(&topic).is_some(), expected.is_match(&topic), "{} {}", text, topic);
    }

    #[test]
    fn json_becomes_the_fields_of_its_tree(fields in prop::collection::btree_map("[a-z]{1,2}", json(), 0..5)) {
        let mapping = mapping(vec![RuleDraft { payload: PayloadKind::Json, ..draft("a") }]);
        let value = serde_json::Value::Object(fields.into_iter().collect());
        let mut expected = Vec::new();
        flattened("", &value, &mut expected);
        let mut names: Vec<&str> = expected.iter().map(|field| field.split('=').next().unwrap()).collect();
        names.sort_unstable();
        let is_ambiguous = names.windows(2).any(|pair| pair[0] == pair[1]);
        let (rows, decoded) = rows(&mapping, "a", value.to_string().as_bytes());
        match expected.is_empty() || is_ambiguous {
            true => prop_assert!(decoded.is_err()),
            false => prop_assert_eq!(rows, [format!("m {} now", expected.join(","))]),
        }
    }

    #[test]
    fn hostile_messages_do_not_panic(topic in "\\PC{0,20}", payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let mapping = mapping(vec![
            RuleDraft { payload: PayloadKind::Json, time: "t".into(), ..draft("a/#") },
            RuleDraft { payload: PayloadKind::Number, ..draft("b{x}/{y}") },
            RuleDraft { measurement: String::new(), ..draft("{measurement}/#") },
        ]);
        let (arena, mut batch) = (Arena::new(), Batch::new());
        for topic in [&*topic, "a/b", "b1/2", "c"] {
            let message = Message { topic, payload: &payload, received: NOW };
            let _ = mapping.decode(message, &arena, &mut batch);
        }
    }

    #[test]
    fn topics_keep_their_levels(room in "[^/+#\\x00\\\\$]{1,9}", field in "[^/+#\\x00]{1,9}") {
        let mapping = mapping(vec![draft("{room}/{field}")]);
        let topic = format!("{room}/{field}");
        let (arena, mut batch) = (Arena::new(), Batch::new());
        let message = Message { topic: &topic, payload: b"1", received: NOW };
        mapping.decode(message, &arena, &mut batch).unwrap();
        let key = LineNotation.source_key(batch.rows[0].name).unwrap();
        prop_assert_eq!(key, SourceKey::new("m", [("room", room)]).unwrap());
        prop_assert_eq!(batch.cells[0].field, field.as_bytes());
    }
}
