//! OTLP metrics over HTTP, with messages that `prost` encodes. `e2e/test_otlp.py` has the SDK of OpenTelemetry as a
//! client.

use crate::site::{Reply, Site};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use serde_json::{Value, json};
use std::io::Write;

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";
const ADDRESSES: [&str; 3] = [
    "/v1/metrics",
    "/opentelemetry/v1/metrics",
    "/prometheus/api/v1/otlp/v1/metrics",
];

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceMetrics {
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeMetrics {
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "5")]
    gauge: Option<Gauge>,
}

#[derive(Clone, PartialEq, Message)]
struct Gauge {
    #[prost(message, repeated, tag = "1")]
    points: Vec<Point>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Point {
    #[prost(fixed64, tag = "3")]
    time: u64,
    #[prost(double, optional, tag = "4")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Response {
    #[prost(message, optional, tag = "1")]
    pub partial: Option<Partial>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Partial {
    #[prost(int64, tag = "1")]
    pub rejected: i64,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// Gauge: its name, and points with a time in s and a value.
type Points<'a> = (&'a str, &'a [(u64, Option<f64>)]);

/// Name of a compression, and its function.
type Compressor<'a> = (&'a str, &'a dyn Fn(&[u8]) -> Vec<u8>);

/// Returns a request with gauges.
pub fn request(gauges: &[Points<'_>]) -> Vec<u8> {
    let metrics = gauges.iter().map(|(name, points)| {
        let points = points.iter().map(|(seconds, value)| Point {
            time: seconds * 1_000_000_000,
            value: *value,
        });
        Metric {
            name: name.to_string(),
            gauge: Some(Gauge {
                points: points.collect(),
            }),
        }
    });
    let scope = ScopeMetrics {
        metrics: metrics.collect(),
    };
    let resource = ResourceMetrics {
        scopes: vec![scope],
    };
    Request {
        resources: vec![resource],
    }
    .encode_to_vec()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a frame of Zstandard that requires a window of 16 MiB.
fn wide_zstd() -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(24).unwrap();
    encoder.write_all(&[0; 1000]).unwrap();
    encoder.flush().unwrap();
    encoder.finish().unwrap()
}

fn send(site: &Site, kind: &str, body: &[u8]) -> Reply {
    site.post("/v1/metrics", &[("content-type", kind)], body)
}

/// Returns the labels and the value of each series of a PromQL query.
fn instant(site: &Site, query: &str, time: &str) -> Vec<(Value, String)> {
    let query = query
        .replace('"', "%22")
        .replace('{', "%7B")
        .replace('}', "%7D");
    let path = format!("/prometheus/api/v1/query?query={query}&time={time}");
    let result = site.get(&path).json()["data"]["result"].clone();
    let series = result.as_array().unwrap().iter();
    series
        .map(|one| {
            let value = one["value"][1].as_str().unwrap().to_string();
            (one["metric"].clone(), value)
        })
        .collect()
}

#[test]
fn all_addresses_and_encodings_store_points() {
    let site = Site::new();
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let plain = |bytes: &[u8]| bytes.to_vec();
    let encodings: [Compressor<'_>; 3] = [("identity", &plain), ("gzip", &gzip), ("zstd", &zstd)];
    let mut seconds = 0_u32;
    for address in ADDRESSES {
        for (encoding, encode) in encodings {
            for kind in [PROTOBUF, JSON] {
                seconds += 1;
                let value = f64::from(seconds) / 10.0;
                let time = format!("{seconds}000000000");
                let body = match kind {
                    PROTOBUF => request(&[("m.n", &[(u64::from(seconds), Some(value))])]),
                    _ => json!({ "resourceMetrics": [{ "scopeMetrics": [{ "metrics": [{
                        "name": "m.n",
                        "gauge": { "dataPoints": [{ "timeUnixNano": time, "asDouble": value }] },
                    }]}]}]})
                    .to_string()
                    .into_bytes(),
                };
                let body = encode(&body);
                let headers = [("content-type", kind), ("content-encoding", encoding)];
                let reply = site.post(address, &headers, &body);
                assert_eq!(reply.status, 200, "{}", reply.text);
                assert_eq!(reply.headers["content-type"], kind);
                let empty = if kind == JSON { "{}" } else { "" };
                assert_eq!(reply.text, empty);
            }
        }
    }
    let expected: Vec<f64> = (1..=seconds).map(|n| f64::from(n) / 10.0).collect();
    assert_eq!(site.values("m_n")["values"], json!(expected));
    let metrics = site.get("/metrics").text;
    let line = "seiner_ingest_samples_total{protocol=\"otlp\"} 18";
    assert!(metrics.contains(line), "{metrics}");
    let data = site.get("/prometheus/api/v1/metadata?metric=m_n").json()["data"].clone();
    assert_eq!(data["m_n"][0]["type"], json!("gauge"));
}

#[test]
fn types_are_visible_in_promql() {
    let site = Site::with(|settings| settings.otlp_labels = vec!["host.name".to_string()]);
    let attributes = |pairs: &[(&str, &str)]| -> Value {
        let pairs = pairs
            .iter()
            .map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } }));
        pairs.collect()
    };
    let point = |more: Value| {
        let mut point = json!({ "timeUnixNano": "1000000000", "attributes": attributes(&[("http.route", "/a")]) });
        for (key, value) in more.as_object().unwrap() {
            point[key] = value.clone();
        }
        point
    };
    let body = json!({ "resourceMetrics": [{
        "resource": { "attributes": attributes(&[
            ("service.name", "shop"), ("service.instance.id", "1"), ("host.name", "a"), ("os.type", "linux"),
        ])},
        "scopeMetrics": [{ "metrics": [
            { "name": "requests", "sum": {
                "isMonotonic": true, "aggregationTemporality": 2, "dataPoints": [point(json!({ "asInt": "7" }))],
            }},
            { "name": "requests", "sum": {
                "isMonotonic": true, "aggregationTemporality": 1, "dataPoints": [point(json!({ "asInt": 2 }))],
            }},
            { "name": "delay", "unit": "s", "histogram": {
                "aggregationTemporality": 2,
                "dataPoints": [point(json!({
                    "count": 4, "sum": 5.5, "bucketCounts": ["1", "3", "0"], "explicitBounds": [1, 2],
                }))],
            }},
        ]}],
    }]});
    let reply = send(&site, JSON, body.to_string().as_bytes());
    assert_eq!((reply.status, &*reply.text), (200, "{}"));
    let labels = |more: Value| {
        let mut labels =
            json!({ "http_route": "/a", "job": "shop", "instance": "1", "host_name": "a" });
        for (key, value) in more.as_object().unwrap() {
            labels[key] = value.clone();
        }
        labels
    };
    let one = |query: &str| {
        let found = instant(&site, query, "2");
        assert_eq!(found.len(), 1, "{query}: {found:?}");
        found[0].clone()
    };
    assert_eq!(
        one("requests_total{temporality=\"\"}"),
        (
            labels(json!({ "__name__": "requests_total" })),
            "7".to_string()
        )
    );
    assert_eq!(one("requests_total{temporality=\"delta\"}").1, "2");
    assert_eq!(one("histogram_quantile(0.25,delay_seconds_bucket)").1, "1");
    assert_eq!(one("delay_seconds_sum").1, "5.5");
    assert_eq!(
        one("target_info"),
        (
            json!({ "__name__": "target_info", "job": "shop", "instance": "1", "host_name": "a", "os_type": "linux" }),
            "1".to_string()
        )
    );
}

#[test]
fn a_rejected_part_is_a_partial_success() {
    let site = Site::new();
    let body = request(&[
        ("good", &[(1, Some(1.0)), (2, Some(2.0))]),
        ("...", &[(1, Some(1.0))]),
        ("bad", &[(1, None), (2, Some(1.0)), (3, None)]),
    ]);
    let reply = send(&site, PROTOBUF, &body);
    assert_eq!(reply.status, 200);
    let partial = Response::decode(&*reply.bytes).unwrap().partial.unwrap();
    assert_eq!(partial.rejected, 3);
    for part in [
        "3 of 6 data points were rejected, the rest is stored",
        "metric 2 (...), 1 point: its name",
        "metric 3 (bad), 2 points: it has no value",
    ] {
        assert!(
            partial.message.contains(part),
            "{part}: {}",
            partial.message
        );
    }
    let json = br#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"x","sum":{"dataPoints":[{}]}}]}]}]}"#;
    let reply = send(&site, JSON, json).json();
    assert_eq!(reply["partialSuccess"]["rejectedDataPoints"], json!("1"));
    let message = reply["partialSuccess"]["errorMessage"].as_str().unwrap();
    assert!(message.contains("temporality"), "{message}");
    assert_eq!(site.values("good")["values"], json!([1.0, 2.0]));
    let metrics = site.get("/metrics").text;
    let line = "seiner_ingest_rejected_rows_total{protocol=\"otlp\"} 4";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn errors_have_the_encoding_of_the_request() {
    let site = Site::with(|settings| settings.max_body = 1 << 20);
    let plain = vec![0; (1 << 20) + 1];
    let zeros = gzip(&plain);
    let zstd_zeros = zstd::encode_all(&plain[..], 1).unwrap();
    let cut = &zstd_zeros[..zstd_zeros.len() - 1];
    let wide = wide_zstd();
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(1 << 20));
    let floats = format!(
        "{{\"resourceMetrics\":{{\"scopeMetrics\":{{\"metrics\":{{\"histogram\":{{\"dataPoints\":\
         {{\"explicitBounds\":[{}0]}}}}}}}}}}}}",
        "0,".repeat(500_000)
    );
    for (kind, encoding, body, status, part) in [
        (PROTOBUF, "", &b"\x0a\x09"[..], 400, "byte "),
        (PROTOBUF, "br", b"", 415, "gzip"),
        (PROTOBUF, "gzip", b"x", 400, "gzip"),
        (PROTOBUF, "gzip", &zeros, 413, "max_body"),
        (PROTOBUF, "zstd", b"xxxx", 400, "Zstandard"),
        (PROTOBUF, "zstd", cut, 400, "Zstandard"),
        (PROTOBUF, "zstd", &zstd_zeros, 413, "max_body"),
        (PROTOBUF, "zstd", &wide, 400, "window of at most 8 MiB"),
        (JSON, "", b"{", 400, "line 1"),
        (JSON, "", b"[]", 400, "an object"),
        (
            JSON,
            "",
            br#"{"resourceMetrics":7}"#,
            400,
            "resourceMetrics",
        ),
        (JSON, "", long.as_bytes(), 413, "max_body"),
        (JSON, "", floats.as_bytes(), 413, "max_body"),
        ("text/plain", "", b"", 415, "Content-Type"),
    ] {
        let headers = [("content-type", kind), ("content-encoding", encoding)];
        let reply = site.post(ADDRESSES[0], &headers, body);
        assert_eq!(reply.status, status, "{part}: {}", reply.text);
        assert!(reply.headers.get("retry-after").is_none());
        let (code, message) = match kind {
            PROTOBUF => {
                assert_eq!(reply.headers["content-type"], PROTOBUF);
                let status = Status::decode(&*reply.bytes).unwrap();
                (status.code, status.message)
            }
            _ => {
                let status = reply.json();
                let message = status["message"].as_str().unwrap().to_string();
                (status["code"].as_i64().unwrap() as i32, message)
            }
        };
        assert_eq!(code, 3, "{message}");
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(site.get(ADDRESSES[0]).status, 405);
    assert_eq!(send(&site, PROTOBUF, b"").status, 200);
    assert_eq!(
        send(&site, "application/json; charset=utf-8", b"{}").status,
        200
    );
}
