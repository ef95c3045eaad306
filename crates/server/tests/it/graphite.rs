//! Graphite: plaintext over TCP and UDP, and pickles.

use crate::site::Site;
use crate::stops::stored;
use serde_json::json;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};

const ROWS: &str = "seiner_ingest_rows_total{protocol=\"graphite\"}";
const REJECTED: &str = "seiner_ingest_rejected_rows_total{protocol=\"graphite\"}";
const IGNORED: &str = "seiner_ingest_ignored_total{protocol=\"graphite\"}";

fn site() -> Site {
    Site::with(|settings| {
        settings.text_ports.graphite = Some("127.0.0.1:0".parse().unwrap());
        settings.text_ports.graphite_pickle = Some("127.0.0.1:0".parse().unwrap());
    })
}

#[test]
fn lines_over_tcp_and_udp_become_rows() {
    let site = site();
    let address = site.text_address("graphite_listen");
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(
            b"disk.used;host=a 1.5 10\nnonsense\ndisk.used;host=a nan 20\ndisk.used;host=a 3 3",
        )
        .unwrap();
    site.await_metric(ROWS, 1);
    stream.write_all(b"0\n").unwrap();
    site.await_metric(ROWS, 2);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .send_to(b"disk.used;host=a 4 40\ndisk.used;host=a 5 50", address)
        .unwrap();
    site.await_metric(ROWS, 4);
    site.await_metric(REJECTED, 1);
    site.await_metric(IGNORED, 1);
    let series = site.values("disk.used{host=\"a\"}");
    assert_eq!(series["field"], json!("value"));
    assert_eq!(series["values"], json!([1.5, 3.0, 4.0, 5.0]));
    assert_eq!(series["times"][0], json!(10_000_000_000_i64));
}

#[test]
fn pickles_become_rows_and_others_are_rejected() {
    let site = site();
    let mut stream = TcpStream::connect(site.text_address("graphite_pickle_listen")).unwrap();
    // [("a.b", (100, 1.5)), ("a.b", 7)] in protocol 2.
    let pickle = b"\x80\x02](X\x03\x00\x00\x00a.bKdG?\xf8\x00\x00\x00\x00\x00\x00\x86\x86X\x03\x00\x00\x00a.bK\x07\x86e.";
    let calls = b"cos\nsystem\n(S'true'\ntR.";
    for frame in [&calls[..], pickle] {
        stream
            .write_all(&(frame.len() as u32).to_be_bytes())
            .unwrap();
        stream.write_all(frame).unwrap();
    }
    site.await_metric(ROWS, 1);
    site.await_metric(REJECTED, 2);
    assert_eq!(site.values("a.b")["values"], json!([1.5]));
    // A request of HTTP begins with a length that is too long.
    let mut stream = TcpStream::connect(site.text_address("graphite_pickle_listen")).unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\n\r\n").unwrap();
    site.await_metric(REJECTED, 3);
}

#[test]
fn datagrams_that_arrived_before_the_stop_are_stored() {
    let mut site = site();
    let address = site.text_address("graphite_listen");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for time in 0..500 {
        let line = format!("m 1 {time}");
        socket.send_to(line.as_bytes(), address).unwrap();
    }
    site.stop();
    assert_eq!(stored(&site.reopen(), "m").len(), 500);
}
