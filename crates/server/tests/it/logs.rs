//! Ids of requests, and the lines of the log about requests and connections.

use crate::limits::until;
use crate::site::{Reply, Site};
use serde_json::{Value, json};
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{LazyLock, Mutex, Once};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Events of all tests of this program, with their level, target, message and fields, and those of their spans.
static EVENTS: LazyLock<Mutex<Vec<Value>>> = LazyLock::new(Mutex::default);

/// Text that must never be in a log.
const SECRET: &str = "seiner_0123456789secret";

struct Recorder;

#[derive(Clone)]
struct Fields(Value);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0[field.name()] = json!(format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0[field.name()] = json!(value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0[field.name()] = json!(value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0[field.name()] = json!(value);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields(json!({}));
        attributes.record(&mut fields);
        let span = context.span(id).unwrap();
        span.extensions_mut().insert(fields);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields(json!({}));
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(Fields(Value::Object(outer))) = span.extensions().get::<Fields>() {
                fields.0.as_object_mut().unwrap().extend(outer.clone());
            }
        }
        event.record(&mut fields);
        fields.0["level"] = json!(metadata.level().as_str());
        fields.0["target"] = json!(metadata.target());
        EVENTS.lock().unwrap().push(fields.0);
    }
}

/// Records all events from now on.
fn record() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let recorder = Recorder.with_filter(LevelFilter::DEBUG);
        let subscriber = tracing_subscriber::registry().with(recorder);
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// Returns the first event with some values. Waits for it, because a request is logged after its answer.
fn event(values: &[(&str, Value)]) -> Value {
    let found = || {
        let events = EVENTS.lock().unwrap();
        let mut events = events.iter();
        let has = |event: &&Value| values.iter().all(|(name, value)| event[name] == *value);
        events.find(has).cloned()
    };
    until(&format!("an event with {values:?}"), || found().is_some());
    found().unwrap()
}

/// Returns the line of the log about a request.
fn line(id: &str) -> Value {
    event(&[
        ("target", json!("seiner_server::requests")),
        ("request_id", json!(id)),
    ])
}

fn id(reply: &Reply) -> String {
    reply.headers["x-request-id"].to_str().unwrap().to_string()
}

#[test]
fn every_answer_has_an_id_and_valid_ids_are_kept() {
    let site = Site::new();
    let mut seen = Vec::new();
    for path in [
        "/ping",
        "/",
        "/none",
        "/api/v1/query?nonsense=1",
        "/metrics",
    ] {
        let id = id(&site.get(path));
        assert!(id.len() >= 10 && !seen.contains(&id), "{path}: {id}");
        seen.push(id);
    }
    let foreign = site.get_with("/ping", &[("host", "evil.example")]);
    assert_eq!(foreign.status, 421);
    assert!(!id(&foreign).is_empty());
    let of = |given: &str| id(&site.get_with("/ping", &[("x-request-id", given)]));
    for kept in ["a", "trace-1.B_2", &"x".repeat(64)] {
        assert_eq!(of(kept), kept);
    }
    for replaced in ["a b", "<script>", "a;b", &"x".repeat(65)] {
        let id = of(replaced);
        assert!(id.len() < 20 && id != replaced, "{id}");
    }
}

#[test]
fn errors_of_the_server_name_the_request() {
    record();
    let site = Site::with(|settings| settings.max_requests = 1);
    let mut held = TcpStream::connect(site.address).unwrap();
    let head = b"POST /write HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nm x=1 1\n";
    held.write_all(head).unwrap();
    until("a write in flight", || {
        site.get("/status").json()["ingest"]["requests_in_flight"] == json!(1)
    });
    let rejected = site.post("/write", &[("x-request-id", "busy-1")], b"m x=2 2");
    assert_eq!((rejected.status, id(&rejected).as_str()), (503, "busy-1"));
    let length = rejected.headers["content-length"].to_str().unwrap();
    assert_eq!(length, rejected.text.len().to_string());
    assert_eq!(rejected.json()["request_id"], json!("busy-1"));
    let line = line("busy-1");
    assert_eq!(line["message"], json!("a write was rejected"));
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains("max_requests"), "{line}");
    // Errors of the client do not need it: their answer has the reason.
    let wrong = Site::new().post("/write", &[], b"nonsense");
    assert_eq!((wrong.status, wrong.json().get("request_id")), (400, None));
}

#[test]
fn connections_beyond_the_limit_get_an_id() {
    let site = Site::with(|settings| settings.max_connections = 1);
    let _held = TcpStream::connect(site.address).unwrap();
    let mut answer = String::new();
    let mut second = TcpStream::connect(site.address).unwrap();
    second.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let error: Value = serde_json::from_str(body).unwrap();
    let id = error["request_id"].as_str().unwrap();
    assert!(
        head.contains(&format!("x-request-id: {id}\r\n")),
        "{answer}"
    );
}

#[test]
fn rejected_writes_are_logged_without_secrets() {
    record();
    let site = Site::new();
    let token = format!("Token {SECRET}");
    let headers = [("x-request-id", "rejected-1"), ("authorization", &*token)];
    let path = format!("/write?db=x&u={SECRET}&p={SECRET}");
    let rejected = site.post(
        &path,
        &headers,
        format!("m,t={SECRET} x=1 1\n{SECRET}").as_bytes(),
    );
    assert_eq!(rejected.status, 400);
    let line = line("rejected-1");
    for (name, value) in [
        ("level", json!("WARN")),
        ("message", json!("a write was rejected")),
        ("method", json!("POST")),
        ("path", json!("/write")),
        ("status", json!(400)),
        ("bytes_in", json!(2 * SECRET.len() + 11)),
        ("bytes_out", json!(rejected.bytes.len())),
    ] {
        assert_eq!(line[name], value, "{line}");
    }
    assert!(line["ms"].as_f64().unwrap() > 0.0, "{line}");
    let client = line["client"].as_str().unwrap();
    assert!(client.starts_with("127.0.0.1:"), "{line}");
    assert_eq!(line.get("reason"), None, "reasons quote the client's data");

    // The audit log has parameters, but no secrets.
    let path = format!("/api/v1/delete?select=m&token={SECRET}");
    let headers = [("x-request-id", "rejected-2")];
    assert_eq!(site.post(&path, &headers, b"").status, 400);
    let path = format!("/api/v2/delete?org=o&p={SECRET}&%75={SECRET}");
    let statement = br#"{"start":"1970-01-01T00:00:00Z","stop":"2030-01-01T00:00:00Z","predicate":"_measurement=\"m\""}"#;
    let headers = [("x-request-id", "deleted-1")];
    assert_eq!(site.post(&path, &headers, statement).status, 204);
    event(&[
        ("target", json!("audit")),
        ("request_id", json!("deleted-1")),
    ]);
    for path in [
        format!("/none?token={SECRET}"),
        format!("/query?q=x&u=a&p={SECRET}"),
    ] {
        site.get_with(&path, &[("x-request-id", "other-1")]);
    }
    self::line("other-1");
    let events = EVENTS.lock().unwrap().clone();
    for event in events {
        assert!(!event.to_string().contains("secret"), "{event}");
    }
}

#[test]
fn lines_of_other_parts_have_the_id() {
    record();
    let site = Site::new();
    site.write("gone x=1 1");
    let headers = [("x-request-id", "delete-1")];
    let deleted = site.post("/api/v1/delete?select=gone", &headers, b"");
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    let own = event(&[
        ("request_id", json!("delete-1")),
        ("target", json!("seiner_server::delete")),
    ]);
    let message = own["message"].as_str().unwrap();
    assert!(message.starts_with("deleted samples of 1 sources"), "{own}");
}

#[test]
fn slow_requests_are_logged_and_others_at_the_level_debug() {
    record();
    let site = Site::with(|settings| settings.log_slow = Some(Duration::ZERO));
    site.get_with("/api/v1/measurements", &[("x-request-id", "slow-1")]);
    let slow = line("slow-1");
    assert_eq!(
        (&slow["message"], &slow["level"]),
        (&json!("a request was slow"), &json!("WARN"))
    );
    let site = Site::with(|settings| settings.log_slow = None);
    for (path, id) in [("/api/v1/measurements", "fast-1"), ("/none", "fast-2")] {
        site.get_with(path, &[("x-request-id", id)]);
        let fast = line(id);
        let found = (&fast["message"], &fast["level"]);
        assert_eq!(found, (&json!("a request was answered"), &json!("DEBUG")));
    }
}

#[test]
fn clients_cannot_flood_the_log() {
    record();
    let site = Site::new();
    let last = "flood-99";
    for number in 0..100 {
        let id = format!("flood-{number}");
        site.post("/write", &[("x-request-id", &id)], b"nonsense");
    }
    line(last);
    let events = EVENTS.lock().unwrap().clone();
    let of_flood = events.iter().filter(|event| {
        let id = event["request_id"].as_str();
        id.is_some_and(|id| id.starts_with("flood-"))
    });
    let (warnings, others): (Vec<_>, Vec<_>) = of_flood.partition(|event| event["level"] == "WARN");
    assert!((20..60).contains(&warnings.len()), "{}", warnings.len());
    assert_eq!(warnings.len() + others.len(), 100);
}

#[test]
fn lines_about_connections_have_their_number() {
    record();
    let site = Site::with(|settings| settings.line_tcp = Some("127.0.0.1:0".parse().unwrap()));
    let mut numbers = Vec::new();
    for name in ["first", "second"] {
        let mut stream = TcpStream::connect(site.line_address.unwrap()).unwrap();
        stream
            .write_all(format!("{name}{name}\n").as_bytes())
            .unwrap();
        let peer = stream.local_addr().unwrap();
        drop(stream);
        let message = format!("line protocol from {peer}: 1 line was rejected in all");
        numbers.push(event(&[("message", json!(message))])["connection_id"].clone());
    }
    assert!(numbers.iter().all(Value::is_u64), "{numbers:?}");
    assert_ne!(numbers[0], numbers[1]);
}
