//! PromQL and the API of Prometheus over HTTP. `e2e/test_prometheus.py` has the requests of clients.

use crate::site::Site;
use serde_json::json;

fn filled() -> Site {
    let site = Site::in_memory();
    let mut lines = String::new();
    for second in 0..100 {
        for host in ["a", "b"] {
            lines.push_str(&format!(
                "cpu,host={host} usage={second}.5,value={second}i {}\n",
                second * 1_000_000_000_i64
            ));
        }
    }
    site.write(&lines);
    site
}

#[test]
fn expressions_are_evaluated() {
    let site = filled();
    let reply = site
        .get("/prometheus/api/v1/query?query=sum(cpu)&time=50")
        .json();
    let expected = json!({ "status": "success", "data": {
        "resultType": "vector", "result": [{ "metric": {}, "value": [50, "100"] }]
    } });
    assert_eq!(reply, expected);
    assert_eq!(
        site.get("/api/v1/query?query=sum(cpu)&time=50").json(),
        expected
    );
    let form = b"query=max(cpu_usage)&start=10&end=12&step=1s";
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let reply = site
        .post("/prometheus/api/v1/query_range", &headers, form)
        .json();
    let values = &reply["data"]["result"][0]["values"];
    assert_eq!(*values, json!([[10, "10.5"], [11, "11.5"], [12, "12.5"]]));
    let samples = site
        .get("/prometheus/api/v1/query?query=cpu%7Bhost%3D%22a%22%7D%5B2s%5D&time=1.5")
        .json();
    assert_eq!(
        samples["data"]["result"][0]["values"],
        json!([[0, "0"], [1, "1"]])
    );
}

#[test]
fn names_are_listed() {
    let site = filled();
    let get = |path: &str| site.get(&format!("/prometheus/api/v1/{path}")).json()["data"].clone();
    assert_eq!(get("label/__name__/values"), json!(["cpu", "cpu_usage"]));
    assert_eq!(get("labels"), json!(["__name__", "host"]));
    assert_eq!(
        get("series?match[]=cpu&limit=1"),
        json!([{ "__name__": "cpu", "host": "a" }])
    );
    assert_eq!(get("label/U__host/values?match[]=cpu"), json!(["a", "b"]));
}

#[test]
fn errors_have_the_form_of_prometheus() {
    let site = filled();
    for (path, status, kind) in [
        ("query?query=)", 400, "bad_data"),
        ("query?query=cpu%2Bon()cpu&time=50", 422, "execution"),
        ("query?query=time()&timeout=0s", 200, ""),
        ("query?query=cpu&timeout=0s", 503, "timeout"),
        ("no_such", 404, "not_found"),
    ] {
        let reply = site.get(&format!("/prometheus/api/v1/{path}"));
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(
            reply.json()["errorType"].as_str().unwrap_or(""),
            kind,
            "{path}"
        );
    }
}
