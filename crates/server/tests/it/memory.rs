//! The server in front of a store other than the engine, without directory and log.

use crate::site::Site;
use serde_json::json;

#[test]
fn a_store_in_memory_accepts_writes_queries_and_deletes() {
    let site = Site::in_memory();
    let written = site.post(
        "/write",
        &[],
        b"cpu,host=a usage=1.5 1\ncpu,host=b usage=2 2\ncpu bad",
    );
    assert_eq!(written.status, 400);
    assert_eq!(written.json()["accepted"], json!(2));
    assert_eq!(site.get("/api/v1/measurements").json(), json!(["cpu"]));
    let found = site.get("/api/v1/query?select=cpu&from=0ns&to=9ns").json();
    assert_eq!(found["series"].as_array().map(Vec::len), Some(2), "{found}");
    let buckets = "/api/v1/query?select=cpu&from=0ns&to=9ns&points=1&aggregate=max";
    let found = site.get(buckets);
    assert_eq!(found.status, 200, "{}", found.text);
    let deleted = site.post("/api/v1/delete?select=cpu%7Bhost%3D%22a%22%7D", &[], b"");
    assert_eq!(deleted.json()["sources"], json!(1), "{}", deleted.text);
    let found = site.get("/api/v1/query?select=cpu&from=0ns&to=9ns").json();
    assert_eq!(found["series"].as_array().map(Vec::len), Some(1), "{found}");
    let status = site.get("/status").json();
    assert_eq!(status["engine"]["rows_accepted"], json!(2));
    assert_eq!(site.store().status().sources, 2);
}

#[test]
fn requests_about_the_log_are_rejected_by_a_store_in_memory() {
    let site = Site::in_memory();
    for address in ["/api/v1/log", "/api/v1/log/why", "/api/v1/log/trace"] {
        let reply = site.get(address);
        assert_eq!(reply.status, 400, "{address}: {}", reply.text);
        let message = reply.json()["message"].to_string();
        assert!(message.contains("keeps no log"), "{address}: {message}");
    }
    assert_eq!(site.get("/health").status, 200);
    assert_eq!(site.get("/status").json()["losses"], json!([]));
    let metrics = site.get("/metrics").text;
    assert!(
        metrics.contains("seiner_rows_accepted_total 0"),
        "{metrics}"
    );
    assert!(!metrics.contains("seiner_log_used_share"), "{metrics}");
}
