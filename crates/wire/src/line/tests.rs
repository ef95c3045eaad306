//! Tests of the meaning of lines, by tables.

mod differential;
mod texts;

use super::*;
use seiner_model::{FieldType, KeyError, Notation, SourceKey};

const NOW: i64 = 77;

/// A value that owns its text.
#[derive(Clone, Debug)]
enum Owned {
    Bits(FieldBits),
    Text(String),
}

type FieldBits = (FieldType, u64);

impl PartialEq for Owned {
    fn eq(&self, other: &Owned) -> bool {
        match (self, other) {
            (Owned::Bits(a), Owned::Bits(b)) => a == b,
            (Owned::Text(a), Owned::Text(b)) => a == b,
            _ => false,
        }
    }
}

impl From<Value<'_>> for Owned {
    fn from(value: Value<'_>) -> Owned {
        let bits = match value {
            Value::F64(value) => value.to_bits(),
            Value::I64(value) => value as u64,
            Value::U64(value) => value,
            Value::Bool(value) => u64::from(value),
            Value::Str(text) => return Owned::Text(text.to_string()),
            Value::F32(_) => panic!("lines have no 32-bit floats"),
        };
        Owned::Bits((value.field_type(), bits))
    }
}

#[derive(Clone, Debug, PartialEq)]
struct OwnedRow {
    name: Vec<u8>,
    time: i64,
    cells: Vec<(Vec<u8>, Owned)>,
    line: u64,
}

fn owned(batch: &Batch<'_>, parser: &LineParser) -> Vec<OwnedRow> {
    let row = |(index, row): (usize, &Row<'_>)| OwnedRow {
        name: row.name.to_vec(),
        time: row.time,
        cells: batch
            .cells_of(row)
            .iter()
            .map(|cell| (cell.field.to_vec(), Owned::from(cell.value)))
            .collect(),
        line: parser.line_of_row(index),
    };
    batch.rows.iter().enumerate().map(row).collect()
}

fn read_in(precision: Precision, text: &[u8]) -> (Vec<OwnedRow>, Vec<LineError>) {
    let (arena, mut batch, mut errors) = (Arena::new(), Batch::new(), Vec::new());
    let mut parser = LineParser::new(precision);
    let done = parser.parse(text, true, NOW, usize::MAX, &arena, &mut batch, &mut errors);
    assert_eq!(done, text.len());
    (owned(&batch, &parser), errors)
}

fn read(text: &[u8]) -> (Vec<OwnedRow>, Vec<LineError>) {
    read_in(Precision::Ns, text)
}

/// Returns the value of a line's only field. Tries several distances from the end of the text, because the last
/// bytes are parsed by another path.
fn value_of(token: &str) -> Result<Owned, String> {
    let tails = [
        "",
        "\n",
        " 1",
        " 12345678901234567\n",
        " 1700000000000000000\n",
        "\r\n",
        ",z=1 1700000000000000000\n",
    ];
    let values: Vec<_> = tails
        .iter()
        .map(|tail| {
            let (rows, errors) = read(format!("m a={token}{tail}").as_bytes());
            match rows.first() {
                Some(row) => Ok(row.cells[0].1.clone()),
                None => Err(errors[0].reason.to_string()),
            }
        })
        .collect();
    for value in &values {
        assert_eq!(value, &values[0], "{token}: {values:?}");
    }
    values[0].clone()
}

#[test]
fn a_line_is_a_row() {
    let (rows, errors) = read(b"cpu,host=a,core=0 usage=1.5,idle=3i 1700000000000000001\n");
    assert_eq!(errors, []);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].name, b"cpu,host=a,core=0");
    assert_eq!(rows[0].time, 1_700_000_000_000_000_001);
    assert_eq!(
        rows[0].cells,
        [
            (b"usage".to_vec(), Value::F64(1.5).into()),
            (b"idle".to_vec(), Value::I64(3).into())
        ]
    );
}

#[test]
fn numbers() {
    for token in [
        "0",
        "1",
        "-1",
        "1.5",
        "-1.5",
        ".5",
        "5.",
        "-.5",
        "-0",
        "0.1",
        "1e5",
        "-1e5",
        "1E-5",
        "1.5e+3",
        "12345678",
        "123456789",
        "1234567.8",
        "12345678.9",
        "123456789012345",
        "1234567890123456",
        "9007199254740993",
        "12345678901234567890",
        "0.1234567",
        "0.12345678",
        "0.123456789012345",
        "0.1234567890123456",
        "0.12345678901234567",
        "179769313486231570000000000000",
        "1.7976931348623157e308",
        "5e-324",
        "00001.50000",
        "0000000000000000000000000001",
        "3.141592653589793",
        "-2.718281828459045",
        "72057594037927945.0",
    ] {
        let expected: f64 = token.parse().expect("a float");
        assert_eq!(value_of(token), Ok(Value::F64(expected).into()), "{token}");
    }
    for (token, expected) in [
        ("0i", 0),
        ("-0i", 0),
        ("-1i", -1),
        ("1234567i", 1_234_567),
        ("12345678i", 12_345_678),
        ("1234567890123456i", 1_234_567_890_123_456),
        ("9223372036854775807i", i64::MAX),
        ("-9223372036854775808i", i64::MIN),
    ] {
        assert_eq!(value_of(token), Ok(Value::I64(expected).into()), "{token}");
    }
    for (token, expected) in [("0u", 0), ("42u", 42), ("18446744073709551615u", u64::MAX)] {
        assert_eq!(value_of(token), Ok(Value::U64(expected).into()), "{token}");
    }
}

#[test]
fn booleans_and_texts() {
    for token in ["t", "T", "true", "True", "TRUE"] {
        assert_eq!(value_of(token), Ok(Value::Bool(true).into()), "{token}");
    }
    for token in ["f", "F", "false", "False", "FALSE"] {
        assert_eq!(value_of(token), Ok(Value::Bool(false).into()), "{token}");
    }
    for (token, expected) in [
        (r#""""#, ""),
        (r#""a b, c=d""#, "a b, c=d"),
        (r#""say \"hi\"""#, r#"say "hi""#),
        (r#""C:\\""#, r"C:\"),
        (r#""C:\dir\\new""#, r"C:\dir\new"),
        (r#""\\\"""#, r#"\""#),
        ("\"two\nlines\"", "two\nlines"),
        ("\"grün µ 温度\"", "grün µ 温度"),
    ] {
        assert_eq!(value_of(token), Ok(Value::Str(expected).into()), "{token}");
    }
}

#[test]
fn invalid_values_are_rejected() {
    for (token, reason) in [
        ("12x", r#"field "a": 12x is not a number"#),
        ("1.2.3", r#"field "a": 1.2.3 is not a number"#),
        ("-", r#"field "a": - is not a number"#),
        ("+1", r#"field "a": +1 is not a number"#),
        ("1e", r#"field "a": 1e is not a number"#),
        ("-5u", r#"field "a": -5u is not a number"#),
        ("1.5i", r#"field "a": 1.5i is not a number"#),
        ("1_000", r#"field "a": 1_000 is not a number"#),
        ("0x10", r#"field "a": 0x10 is not a number"#),
        ("1\t", "field \"a\": 1\t is not a number"),
        (
            "i",
            r#"field "a": i is not a number or boolean; put texts in double quotes"#,
        ),
        (
            "open",
            r#"field "a": open is not a number or boolean; put texts in double quotes"#,
        ),
        (
            "NaN",
            r#"field "a": NaN is not finite; leave the field out instead"#,
        ),
        (
            "inf",
            r#"field "a": inf is not finite; leave the field out instead"#,
        ),
        (
            "-Infinity",
            r#"field "a": -Infinity is not finite; leave the field out instead"#,
        ),
        (
            "1e999",
            r#"field "a": 1e999 is not finite; leave the field out instead"#,
        ),
        (
            "9223372036854775808i",
            r#"field "a": 9223372036854775808i is beyond 64 bits; leave its last letter out for a float"#,
        ),
        (
            "18446744073709551616u",
            r#"field "a": 18446744073709551616u is beyond 64 bits; leave its last letter out for a float"#,
        ),
        ("", r#"field "a" has no value"#),
    ] {
        assert_eq!(value_of(token), Err(reason.to_string()), "{token}");
    }
}

#[test]
fn invalid_lines_are_rejected() {
    let text = [
        "m a=1 1",
        "",
        "# a comment, x=\"",
        "m",
        "m,t=1",
        "m =1",
        "m a",
        "m a=1,",
        "m a=1,b 5",
        "m a=1 5x",
        "m a=1 5 6",
        "m a=\"x\"y 5",
        "m a=1 99999999999999999999",
        "m,t=1\ta=1",
        "   m a=2 2   ",
        "m a=12x,b=\"quoted\nm c=3 3\" 9",
        "m a=3 3",
        "m a=1,b=\"open 4",
    ]
    .join("\n");
    let (rows, errors) = read(text.as_bytes());
    assert_eq!(
        rows.iter()
            .map(|row| (row.line, row.time))
            .collect::<Vec<_>>(),
        [(1, 1), (15, 2), (18, 3)]
    );
    let no_fields = "there are no fields; write `measurement,tag=value field=1.5 time`";
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            format!("line 4: {no_fields}"),
            format!("line 5: {no_fields}"),
            "line 6: a field has no name; is there a comma too many, or nothing before the `=`?".to_string(),
            "line 7: field \"a\" has no value".to_string(),
            "line 8: a field has no name; is there a comma too many, or nothing before the `=`?".to_string(),
            "line 9: field \"b\" has no value".to_string(),
            "line 10: time 5x is not an integer; write it in ns, or leave it out for now".to_string(),
            "line 11: 6 follows the time; escape spaces within names by a backslash".to_string(),
            "line 12: y follows the time; escape spaces within names by a backslash".to_string(),
            "line 13: time 99999999999999999999 in ns is outside the years 1677 to 2262; is the precision right?"
                .to_string(),
            format!("line 14: {no_fields}"),
            "line 16: field \"a\": 12x is not a number".to_string(),
            "line 19: field \"b\": the text has no closing quote; all that follows was taken for it".to_string(),
        ]
    );
}

#[test]
fn bytes_that_are_not_utf8_are_rejected() {
    let (rows, errors) = read(b"m a\xFF=1\nm a=\"\xFF\"\nm\xFF a=1 1\n\xFF\xFE\n");
    assert_eq!(rows.len(), 1, "a source's name is left to the notation");
    assert_eq!(
        errors[0].reason,
        LineReason::FieldNameNotUtf8 {
            field: "a\u{FFFD}".into()
        }
    );
    assert_eq!(
        errors[1].reason,
        LineReason::TextNotUtf8 { field: "a".into() }
    );
    assert_eq!(errors[2].reason, LineReason::NoFields);
    assert!(matches!(
        LineNotation.source_key(&rows[0].name),
        Err(KeyError::Notation(_))
    ));
}

#[test]
fn times_have_a_precision() {
    for (precision, expected) in [
        ("n", 7),
        ("ns", 7),
        ("u", 7_000),
        ("us", 7_000),
        ("µ", 7_000),
        ("μs", 7_000),
        ("ms", 7_000_000),
        ("s", 7_000_000_000),
        ("m", 420_000_000_000),
        ("h", 25_200_000_000_000),
    ] {
        let precision = precision.parse().expect("a precision");
        assert_eq!(read_in(precision, b"m a=1 7\n").0[0].time, expected);
        assert_eq!(read_in(precision, b"m a=1 -7").0[0].time, -expected);
        assert_eq!(read_in(precision, b"m a=1").0[0].time, NOW);
    }
    assert_eq!(read(b"m a=1 9223372036854775807\n").0[0].time, i64::MAX);
    assert_eq!(read(b"m a=1 -9223372036854775808\n").0[0].time, i64::MIN);
    assert_eq!(read(b"m a=1 9223372036854775808\n").1.len(), 1);
    let (_, errors) = read_in(Precision::S, b"m a=1 1700000000000000000\n");
    assert_eq!(
        errors[0].to_string(),
        "line 1: time 1700000000000000000 in s is outside the years 1677 to 2262; is the precision right?"
    );
    assert_eq!(
        "d".parse::<Precision>().expect_err("days").to_string(),
        r#""d" is not a precision; there are ns (or n), us (or u, µ, µs), ms, s, m and h"#
    );
}

#[test]
fn names_are_read_by_the_notation() {
    for (name, expected) in [
        ("cpu", "cpu"),
        ("cpu,host=a,core=0", r#"cpu{core="0",host="a"}"#),
        (r"a\,b\ c,t\=1\,2=x\ y", r#""a,b c"{"t=1,2"="x y"}"#),
        (r"a=b,t=c=d", r#""a=b"{t="c=d"}"#),
        (r"a\\b,t=c\d", r#"a\\b{t="c\\d"}"#),
        // Agents on Windows send paths unescaped.
        (r"m,path=\\server\share", r#"m{path="\\\\server\\share"}"#),
        (r"m,path=\server\share", r#"m{path="\\server\\share"}"#),
        // A backslash directly before a separator escapes it, whatever precedes the backslash.
        (r"m,path=C:\\,x", r#"m{path="C:\\,x"}"#),
        (r"m,path=C:\\\ x", r#"m{path="C:\\\\ x"}"#),
        (r"a\=b,t\\=c=d", r#""a\\=b"{"t\\=c"="d"}"#),
    ] {
        let key = LineNotation.source_key(name.as_bytes());
        assert_eq!(
            key.map(|key| key.to_string()),
            Ok(expected.to_string()),
            "{name}"
        );
    }
    for (name, expected) in [
        (",t=1", "the measurement is empty"),
        ("m,t", r#"tag "t" has no value; write tag=value"#),
        ("m,", r#"tag "" has no value; write tag=value"#),
        (
            "m,t=",
            r#"tag "t" has an empty value; leave the tag out instead"#,
        ),
        ("m,=1", "a tag has an empty name"),
        ("m,t=1,t=2", r#"tag "t" stands twice"#),
        (
            r"m,path=C:\,x=1",
            r#"tag "path=C:\\,x=1" has a backslash before the comma, which makes the comma part of the value; leave out the backslash at the end of a value"#,
        ),
    ] {
        let error = LineNotation
            .source_key(name.as_bytes())
            .map_err(|error| error.to_string());
        assert_eq!(error, Err(expected.to_string()), "{name}");
    }
}

#[test]
fn rows_stop_at_the_limit() {
    let text = b"m a=1 1\nbad\nm a=2 2\n\nm a=3 3\n";
    let (arena, mut batch, mut errors) = (Arena::new(), Batch::new(), Vec::new());
    let mut parser = LineParser::new(Precision::Ns);
    let mut at = parser.parse(text, true, NOW, 2, &arena, &mut batch, &mut errors);
    assert_eq!(
        owned(&batch, &parser)
            .iter()
            .map(|row| row.line)
            .collect::<Vec<_>>(),
        [1, 3]
    );
    batch.clear();
    at += parser.parse(&text[at..], true, NOW, 2, &arena, &mut batch, &mut errors);
    assert_eq!(
        owned(&batch, &parser)
            .iter()
            .map(|row| row.line)
            .collect::<Vec<_>>(),
        [5]
    );
    assert_eq!((at, errors.len(), errors[0].line), (text.len(), 1, 2));
}

/// Feeds a text in pieces, as a socket does, and keeps the remaining bytes of each piece.
fn read_pieces(text: &[u8], piece: usize) -> (Vec<OwnedRow>, Vec<LineError>, usize) {
    let (mut parser, mut rows, mut errors) =
        (LineParser::new(Precision::Ns), Vec::new(), Vec::new());
    let (mut from, mut to, mut longest) = (0, 0, 0);
    while to < text.len() {
        to = text.len().min(to + piece);
        let (arena, mut batch) = (Arena::new(), Batch::new());
        let last = to == text.len();
        from += parser.parse(
            &text[from..to],
            last,
            NOW,
            usize::MAX,
            &arena,
            &mut batch,
            &mut errors,
        );
        rows.extend(owned(&batch, &parser));
        longest = longest.max(to - from);
    }
    (rows, errors, longest)
}

#[test]
fn lines_that_are_too_long_are_skipped_in_pieces() {
    let long = LineParser::MAX_LINE + 10;
    let text = [
        "m a=1 1".to_string(),
        format!("{} a=1 2", "n".repeat(long)),
        format!("m a=\"{}\nm a=1 1\n\" 3", "\n".repeat(long)),
        "m a=4 4".to_string(),
    ]
    .join("\n");
    for piece in [10_000, LineParser::MAX_LINE / 2, usize::MAX / 2] {
        let (rows, errors, longest) = read_pieces(text.as_bytes(), piece);
        assert_eq!(rows.iter().map(|row| row.time).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(rows[1].line, 6 + long as u64);
        assert_eq!(
            errors.iter().map(|error| error.line).collect::<Vec<_>>(),
            [2, 3]
        );
        assert!(
            errors
                .iter()
                .all(|error| error.reason == LineReason::TooLong)
        );
        assert!(
            longest <= LineParser::MAX_LINE,
            "{longest} bytes were left over"
        );
    }
}

#[test]
fn a_text_may_be_cut_anywhere() {
    let text = concat!(
        "# comment\n\n  cpu,host=a\\ b usage=1.5,on=t,n=-3i,u=4u 1700000000000000000\r\n",
        "m\\,x,t=\\= f\\ 1=\"a \\\"quoted\\\"\nline\",g=1 5\nbad line\nm a=1x,b=\"\nm a=1\" 4\n",
        "m a=0.12345678901234567 -9\nm a=1e3\n   \nm a=12345678,b=\"ü\" 1700000000000000000",
    )
    .as_bytes();
    let (rows, errors) = read(text);
    assert_eq!((rows.len(), errors.len()), (5, 2));
    for cut in 0..=text.len() {
        let (mut parser, mut cut_rows, mut cut_errors) =
            (LineParser::new(Precision::Ns), Vec::new(), Vec::new());
        let mut from = 0;
        for to in [cut, text.len()] {
            let (arena, mut batch) = (Arena::new(), Batch::new());
            let last = to == text.len() && from < to || cut == text.len();
            from += parser.parse(
                &text[from..to],
                last,
                NOW,
                usize::MAX,
                &arena,
                &mut batch,
                &mut cut_errors,
            );
            cut_rows.extend(owned(&batch, &parser));
        }
        assert_eq!(
            (from, &cut_rows, &cut_errors),
            (text.len(), &rows, &errors),
            "cut at {cut}"
        );
    }
    for piece in 1..20 {
        let (piece_rows, piece_errors, _) = read_pieces(text, piece);
        assert_eq!(
            (&piece_rows, &piece_errors),
            (&rows, &errors),
            "pieces of {piece}"
        );
    }
}

#[test]
fn times_without_their_precision_are_rejected_on_request() {
    let read = |text: &str, precision, refuse| {
        let (arena, mut batch, mut errors) = (Arena::new(), Batch::new(), Vec::new());
        let mut parser = LineParser::new(precision).refuse_1970(refuse);
        parser.parse(text.as_bytes(), true, 0, 9, &arena, &mut batch, &mut errors);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        (batch.rows.len(), errors)
    };
    // Times of 2023 in seconds, milliseconds and microseconds, among valid lines.
    let lines = "v x=1 1700000000\nv x=1 1700000000000\nv x=1 1700000000000000\nv x=1 1700000000000000000\nv x=1 5\nv x=1\n";
    let (rows, errors) = read(lines, Precision::Ns, true);
    assert_eq!((rows, errors.len()), (3, 3), "{errors:?}");
    for (error, meant) in errors.iter().zip(["s", "ms", "us"]) {
        assert!(error.contains(&format!("precision={meant} ")), "{error}");
        assert!(error.contains("1970-0"), "{error}");
    }
    assert_eq!(read(lines, Precision::Ns, false).0, 6);
    assert_eq!(read("v x=1 1700000000", Precision::S, true).0, 1);
    assert_eq!(read("v x=1 1700000000", Precision::Ms, true).0, 0);
    assert_eq!(read("v x=1 1700000000000", Precision::Ms, true).0, 1);
}

#[test]
fn times_in_every_unit_are_scaled_alike_on_the_fast_and_on_the_slow_path() {
    let precisions = ["ns", "us", "ms", "s", "m", "h"].map(|name| name.parse().unwrap());
    for precision in precisions {
        let unit = Precision::ns(precision);
        let limit = i64::MAX / unit;
        let now = 1_700_000_000_000_000_000 / unit;
        let units = [0, 1, 9, 12_345_678, 123_456_789, now, limit - 1, limit];
        for units in units
            .into_iter()
            .chain([limit.saturating_add(1), 9_999_999_999_999_999])
        {
            for refuse in [false, true] {
                let read = |end: &str| {
                    // The space keeps the line from the fast path. So does the end of the text.
                    let text = format!("v x=1 {units}{end}");
                    let (arena, mut batch, mut errors) = (Arena::new(), Batch::new(), Vec::new());
                    let mut parser = LineParser::new(precision).refuse_1970(refuse);
                    parser.parse(text.as_bytes(), true, 0, 9, &arena, &mut batch, &mut errors);
                    let times: Vec<i64> = batch.rows.iter().map(|row| row.time).collect();
                    (
                        times,
                        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
                    )
                };
                let fast = read("\n# a comment, longer than a word\n");
                assert_eq!(fast, read(" \n"), "{units} {precision}");
                assert_eq!(fast, read(""), "{units} {precision}");
                let expected = units.checked_mul(unit).filter(|_| !refuse || units == now);
                if !refuse || units == now {
                    assert_eq!(fast.0.first().copied(), expected, "{units} {precision}");
                }
            }
        }
    }
}
