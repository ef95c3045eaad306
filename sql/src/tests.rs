//! Queries against a server that answers with fixed streams and records its requests.

use crate::catalog::Catalog;
use crate::client::Client;
use crate::columns::time_type;
use crate::session::{message, plan, session};
use arrow::array::{
    ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow::ipc::writer::StreamWriter;
use arrow::util::pretty::pretty_format_batches;
use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const MEMORY: usize = 32 << 20;
const SECOND: i64 = 1_000_000_000;

/// End of a stream.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Complete,
    /// The connection breaks off after the last batch.
    Broken,
    /// The last batch is sent again and again.
    Never,
}

struct Mock {
    end: End,
    requests: Mutex<Vec<BTreeMap<String, String>>>,
    sent: AtomicUsize,
}

/// Server with the measurement `cpu`: the tags `host` and `rack`, and the fields `n` and `usage`.
struct Site {
    mock: Arc<Mock>,
    context: SessionContext,
}

impl Site {
    async fn start(end: End) -> Site {
        let mock = Arc::new(Mock {
            end,
            requests: Mutex::default(),
            sent: AtomicUsize::new(0),
        });
        let json = |text: &'static str| get(move || async move { text });
        let router = Router::new()
            .route("/api/v1/measurements", json(r#"["Boiler","cpu"]"#))
            .route("/api/v1/tags", json(r#"["host","rack"]"#))
            .route("/api/v1/fields", get(fields))
            .route("/api/v1/query", get(stream))
            .with_state(mock.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Site {
            mock,
            context: session(Arc::new(Catalog::new(client)), MEMORY).unwrap(),
        }
    }

    async fn run(&self, text: &str) -> Result<String, String> {
        let rows = async {
            let plan = plan(&self.context, text).await?;
            self.context
                .execute_logical_plan(plan)
                .await?
                .collect()
                .await
        };
        let batches = rows.await.map_err(|error| message(&error, MEMORY))?;
        let table = pretty_format_batches(&batches).unwrap().to_string();
        let lines = table.lines().filter(|line| line.starts_with('|')).skip(1);
        let cells = |line: &str| {
            line.trim_matches('|')
                .split('|')
                .map(str::trim)
                .collect::<Vec<_>>()
                .join(",")
        };
        Ok(lines.map(cells).collect::<Vec<_>>().join(" "))
    }

    /// Returns a parameter of the last request.
    fn asked(&self, name: &str) -> Option<String> {
        self.mock
            .requests
            .lock()
            .unwrap()
            .last()?
            .get(name)
            .cloned()
    }
}

async fn fields(Query(parameters): Query<BTreeMap<String, String>>) -> &'static str {
    match parameters["select"].as_str() {
        "\"cpu\"{}" => r#"[{"name":"n","type":"i64"},{"name":"usage","type":"f64"}]"#,
        "\"Boiler\"{}" => r#"[{"name":"TempC","type":"f64"}]"#,
        _ => "[]",
    }
}

/// Rows of the source `host="a"`, which has no tag `rack`: a counter that is reset, and every other row without `n`.
fn batch() -> RecordBatch {
    let field = |name: &str, kind: &str, of: DataType| {
        let pairs = [
            ("kind".to_string(), kind.to_string()),
            ("name".to_string(), name.to_string()),
        ];
        Field::new(name, of, true).with_metadata(pairs.into())
    };
    let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let names = |name: &str| {
        Arc::new(
            vec![name; 4]
                .into_iter()
                .collect::<DictionaryArray<Int32Type>>(),
        ) as ArrayRef
    };
    let times = TimestampNanosecondArray::from(vec![0, SECOND, 2 * SECOND, 61 * SECOND])
        .with_timezone("UTC");
    let schema = Schema::new(vec![
        field("time", "time", time_type()),
        field("measurement", "measurement", text.clone()),
        field("host", "tag", text),
        field("n", "field", DataType::Int64),
        field("usage", "field", DataType::Float64),
    ]);
    let n = Int64Array::from(vec![Some(1), None, Some(5), None]);
    let usage = Float64Array::from(vec![1.0, 4.0, 2.0, 63.0]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(times),
        names("cpu"),
        names("a"),
        Arc::new(n),
        Arc::new(usage),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

async fn stream(
    State(mock): State<Arc<Mock>>,
    Query(parameters): Query<BTreeMap<String, String>>,
) -> Response {
    mock.requests.lock().unwrap().push(parameters);
    let batch = batch();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    let schema = std::mem::take(writer.get_mut());
    writer.write(&batch).unwrap();
    let rows = Bytes::from(std::mem::take(writer.get_mut()));
    writer.finish().unwrap();
    let eos = std::mem::take(writer.get_mut());
    let mut first = schema;
    first.extend_from_slice(&rows);
    let end = mock.end;
    let first = futures::stream::iter([Ok(Bytes::from(first))]);
    let rest = match end {
        End::Complete => futures::stream::iter([Ok(Bytes::from(eos))]).boxed(),
        End::Broken => futures::stream::once(async {
            // The head and the first batch are sent before.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            Err(std::io::Error::other("broken"))
        })
        .boxed(),
        End::Never => futures::stream::repeat_with(move || {
            mock.sent.fetch_add(1, Ordering::Relaxed);
            Ok(rows.clone())
        })
        .boxed(),
    };
    Body::from_stream(first.chain(rest)).into_response()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_have_all_columns_of_the_measurement() {
    let site = Site::start(End::Complete).await;
    let rows = site
        .run("SELECT * FROM cpu ORDER BY time LIMIT 2")
        .await
        .unwrap();
    assert_eq!(
        rows,
        "1970-01-01T00:00:00Z,a,,1,1.0 1970-01-01T00:00:01Z,a,,,4.0"
    );
    assert_eq!(site.asked("select").unwrap(), "\"cpu\"{}");
    assert_eq!(site.asked("from").unwrap(), format!("{}ns", i64::MIN));
    assert_eq!(site.asked("fields"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_pushed_and_nulls_are_those_of_sql() {
    let site = Site::start(End::Complete).await;
    let count = |condition: &str| format!("SELECT count(*) FROM cpu WHERE {condition}");
    let condition =
        "host IN ('a', 'b.c') AND time >= '1970-01-01T00:00:01Z' AND time < '1970-01-01T01:00:00Z'";
    site.run(&count(condition)).await.unwrap();
    assert_eq!(site.asked("select").unwrap(), r#""cpu"{"host"=~"a|b\\.c"}"#);
    assert_eq!(site.asked("from").unwrap(), format!("{SECOND}ns"));
    assert_eq!(
        site.asked("to").unwrap(),
        format!("{}ns", 3600 * SECOND - 1)
    );
    // The mock sends rows without the tag, which the server counts as empty, and SQL as NULL.
    for (condition, rows) in [
        ("rack IS NULL", "4"),
        ("rack <> 'x'", "0"),
        ("rack = ''", "0"),
        ("n IS NULL", "2"),
    ] {
        assert_eq!(
            site.run(&count(condition)).await.unwrap(),
            rows,
            "{condition}"
        );
    }
    let none = count("time > '2000-01-01' AND time < '1999-01-01'");
    let asked = site.mock.requests.lock().unwrap().len();
    assert_eq!(site.run(&none).await.unwrap(), "0");
    assert_eq!(
        site.mock.requests.lock().unwrap().len(),
        asked,
        "an empty interval needs no request"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_left_out_only_if_a_value_is_required() {
    let site = Site::start(End::Complete).await;
    assert_eq!(
        site.run("SELECT count(*), count(n) FROM cpu")
            .await
            .unwrap(),
        "4,2"
    );
    assert_eq!(site.asked("fields"), None);
    assert_eq!(
        site.run("SELECT n FROM cpu WHERE n > 1").await.unwrap(),
        "5"
    );
    assert_eq!(site.asked("fields").unwrap(), "n");
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_time() {
    let site = Site::start(End::Complete).await;
    let rows = site
        .run("SELECT time_bucket('1m', time), count(*) FROM cpu GROUP BY 1 ORDER BY 1")
        .await;
    assert_eq!(
        rows.unwrap(),
        "1970-01-01T00:00:00Z,3 1970-01-01T00:01:00Z,1"
    );
    let rows = site
        .run("SELECT first(n, time), last(n, time), rate(usage, time) FROM cpu GROUP BY host")
        .await;
    // From 1 to 4, a reset to 2, and to 63: 3 + 2 + 61 in 61 s.
    assert_eq!(rows.unwrap(), format!("1,5,{}", 66.0 / 61.0));
    let at = |at: &str| format!("SELECT interpolate(usage, time, {at}) FROM cpu");
    for (time, expected) in [
        ("'1970-01-01T00:00:01.5Z'", "3.0"),
        ("timestamp '1970-01-01 00:00:31.5'", "32.5"),
        ("'1970-01-01T00:02:00Z'", ""),
        ("NULL", ""),
    ] {
        assert_eq!(site.run(&at(time)).await.unwrap(), expected, "{time}");
    }
    let error = site.run(&at("time")).await.unwrap_err();
    assert!(error.contains("GROUP BY"), "{error}");
    let error = site
        .run("SELECT time_bucket('1 minute', time) FROM cpu")
        .await
        .unwrap_err();
    assert!(error.contains("1h30m"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_with_capital_letters_need_double_quotes() {
    let site = Site::start(End::Complete).await;
    for (query, expected) in [
        (
            "SELECT * FROM Boiler",
            r#"there is no table "boiler", but "Boiler"; write double quotes around names with capital letters"#,
        ),
        (
            "SELECT TempC FROM \"Boiler\"",
            r#"there is no column "tempc", but "TempC"; write double quotes around names with capital letters"#,
        ),
    ] {
        assert_eq!(site.run(query).await.unwrap_err(), expected);
    }
    let error = site.run("SELECT * FROM nope").await.unwrap_err();
    assert!(error.contains("not found"), "{error}");
    let error = site.run("SELECT nope FROM cpu").await.unwrap_err();
    assert!(error.contains("Valid fields are"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_is_an_error() {
    let site = Site::start(End::Broken).await;
    let error = site.run("SELECT count(*) FROM cpu").await.unwrap_err();
    assert!(error.contains("broke off"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_ends_the_stream() {
    let site = Site::start(End::Never).await;
    assert_eq!(
        site.run("SELECT usage FROM cpu LIMIT 5").await.unwrap(),
        "1.0 4.0 2.0 63.0 1.0"
    );
    for _ in 0..100 {
        let before = site.mock.sent.load(Ordering::Relaxed);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        if site.mock.sent.load(Ordering::Relaxed) == before {
            return;
        }
    }
    panic!("the server still sends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_needs_too_much_memory_names_the_limit() {
    let site = Site::start(End::Never).await;
    let error = site
        .run("SELECT * FROM cpu ORDER BY usage")
        .await
        .unwrap_err();
    assert!(error.contains("limit of 32 MiB"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_statements_that_read_are_accepted() {
    let site = Site::start(End::Complete).await;
    for (statement, name) in [
        ("INSERT INTO cpu VALUES (1)", "INSERT"),
        ("UPDATE cpu SET n = 1", "UPDATE"),
        ("DELETE FROM cpu", "DELETE"),
        ("CREATE TABLE x AS SELECT 1", "CREATE"),
        (
            "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
            "CREATE",
        ),
        ("COPY cpu TO '/tmp/x.csv'", "COPY"),
        ("DROP TABLE cpu", "DROP"),
        ("SET datafusion.execution.batch_size = 1", "SET"),
        ("EXPLAIN ANALYZE INSERT INTO cpu VALUES (1)", "INSERT"),
        ("PREPARE x AS SELECT 1", "PREPARE"),
    ] {
        let error = site.run(statement).await.unwrap_err();
        assert!(
            error.contains(&format!("{name} is rejected")),
            "{statement}: {error}"
        );
    }
    for statement in [
        "",
        "SELECT 1; SELECT 2",
        "SELECT 1 INTO x",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM nope",
    ] {
        site.run(statement).await.unwrap_err();
    }
    assert_eq!(site.run("SELECT 1").await.unwrap(), "1");
    assert!(site.run("EXPLAIN SELECT * FROM cpu").await.is_ok());
}
