//! OTLP metrics over gRPC, with the HTTP/2 client of `hyper`.

use crate::limits::until;
use crate::otlp::{Response, gzip, request};
use crate::site::Site;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use serde_json::json;
use tokio::net::TcpStream;

const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Result of a call: HTTP status, headers and trailers together, and the body.
struct Called {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Called {
    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the message of a successful call.
    fn message(&self) -> Response {
        assert_eq!(
            self.header("grpc-status"),
            "0",
            "{}",
            self.header("grpc-message")
        );
        let (prefix, message) = self.body.split_first_chunk::<5>().unwrap();
        assert_eq!(prefix[0], 0);
        assert_eq!(prefix[1..], (message.len() as u32).to_be_bytes());
        Response::decode(message).unwrap()
    }
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

fn site(max_body: u64) -> Site {
    Site::with(|settings| {
        settings.otlp_grpc = Some("127.0.0.1:0".parse().unwrap());
        settings.max_body = max_body;
    })
}

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let len = (message.len() as u32).to_be_bytes();
    [&[flag][..], &len, message].concat()
}

fn call(site: &Site, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Called {
    let address = site.otlp_address.unwrap();
    site.run(async {
        let stream = TcpStream::connect(address).await.unwrap();
        let connected = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (mut sender, connection) = connected.unwrap();
        let driver = tokio::spawn(connection);
        let mut request = Request::post(format!("http://{address}{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap();
        let mut headers = head.headers;
        headers.extend(body.trailers().cloned().unwrap_or_default());
        driver.abort();
        Called {
            status: head.status.as_u16(),
            headers,
            body: body.to_bytes().to_vec(),
        }
    })
}

fn export(site: &Site, encoding: &str, body: Vec<u8>) -> Called {
    let headers = [
        ("content-type", "application/grpc"),
        ("grpc-encoding", encoding),
    ];
    call(site, EXPORT, &headers, body)
}

#[test]
fn answers_have_the_ids_of_their_calls() {
    let site = site(1 << 20);
    let id = |path: &str, stated: &[(&str, &str)]| {
        let headers = [&[("content-type", "application/grpc")], stated].concat();
        let called = call(&site, path, &headers, framed(0, b""));
        called.header("x-request-id").to_string()
    };
    assert_eq!(id(EXPORT, &[("x-request-id", "mine")]), "mine");
    assert_eq!(id("/none", &[("x-request-id", "other")]), "other");
    let generated = [id(EXPORT, &[]), id(EXPORT, &[("x-request-id", "a b")])];
    assert!(
        generated[0].len() > 8 && generated[0] != generated[1],
        "{generated:?}"
    );
}

#[test]
fn calls_store_points() {
    let site = site(1 << 20);
    let first = request(&[("m", &[(1, Some(1.5))])]);
    let called = export(&site, "identity", framed(0, &first));
    assert_eq!((called.status, called.message().partial), (200, None));
    assert_eq!(called.header("content-type"), "application/grpc");
    let second = request(&[("m", &[(2, Some(2.5)), (3, None)])]);
    let called = export(&site, "gzip", framed(1, &gzip(&second)));
    let partial = called.message().partial.unwrap();
    assert_eq!(partial.rejected, 1);
    assert!(
        partial.message.contains("it has no value"),
        "{}",
        partial.message
    );
    // A sender with gzip may leave short messages uncompressed.
    let third = request(&[("m", &[(4, Some(3.5))])]);
    assert_eq!(
        export(&site, "gzip", framed(0, &third)).message().partial,
        None
    );
    let fourth = request(&[("m", &[(5, Some(4.5))])]);
    let compressed = zstd::encode_all(&fourth[..], 1).unwrap();
    let called = export(&site, "zstd", framed(1, &compressed));
    assert_eq!(called.message().partial, None);
    assert_eq!(called.header("grpc-accept-encoding"), "identity,gzip,zstd");
    assert_eq!(site.values("m")["values"], json!([1.5, 2.5, 3.5, 4.5]));
    let metrics = site.get("/metrics").text;
    let line = "seiner_ingest_samples_total{protocol=\"otlp\"} 4";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn errors_are_in_the_head_of_the_answer() {
    let site = site(1 << 16);
    let good = framed(0, &request(&[("m", &[(1, Some(1.0))])]));
    let zeros = vec![0; (1 << 16) + 1];
    let bomb = framed(1, &gzip(&zeros));
    let zstd_bomb = framed(1, &zstd::encode_all(&zeros[..], 1).unwrap());
    for (encoding, body, code, part) in [
        ("identity", framed(0, b"\x0a\x09"), "3", "byte "),
        ("identity", b"\0\0\0".to_vec(), "3", "no message"),
        ("identity", [&good[..], b"x"].concat(), "3", "prefix"),
        ("identity", framed(1, b""), "3", "grpc-encoding"),
        ("gzip", framed(1, b"x"), "3", "gzip"),
        ("gzip", bomb, "3", "max_body"),
        ("identity", framed(0, &zeros), "3", "max_body"),
        ("zstd", framed(1, b"xxxx"), "3", "Zstandard"),
        ("zstd", zstd_bomb, "3", "max_body"),
        ("snappy", good.clone(), "12", "gzip"),
    ] {
        let called = export(&site, encoding, body);
        assert_eq!(
            (called.status, called.header("grpc-status")),
            (200, code),
            "{part}"
        );
        let message = called.header("grpc-message");
        assert!(message.contains(part), "{part}: {message}");
        assert!(called.body.is_empty());
    }
    let kind = [("content-type", "application/grpc+proto")];
    let called = call(&site, "/opentelemetry.Traces/Export", &kind, good.clone());
    assert_eq!(called.header("grpc-status"), "12");
    let called = call(
        &site,
        EXPORT,
        &[("content-type", "text/plain")],
        good.clone(),
    );
    assert_eq!(called.status, 415);
    assert_eq!(call(&site, EXPORT, &kind, good).message().partial, None);
}

#[test]
fn too_many_calls_are_unavailable() {
    let site = Site::with(|settings| {
        settings.otlp_grpc = Some("127.0.0.1:0".parse().unwrap());
        settings.max_requests = 1;
    });
    let good = framed(0, &request(&[("m", &[(1, Some(1.0))])]));
    // A body over HTTP that does not end takes the only place.
    let mut slow = std::net::TcpStream::connect(site.address).unwrap();
    let head = "POST /v1/metrics HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-protobuf\r\n\
                content-length: 10\r\n\r\n";
    std::io::Write::write_all(&mut slow, head.as_bytes()).unwrap();
    until("the place is free", || {
        site.get("/metrics")
            .text
            .contains("seiner_http_writes_total 1\n")
    });
    let called = export(&site, "identity", good);
    assert_eq!(called.header("grpc-status"), "14");
    let details = called.header("grpc-status-details-bin");
    let status = Status::decode(&*STANDARD_NO_PAD.decode(details).unwrap()).unwrap();
    assert_eq!(status.message, called.header("grpc-message"));
    assert_eq!(status.code, 14);
    let [detail] = &status.details[..] else {
        panic!("{status:?}");
    };
    assert_eq!(detail.type_url, "type.googleapis.com/google.rpc.RetryInfo");
    // A duration of 1 s.
    assert_eq!(detail.value, [0x0a, 2, 8, 1]);
    let kind = [("content-type", "application/x-protobuf")];
    let reply = site.post("/v1/metrics", &kind, &[]);
    assert_eq!(reply.status, 503);
    assert_eq!(reply.headers["retry-after"], "1");
    drop(slow);
}

#[test]
fn a_stop_ends_idle_connections() {
    let mut site = site(1 << 20);
    let address = site.otlp_address.unwrap();
    let idle = site.run(async {
        let stream = TcpStream::connect(address).await.unwrap();
        let connected =
            http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = connected.unwrap();
        (sender, tokio::spawn(connection))
    });
    let began = std::time::Instant::now();
    site.stop();
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
    drop(idle);
}
