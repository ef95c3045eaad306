//! Limits: requests are not queued, memory does not grow without bound, and nothing panics.

use crate::site::Site;
use flate2::Compression;
use flate2::write::GzEncoder;
use seiner_server::{AccessMode, Server, Settings};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Waits until a condition holds; fails after 20 s.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Begins a write and leaves it unfinished.
fn unfinished(site: &Site) -> TcpStream {
    let mut stream = TcpStream::connect(site.address).unwrap();
    stream
        .write_all(
            b"POST /write HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nm x=1 1\n",
        )
        .unwrap();
    stream
}

#[test]
fn excess_writes_are_rejected_with_a_time_to_retry() {
    let site = Site::with(|settings| settings.max_requests = 2);
    let held = [unfinished(&site), unfinished(&site)];
    until("two writes in flight", || {
        site.get("/status").json()["ingest"]["requests_in_flight"] == json!(2)
    });
    let answer = site.post("/write", &[], b"m x=2 2");
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (503, &json!("unavailable"))
    );
    assert_eq!(answer.headers["retry-after"], "1");
    assert!(answer.text.contains("max_requests"));
    drop(held);
    until("places are given back", || {
        site.post("/write", &[], b"m x=3 3").status == 204
    });
    // Lines that arrived before a write broke off are kept.
    assert_eq!(site.values("m")["values"], json!([1.0, 3.0]));
}

#[test]
fn a_body_over_the_limit_is_cut_off() {
    let site = Site::with(|settings| settings.max_body = 100_000);
    let line = "m x=1 1\n";
    let body = line.repeat(20_000);
    let answer = site.post("/write", &[], body.as_bytes());
    assert_eq!(answer.status, 413);
    assert!(answer.text.contains("max_body"), "{}", answer.text);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..1000 {
        encoder.write_all(body.as_bytes()).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1_000_000);
    let answer = site.post("/write", &[("content-encoding", "gzip")], &bomb);
    assert_eq!(answer.status, 413, "{}", answer.text);
    assert!(
        site.get("/status").json()["ingest"]["rows"]
            .as_u64()
            .unwrap()
            <= 2 * 100_000 / line.len() as u64
    );
    assert_eq!(
        site.post("/write", &[], &body.as_bytes()[..80_000]).status,
        204
    );
}

#[test]
fn connections_beyond_the_limit_are_turned_away() {
    let site = Site::with(|settings| settings.max_connections = 3);
    let mut held: Vec<TcpStream> = (0..3)
        .map(|_| TcpStream::connect(site.address).unwrap())
        .collect();
    let mut answer = String::new();
    let mut fourth = TcpStream::connect(site.address).unwrap();
    fourth.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1"),
        "{answer}"
    );
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains(&format!("content-length: {}", body.len())),
        "{answer}"
    );
    serde_json::from_str::<serde_json::Value>(body).unwrap();
    drop(held.pop());
    until("a place is given back", || {
        let mut stream = TcpStream::connect(site.address).unwrap();
        stream
            .write_all(b"GET /ping HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 204")
    });
}

#[test]
fn the_server_survives_invalid_bytes_on_the_socket() {
    let site = Site::new();
    let heads: [&[u8]; 5] = [
        b"\0\xff\xfe nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /write HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /write HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        &[b'A'; 100_000],
    ];
    for head in heads {
        let mut stream = TcpStream::connect(site.address).unwrap();
        // The server may close the connection during the write.
        let _ = stream.write_all(head);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        b"m,=x \"\\\n1i.e-\xff"[(state >> 60) as usize % 14]
    })
    .take(300_000)
    .collect();
    assert!(matches!(site.post("/write", &[], &noise).status, 204 | 400));
    site.write("m x=1 1");
}

#[test]
fn an_idle_connection_is_closed_when_the_limit_is_reached() {
    let site = Site::with(|settings| settings.max_connections = 2);
    // One connection has sent a request and is kept open. The other has sent nothing.
    let mut kept = TcpStream::connect(site.address).unwrap();
    kept.write_all(b"GET /ping HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut head = [0; 12];
    kept.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 204");
    std::thread::sleep(Duration::from_millis(20));
    let _silent = TcpStream::connect(site.address).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let answer = raw(
        &site,
        b"GET /ping HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    // The server closed the connection that was idle for the longest time.
    assert!(kept.read_to_end(&mut Vec::new()).is_ok());
}

/// Sends a request. Returns all bytes until the server closes the socket.
fn raw(site: &Site, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(site.address).unwrap();
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns the status, head and JSON of a raw answer.
fn parts(answer: &str) -> (u16, String, serde_json::Value) {
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{answer:?}"));
    let json = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    (
        head[9..12].parse().unwrap(),
        head.to_ascii_lowercase(),
        json,
    )
}

#[test]
fn every_error_answer_is_json_of_one_shape() {
    let site = Site::new();
    let local = "Host: localhost\r\nConnection: close\r\n";
    let many: String = (0..200).map(|n| format!("x{n}: a\r\n")).collect();
    for (name, request, status) in [
        ("no HTTP", "nonsense\r\n\r\n".to_string(), 400),
        (
            "a bad header",
            format!("GET / HTTP/1.1\r\n{local}a b: c\r\n\r\n"),
            400,
        ),
        (
            "many headers",
            format!("GET / HTTP/1.1\r\n{local}{many}\r\n"),
            431,
        ),
        (
            "a large header",
            format!(
                "GET / HTTP/1.1\r\n{local}a: {}\r\n\r\n",
                "b".repeat(2 << 20)
            ),
            431,
        ),
        (
            "a long address",
            format!("GET /{} HTTP/1.1\r\n{local}\r\n", "a".repeat(100_000)),
            414,
        ),
        (
            "another method",
            format!("PUT /write HTTP/1.1\r\n{local}\r\n"),
            405,
        ),
        (
            "another method of the page",
            format!("POST / HTTP/1.1\r\n{local}\r\n"),
            405,
        ),
        (
            "OPTIONS",
            format!("OPTIONS /api/v1/delete HTTP/1.1\r\n{local}\r\n"),
            405,
        ),
        (
            "nothing there",
            format!("POST /none HTTP/1.1\r\n{local}\r\n"),
            404,
        ),
        (
            "a bad parameter",
            format!("GET /api/v1/values?tag=a&limit=x HTTP/1.1\r\n{local}\r\n"),
            400,
        ),
        (
            "a parameter given twice",
            format!("POST /write?precision=s&precision=ns HTTP/1.1\r\n{local}\r\n"),
            400,
        ),
        (
            "a foreign host",
            "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".to_string(),
            421,
        ),
        (
            "no host",
            "GET / HTTP/1.1\r\nConnection: close\r\n\r\n".to_string(),
            400,
        ),
    ] {
        let answer = raw(&site, request.as_bytes());
        let (found, head, json) = parts(&answer);
        // Address and headers have one common limit, so the error may name either.
        let is_head = |status| matches!(status, 414 | 431);
        assert!(
            found == status || is_head(found) && is_head(status),
            "{name}: {answer}"
        );
        assert!(
            head.contains("content-type: application/json"),
            "{name}: {head}"
        );
        assert!(
            json["error"].as_str().is_some_and(|text| text.len() > 10),
            "{name}: {json}"
        );
        assert_eq!(json["message"], json["error"], "{name}");
        assert!(json["code"].is_string(), "{name}: {json}");
        assert_eq!(
            status == 405,
            head.contains("\r\nallow: "),
            "{name}: {head}"
        );
    }
}

#[test]
fn statements_are_bounded_in_size() {
    let site = Site::new();
    let large = vec![b' '; 100_000];
    for path in ["/api/v2/delete", "/query"] {
        let answer = site.post(path, &[], &large);
        assert_eq!(answer.status, 413, "{path}: {}", answer.text);
        assert!(
            answer.json()["error"]
                .as_str()
                .unwrap()
                .contains("65536 bytes")
        );
    }
}

#[test]
fn an_incomplete_body_stores_no_incomplete_line() {
    let site = Site::new();
    // The whole content can be unpacked, but the trailer is missing.
    let mut zip = GzEncoder::new(Vec::new(), Compression::default());
    zip.write_all(b"m x=1 1\nm x=2").unwrap();
    zip.flush().unwrap();
    let zip = zip.get_ref();
    let head =
        |more: &str| format!("POST /write HTTP/1.1\r\nhost: localhost\r\n{more}\r\n").into_bytes();
    let packed = |len: usize| {
        head(&format!(
            "content-encoding: gzip\r\ncontent-length: {len}\r\n"
        ))
    };
    let requests = [
        [head("content-length: 100\r\n"), b"m x=1 1\nm x=2".to_vec()].concat(),
        [
            head("transfer-encoding: chunked\r\n"),
            b"d\r\nm x=1 1\nm x=2\r\n".to_vec(),
        ]
        .concat(),
        [
            head("transfer-encoding: chunked\r\n"),
            b"ff\r\nm x=1 1\nm x=2".to_vec(),
        ]
        .concat(),
        [packed(zip.len() + 8), zip.clone()].concat(),
        [packed(zip.len()), zip.clone()].concat(),
    ];
    for request in requests {
        let mut stream = TcpStream::connect(site.address).unwrap();
        stream.write_all(&request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        until("nothing is in flight", || {
            site.get("/status").json()["ingest"]["requests_in_flight"] == json!(0)
        });
    }
    site.write("m x=1 1");
    assert_eq!(site.values("m")["times"], json!([1]));
    // A complete body may lack the last newline.
    site.write("m x=2 2");
    assert_eq!(site.values("m")["values"], json!([1.0, 2.0]));
}

#[test]
fn pages_of_other_hosts_may_not_write() {
    let site = Site::new();
    let own = format!("http://{}", site.address);
    for (origin, status) in [
        ("http://evil.example", 403),
        ("null", 403),
        (own.as_str(), 204),
    ] {
        assert_eq!(
            site.post("/write", &[("origin", origin)], b"m x=1 1")
                .status,
            status,
            "{origin}"
        );
    }
    assert_eq!(site.values("m")["values"], json!([1.0]));
}

#[test]
fn public_addresses_need_permission() {
    let data = tempfile::tempdir().unwrap();
    let settings = Settings {
        data: data.path().to_path_buf(),
        listen: "0.0.0.0:0".parse().unwrap(),
        host_sensors: None,
        ..Settings::default()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = runtime
        .block_on(Server::start(settings.clone()))
        .err()
        .expect("the start is rejected")
        .to_string();
    assert!(error.contains("allow_remote = true"), "{error}");
    let settings = Settings {
        allow_remote: true,
        ..settings
    };
    let error = runtime
        .block_on(Server::start(settings.clone()))
        .err()
        .expect("there is no token")
        .to_string();
    assert!(error.contains("seiner token create"), "{error}");
    let server = runtime
        .block_on(Server::start(Settings {
            access: AccessMode::Open,
            ..settings
        }))
        .unwrap();
    runtime.block_on(server.stop()).unwrap();
}

#[test]
fn a_second_server_on_the_same_directory_is_rejected() {
    let site = Site::new();
    let settings = Settings {
        data: site.data.path().join("data"),
        listen: "127.0.0.1:0".parse().unwrap(),
        ..Settings::default()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = runtime
        .block_on(Server::start(settings))
        .err()
        .expect("the start is rejected");
    assert!(format!("{error:#}").contains("data directory"), "{error:#}");
}

/// Regression: the connection was closed after the answer, and a client that used it again failed.
#[test]
fn a_connection_survives_a_rejected_request_whose_body_comes_late() {
    let site = Site::new();
    let mut stream = TcpStream::connect(site.address).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    for (query, status) in [("precison=s", "400"), ("precision=s", "204")] {
        write!(
            stream,
            "POST /write?{query} HTTP/1.1\r\nHost: {}\r\nContent-Length: 7\r\n\r\n",
            site.address
        )
        .unwrap();
        std::thread::sleep(Duration::from_millis(100));
        stream.write_all(b"a b=1 1").unwrap();
        let mut head = String::new();
        answers.read_line(&mut head).unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        let mut length = 0;
        loop {
            let mut line = String::new();
            answers.read_line(&mut line).unwrap();
            if let Some(bytes) = line.to_lowercase().strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        answers.read_exact(&mut vec![0; length]).unwrap();
    }
}
