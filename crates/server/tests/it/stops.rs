//! Stops: no acknowledged sample is lost, and requests in flight are completed.

use crate::site::Site;
use seiner_engine::{Durability, Engine, Query};
use seiner_model::{Column, Interval, Selector};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub fn stored(engine: &Engine, measurement: &str) -> Vec<f64> {
    let query = Query {
        selector: Selector::parse(measurement).unwrap(),
        fields: None,
        interval: Interval::ALL,
    };
    let mut all: Vec<_> = engine.select(&query).unwrap().map(Result::unwrap).collect();
    match all.pop().map(|series| series.values) {
        Some(Column::F64(values)) if all.is_empty() => values,
        other => panic!("one series of floats, not {other:?}"),
    }
}

#[test]
fn a_stop_under_load_loses_nothing_acknowledged() {
    for durability in [
        Durability::Interval(Duration::from_secs(3600)),
        Durability::Memory,
    ] {
        let mut site = Site::with(|settings| settings.durability = durability);
        let (address, stopped, acknowledged) =
            (site.address, AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let agent = ureq::Agent::new_with_defaults();
                for batch in 0.. {
                    let lines: String = (batch * 100..batch * 100 + 100)
                        .map(|row| format!("m x={row} {row}\n"))
                        .collect();
                    match agent.post(format!("http://{address}/write")).send(&lines) {
                        Ok(_) => acknowledged.store((batch + 1) * 100, Ordering::SeqCst),
                        Err(_) if stopped.load(Ordering::SeqCst) => return,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            while acknowledged.load(Ordering::SeqCst) < 2000 {
                std::thread::sleep(Duration::from_millis(1));
            }
            stopped.store(true, Ordering::SeqCst);
            site.stop();
        });
        let rows = stored(&site.reopen(), "m");
        assert!(
            rows.len() as u64 >= acknowledged.load(Ordering::SeqCst),
            "{durability:?}"
        );
        assert!(
            rows.iter()
                .enumerate()
                .all(|(row, value)| *value == row as f64)
        );
    }
}

#[test]
fn a_stop_lets_a_request_in_flight_finish() {
    let mut site = Site::new();
    let mut stream = TcpStream::connect(site.address).unwrap();
    stream
        .write_all(
            b"POST /write HTTP/1.1\r\nhost: localhost\r\ncontent-length: 16\r\n\r\nm x=1 1\n",
        )
        .unwrap();
    while site.store().status().rows_accepted == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let address = site.address;
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        assert!(
            TcpStream::connect(address).is_err(),
            "no new connections while stopping"
        );
        stream.write_all(b"m x=2 2\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    site.stop();
    assert!(sender.join().unwrap().starts_with("HTTP/1.1 204"));
    assert_eq!(stored(&site.reopen(), "m"), [1.0, 2.0]);
}

#[test]
fn a_stop_does_not_wait_for_ever() {
    let mut site = Site::with(|settings| settings.stop_timeout = Duration::from_millis(200));
    let mut stream = TcpStream::connect(site.address).unwrap();
    stream
        .write_all(
            b"POST /write HTTP/1.1\r\nhost: localhost\r\ncontent-length: 16\r\n\r\nm x=1 1\n",
        )
        .unwrap();
    while site.store().status().rows_accepted == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let begun = Instant::now();
    site.stop();
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(stream);
}
