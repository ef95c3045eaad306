//! Prometheus remote write, with messages that `prost` encodes. `e2e/test_prometheus.py` has Prometheus as a sender.

use crate::site::{Reply, Site};
use prost::Message;
use serde_json::{Value, json};

const V1: &str = "application/x-protobuf";
const V2: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";
const ADDRESS: &str = "/prometheus/api/v1/write";
/// Value by which Prometheus ends a series.
const STALE: u64 = 0x7ff0_0000_0000_0002;

#[derive(Clone, PartialEq, Message)]
struct Request1 {
    #[prost(message, repeated, tag = "1")]
    series: Vec<Series1>,
    #[prost(message, repeated, tag = "3")]
    metadata: Vec<Metadata1>,
}

#[derive(Clone, PartialEq, Message)]
struct Series1 {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    histograms: Vec<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    ms: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Histogram {
    #[prost(double, tag = "3")]
    sum: f64,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata1 {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(string, tag = "2")]
    family: String,
    #[prost(string, tag = "4")]
    help: String,
    #[prost(string, tag = "5")]
    unit: String,
}

#[derive(Clone, PartialEq, Message)]
struct Request2 {
    #[prost(string, repeated, tag = "4")]
    symbols: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    series: Vec<Series2>,
}

#[derive(Clone, PartialEq, Message)]
struct Series2 {
    #[prost(uint32, repeated, tag = "1")]
    labels: Vec<u32>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    histograms: Vec<Histogram>,
    #[prost(message, optional, tag = "5")]
    metadata: Option<Metadata2>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Metadata2 {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(uint32, tag = "3")]
    help: u32,
}

/// Request of remote read for one metric, and its response.
#[derive(Clone, PartialEq, Message)]
struct ReadRequest {
    #[prost(message, repeated, tag = "1")]
    queries: Vec<ReadQuery>,
}

#[derive(Clone, PartialEq, Message)]
struct ReadQuery {
    #[prost(int64, tag = "2")]
    end_ms: i64,
    #[prost(message, repeated, tag = "3")]
    matchers: Vec<ReadMatcher>,
}

#[derive(Clone, PartialEq, Message)]
struct ReadMatcher {
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct ReadResponse {
    #[prost(message, repeated, tag = "1")]
    results: Vec<Request1>,
}

/// Returns a series: its labels, and times in ms with bits of values.
fn series(labels: &[(&str, &str)], samples: &[(i64, u64)]) -> Series1 {
    let labels = labels.iter().map(|(name, value)| Label {
        name: name.to_string(),
        value: value.to_string(),
    });
    let samples = samples.iter().map(|(ms, bits)| Sample {
        value: f64::from_bits(*bits),
        ms: *ms,
    });
    Series1 {
        labels: labels.collect(),
        samples: samples.collect(),
        histograms: Vec::new(),
    }
}

/// Converts a request into version 2. `metadata` describes all series.
fn second(request: &Request1, metadata: Option<(i32, &str)>) -> Request2 {
    let mut symbols = vec![String::new()];
    let mut number = |text: &str| {
        let known = symbols.iter().position(|symbol| symbol == text);
        known.unwrap_or_else(|| {
            symbols.push(text.to_string());
            symbols.len() - 1
        }) as u32
    };
    let series = request.series.iter().map(|series| {
        let labels = series.labels.iter();
        Series2 {
            labels: labels
                .flat_map(|label| [number(&label.name), number(&label.value)])
                .collect(),
            samples: series.samples.clone(),
            histograms: series.histograms.clone(),
            metadata: metadata.map(|(kind, help)| Metadata2 {
                kind,
                help: number(help),
            }),
        }
    });
    let series = series.collect();
    Request2 { symbols, series }
}

fn send(site: &Site, address: &str, kind: &str, message: &[u8]) -> Reply {
    let body = snap::raw::Encoder::new().compress_vec(message).unwrap();
    let headers = [("content-type", kind), ("content-encoding", "snappy")];
    site.post(address, &headers, &body)
}

/// Returns the series of a metric with the bits of their values, by remote read.
fn read(site: &Site, metric: &str) -> Vec<Series1> {
    let matcher = ReadMatcher {
        name: "__name__".to_string(),
        value: metric.to_string(),
    };
    let query = ReadQuery {
        end_ms: i64::MAX,
        matchers: vec![matcher],
    };
    let request = ReadRequest {
        queries: vec![query],
    };
    let reply = send(
        site,
        "/prometheus/api/v1/read",
        V1,
        &request.encode_to_vec(),
    );
    let bytes = snap::raw::Decoder::new()
        .decompress_vec(&reply.bytes)
        .unwrap();
    let response = ReadResponse::decode(&*bytes).unwrap();
    response.results[0].series.clone()
}

fn bits(series: &Series1) -> Vec<(i64, u64)> {
    let samples = series.samples.iter();
    samples
        .map(|sample| (sample.ms, sample.value.to_bits()))
        .collect()
}

#[test]
fn both_versions_return_bit_for_bit() {
    let site = Site::new();
    let mut samples: Vec<(i64, u64)> = (0..2000_i64)
        .map(|n| (n * 1_000, (n as f64 * 0.1).to_bits()))
        .collect();
    let specials = [
        STALE,
        f64::NAN.to_bits(),
        f64::INFINITY.to_bits(),
        u64::MAX,
        f64::MIN_POSITIVE.to_bits() >> 3,
    ];
    samples.extend((2_000_000..).step_by(15_001).zip(specials));
    samples.extend([(9_000_000, 1.0_f64.to_bits()), (9_015_000, STALE)]);
    let labels = |version| {
        vec![
            ("Zone", "a=b,c d\\"),
            ("__name__", "m:rate"),
            ("host.name", "ü\n\""),
            ("version", version),
        ]
    };
    for (version, kind) in [("1", V1), ("2", V2)] {
        let request = Request1 {
            series: vec![series(&labels(version), &samples)],
            metadata: Vec::new(),
        };
        let bytes = match kind {
            V1 => request.encode_to_vec(),
            _ => second(&request, None).encode_to_vec(),
        };
        let reply = send(&site, ADDRESS, kind, &bytes);
        assert_eq!((reply.status, &*reply.text), (204, ""));
    }
    // First from buffers, then from blocks.
    for flush in [false, true] {
        if flush {
            assert_eq!(site.post("/api/v1/flush", &[], b"").status, 204);
        }
        let found = read(&site, "m:rate");
        assert_eq!(found.len(), 2);
        for (found, version) in found.iter().zip(["1", "2"]) {
            assert_eq!(found.labels, series(&labels(version), &[]).labels);
            assert!(bits(found) == samples, "flushed: {flush}");
        }
    }
    // The stale marker ends the series.
    for (time, count) in [(9_014, 2), (9_016, 0)] {
        let query = format!("/prometheus/api/v1/query?query=m:rate&time={time}");
        let result = site.get(&query).json()["data"]["result"].clone();
        assert_eq!(result.as_array().unwrap().len(), count, "{result}");
    }
}

#[test]
fn late_and_repeated_samples_are_accepted() {
    let site = Site::new();
    let one = |ms, value: f64| Request1 {
        series: vec![series(&[("__name__", "m")], &[(ms, value.to_bits())])],
        metadata: Vec::new(),
    };
    for (ms, value) in [(5_000, 5.0), (1_000, 1.0), (3_000, 2.0), (3_000, 3.0)] {
        let bytes = one(ms, value).encode_to_vec();
        assert_eq!(send(&site, "/api/v1/write", V1, &bytes).status, 204);
    }
    let expected = [1.0, 3.0, 5.0].map(|value: f64| (value as i64 * 1_000, value.to_bits()));
    assert_eq!(bits(&read(&site, "m")[0]), expected);
}

#[test]
fn rejected_series_leave_the_rest() {
    let site = Site::new();
    let sample = [(1_000, 1.0_f64.to_bits()), (2_000, 2.0_f64.to_bits())];
    let mut histogram = series(&[("__name__", "delay")], &sample[..1]);
    histogram.histograms = vec![Histogram { sum: 1.0 }];
    let request = Request1 {
        series: vec![
            series(&[("__name__", "good")], &sample),
            series(&[("__name__", "m"), ("b", "1"), ("a", "1")], &sample),
            series(&[("job", "nameless")], &sample[..1]),
            histogram,
            series(&[("__name__", "late")], &[(i64::MAX, 0)]),
            series(&[("__name__", "good"), ("x", "")], &sample[..1]),
            series(&[("__name__", "last")], &sample),
        ],
        metadata: Vec::new(),
    };
    for (kind, bytes) in [
        (V1, request.encode_to_vec()),
        (V2, second(&request, None).encode_to_vec()),
    ] {
        let reply = send(&site, ADDRESS, kind, &bytes);
        assert_eq!(reply.status, 400, "{}", reply.text);
        let body = reply.json();
        assert_eq!(
            (&body["accepted"], &body["rejected"], &body["histograms"]),
            (&json!(5), &json!(6), &json!(1))
        );
        let text = body["error"].as_str().unwrap();
        for part in [
            "6 of 11 samples were rejected, the rest is stored",
            "series 2 (m{b=\"1\",a=\"1\"}), 2 samples: ",
            "sort the labels",
            "series 3 ({job=\"nameless\"}), 1 sample: the label __name__ is missing",
            "series 4 (delay), 1 sample: native histograms are not supported",
            "series 5 (late), 1 sample: its time",
            "series 6 (good{x=\"\"}), 1 sample: label \"x\" has an empty value",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let written = |of: &str| {
            let name = format!("x-prometheus-remote-write-{of}-written");
            let value = reply.headers.get(name.as_str());
            value.map(|value| value.to_str().unwrap().to_string())
        };
        let expected = (kind == V2).then(|| "5".to_string());
        assert_eq!(written("samples"), expected);
        assert_eq!(written("histograms").is_some(), kind == V2);
        assert_eq!(written("exemplars").is_some(), kind == V2);
    }
    for metric in ["good", "delay", "last"] {
        assert_eq!(read(&site, metric).len(), 1, "{metric}");
    }
    let metrics = site.get("/metrics").text;
    for line in [
        "seiner_ingest_samples_total{protocol=\"remote_write\"} 10",
        "seiner_ingest_rejected_rows_total{protocol=\"remote_write\"} 12",
        "seiner_ingest_rejected_rows_total{protocol=\"line\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[test]
fn what_cannot_be_read_is_an_error_without_a_retry() {
    let site = Site::with(|settings| settings.max_body = 1 << 20);
    let good = Request1 {
        series: vec![series(&[("__name__", "m")], &[(1, 0)])],
        metadata: Vec::new(),
    };
    let good = good.encode_to_vec();
    let block = |bytes: &[u8]| snap::raw::Encoder::new().compress_vec(bytes).unwrap();
    let zstd = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).unwrap();
    let post = |kind: &str, encoding: &str, body: &[u8]| {
        let headers = [("content-type", kind), ("content-encoding", encoding)];
        site.post(ADDRESS, &headers, body)
    };
    assert_eq!(post(V1, "zstd", &zstd(&good)).status, 204);
    for (kind, encoding, body, status, part) in [
        (
            "application/json",
            "snappy",
            block(&good),
            415,
            "Content-Type",
        ),
        (
            "application/x-protobuf;proto=x.Y",
            "snappy",
            block(&good),
            415,
            "proto=",
        ),
        (V1, "gzip", block(&good), 415, "Content-Encoding"),
        (V1, "zstd", block(&good), 400, "Zstandard"),
        (V1, "zstd", zstd(&vec![0; (1 << 20) + 1]), 413, "max_body"),
        (
            V1,
            "zstd",
            [zstd(&good), zstd(&good)].concat(),
            400,
            "Zstandard",
        ),
        (V1, "snappy", good.clone(), 400, "Snappy"),
        (V1, "snappy", Vec::new(), 400, "Snappy"),
        (
            V1,
            "snappy",
            b"\xff\xff\xff\xff\x0f".to_vec(),
            413,
            "1048576",
        ),
        (V1, "snappy", b"\x80\x80\x20".to_vec(), 400, "more bytes"),
        (V1, "snappy", vec![7; (1 << 20) + 1], 413, "max_body"),
        (
            V1,
            "snappy",
            block(&vec![0; (1 << 20) + 1]),
            413,
            "max_body",
        ),
        (
            V1,
            "snappy",
            block(&[&good[..], &[0x0a, 9]].concat()),
            400,
            "byte ",
        ),
        (V2, "snappy", block(&[0x22]), 400, "byte "),
    ] {
        let reply = post(kind, encoding, &body);
        assert_eq!(reply.status, status, "{part}: {}", reply.text);
        assert!(reply.text.contains(part), "{part}: {}", reply.text);
        assert!(reply.headers.get("retry-after").is_none());
    }
    assert_eq!(post(V1, "snappy", &block(&good)).status, 204);
    assert_eq!(post(V1, "snappy", &block(b"")).status, 204);
    assert_eq!(site.get(ADDRESS).status, 405);
}

#[test]
fn metadata_are_listed() {
    let site = Site::in_memory();
    let first = Request1 {
        series: vec![series(&[("__name__", "plain")], &[(1, 0)])],
        metadata: vec![Metadata1 {
            kind: 1,
            family: "requests_total".to_string(),
            help: "Requests".to_string(),
            unit: String::new(),
        }],
    };
    assert_eq!(send(&site, ADDRESS, V1, &first.encode_to_vec()).status, 204);
    let request = Request1 {
        series: vec![series(&[("__name__", "delay_sum")], &[(1, 0)])],
        metadata: Vec::new(),
    };
    let bytes = second(&request, Some((3, "Delay"))).encode_to_vec();
    assert_eq!(send(&site, ADDRESS, V2, &bytes).status, 204);
    let data = |query: &str| -> Value {
        let path = format!("/prometheus/api/v1/metadata{query}");
        site.get(&path).json()["data"].clone()
    };
    let entry = |kind, help| json!([{ "type": kind, "help": help, "unit": "" }]);
    let all = json!({
        "delay": entry("histogram", "Delay"),
        "delay_sum": entry("unknown", ""),
        "plain": entry("unknown", ""),
        "requests_total": entry("counter", "Requests"),
    });
    assert_eq!(data(""), all);
    let one = json!({ "delay": entry("histogram", "Delay") });
    assert_eq!(data("?metric=delay"), one);
}
