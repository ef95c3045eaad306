//! Random lines, compared with another implementation of the protocol.

use super::*;
use influxdb_line_protocol::{FieldValue, parse_lines};
use proptest::prelude::*;

/// Meaning of a line in terms that both implementations share.
#[derive(Clone, Debug, PartialEq)]
struct Meaning {
    key: SourceKey,
    fields: Vec<(String, Owned)>,
    time: Option<i64>,
}

fn ours(text: &str) -> Vec<Result<Meaning, String>> {
    let (rows, errors) = read(text.as_bytes());
    let mut lines: Vec<_> = rows
        .into_iter()
        .map(|row| {
            let fields = row
                .cells
                .into_iter()
                .map(|(field, value)| (String::from_utf8(field).expect("UTF-8"), value));
            let meaning = LineNotation
                .source_key(&row.name)
                .map_err(|error| error.to_string())
                .map(|key| Meaning {
                    key,
                    fields: fields.collect(),
                    time: (row.time != NOW).then_some(row.time),
                });
            (row.line, meaning)
        })
        .chain(
            errors
                .into_iter()
                .map(|error| (error.line, Err(error.reason.to_string()))),
        )
        .collect();
    lines.sort_by_key(|(line, _)| *line);
    lines.into_iter().map(|(_, meaning)| meaning).collect()
}

fn theirs(text: &str) -> Vec<Result<Meaning, String>> {
    let meaning = |line: influxdb_line_protocol::ParsedLine<'_>| {
        let tags = line.series.tag_set.unwrap_or_default();
        let key = SourceKey::new(
            line.series.measurement.to_string(),
            tags.iter()
                .map(|(name, value)| (name.to_string(), value.to_string())),
        )
        .map_err(|error| error.to_string())?;
        let owned = |value: &FieldValue<'_>| match value {
            FieldValue::I64(value) => Owned::from(Value::I64(*value)),
            FieldValue::U64(value) => Owned::from(Value::U64(*value)),
            FieldValue::F64(value) => Owned::from(Value::F64(*value)),
            FieldValue::Boolean(value) => Owned::from(Value::Bool(*value)),
            FieldValue::String(value) => Owned::from(Value::Str(value)),
        };
        let fields = line
            .field_set
            .iter()
            .map(|(name, value)| (name.to_string(), owned(value)))
            .collect();
        Ok(Meaning {
            key,
            fields,
            time: line.timestamp.filter(|time| *time != NOW),
        })
    };
    parse_lines(text)
        .map(|line| line.map_err(|error| error.to_string()).and_then(meaning))
        .collect()
}

fn escaped(text: &str, escapable: &str) -> String {
    text.chars()
        .flat_map(|c| escapable.contains(c).then_some('\\').into_iter().chain([c]))
        .collect()
}

/// Generates a name without backslashes. The other implementation also treats a backslash as an escape of a
/// backslash, and rejects a backslash at the end of a name.
fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_.,= \"µé/-]{0,12}[a-z0-9,= ]"
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<f64>()
            .prop_filter("finite", |value| value.is_finite())
            .prop_map(|value| format!("{value}")),
        any::<f64>()
            .prop_filter("finite", |value| value.is_finite())
            .prop_map(|value| format!("{value:e}")),
        (-1_000_000_000i64..1_000_000_000, 0..8usize).prop_map(|(n, digits)| format!(
            "{:.*}",
            digits,
            n as f64 / 1e4
        )),
        "-?[0-9]{1,20}",
        "-?[0-9]{1,18}\\.[0-9]{1,18}",
        any::<i64>().prop_map(|value| format!("{value}i")),
        any::<u64>().prop_map(|value| format!("{value}u")),
        "-?[0-9]{1,17}i",
        prop::sample::select(vec![
            "t", "T", "true", "True", "TRUE", "f", "F", "false", "False", "FALSE"
        ])
        .prop_map(str::to_string),
        "[a-z \n,=\\\\\"µ]{0,14}".prop_map(|text| format!("\"{}\"", escaped(&text, "\\\""))),
    ]
}

prop_compose! {
    fn line()(
        measurement in name().prop_filter("a comment", |name| !name.starts_with('#')),
        tags in prop::collection::btree_map(name(), name(), 0..4),
        fields in prop::collection::vec((name(), value()), 1..5),
        time in prop_oneof![Just(None), any::<i64>().prop_map(Some), (1_600_000_000_000_000_000i64..1_800_000_000_000_000_000).prop_map(Some)],
        spaces in 1..3usize,
    ) -> String {
        let tags: String = tags.iter().map(|(name, value)| format!(",{}={}", escaped(name, ",= "), escaped(value, ",= "))).collect();
        let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{}={value}", escaped(name, ",= "))).collect();
        let gap = " ".repeat(spaces);
        let time = time.map_or(String::new(), |time| format!("{gap}{time}"));
        format!("{}{tags}{gap}{}{time}", escaped(&measurement, ", "), fields.join(","))
    }
}

fn is_infinite(value: &Owned) -> bool {
    matches!(value, Owned::Bits((FieldType::F64, bits)) if f64::from_bits(*bits).is_infinite())
}

/// Returns true if the two implementations differ on purpose, given the contents of the line.
fn differs_on_purpose(
    line: &str,
    ours: &Result<Meaning, String>,
    theirs: &Result<Meaning, String>,
) -> bool {
    match (ours, theirs) {
        // In the other implementation a backslash escapes a backslash in a name, as in a text.
        _ if line.contains(r"\\") => true,
        // This implementation also accepts `.5`, `5.` and `5.e3` (as the original server does), spaces at the
        // end of a line without a time, and tabs in names.
        (Ok(meaning), Err(_)) => {
            let names = meaning.key.tags().flat_map(|(name, value)| [name, value]);
            let mut names = names
                .chain(meaning.fields.iter().map(|(name, _)| name.as_str()))
                .chain([meaning.key.measurement()]);
            ["=.", "=-.", ".,", ". ", ".e"]
                .iter()
                .any(|dot| line.contains(dot))
                || line.ends_with(['.', ' '])
                || names.any(|name| name.contains('\t'))
        }
        // This implementation rejects an unescaped comma in the name of a tag or a field (usually a forgotten
        // value), a comma after the last field, numbers beyond the largest float (the other one makes them
        // infinite), and a value that contains the next tag.
        (Err(reason), Ok(meaning)) => {
            let tags = meaning.key.tags().map(|(name, _)| name);
            let fields = meaning.fields.iter().map(|(name, _)| name.as_str());
            let mut names = tags.chain(fields);
            let comma =
                names.any(|name| name.contains(',')) || line.contains(", ") || line.ends_with(',');
            let missing = ["no value", "no name", "no fields"];
            comma && missing.iter().any(|no| reason.contains(no))
                || reason.contains("backslash before the comma")
                || reason.contains("not finite")
                    && meaning.fields.iter().any(|(_, value)| is_infinite(value))
        }
        // Each implementation reports the first fault that it finds, and these may differ.
        (Err(_), Err(_)) => true,
        (Ok(_), Ok(_)) => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn valid_lines_mean_the_same_to_another_implementation(lines in prop::collection::vec(line(), 1..6)) {
        let text = lines.join("\n");
        let (ours, theirs) = (ours(&text), theirs(&text));
        prop_assert!(ours.iter().all(Result::is_ok), "{text:?}: {ours:?}");
        prop_assert_eq!(ours, theirs, "{:?}", text);
    }

    #[test]
    fn canonical_names_without_backslashes_are_read_as_their_keys(
        measurement in "[a-c= µ\t]{1,5}",
        tags in prop::collection::btree_map("[a-c µ]{1,4}", "[a-c µ\n]{1,4}", 0..4),
    ) {
        let key = SourceKey::new(measurement, tags).expect("a good key");
        let mut name = Vec::new();
        key.put_name(&mut name);
        prop_assert_eq!(LineNotation.source_key(&name), Ok(key));
    }

    #[test]
    fn escaped_names_are_read_as_the_original_names(
        measurement in r"[ab,= \\µ]{0,4}[ab,= ]",
        tag in r"[ab,= \\µ]{0,4}[ab,= ]",
        value in r"[ab,= \\µ]{0,4}[ab,= ]",
    ) {
        let mut written = String::new();
        escape_tag(&tag, &value, &mut written);
        let name = format!("{},{written},z=1", escaped(&measurement, ", "));
        let key = SourceKey::new(measurement, [(tag, value), ("z".to_string(), "1".to_string())]);
        prop_assert_eq!(LineNotation.source_key(name.as_bytes()), key);
    }

    #[test]
    fn names_without_backslashes_mean_the_same_in_any_order(
        tags in prop::collection::vec("[ab=]{0,4}", 1..4).prop_map(|tags| (tags.clone(), tags)).prop_flat_map(|(tags, other)| (Just(tags), Just(other).prop_shuffle())),
    ) {
        let [one, other] = [tags.0, tags.1].map(|tags| LineNotation.source_key(format!("m,{}", tags.join(",")).as_bytes()));
        prop_assert_eq!(one.is_ok(), other.is_ok());
        if let (Ok(one), Ok(other)) = (one, other) {
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn damaged_lines_differ_only_in_known_ways(
        line in line().prop_filter("one line", |line| !line.contains('\n')),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3, prop::sample::select(b" ,=\\\".-+eiut019xN#\t".to_vec())), 1..4),
    ) {
        let mut bytes = line.into_bytes();
        for (at, kind, byte) in edits {
            let at = at.index(bytes.len() + 1);
            match kind {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => bytes[at] = byte,
                _ if at < bytes.len() => { bytes.remove(at); }
                _ => {}
            }
        }
        let Ok(text) = String::from_utf8(bytes) else { return Ok(()) };
        let (ours, theirs) = (ours(&text), theirs(&text));
        prop_assert_eq!(ours.len(), theirs.len(), "{:?}: {:?} {:?}", text, ours, theirs);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            prop_assert!(ours == theirs || differs_on_purpose(&text, ours, theirs), "{text:?}: {ours:?} but {theirs:?}");
        }
    }

    #[test]
    fn any_bytes_are_parsed_and_pieces_change_nothing(
        text in prop::collection::vec(prop::sample::select(b"m,a=1i.t\"\\\n \r#-e9\xC3".to_vec()), 0..200),
        piece in 1..50usize,
    ) {
        let (rows, errors) = read(&text);
        if !text.is_empty() {
            let (piece_rows, piece_errors, _) = read_pieces(&text, piece);
            prop_assert_eq!((piece_rows, piece_errors), (rows, errors));
        }
    }
}
