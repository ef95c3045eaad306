//! Tests that other readers read wide answers back.

use super::*;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_ipc::reader::StreamReader;
use seiner_model::{Bitmap, Strings};

fn key(measurement: &str, tags: &[(&str, &str)]) -> SourceKey {
    SourceKey::new(measurement, tags.iter().copied()).expect("a key")
}

fn head(tags: &[&str], fields: &[(&str, FieldType)]) -> WideHead {
    let tags: Vec<String> = tags.iter().map(ToString::to_string).collect();
    let fields: Vec<(String, FieldType)> = fields
        .iter()
        .map(|(name, field_type)| (name.to_string(), *field_type))
        .collect();
    WideHead {
        from: 0,
        to: 99,
        time_unit: TimeUnit::Ns,
        levels: Vec::new(),
        columns: WideColumns::new(&tags, &fields).expect("few columns"),
    }
}

fn written(format: Format) -> Vec<u8> {
    let mut answer =
        WideAnswer::begin(format, Vec::new(), &two_types()).expect("a write to a Vec succeeds");
    two_sources(&mut |rows| answer.rows(rows).expect("a write to a Vec succeeds"));
    answer.end(&[]).expect("a write to a Vec succeeds")
}

/// Returns the head of an answer with the field `usage` in two types.
fn two_types() -> WideHead {
    head(
        &["host", "time"],
        &[
            ("state", FieldType::Str),
            ("usage", FieldType::F64),
            ("usage", FieldType::I64),
        ],
    )
}

/// Passes on two sources: one with texts and a missing value, and one with the field `usage` in another type.
fn two_sources(pass: &mut impl FnMut(&WideRows<'_>)) {
    let mut texts = Strings::default();
    texts.push("");
    texts.push("a,\"b\"");
    let column = |present: Option<Bitmap>, values| Some(FieldColumn { present, values });
    let rows = [
        WideRows {
            key: &key("cpu", &[("host", "a"), ("time", "x")]),
            times: &[-1, 7],
            fields: &[
                ("state".into(), FieldType::Str),
                ("usage".into(), FieldType::F64),
            ],
            values: &[
                column(None, Column::Str(texts)),
                column(
                    Some(Bitmap::from_iter([false, true])),
                    Column::F64(vec![f64::INFINITY]),
                ),
            ],
        },
        WideRows {
            key: &key("mem", &[]),
            times: &[7],
            fields: &[
                ("usage".into(), FieldType::I64),
                ("state".into(), FieldType::Str),
            ],
            values: &[column(None, Column::I64(vec![i64::MIN])), None],
        },
    ];
    rows.iter().for_each(pass);
}

#[test]
fn csv_tells_missing_values_from_empty_texts() {
    assert_eq!(
        String::from_utf8(written(Format::Csv)).expect("UTF-8"),
        "time,measurement,host,time::tag,state,usage::f64,usage::i64\n\
         -1,cpu,a,x,\"\",,\n\
         7,cpu,a,x,\"a,\"\"b\"\"\",Infinity,\n\
         7,mem,,,,,-9223372036854775808\n"
    );
}

#[test]
fn json_states_kind_and_type_of_each_column() {
    let json: serde_json::Value = serde_json::from_slice(&written(Format::Json)).expect("JSON");
    assert_eq!(
        json["rows"],
        serde_json::json!([
            [-1, "cpu", "a", "x", "", null, null],
            [7, "cpu", "a", "x", "a,\"b\"", "Infinity", null],
            [7, "mem", null, null, null, null, i64::MIN]
        ])
    );
    assert_eq!(
        json["columns"][3],
        serde_json::json!({"title": "time::tag", "kind": "tag", "name": "time"})
    );
    assert_eq!(
        json["columns"][5],
        serde_json::json!({"title": "usage::f64", "kind": "field", "name": "usage", "type": "f64"})
    );
    assert_eq!(json["truncated"], false);
}

fn batches(bytes: &[u8]) -> Vec<RecordBatch> {
    let reader = StreamReader::try_new(bytes, None).expect("a stream");
    reader.map(|batch| batch.expect("a batch")).collect()
}

#[test]
fn batches_in_memory_are_those_of_an_arrow_answer() {
    let mut gathered = WideBatches::new(&two_types().columns);
    two_sources(&mut |rows| gathered.rows(rows).expect("all columns are known"));
    let schema = gathered.schema();
    let found = gathered.end();
    assert_eq!(found, batches(&written(Format::Arrow)));
    assert_eq!(found[0].schema(), schema);
    let mut narrow = WideBatches::new(&head(&["host"], &[]).columns);
    let mut errors = Vec::new();
    two_sources(&mut |rows| errors.push(narrow.rows(rows).map_err(|new| new.to_string())));
    let expected = "tag \"time\" appeared while the answer was written; ask again";
    assert_eq!(errors[0], Err(expected.to_string()));
    assert!(
        errors[1]
            .as_ref()
            .is_err_and(|text| text.starts_with("field \"usage\""))
    );
}

#[test]
fn arrow_has_dictionaries_for_tags_and_nulls_for_missing_values() {
    let batches = batches(&written(Format::Arrow));
    let [batch] = batches.as_slice() else {
        panic!("{} batches", batches.len())
    };
    let schema = batch.schema();
    let titles: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(
        titles,
        [
            "time",
            "measurement",
            "host",
            "time::tag",
            "state",
            "usage::f64",
            "usage::i64"
        ]
    );
    assert_eq!(schema.field(3).metadata()["kind"], "tag");
    assert_eq!(schema.field(3).metadata()["name"], "time");
    let host = batch.column(2).as_any_dictionary();
    assert_eq!((host.is_null(1), host.is_null(2)), (false, true));
    let usage = batch.column(5).as_primitive::<Float64Type>();
    assert_eq!(
        usage.iter().collect::<Vec<_>>(),
        [None, Some(f64::INFINITY), None]
    );
    let whole = batch.column(6).as_primitive::<Int64Type>();
    assert_eq!(
        whole.iter().collect::<Vec<_>>(),
        [None, None, Some(i64::MIN)]
    );
}

#[test]
fn an_empty_arrow_answer_has_its_schema() {
    let head = head(&["host"], &[("usage", FieldType::F64)]);
    let answer = WideAnswer::begin(Format::Arrow, Vec::new(), &head).expect("written");
    let bytes = answer.end(&[]).expect("written");
    let reader = StreamReader::try_new(bytes.as_slice(), None).expect("a stream");
    assert_eq!(reader.schema().fields().len(), 4);
    assert_eq!(batches(&bytes).len(), 0);
}

#[test]
fn values_stay_in_their_rows_over_many_batches() {
    let head = head(&[], &[("n", FieldType::I64)]);
    let mut answer = WideAnswer::begin(Format::Arrow, Vec::new(), &head).expect("written");
    let key = key("m", &[]);
    let rows = 200_000;
    for start in (0..rows).step_by(7_000) {
        let times: Vec<i64> = (start..rows.min(start + 7_000)).collect();
        let values = times.iter().copied().filter(|time| time % 3 != 0).collect();
        let present = times.iter().map(|time| time % 3 != 0).collect();
        let rows = WideRows {
            key: &key,
            times: &times,
            fields: &[("n".into(), FieldType::I64)],
            values: &[Some(FieldColumn {
                present: Some(present),
                values: Column::I64(values),
            })],
        };
        answer.rows(&rows).expect("written");
    }
    let batches = batches(&answer.end(&[]).expect("written"));
    assert!(batches.len() > 1);
    let read = batches.iter().flat_map(|batch| {
        let values = batch.column(2).as_primitive::<Int64Type>();
        values.iter().collect::<Vec<_>>()
    });
    let expected = (0..rows).map(|time| (time % 3 != 0).then_some(time));
    assert!(read.eq(expected));
}

#[test]
fn a_new_field_ends_the_answer() {
    let head = head(&[], &[("n", FieldType::I64)]);
    let mut answer = WideAnswer::begin(Format::Csv, Vec::new(), &head).expect("written");
    let rows = WideRows {
        key: &key("m", &[]),
        times: &[1],
        fields: &[("other".into(), FieldType::Bool)],
        values: &[Some(FieldColumn {
            present: None,
            values: Column::Bool(vec![true]),
        })],
    };
    let error = answer.rows(&rows).expect_err("a field without a column");
    assert!(
        error.to_string().contains("field \"other\" appeared"),
        "{error}"
    );
}

#[test]
fn titles_are_unique() {
    let names = ["time", "measurement", "a", "a::tag", "a::f64"].map(str::to_string);
    let fields = ["time", "a", "b"].map(|name| (name.to_string(), FieldType::F64));
    let columns = WideColumns::new(&names, &fields).expect("few columns");
    let mut titles: Vec<&str> = columns
        .all()
        .iter()
        .map(|column| column.title.as_str())
        .collect();
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), 10);
    let many: Vec<String> = (0..MAX_COLUMNS).map(|tag| tag.to_string()).collect();
    assert!(WideColumns::new(&many, &[]).is_err());
}
