//! MQTT over real sockets, with packets that these tests encode: the port for devices, and a broker that the test plays.
//! `e2e/test_mqtt.py` has Mosquitto as the broker.

use crate::gate::Gate;
use crate::limits::until;
use crate::site::Site;
use seiner_server::mqtt_topics::TopicText;
use seiner_server::settings::{Broker, MqttVersion};
use seiner_server::{Extensions, Settings};
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

const TOPICS: &str = "topic=home/{room}/{field},measurement=climate; topic=json/{id},measurement=station,time=at; \
                      topic=lines,payload=line";
const PATIENCE: Duration = Duration::from_secs(20);

const CONNACK: u8 = 0x20;
const PUBLISH: u8 = 0x30;
const PUBACK: u8 = 0x40;
const PUBREC: u8 = 0x50;
const PUBREL: u8 = 0x62;
const PUBCOMP: u8 = 0x70;
const SUBSCRIBE: u8 = 0x82;
const SUBACK: u8 = 0x90;
const PINGREQ: u8 = 0xc0;
const PINGRESP: u8 = 0xd0;
const DISCONNECT: u8 = 0xe0;

fn topics(settings: &mut Settings) {
    let topics = TopicText::parse_list(TOPICS).unwrap();
    settings.mqtt.topics = topics.iter().map(|topic| topic.rule().unwrap()).collect();
}

fn port(settings: &mut Settings) {
    topics(settings);
    settings.mqtt.listen = Some("127.0.0.1:0".parse().unwrap());
}

fn text(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    let mut len = body.len();
    loop {
        let more = if len > 127 { 0x80 } else { 0 };
        packet.push((len % 128) as u8 | more);
        len /= 128;
        if len == 0 {
            break;
        }
    }
    [packet, body.to_vec()].concat()
}

/// End of a connection, one packet after the other.
struct Peer {
    stream: TcpStream,
    /// 4 for version 3.1.1, 5 for version 5.
    level: u8,
}

impl Peer {
    fn of(stream: TcpStream, level: u8) -> Peer {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Peer { stream, level }
    }

    /// Connects a device.
    fn device(address: SocketAddr, level: u8, keep_alive_s: u16) -> Peer {
        let mut peer = Peer::of(TcpStream::connect(address).unwrap(), level);
        let mut body = text(b"MQTT");
        body.extend([level, 0x02]);
        body.extend(keep_alive_s.to_be_bytes());
        body.extend(peer.properties());
        body.extend(text(b"device"));
        peer.send(&packet(0x10, &body));
        let (kind, body) = peer.packet();
        assert_eq!((kind, &body[..2]), (CONNACK, &[0, 0][..]));
        peer
    }

    /// Empty list of properties, which only version 5 has.
    fn properties(&self) -> &'static [u8] {
        if self.level == 5 { &[0] } else { &[] }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn message(&self, topic: &str, payload: &str, qos: u8, id: u16) -> Vec<u8> {
        let mut body = text(topic.as_bytes());
        if qos > 0 {
            body.extend(id.to_be_bytes());
        }
        body.extend(self.properties());
        body.extend(payload.as_bytes());
        packet(PUBLISH | qos << 1, &body)
    }

    fn publish(&mut self, topic: &str, payload: &str, qos: u8, id: u16) {
        let bytes = self.message(topic, payload, qos, id);
        self.send(&bytes);
    }

    fn packet(&mut self) -> (u8, Vec<u8>) {
        self.try_packet().expect("a packet arrives")
    }

    fn try_packet(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let mut byte = [0];
        self.stream.read_exact(&mut byte)?;
        let (first, mut len, mut shift) = (byte[0], 0, 0);
        loop {
            self.stream.read_exact(&mut byte)?;
            len |= usize::from(byte[0] & 0x7f) << shift;
            shift += 7;
            if byte[0] & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; len];
        self.stream.read_exact(&mut body)?;
        Ok((first, body))
    }

    /// Receives an acknowledgement. Returns its reason, 0 in version 3.1.1.
    fn acknowledged(&mut self, kind: u8, id: u16) -> u8 {
        let (found, body) = self.packet();
        assert_eq!((found, &body[..2]), (kind, &id.to_be_bytes()[..]));
        body.get(2).copied().unwrap_or(0)
    }

    /// Waits until the other side closes the connection. Returns the reason of its DISCONNECT, if it sends one.
    fn closed(&mut self) -> Option<u8> {
        let mut reason = None;
        loop {
            match self.try_packet() {
                Ok((DISCONNECT, body)) => reason = body.first().copied(),
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    panic!("the connection stayed open")
                }
                Err(_) => return reason,
            }
        }
    }

    /// Asserts that nothing arrives for a while.
    fn silent(&mut self) {
        self.stream
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        let error = self.try_packet().expect_err("nothing arrives");
        assert!(
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            "{error}"
        );
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }
}

#[test]
fn devices_publish_without_a_broker() {
    let site = Site::with(port);
    for level in [4, 5] {
        let mut device = Peer::device(site.mqtt_address.unwrap(), level, 60);
        let room = format!("room{level}");
        device.publish(&format!("home/{room}/temp"), "21.5", 0, 0);
        device.publish(&format!("home/{room}/temp"), "22.5", 1, 7);
        assert_eq!(device.acknowledged(PUBACK, 7), 0);
        device.publish(
            &format!("json/{room}"),
            r#"{"at":1700000000,"x":{"y":3}}"#,
            2,
            8,
        );
        assert_eq!(device.acknowledged(PUBREC, 8), 0);
        // A repetition before the end of the exchange is acknowledged, and not stored again.
        device.publish(
            &format!("json/{room}"),
            r#"{"at":1700000001,"x":{"y":4}}"#,
            2,
            8,
        );
        device.acknowledged(PUBREC, 8);
        device.send(&packet(PUBREL, &8_u16.to_be_bytes()));
        device.acknowledged(PUBCOMP, 8);
        device.publish(
            "lines",
            &format!("m,level={level} v=1 5\nm,level={level} v=2 6"),
            1,
            9,
        );
        device.acknowledged(PUBACK, 9);
        device.send(&packet(PINGREQ, &[]));
        assert_eq!(device.packet(), (PINGRESP, Vec::new()));
        device.send(&packet(DISCONNECT, &[]));
        device.closed();
        let values = |select: String| site.values(&select)["values"].clone();
        assert_eq!(
            values(format!("climate{{room=\"{room}\"}}")),
            json!([21.5, 22.5])
        );
        assert_eq!(values(format!("station{{id=\"{room}\"}}")), json!([3.0]));
        assert_eq!(values(format!("m{{level=\"{level}\"}}")), json!([1.0, 2.0]));
    }
    let status = site.get("/status").json();
    assert_eq!(status["mqtt"]["messages"], json!(8));
    assert_eq!(status["mqtt"]["broker"], json!(null));
    let metrics = site.get("/metrics").text;
    assert!(
        metrics.contains("seiner_ingest_rows_total{protocol=\"mqtt\"} 10\n"),
        "{metrics}"
    );
    assert!(metrics.contains("seiner_mqtt_messages_total 8\n"));
}

#[test]
fn rejected_messages_are_acknowledged_counted_and_shown() {
    let site = Site::with(port);
    let mut device = Peer::device(site.mqtt_address.unwrap(), 5, 60);
    device.publish("nowhere", "1", 1, 1);
    assert_eq!(device.acknowledged(PUBACK, 1), 0x90);
    device.publish("json/a", "{\"x\":", 1, 2);
    assert_eq!(device.acknowledged(PUBACK, 2), 0x99);
    // The valid line of a message is kept.
    device.publish("lines", "m v=1 5\nnonsense", 1, 3);
    assert_eq!(device.acknowledged(PUBACK, 3), 0x99);
    // The store rejects another type of a field.
    device.publish("lines", "m v=\"text\" 6", 1, 4);
    assert_eq!(device.acknowledged(PUBACK, 4), 0x99);
    assert_eq!(site.values("m")["values"], json!([1.0]));
    let status = site.get("/status").json();
    assert_eq!(status["ingest"]["rejected_lines"], json!(4));
    assert_eq!(status["mqtt"]["rejected_messages"], json!(4));
    assert_eq!(status["mqtt"]["last_rejection"]["topic"], json!("lines"));
}

#[test]
fn devices_may_send_many_messages_ahead() {
    let site = Site::with(port);
    for qos in [1, 2] {
        let mut device = Peer::device(site.mqtt_address.unwrap(), 5, 60);
        let topic = format!("home/qos{qos}/x");
        let messages = (1..=5000).map(|id| device.message(&topic, "1", qos, id));
        let messages: Vec<u8> = messages.flatten().collect();
        device.send(&messages);
        for id in 1..=5000 {
            device.acknowledged(if qos == 1 { PUBACK } else { PUBREC }, id);
        }
        let select = format!("climate{{room=\"qos{qos}\"}}");
        assert_eq!(
            site.values(&select)["values"].as_array().unwrap().len(),
            5000
        );
    }
}

#[test]
fn subscriptions_are_rejected() {
    let site = Site::with(port);
    for (level, code) in [(4, 0x80), (5, 0x83)] {
        let mut device = Peer::device(site.mqtt_address.unwrap(), level, 60);
        let filters = [text(b"a/b"), vec![0], text(b"c"), vec![1]].concat();
        let body = [&5_u16.to_be_bytes()[..], device.properties(), &filters].concat();
        device.send(&packet(SUBSCRIBE, &body));
        let (kind, body) = device.packet();
        assert_eq!((kind, &body[body.len() - 2..]), (SUBACK, &[code, code][..]));
        let body = [&6_u16.to_be_bytes()[..], device.properties(), &text(b"a/b")].concat();
        device.send(&packet(0xa2, &body));
        assert_eq!(device.packet().0, 0xb0);
    }
}

#[test]
fn messages_are_acknowledged_when_they_are_durable() {
    let gate = Arc::new(Gate::new());
    let extensions = Extensions {
        store: Some(gate.clone()),
        ..Extensions::default()
    };
    let site = Site::extended_with(extensions, port);
    let mut device = Peer::device(site.mqtt_address.unwrap(), 5, 60);
    let messages = (1..=100).map(|id| device.message("home/a/temp", "1", 1, id));
    let messages: Vec<u8> = messages.flatten().collect();
    device.send(&messages);
    until("no append was attempted", || gate.rejected.load(SeqCst) > 1);
    device.silent();
    assert!(
        site.get("/status").json()["mqtt"]["last_error"]
            .to_string()
            .contains("gate")
    );
    gate.open_appends();
    until("no wait for durability", || gate.waits.load(SeqCst) > 0);
    device.silent();
    gate.open_durability();
    for id in 1..=100 {
        assert_eq!(device.acknowledged(PUBACK, id), 0);
    }
    // The attempts did not add rows.
    assert_eq!(
        site.values("climate")["values"].as_array().unwrap().len(),
        100
    );
    assert!(
        gate.waits.load(SeqCst) < 10,
        "each message waited by itself"
    );
}

#[test]
fn silent_devices_are_disconnected() {
    let site = Site::with(port);
    for (level, reason) in [(4, None), (5, Some(0x8d))] {
        let mut device = Peer::device(site.mqtt_address.unwrap(), level, 1);
        assert_eq!(device.closed(), reason);
    }
}

#[test]
fn hostile_bytes_end_the_connection_only() {
    let mut site = Site::with(port);
    let address = site.mqtt_address.unwrap();
    let too_long = [&[0x30][..], &[0xff, 0xff, 0xff, 0x7f], &[0; 64]].concat();
    let before_connect = [&b"\x30\x08\x00\x05"[..], b"home/1"].concat();
    let request = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200\r\n\r\nclimate temp=1 1\nclimate temp=1 1\n\
                    climate temp=1 1\nclimate temp=1 1\n";
    let version = [&[0x10, 0x0c][..], &text(b"MQTT"), &[9, 2, 0, 0], &text(b"")].concat();
    for bytes in [
        &too_long[..],
        &before_connect,
        &request[..],
        &version,
        &[0xff; 9],
        &[0; 9],
    ] {
        let mut peer = Peer::of(TcpStream::connect(address).unwrap(), 5);
        let _ = peer.stream.write_all(bytes);
        peer.closed();
    }
    for bytes in [
        &too_long[..],
        &[0x36, 0],
        &[0x20, 2, 0, 0],
        &[0x10, 0],
        &[0xf0, 0],
        &[0x32, 4, 0, 0, 0, 0],
    ] {
        let mut device = Peer::device(address, 5, 60);
        device.publish("home/a/temp", "1", 1, 1);
        let _ = device.stream.write_all(bytes);
        assert_eq!(device.acknowledged(PUBACK, 1), 0);
        device.closed();
    }
    // Random bytes after a CONNECT.
    let mut state = 1_u64;
    for _ in 0..50 {
        let mut device = Peer::device(address, 5, 60);
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let bytes: Vec<u8> = (0..200).map(|_| next()).collect();
        let _ = device.stream.write_all(&bytes);
    }
    let mut device = Peer::device(address, 5, 60);
    device.publish("home/b/temp", "1", 1, 1);
    assert_eq!(device.acknowledged(PUBACK, 1), 0);
    // A stop of the server states its reason.
    site.stop();
    assert_eq!(device.closed(), Some(0x8b));
}

fn subscriber(settings: &mut Settings, address: SocketAddr, version: MqttVersion) {
    topics(settings);
    settings.mqtt.version = version;
    settings.mqtt.broker = Some(Broker {
        host: address.ip().to_string(),
        port: address.port(),
        user: String::new(),
        is_encrypted: false,
    });
    settings.mqtt.client_id = "stable".to_string();
}

/// Accepts the server. Returns the connection after the SUBSCRIBE.
fn accept(listener: &TcpListener, level: u8) -> Peer {
    accept_with(listener, level, &[1, 1, 1])
}

/// Accepts the server, and answers its subscriptions with `codes`.
fn accept_with(listener: &TcpListener, level: u8, codes: &[u8]) -> Peer {
    let mut peer = Peer::of(listener.accept().unwrap().0, level);
    let (kind, body) = peer.packet();
    assert_eq!((kind, body[6]), (0x10, level));
    assert_eq!(body[7] & 0x02, 0, "the session must outlive the connection");
    assert!(body.ends_with(&text(b"stable")));
    peer.send(&packet(CONNACK, &[&[1, 0][..], peer.properties()].concat()));
    let (kind, body) = peer.packet();
    assert_eq!(kind, SUBSCRIBE);
    let options = if level == 5 { 0x21 } else { 1 };
    for filter in ["home/+/+", "json/+", "lines"] {
        let entry = [text(filter.as_bytes()), vec![options]].concat();
        assert!(
            body.windows(entry.len()).any(|part| part == entry),
            "{filter}: {body:?}"
        );
    }
    let answer = [&body[..2], peer.properties(), codes].concat();
    peer.send(&packet(SUBACK, &answer));
    peer
}

#[test]
fn a_broker_that_disappears_is_connected_again() {
    for (level, version) in [(4, MqttVersion::V3), (5, MqttVersion::V5)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let site = Site::with(|settings| subscriber(settings, address, version));
        let mut broker = accept(&listener, level);
        let messages = (1..=500_u16).map(|id| {
            let payload = format!("{{\"at\":{},\"v\":{id}}}", 1_700_000_000 + u64::from(id));
            broker.message("json/a", &payload, 1, id)
        });
        let messages: Vec<u8> = messages.flatten().collect();
        broker.send(&messages);
        for id in 1..=500 {
            assert_eq!(broker.acknowledged(PUBACK, id), 0);
        }
        let state = |key: &str| site.get("/status").json()["mqtt"][key].clone();
        assert_eq!(
            (state("connected"), state("connects")),
            (json!(true), json!(1))
        );
        // An old value, which is not a new sample.
        let mut retained = broker.message("json/a", "{\"v\":9}", 1, 501);
        retained[0] |= 1;
        broker.send(&retained);
        broker.acknowledged(PUBACK, 501);
        // The broker ends within a packet, and repeats a message afterwards.
        broker.send(&[0x32, 100, 0]);
        drop(broker);
        until("the server is still connected", || {
            state("failures") == json!(1)
        });
        let mut broker = accept(&listener, level);
        broker.publish("json/a", "{\"at\":1700000500,\"v\":500}", 1, 500);
        broker.acknowledged(PUBACK, 500);
        assert_eq!(
            site.values("station")["values"].as_array().unwrap().len(),
            500
        );
        assert_eq!(state("connects"), json!(2));
        let metrics = site.get("/metrics").text;
        assert!(metrics.contains("seiner_mqtt_connected 1"), "{metrics}");
    }
}

#[test]
fn rejected_subscriptions_are_shown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let site = Site::with(|settings| subscriber(settings, address, MqttVersion::V3));
    let mut broker = accept_with(&listener, 4, &[1, 0x80, 1]);
    broker.silent();
    let status = site.get("/status").json();
    assert_eq!(status["mqtt"]["connected"], json!(true));
    assert!(
        status["troubles"]
            .to_string()
            .contains("rejects 1 subscriptions"),
        "{status}"
    );
}

#[test]
fn long_messages_of_a_broker_are_rejected_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let site = Site::with(|settings| {
        subscriber(settings, address, MqttVersion::V3);
        settings.mqtt.max_packet = 10_000;
    });
    let mut broker = accept(&listener, 4);
    broker.publish("home/a/temp", &" ".repeat(100_000), 1, 1);
    broker.publish("home/a/temp", "1", 1, 2);
    broker.acknowledged(PUBACK, 1);
    broker.acknowledged(PUBACK, 2);
    let rejection = site.get("/status").json()["mqtt"]["last_rejection"].to_string();
    assert!(rejection.contains("mqtt_max_packet"), "{rejection}");
    assert_eq!(site.values("climate")["values"], json!([1.0]));
    drop(site);
    // A broker of version 5 receives the maximum.
    let _site = Site::with(|settings| {
        subscriber(settings, address, MqttVersion::V5);
        settings.mqtt.max_packet = 10_000;
    });
    let mut peer = Peer::of(listener.accept().unwrap().0, 5);
    let property = [&[0x27][..], &10_000_u32.to_be_bytes()].concat();
    assert!(peer.packet().1.windows(5).any(|part| part == property));
}

#[test]
fn a_missing_broker_delays_neither_start_nor_stop() {
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let began = Instant::now();
    let mut site = Site::with(|settings| subscriber(settings, address, MqttVersion::V5));
    until("the trouble is not shown", || {
        let status = site.get("/status").json();
        let troubles = status["troubles"].as_array().unwrap();
        status["mqtt"]["connected"] == json!(false)
            && troubles
                .iter()
                .any(|trouble| trouble["text"].to_string().contains("MQTT broker"))
    });
    assert_eq!(site.get("/health").status, 200);
    site.write("m v=1 1");
    site.stop();
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_stop_ends_the_connection_and_keeps_the_session() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut site = Site::with(|settings| subscriber(settings, address, MqttVersion::V5));
    let mut broker = accept(&listener, 5);
    site.stop();
    let (kind, body) = broker.packet();
    // Reason 0 without properties: the session expires at the time of the CONNECT.
    assert_eq!((kind, body.first().copied().unwrap_or(0)), (DISCONNECT, 0));
}
