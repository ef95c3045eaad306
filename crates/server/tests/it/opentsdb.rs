//! OpenTSDB: lines over TCP, and points over HTTP.

use crate::site::{Reply, Site};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;

const ROWS: &str = "seiner_ingest_rows_total{protocol=\"opentsdb\"}";
const REJECTED: &str = "seiner_ingest_rejected_rows_total{protocol=\"opentsdb\"}";

fn site() -> Site {
    Site::with(|settings| {
        settings.text_ports.opentsdb = Some("127.0.0.1:0".parse().unwrap());
    })
}

fn post(site: &Site, path: &str, body: &str) -> Reply {
    site.post(path, &[], body.as_bytes())
}

#[test]
fn lines_over_tcp_become_rows() {
    let site = site();
    let mut stream = TcpStream::connect(site.text_address("opentsdb_listen")).unwrap();
    stream
        .write_all(
            b"put sys.cpu 1700000000 1.5 host=a\nversion\nput sys.cpu 1700000001500 2 host=a\n",
        )
        .unwrap();
    site.await_metric(ROWS, 2);
    site.await_metric(REJECTED, 1);
    let series = site.values("sys.cpu{host=\"a\"}");
    assert_eq!(series["field"], json!("value"));
    assert_eq!(series["values"], json!([1.5, 2.0]));
    assert_eq!(series["times"][1], json!(1_700_000_001_500_000_000_i64));
}

#[test]
fn points_over_http_become_rows_and_others_are_listed() {
    let site = site();
    let point =
        |time: i64| json!({"metric": "m", "timestamp": time, "value": time, "tags": {"a": "b"}});
    assert_eq!(site.get("/api/version").json()["version"], json!("2.4.1"));
    let sent = post(&site, "/api/put", &point(1).to_string());
    assert_eq!((sent.status, sent.text.as_str()), (204, ""));
    let sent = post(
        &site,
        "/api/put?summary",
        &json!([point(2), point(3)]).to_string(),
    );
    assert_eq!(
        (sent.status, sent.json()),
        (200, json!({"success": 2, "failed": 0}))
    );
    let sent = post(
        &site,
        "/opentsdb/api/put?details",
        &json!([point(4)]).to_string(),
    );
    assert_eq!(
        sent.json(),
        json!({"success": 1, "failed": 0, "errors": []})
    );
    let sent = post(
        &site,
        "/api/put",
        &json!([point(5), 7, point(0)]).to_string(),
    );
    assert_eq!(sent.status, 400);
    let body = sent.json();
    assert_eq!((&body["success"], &body["failed"]), (&json!(1), &json!(2)));
    let points: Vec<&Value> = body["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| &error["point"])
        .collect();
    assert_eq!(points, [&json!(2), &json!(3)]);
    let sent = post(&site, "/api/put", &format!("[{},", point(6)));
    assert_eq!(sent.status, 400);
    assert!(
        sent.text.contains("1 points before that are stored"),
        "{}",
        sent.text
    );
    assert_eq!(
        site.values("m")["values"],
        json!([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    );
}

#[test]
fn a_long_body_is_stored_in_batches() {
    let site = site();
    let points: Vec<Value> = (1..=5000)
        .map(|time| json!({"metric": "m", "timestamp": time, "value": if time == 4000 { json!("x") } else { json!(time) }}))
        .collect();
    let sent = post(&site, "/api/put", &json!(points).to_string());
    let body = sent.json();
    assert_eq!(
        (&body["success"], &body["failed"]),
        (&json!(4999), &json!(1))
    );
    assert_eq!(body["errors"][0]["point"], json!(4000));
}
