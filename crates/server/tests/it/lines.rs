//! Line protocol over plain TCP.

use crate::site::Site;
use serde_json::json;
use std::io::Write;
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
    // Without waiting for the connection's end.
    arrived(2);
    stream.write_all(b" 3\nm x=4 4").unwrap();
    arrived(3);
    drop(stream);
    arrived(4);
    assert_eq!(site.values("m")["values"], json!([1.0, 2.0, 3.0, 4.0]));
    assert_eq!(
        site.get("/status").json()["ingest"]["rejected_lines"],
        json!(1)
    );
}
