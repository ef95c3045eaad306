//! Advice of a cluster's port to its clients.

use crate::limits::until;
use crate::site::Site;
use seiner_server::{ClusterStatus, ClusterView, Extensions, PORTS, RATE};
use seiner_store::Error;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

/// Cluster with two other ports. The first of them is better for clients with up to 100 rows per second.
struct Cluster;

impl ClusterView for Cluster {
    fn ports(&self) -> Result<Value, Error> {
        Ok(json!([]))
    }

    fn status(&self) -> ClusterStatus {
        ClusterStatus::default()
    }

    fn trouble(&self) -> Option<String> {
        None
    }

    fn better_port(&self, rows_per_second: f64) -> Option<String> {
        (rows_per_second <= 100.0).then(|| "10.0.0.1:7670".to_string())
    }

    fn able_ports(&self) -> Vec<String> {
        ["10.0.0.1:7670", "10.0.0.2:7670"]
            .map(String::from)
            .to_vec()
    }

    fn hand_over(&self) -> Result<(), Error> {
        Ok(())
    }

    fn is_secret(&self, _text: &str) -> bool {
        false
    }

    fn exchange(&self, _request: &str, _body: &[u8]) -> Result<Vec<u8>, Error> {
        Err(Error::Closed)
    }
}

fn site() -> Site {
    let extensions = Extensions {
        cluster: Some(Arc::new(Cluster)),
        ..Extensions::default()
    };
    Site::extended(extensions)
}

#[test]
fn only_clients_that_state_their_rate_are_advised() {
    let site = site();
    let advice = |headers: &[(&str, &str)]| {
        let answer = site.post("/write", headers, b"m x=1 1");
        assert_eq!(answer.status, 204);
        let ports = answer.headers.get(PORTS);
        ports.map(|ports| ports.to_str().unwrap().to_string())
    };
    assert_eq!(advice(&[(RATE, "50")]).as_deref(), Some("10.0.0.1:7670"));
    for headers in [
        &[][..],
        &[(RATE, "5000")],
        &[(RATE, "many")],
        &[(RATE, "-1")],
        &[(RATE, "NaN")],
    ] {
        assert_eq!(advice(headers), None, "{headers:?}");
    }
    assert_eq!(site.post("/api/v1/flush", &[], b"").status, 204);
}

#[test]
fn a_busy_port_names_the_others() {
    let extensions = Extensions {
        cluster: Some(Arc::new(Cluster)),
        ..Extensions::default()
    };
    let site = Site::extended_with(extensions, |settings| settings.max_requests = 1);
    let mut held = TcpStream::connect(site.address).unwrap();
    let head = "POST /write HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n";
    held.write_all(head.as_bytes()).unwrap();
    until("the write is in flight", || {
        site.get("/status").json()["ingest"]["requests_in_flight"] == json!(1)
    });
    let answer = site.post("/write", &[], b"m x=2 2");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.headers[PORTS], "10.0.0.1:7670,10.0.0.2:7670");
    assert_eq!(answer.headers["retry-after"], "1");
}
