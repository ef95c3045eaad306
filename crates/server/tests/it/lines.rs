//! Line protocol over plain TCP.

use crate::site::Site;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn lines_arrive_as_they_are_sent_and_bad_ones_are_counted() {
    let site = Site::with(|settings| settings.line_tcp = Some("127.0.0.1:0".parse().unwrap()));
    let mut stream = TcpStream::connect(site.line_address.unwrap()).unwrap();
    stream
        .write_all(b"m x=1 1\nm x=2 2\nnonsense\nm x=3")
        .unwrap();
    let arrived = |rows: u64| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while site.get("/status").json()["ingest"]["rows"] != json!(rows) {
            assert!(Instant::now() < deadline, "{rows} rows did not arrive");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // Rows are visible before the connection ends.
    arrived(2);
    stream.write_all(b" 3\nm x=4 4\n# no line\n#").unwrap();
    arrived(4);
    drop(stream);
    assert_eq!(site.values("m")["values"], json!([1.0, 2.0, 3.0, 4.0]));
    assert_eq!(
        site.get("/status").json()["ingest"]["rejected_lines"],
        json!(1)
    );
}

#[test]
fn a_line_without_its_newline_is_dropped_and_counted() {
    let mut site = Site::with(|settings| settings.line_tcp = Some("127.0.0.1:0".parse().unwrap()));
    let rejected = |lines: u64| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while site.get("/status").json()["ingest"]["rejected_lines"] != json!(lines) {
            assert!(Instant::now() < deadline, "{lines} lines were not rejected");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // One sender ends within `temp=21.7 2`, the other within a text of several lines.
    for (count, sent) in [
        "boiler temp=1 1\nboiler temp=2",
        "boiler temp=3 3\nboiler note=\"a\nboiler temp=4 4\n",
    ]
    .into_iter()
    .enumerate()
    {
        let mut stream = TcpStream::connect(site.line_address.unwrap()).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        drop(stream);
        rejected(count as u64 + 1);
    }
    assert_eq!(site.values("boiler")["values"], json!([1.0, 3.0]));
    // A stop of the server also ends connections of senders.
    let mut stream = TcpStream::connect(site.line_address.unwrap()).unwrap();
    stream.write_all(b"boiler temp=5 5\nboiler temp=6").unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while site.get("/status").json()["ingest"]["rows"] != json!(3) {
        assert!(Instant::now() < deadline, "the third row did not arrive");
        std::thread::sleep(Duration::from_millis(10));
    }
    site.stop();
    assert_eq!(site.reopen().status().rows_accepted, 0);
}

#[test]
fn a_datagram_is_a_whole_text() {
    let site = Site::with(|settings| {
        settings.text_ports.line_udp = Some("127.0.0.1:0".parse().unwrap());
    });
    let address = site.text_address("line_udp_listen");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    // The second text has no closing quote, and the third one is not a part of it.
    for text in [
        "m x=1 1\nm x=2 2",
        "m note=\"a",
        "m x=3 3\n",
        "nonsense\nm x=4 4",
    ] {
        socket.send_to(text.as_bytes(), address).unwrap();
    }
    site.await_metric("seiner_ingest_rows_total{protocol=\"line\"}", 4);
    site.await_metric("seiner_ingest_rejected_rows_total{protocol=\"line\"}", 2);
    let values = site.query(&[
        ("select", "m"),
        ("from", "0ns"),
        ("to", "9ns"),
        ("fields", "x"),
    ]);
    assert_eq!(
        values.json()["series"][0]["values"],
        json!([1.0, 2.0, 3.0, 4.0])
    );
}

#[test]
fn an_http_request_to_the_line_port_stores_nothing() {
    let site = Site::with(|settings| settings.line_tcp = Some("127.0.0.1:0".parse().unwrap()));
    let body = "x v=1 1\n".repeat(1000);
    let mut stream = TcpStream::connect(site.line_address.unwrap()).unwrap();
    let request =
        format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000\r\n\r\n{body}");
    let _ = stream.write_all(request.as_bytes());
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let status = site.get("/status").json();
    assert_eq!(
        (
            &status["ingest"]["rows"],
            &status["ingest"]["rejected_lines"]
        ),
        (&json!(0), &json!(1))
    );
    // A measurement may have the name of an HTTP method.
    let mut stream = TcpStream::connect(site.line_address.unwrap()).unwrap();
    stream.write_all(b"GET v=1 1\n").ok();
    drop(stream);
}
