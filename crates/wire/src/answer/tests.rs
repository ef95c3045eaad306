//! Tests that other readers read the answers back.

use super::*;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_ipc::reader::StreamReader;
use proptest::prelude::*;
use seiner_model::{Strings, Value};
use serde_json::json;

fn key(tags: &[(&str, &str)]) -> SourceKey {
    SourceKey::new("cpu", tags.iter().copied()).expect("a key")
}

fn samples() -> Head {
    Head {
        from: -5,
        to: i64::MAX,
        shape: AnswerShape::Samples,
        time_unit: TimeUnit::Ns,
        levels: Vec::new(),
    }
}

fn steps(aggregates: &[&str]) -> Head {
    let aggregates = aggregates.iter().map(ToString::to_string).collect();
    Head {
        from: 0,
        to: 99,
        shape: AnswerShape::Steps {
            step_ns: 10,
            aggregates,
        },
        time_unit: TimeUnit::Ns,
        levels: Vec::new(),
    }
}

fn written(format: Format, head: &Head, all: &[Series<'_>]) -> Vec<u8> {
    let mut answer = Answer::begin(format, Vec::new(), head);
    for series in all {
        answer.series(series).expect("a write to a Vec succeeds");
    }
    answer.end(false, &[]).expect("a write to a Vec succeeds")
}

fn text(format: Format, head: &Head, all: &[Series<'_>]) -> String {
    String::from_utf8(written(format, head, all)).expect("UTF-8")
}

fn strings(texts: &[&str]) -> Column {
    let mut strings = Strings::default();
    texts.iter().for_each(|text| strings.push(text));
    Column::Str(strings)
}

#[test]
fn json_of_samples() {
    let (a, b) = (key(&[("host", "a"), ("core", "0")]), key(&[]));
    let all = [
        Series {
            key: &a,
            field: "usage",
            times: &[-1, i64::MAX],
            columns: &[Cells::Values(&Column::F64(vec![0.1, -0.0]))],
        },
        Series {
            key: &b,
            field: "on \"1\"",
            times: &[7],
            columns: &[Cells::Values(&Column::Bool(vec![true]))],
        },
        Series {
            key: &b,
            field: "n",
            times: &[7],
            columns: &[Cells::Values(&Column::U64(vec![u64::MAX]))],
        },
        Series {
            key: &b,
            field: "i",
            times: &[],
            columns: &[Cells::Values(&Column::I64(vec![]))],
        },
        Series {
            key: &b,
            field: "state",
            times: &[7, 8],
            columns: &[Cells::Values(&strings(&["a\n\"b\"\u{1}", "µ"]))],
        },
        Series {
            key: &b,
            field: "f",
            times: &[7],
            columns: &[Cells::Values(&Column::F32(vec![0.1]))],
        },
    ];
    assert_eq!(
        text(Format::Json, &samples(), &all),
        concat!(
            r#"{"from":"-5","to":"9223372036854775807","series":["#,
            r#"{"measurement":"cpu","tags":{"core":"0","host":"a"},"field":"usage","type":"f64","#,
            r#""times":[-1,9223372036854775807],"values":[0.1,-0.0]},"#,
            r#"{"measurement":"cpu","tags":{},"field":"on \"1\"","type":"bool","times":[7],"values":[true]},"#,
            r#"{"measurement":"cpu","tags":{},"field":"n","type":"u64","times":[7],"values":[18446744073709551615]},"#,
            r#"{"measurement":"cpu","tags":{},"field":"i","type":"i64","times":[],"values":[]},"#,
            r#"{"measurement":"cpu","tags":{},"field":"state","type":"string","times":[7,8],"#,
            r#""values":["a\n\"b\"\u0001","µ"]},"#,
            r#"{"measurement":"cpu","tags":{},"field":"f","type":"f32","times":[7],"values":[0.1]}"#,
            r#"],"truncated":false}"#,
        )
    );
}

#[test]
fn json_of_steps() {
    let key = key(&[("host", "a")]);
    let columns = [&Column::F64(vec![1.5, f64::NAN]), &Column::U64(vec![3, 4])];
    let series = Series {
        key: &key,
        field: "usage",
        times: &[0, 10],
        columns: &columns.map(Cells::Values),
    };
    let mut answer = Answer::begin(Format::Json, Vec::new(), &steps(&["mean", "count"]));
    answer.series(&series).expect("a write to a Vec succeeds");
    let json: serde_json::Value = serde_json::from_slice(
        &answer
            .end(true, &["a block".to_string()])
            .expect("a write to a Vec succeeds"),
    )
    .expect("JSON");
    assert_eq!(
        json,
        json!({
            "from": "0", "to": "99", "step_ns": 10, "truncated": true, "warnings": ["a block"],
            "series": [{
                "measurement": "cpu", "tags": {"host": "a"}, "field": "usage",
                "times": [0, 10], "mean": [1.5, "NaN"], "count": [3, 4],
            }],
        })
    );
}

#[test]
fn answers_without_series() {
    let json: serde_json::Value =
        serde_json::from_slice(&written(Format::Json, &samples(), &[])).expect("JSON");
    assert_eq!(json["series"], json!([]));
    assert_eq!(
        text(Format::Csv, &samples(), &[]),
        "measurement,tags,field,time,value\n"
    );
    let bytes = written(Format::Arrow, &samples(), &[]);
    let mut reader = StreamReader::try_new(bytes.as_slice(), None).expect("a stream");
    assert_eq!(reader.schema().fields().len(), 5);
    assert!(reader.next().is_none());
}

#[test]
fn times_in_milliseconds_are_exact() {
    let head = Head {
        time_unit: TimeUnit::Ms,
        levels: Vec::new(),
        ..samples()
    };
    let times = [
        0,
        1,
        -1,
        1_000_000,
        -1_500_000,
        1_700_000_000_000_000_001,
        1_700_000_000_120_000_000,
        i64::MIN,
    ];
    let column = Column::I64(vec![0; times.len()]);
    let series = Series {
        key: &key(&[]),
        field: "n",
        times: &times,
        columns: &[Cells::Values(&column)],
    };
    let json = text(Format::Json, &head, &[series]);
    let expected =
        "[0,0.000001,-0.000001,1,-1.5,1700000000000.000001,1700000000120,-9223372036854.775808]";
    assert!(json.contains(expected), "{json}");
    assert!(text(Format::Csv, &head, &[series]).contains("\ncpu,,n,1700000000120,0\n"));
}

#[test]
fn csv_round_trips() {
    let a = key(&[("host", "a b"), ("path", "x,\"y\"=z")]);
    let texts = strings(&["plain", "with, comma", "two\nlines \"quoted\"", ""]);
    let all = [Series {
        key: &a,
        field: "st,ate",
        times: &[1, 2, 3, 4],
        columns: &[Cells::Values(&texts)],
    }];
    let bytes = written(Format::Csv, &samples(), &all);
    let mut reader = ::csv::Reader::from_reader(bytes.as_slice());
    assert_eq!(
        reader.headers().expect("a header"),
        &["measurement", "tags", "field", "time", "value"][..]
    );
    let rows: Vec<::csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    let tags = r#"host=a\ b,path=x\,"y"\=z"#;
    assert_eq!(rows.len(), 4);
    for (index, row) in rows.iter().enumerate() {
        let Value::Str(text) = texts.get(index) else {
            panic!("texts")
        };
        assert_eq!(
            row,
            &["cpu", tags, "st,ate", &(index + 1).to_string(), text][..]
        );
    }
    let columns = [
        &Column::F64(vec![f64::INFINITY, 2.5]),
        &Column::F64(vec![f64::NEG_INFINITY, f64::NAN]),
    ];
    let columns = columns.map(Cells::Values);
    let all = [Series {
        key: &key(&[]),
        field: "usage",
        times: &[0, 10],
        columns: &columns,
    }];
    assert_eq!(
        text(Format::Csv, &steps(&["mean", "max"]), &all),
        "measurement,tags,field,time,mean,max\ncpu,,usage,0,Infinity,-Infinity\ncpu,,usage,10,2.5,NaN\n"
    );
}

/// Returns tags, field, time and value of all rows of a stream.
fn arrow_rows(bytes: &[u8]) -> Vec<(String, String, i64, f64)> {
    let reader = StreamReader::try_new(bytes, None).expect("a stream");
    let mut rows = Vec::new();
    for batch in reader {
        let batch = batch.expect("a batch");
        let name = |column: usize, row: usize| {
            let names = batch.column(column).as_dictionary::<Int32Type>();
            let key = names.keys().value(row) as usize;
            names.values().as_string::<i32>().value(key).to_string()
        };
        let times = batch.column(3).as_primitive::<TimestampNanosecondType>();
        let values = batch.column(4).as_primitive::<Float64Type>();
        for row in 0..batch.num_rows() {
            assert_eq!(name(0, row), "cpu");
            rows.push((
                name(1, row),
                name(2, row),
                times.value(row),
                values.value(row),
            ));
        }
    }
    rows
}

#[test]
fn arrow_round_trips_over_many_batches() {
    let keys = [
        key(&[("host", "a"), ("core", "0")]),
        key(&[("host", "b")]),
        key(&[]),
    ];
    let mut expected = Vec::new();
    let mut answer = Answer::begin(Format::Arrow, Vec::new(), &samples());
    for (number, key) in keys.iter().enumerate() {
        for (field, len) in [("usage", 50_000), ("idle", 1), ("temp", 90_000 * number)] {
            let times: Vec<i64> = (0..len as i64).map(|row| row * 10).collect();
            let values: Vec<f64> = (0..len)
                .map(|row| (row * (number + 1)) as f64 / 7.0)
                .collect();
            for (time, value) in times.iter().zip(&values) {
                expected.push((tags_text(key), field.to_string(), *time, *value));
            }
            let series = Series {
                key,
                field,
                times: &times,
                columns: &[Cells::Values(&Column::F64(values))],
            };
            answer.series(&series).expect("a write to a Vec succeeds");
        }
    }
    let rows = arrow_rows(&answer.end(false, &[]).expect("a write to a Vec succeeds"));
    assert_eq!(rows.len(), expected.len());
    assert!(rows == expected);
    assert_eq!(rows[0].0, "core=0,host=a");
}

/// Sums of integers keep all digits in formats that can represent them.
#[test]
fn sums_beyond_64_bits_are_exact_in_texts_and_missing_in_arrow() {
    let key = key(&[]);
    let sums = [i128::from(i64::MAX) + 1, 9_007_199_254_740_993];
    let (signed, unsigned) = (
        [Cells::Sums(FieldType::I64, &sums)],
        [Cells::Sums(FieldType::U64, &sums)],
    );
    let series = |columns| Series {
        key: &key,
        field: "i",
        times: &[0, 10],
        columns,
    };
    let (signed, head) = (series(&signed), steps(&["sum"]));
    let json = text(Format::Json, &head, &[signed]);
    assert!(
        json.contains("\"sum\":[9223372036854775808,9007199254740993]"),
        "{json}"
    );
    let csv = text(Format::Csv, &head, &[signed]);
    assert!(csv.contains(",0,9223372036854775808\n"), "{csv}");
    let read = |series| {
        let bytes = written(Format::Arrow, &head, &[series]);
        let mut reader = StreamReader::try_new(bytes.as_slice(), None).expect("a stream");
        reader.next().expect("a batch").expect("rows")
    };
    let batch = read(signed);
    let column = batch.column(4).as_primitive::<Int64Type>();
    assert!(column.is_null(0) && !column.is_null(1));
    assert_eq!(column.value(1), 9_007_199_254_740_993);
    let batch = read(series(&unsigned));
    assert_eq!(
        batch.column(4).as_primitive::<UInt64Type>().value(0),
        1 << 63
    );
}

#[test]
fn arrow_keeps_the_types_of_columns() {
    let columns = [
        &Column::U64(vec![3]),
        &Column::I64(vec![-4]),
        &strings(&["x"]),
        &Column::Bool(vec![true]),
        &Column::F32(vec![0.5]),
    ];
    let series = Series {
        key: &key(&[]),
        field: "f",
        times: &[5],
        columns: &columns.map(Cells::Values),
    };
    let bytes = written(
        Format::Arrow,
        &steps(&["count", "min", "last", "on", "f"]),
        &[series],
    );
    let mut reader = StreamReader::try_new(bytes.as_slice(), None).expect("a stream");
    let batch = reader.next().expect("a batch").expect("a batch");
    let names: Vec<_> = batch
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    assert_eq!(
        names,
        [
            "measurement",
            "tags",
            "field",
            "time",
            "count",
            "min",
            "last",
            "on",
            "f"
        ]
    );
    assert_eq!(batch.column(4).as_primitive::<UInt64Type>().value(0), 3);
    assert_eq!(batch.column(5).as_primitive::<Int64Type>().value(0), -4);
    assert_eq!(batch.column(6).as_string::<i32>().value(0), "x");
    assert!(batch.column(7).as_boolean().value(0));
}

#[test]
fn arrow_rejects_a_second_type() {
    let key = key(&[]);
    let mut answer = Answer::begin(Format::Arrow, Vec::new(), &samples());
    let floats = Series {
        key: &key,
        field: "a",
        times: &[1],
        columns: &[Cells::Values(&Column::F64(vec![1.0]))],
    };
    let integers = Series {
        key: &key,
        field: "b",
        times: &[1],
        columns: &[Cells::Values(&Column::I64(vec![1]))],
    };
    answer.series(&floats).expect("the first type");
    let error = answer.series(&integers).expect_err("a second type");
    assert_eq!(
        error.to_string(),
        "an Arrow stream has one type of values, and these fields have several: a (f64); b (i64); choose some by `fields=`"
    );
    assert_eq!(one_type([]), Ok(FieldType::F64));
    assert_eq!(
        one_type([("a", FieldType::I64), ("b", FieldType::I64)]),
        Ok(FieldType::I64)
    );
    let mixed = one_type([
        ("a", FieldType::I64),
        ("b", FieldType::Str),
        ("c", FieldType::I64),
    ]);
    assert!(
        mixed
            .expect_err("two types")
            .to_string()
            .contains(": a, c (i64); b (string); ")
    );
}

/// A writer that fails after some bytes.
#[derive(Debug)]
struct Breaking(usize);

impl Write for Breaking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_broken_writer_is_an_error() {
    let key = key(&[]);
    let times: Vec<i64> = (0..200_000).collect();
    let column = Column::I64(times.clone());
    let series = Series {
        key: &key,
        field: "n",
        times: &times,
        columns: &[Cells::Values(&column)],
    };
    for format in [Format::Json, Format::Csv, Format::Arrow] {
        let mut answer = Answer::begin(format, Breaking(100_000), &samples());
        assert!(
            answer.series(&series).is_err(),
            "{format:?}: two megabytes were buffered"
        );
        let answer = Answer::begin(format, Breaking(10), &samples());
        assert!(answer.end(false, &[]).is_err(), "{format:?}");
    }
}

#[test]
fn formats_have_names_and_types() {
    assert_eq!("json".parse(), Ok(Format::Json));
    assert_eq!("csv".parse(), Ok(Format::Csv));
    assert_eq!("arrow".parse(), Ok(Format::Arrow));
    let error = "xml".parse::<Format>().expect_err("no format");
    assert_eq!(
        error.to_string(),
        r#""xml" is not a format; there are json, csv and arrow"#
    );
    assert_eq!(
        Format::Arrow.content_type(),
        "application/vnd.apache.arrow.stream"
    );
}

proptest! {
    #[test]
    fn json_contains_exact_values(
        samples_of in prop::collection::vec((any::<i64>(), any::<f64>(), any::<f32>()), 0..50),
    ) {
        let times: Vec<i64> = samples_of.iter().map(|sample| sample.0).collect();
        let floats: Vec<f64> = samples_of.iter().map(|sample| sample.1).collect();
        let singles: Vec<f32> = samples_of.iter().map(|sample| sample.2).collect();
        let key = key(&[]);
        let all = [
            Series { key: &key, field: "f", times: &times, columns: &[Cells::Values(&Column::F64(floats.clone()))] },
            Series { key: &key, field: "s", times: &times, columns: &[Cells::Values(&Column::F32(singles.clone()))] },
        ];
        // The standard library parses the numbers, because the parser of serde_json can be off by one bit.
        let json = text(Format::Json, &samples(), &all);
        let arrays: Vec<Vec<&str>> = json
            .split('[')
            .skip(2)
            .map(|rest| rest[..rest.find(']').expect("a closed array")].split(',').filter(|text| !text.is_empty()).collect())
            .collect();
        let read_times: Vec<i64> = arrays[0].iter().map(|text| text.parse().expect("an integer")).collect();
        prop_assert_eq!(read_times, times);
        for (text, float) in arrays[1].iter().zip(&floats) {
            let read: f64 = text.trim_matches('"').parse().expect("a float");
            prop_assert!(read.to_bits() == float.to_bits() || read.is_nan() && float.is_nan());
        }
        for (text, single) in arrays[3].iter().zip(&singles) {
            let read: f32 = text.trim_matches('"').parse().expect("a float");
            prop_assert!(read.to_bits() == single.to_bits() || read.is_nan() && single.is_nan());
        }
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    }
}

#[test]
fn answers_contain_the_intervals_of_levels() {
    let level = |from: i64, to: i64, seconds: u64| AnswerLevel {
        from,
        to,
        step_ns: seconds * 1_000_000_000,
    };
    let levels = vec![level(i64::MIN, -1, 60), level(0, 99, 1)];
    let text = levels_text(&levels);
    assert_eq!(
        text,
        "(-9223372036854775808)-(-1)/60000000000,0-99/1000000000"
    );
    assert_eq!(read_levels(&text), levels);
    assert_eq!((levels_text(&[]), read_levels("")), (String::new(), vec![]));
    let head = Head {
        levels,
        ..samples()
    };
    let end = |format| {
        let answer = Answer::begin(format, Vec::new(), &head);
        answer.end(false, &[]).unwrap()
    };
    let json: serde_json::Value = serde_json::from_slice(&end(Format::Json)).unwrap();
    assert_eq!(
        json["levels"],
        serde_json::json!([
            {"from": "-9223372036854775808", "to": "-1", "step_ns": 60_000_000_000_u64},
            {"from": "0", "to": "99", "step_ns": 1_000_000_000},
        ])
    );
    let bytes = end(Format::Arrow);
    let arrow = arrow_ipc::reader::StreamReader::try_new(bytes.as_slice(), None).unwrap();
    assert_eq!(arrow.schema().metadata()["levels"], text);
}

/// A series in parts is the same answer as in one.
#[test]
fn a_series_in_parts_is_written_as_one() {
    let head = Head {
        from: 0,
        to: 99,
        shape: AnswerShape::Samples,
        time_unit: TimeUnit::Ns,
        levels: Vec::new(),
    };
    let key = SourceKey::new("m", [("host", "a")]).unwrap();
    let times: Vec<i64> = (0..90).collect();
    let values: Vec<f64> = times.iter().map(|&time| time as f64 / 8.0).collect();
    for format in [Format::Json, Format::Csv, Format::Arrow] {
        let mut whole = Answer::begin(format, Vec::new(), &head);
        let column = Column::F64(values.clone());
        for field in ["x", "y"] {
            let columns = &[Cells::Values(&column)];
            let series = Series {
                key: &key,
                field,
                times: &times,
                columns,
            };
            whole.series(&series).unwrap();
        }
        let mut parts = Answer::begin(format, Vec::new(), &head);
        for field in ["x", "none", "y"] {
            let pass = || {
                let chunks = times.chunks(40).zip(values.chunks(40));
                let chunks = chunks.filter(|_| field != "none");
                chunks.map(|(times, values)| Ok((times.to_vec(), Column::F64(values.to_vec()))))
            };
            let any = parts.series_in_parts(&key, field, pass).unwrap();
            assert_eq!(any, field != "none");
        }
        let whole = whole.end(false, &[]).unwrap();
        assert_eq!(parts.end(false, &[]).unwrap(), whole, "{format:?}");
    }
    // The passes must agree: JSON has as many values as times.
    let mut answer = Answer::begin(Format::Json, Vec::new(), &head);
    let mut pass = 0;
    let other = answer.series_in_parts(&key, "x", || {
        pass += 1;
        std::iter::once(Ok((vec![1; pass], Column::F64(vec![0.5; pass]))))
    });
    assert!(other.is_err());
}
