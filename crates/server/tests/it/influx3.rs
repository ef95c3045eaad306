//! Addresses of InfluxDB 2 and 3 besides the write of version 2, and compressed bodies.

use crate::site::Site;
use serde_json::json;

const PATH: &str = "/api/v3/write_lp?db=home";

#[test]
fn the_unit_of_a_time_follows_from_its_number() {
    let site = Site::new();
    let lines = "m v=1 1700000001\nm v=2 1700000002000\nm v=3 1700000003000000\nm v=4 1700000004000000000\n";
    for path in [PATH, &format!("{PATH}&precision=auto&no_sync=true")] {
        let written = site.post(path, &[], lines.as_bytes());
        assert_eq!(written.status, 204, "{}", written.text);
    }
    let times: Vec<i64> = (1..5)
        .map(|s| (1_700_000_000 + s) * 1_000_000_000)
        .collect();
    assert_eq!(site.values("m")["times"], json!(times));
    let written = site.post(&format!("{PATH}&precision=second"), &[], b"s v=1 7");
    assert_eq!(written.status, 204, "{}", written.text);
    assert_eq!(site.values("s")["times"], json!([7_000_000_000_i64]));
    let written = site.post(&format!("{PATH}&precision=h"), &[], b"s v=1 7");
    assert_eq!(written.status, 400);
}

#[test]
fn rejected_lines_are_answered_in_the_shape_of_influxdb_3() {
    let site = Site::new();
    let lines = b"m v=1 1\nbad\nm v=2 2\n";
    let written = site.post(&format!("{PATH}&accept_partial=false"), &[], lines);
    let answer = written.json();
    assert_eq!(written.status, 400);
    assert_eq!(answer["error"], "parsing failed for write_lp endpoint");
    assert_eq!(answer["data"]["line_number"], json!(2));
    assert_eq!(site.store().status().rows_accepted, 0);
    site.await_metric("seiner_ingest_rejected_rows_total{protocol=\"line\"}", 3);
    let written = site.post(PATH, &[], lines);
    let answer = written.json();
    assert_eq!(written.status, 400);
    assert_eq!(answer["error"], "partial write of line protocol occurred");
    assert_eq!(answer["data"][0]["line_number"], json!(2));
    assert_eq!(site.values("m")["values"], json!([1.0, 2.0]));
    let written = site.post(&format!("{PATH}&accept_partial=false"), &[], b"m v=3 3");
    assert_eq!(written.status, 204, "{}", written.text);
}

/// Bodies of line protocol, compressed.
fn compressed(lines: &[u8]) -> [(&'static str, Vec<u8>); 2] {
    [
        ("zstd", zstd::bulk::compress(lines, 3).unwrap()),
        (
            "snappy",
            snap::raw::Encoder::new().compress_vec(lines).unwrap(),
        ),
    ]
}

#[test]
fn zstd_and_snappy_are_decompressed() {
    let site = Site::new();
    let lines: String = (0..100_000).map(|n| format!("m v={n} {n}\n")).collect();
    for path in ["/write", PATH, "/api/v3/write_lp?accept_partial=false"] {
        for (encoding, body) in compressed(lines.as_bytes()) {
            let accepted = site.store().status().rows_accepted;
            let headers = [("content-encoding", encoding)];
            let written = site.post(path, &headers, &body);
            assert_eq!(written.status, 204, "{encoding}: {}", written.text);
            assert_eq!(site.store().status().rows_accepted, accepted + 100_000);
            // The end is missing.
            let written = site.post(path, &headers, &body[..body.len() - 9]);
            assert_eq!(written.status, 400, "{encoding}: {}", written.text);
        }
    }
    let written = site.post("/write", &[("content-encoding", "br")], b"m v=1 1");
    assert_eq!(written.status, 400);
}

#[test]
fn bombs_are_rejected() {
    let site = Site::with(|settings| settings.max_body = 1 << 20);
    for path in ["/write", "/api/v3/write_lp?accept_partial=false"] {
        for (encoding, body) in compressed(&vec![b'\n'; 64 << 20]) {
            let written = site.post(path, &[("content-encoding", encoding)], &body);
            // A zstd body without partial writes is rejected by the length that it states.
            assert_eq!(written.status, 413, "{encoding}: {}", written.text);
        }
    }
    // A window of 128 MiB.
    let body = b"\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00";
    let written = site.post("/write", &[("content-encoding", "zstd")], body);
    assert_eq!(written.status, 400, "{}", written.text);
}

#[test]
fn buckets_and_organizations_exist_under_every_name() {
    let site = Site::new();
    let buckets = site.get("/api/v2/buckets?name=home&limit=1").json();
    assert_eq!(buckets["buckets"][0]["name"], "home");
    let orgs = site.get("/api/v2/orgs?org=me").json();
    assert_eq!(orgs["orgs"][0]["name"], "me");
    assert_eq!(buckets["buckets"][0]["orgID"], orgs["orgs"][0]["id"]);
    let body =
        br#"{"orgID":"1","name":"new","retentionRules":[{"type":"expire","everySeconds":1}]}"#;
    let created = site.post("/api/v2/buckets", &[], body);
    assert_eq!(created.status, 201);
    assert_eq!(created.json()["name"], "new");
    assert_eq!(created.json()["retentionRules"], json!([]));
    assert_eq!(site.post("/api/v2/buckets", &[], b"{}").status, 400);
}
