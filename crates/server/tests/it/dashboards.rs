//! Dashboards over HTTP.

use crate::site::Site;
use seiner_engine::{Classes, Durability};
use seiner_server::Extensions;
use seiner_server::classes::ClassText;
use seiner_store::Store;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATH: &str = "/api/v1/dashboards/K%C3%BCche%202";

fn document(title: &str) -> Vec<u8> {
    json!({ "version": 1, "refresh": "10s", "panels": [{ "title": title, "query": "select=cpu" }] })
        .to_string()
        .into_bytes()
}

/// Goes through the life of a dashboard.
fn lives(site: &Site) {
    let listed = || site.get("/api/v1/dashboards").json()["dashboards"].clone();
    assert_eq!(listed(), json!([]));
    assert_eq!(site.get(PATH).status, 404);
    let created = site.put(PATH, &[], &document("one"));
    assert_eq!(created.status, 201, "{}", created.text);
    assert_eq!(created.headers["etag"], "\"1\"");
    assert_eq!(created.json()["revision"], 1);
    let read = site.get(PATH);
    assert_eq!(read.headers["etag"], "\"1\"");
    assert_eq!(read.headers["content-type"], "application/json");
    assert_eq!(read.json()["panels"][0]["title"], "one");
    let again = site.put(PATH, &[], &document("two"));
    assert_eq!(again.status, 409);
    assert!(again.text.contains("If-Match: \\\"1\\\""), "{}", again.text);
    let changed = site.put(PATH, &[("if-match", "\"1\"")], &document("two"));
    assert_eq!(
        (changed.status, &changed.headers["etag"]),
        (200, &"\"2\"".parse().unwrap())
    );
    let late = site.put(PATH, &[("if-match", "\"1\"")], &document("three"));
    assert_eq!(late.status, 412);
    assert!(late.text.contains("somebody else changed"), "{}", late.text);
    assert_eq!(site.get(PATH).json()["panels"][0]["title"], "two");
    let line = &listed()[0];
    assert_eq!(
        (&line["name"], &line["panels"]),
        (&json!("Küche 2"), &json!(1))
    );
    assert_eq!(site.delete(PATH, &[("if-match", "\"1\"")]).status, 412);
    assert_eq!(site.delete(PATH, &[("if-match", "\"2\"")]).status, 204);
    assert_eq!(site.get(PATH).status, 404);
    assert_eq!(listed(), json!([]));
    assert_eq!(site.delete(PATH, &[("if-match", "\"3\"")]).status, 412);
    let anew = site.put(PATH, &[], &document("four"));
    assert_eq!((anew.status, &anew.json()["revision"]), (201, &json!(4)));
}

#[test]
fn dashboards_live_in_every_store() {
    lives(&Site::in_memory());
    lives(&Site::with(|settings| {
        settings.durability = Durability::Sync
    }));
    let mut site = Site::new();
    lives(&site);
    site.stop();
    // The document is a sample like others, so it is in each copy of the directory.
    let store: Arc<dyn Store> = site.reopen();
    let selector = seiner_model::Selector::parse("seiner_dashboard").unwrap();
    let fields = store.fields(&selector).unwrap();
    assert_eq!(fields.len(), 2, "{fields:?}");
}

#[test]
fn bad_names_and_documents_are_rejected() {
    let site = Site::in_memory();
    for name in ["a%2Fb", "%20a", "..%2F", "a%0Ab", "%3Cb%3E"] {
        let reply = site.put(&format!("/api/v1/dashboards/{name}"), &[], &document("x"));
        assert_eq!(reply.status, 400, "{name}: {}", reply.text);
    }
    let put = |body: &[u8]| site.put("/api/v1/dashboards/a", &[], body);
    assert_eq!(put(b"{").status, 400);
    assert_eq!(put(br#"{"version":7,"panels":[]}"#).status, 400);
    assert_eq!(put(&document(&"x".repeat(66_000))).status, 413);
    assert_eq!(put(&document(&"x".repeat(300_000))).status, 413);
    let headers = [("if-match", "latest")];
    let reply = site.put("/api/v1/dashboards/a", &headers, &document("x"));
    assert!(reply.text.contains("send the ETag"), "{}", reply.text);
    assert_eq!(site.get("/api/v1/dashboards?limit=1").status, 400);
    assert_eq!(
        site.get("/api/v1/dashboards").json()["dashboards"],
        Value::Array(vec![])
    );
}

#[test]
fn a_document_is_written_again_before_its_class_expires_it() {
    let minute = 60_000_000_000;
    let now = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap().as_nanos() as i64
    };
    let class = ClassText::parse("name=default,age=1h").unwrap();
    let mut first = Site::with(|settings| {
        settings.classes = Classes::new(vec![class.class().unwrap()]).unwrap();
    });
    let line = |age: i64| {
        let time = now() - age * minute;
        format!(
            r#"seiner_dashboard,name=a{age} document="{{\"version\":1,\"panels\":[]}}",revision=7u {time}"#
        )
    };
    first.write(&format!("{}\n{}", line(5), line(30)));
    first.stop();
    let store: Arc<dyn Store> = first.reopen();
    let second = Site::extended(Extensions {
        store: Some(store),
        ..Extensions::default()
    });
    let age = |name: &str| {
        let select = format!("seiner_dashboard{{name=\"{name}\"}}");
        let path = format!("/api/v1/latest?fields=revision&times=ns&select={select}");
        let path = path
            .replace('"', "%22")
            .replace('{', "%7B")
            .replace('}', "%7D");
        let answer = second.get(&path).json();
        let time = &answer["series"][0]["times"][0];
        (now() - time.as_i64().unwrap()) / minute
    };
    let began = Instant::now();
    while age("a30") > 2 {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", age("a30"));
        std::thread::sleep(Duration::from_millis(50));
    }
    // The other one is not old enough.
    assert!((4..=7).contains(&age("a5")), "{}", age("a5"));
    let read = second.get("/api/v1/dashboards/a30");
    assert_eq!(read.headers["etag"], "\"7\"");
}
