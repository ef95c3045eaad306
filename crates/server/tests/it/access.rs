//! Tokens: which requests need one, and what a token permits.

use crate::site::{Reply, Site};
use seiner_server::access::{Digest, Scopes, TokenEntry, change, generate, read};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Server with tokens.
struct Guarded {
    site: Site,
    path: PathBuf,
}

/// Puts a token into the file of a server. Returns the token's text.
fn create(path: &Path, name: &str, scope: &str, selector: Option<&str>) -> String {
    let text = generate().unwrap();
    let entry = TokenEntry {
        name: name.to_string(),
        scope: Scopes::parse(scope).unwrap(),
        selector: selector.map(str::to_string),
        sha256: Digest::of(&text).to_string(),
        created: "2026-01-01T00:00:00Z".to_string(),
    };
    change(path, |tokens| {
        tokens.push(entry);
        Ok(())
    })
    .unwrap();
    text
}

impl Guarded {
    /// Starts a server with tokens, given by name, scope and selector. Returns the texts of the tokens.
    fn new<const N: usize>(tokens: [(&str, &str, Option<&str>); N]) -> (Guarded, [String; N]) {
        let folder = tempfile::tempdir().unwrap().keep();
        let path = folder.join("access.toml");
        let texts = tokens.map(|(name, scope, selector)| create(&path, name, scope, selector));
        let of = path.clone();
        let site = Site::with(move |settings| settings.access_file = Some(of));
        (Guarded { site, path }, texts)
    }

    fn until(&self, is_done: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_done() {
            assert!(began.elapsed() < Duration::from_secs(10), "no change");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn get(&self, path: &str, token: &str) -> Reply {
        let value = format!("Bearer {token}");
        self.site.get_with(path, &[("authorization", &value)])
    }

    fn post(&self, path: &str, token: &str, body: &[u8]) -> Reply {
        let value = format!("Token {token}");
        self.site.post(path, &[("authorization", &value)], body)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let folder = self.path.parent().unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn scopes_permit_their_requests_only() {
    let tokens = [
        ("reader", "read", None),
        ("writer", "write", None),
        ("boss", "admin", None),
    ];
    let (server, [read, write, admin]) = Guarded::new(tokens);
    for (path, body, permitted) in [
        ("/write", &b"m x=1 1"[..], [false, true, true]),
        ("/api/v1/delete?select=none", b"", [false, false, true]),
        ("/api/v1/flush", b"", [false, false, true]),
    ] {
        for (token, permitted) in [&read, &write, &admin].into_iter().zip(permitted) {
            let reply = server.post(path, token, body);
            assert_eq!(reply.status != 403, permitted, "{path}: {}", reply.text);
            assert_ne!(reply.status, 401);
        }
    }
    for path in ["/api/v1/query?select=m", "/metrics", "/status"] {
        for (token, status) in [(&read, 200), (&write, 403), (&admin, 200)] {
            assert_eq!(server.get(path, token).status, status, "{path}");
        }
    }
    // A dashboard is read with one scope and written with another.
    let document = br#"{"version":1,"panels":[]}"#;
    for (token, status) in [(&read, 403), (&write, 201)] {
        let value = format!("Bearer {token}");
        let headers = [("authorization", &*value)];
        let put = server.site.put("/api/v1/dashboards/a", &headers, document);
        assert_eq!(put.status, status, "{}", put.text);
    }
    assert_eq!(server.get("/api/v1/dashboards/a", &read).status, 200);
    assert_eq!(server.get("/api/v1/dashboards/a", &write).status, 403);
    let reply = server.get("/api/v1/query?select=m", &write);
    let text = "the token writer has the scope write, and this request needs the scope read";
    assert!(reply.text.contains(text), "{}", reply.text);
    for path in ["/ping", "/health", "/ready", "/"] {
        assert!(server.site.get(path).status < 300, "{path}");
    }
}

#[test]
fn requests_without_a_valid_token_are_denied() {
    let (server, [token]) = Guarded::new([("all", "admin", None)]);
    for path in [
        "/metrics",
        "/api/v1/query?select=m",
        "/query?q=SHOW+DATABASES",
    ] {
        let reply = server.site.get(path);
        assert_eq!(reply.status, 401, "{path}");
        assert_eq!(reply.headers["www-authenticate"], "Bearer realm=\"seiner\"");
        assert!(reply.json()["error"].as_str().unwrap().contains("token"));
    }
    // The last attempts of this address within a minute are limited. A right token is accepted all the same.
    let statuses: Vec<u16> = (0..12)
        .map(|_| server.get("/metrics", "wrong").status)
        .collect();
    assert_eq!(statuses, [&[401; 10][..], &[429; 2]].concat());
    assert_eq!(
        server.get("/metrics", &token[..token.len() - 1]).status,
        429
    );
    let text = server.get("/metrics", &token).text;
    for line in [
        "seiner_denied_requests_total{reason=\"limited\"} 3",
        "seiner_denied_requests_total{reason=\"missing\"} 3",
    ] {
        assert!(text.contains(line), "{line}");
    }
    let path = format!("/query?q=SHOW+DATABASES&u=any&p={token}");
    assert_eq!(server.site.get(&path).status, 200);
    change(&server.path, |tokens| {
        tokens.clear();
        Ok(())
    })
    .unwrap();
    server.until(|| server.get("/metrics", &token).status == 429);
    assert_eq!(read(&server.path), Ok(Some(Vec::new())));
}

#[test]
fn selectors_limit_reads_writes_and_deletes() {
    let tokens = [
        ("all", "admin", None),
        ("limited", "admin", Some("cpu{host=\"a\"}")),
    ];
    let (server, [all, limited]) = Guarded::new(tokens);
    let lines = b"cpu,host=a x=1 1\ncpu,host=b x=2 2\nmem,host=a x=3 3\n";
    assert_eq!(server.post("/write", &all, lines).status, 204);
    let get = |path: &str| {
        let reply = server.get(path, &limited);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        reply.json()
    };
    for select in ["{}", "cpu", "{host=\"a\"}", "cpu{host=~\".*\"}"] {
        let answer = get(&format!(
            "/api/v1/query?select={}&from=0&to=9",
            encoded(select)
        ));
        let series = answer["series"].as_array().unwrap();
        assert_eq!(series.len(), 1, "{select}: {answer}");
        assert_eq!(series[0]["values"], json!([1.0]));
    }
    for select in ["mem", "cpu{host=\"b\"}"] {
        let answer = get(&format!(
            "/api/v1/query?select={}&from=0&to=9",
            encoded(select)
        ));
        assert_eq!(answer["series"], json!([]), "{select}");
        let hints = answer["hints"].to_string();
        assert!(!hints.contains("mem") || select == "mem", "{hints}");
    }
    assert_eq!(get("/api/v1/measurements"), json!(["cpu"]));
    assert_eq!(get("/api/v1/values?tag=host"), json!(["a"]));
    let prometheus = get(
        "/prometheus/api/v1/query?query=count%28%7B__name__%3D~%22.%2B%22%7D%29&time=0.000000003",
    );
    assert_eq!(prometheus["data"]["result"][0]["value"][1], json!("1"));
    let labels = get("/prometheus/api/v1/label/host/values?start=0&end=1");
    assert_eq!(labels["data"], json!(["a"]));
    let influx = get("/query?q=SELECT+x+FROM+%2F.*%2F&epoch=ns");
    assert_eq!(influx["results"][0]["series"].as_array().unwrap().len(), 1);

    let reply = server.post("/write", &limited, b"cpu,host=a x=7 7\ncpu,host=b x=8 8\n");
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert!(
        reply.text.contains("may not write to this source"),
        "{}",
        reply.text
    );
    let reply = server.get("/api/v1/query?select=cpu&from=7&to=9", &all);
    assert_eq!(reply.json()["series"].as_array().unwrap().len(), 1);

    for path in [
        "/metrics",
        "/status",
        "/api/v1/log",
        "/prometheus/api/v1/metadata",
        "/api/v1/sql",
    ] {
        let reply = server.get(path, &limited);
        assert_eq!(reply.status, 403, "{path}");
        assert!(
            reply.text.contains("limited to some sources"),
            "{}",
            reply.text
        );
    }
    let deleted = server.post("/api/v1/delete?select=%7B%7D", &limited, b"");
    assert_eq!(deleted.json()["sources"], json!(1));
    let left = server.get("/api/v1/query?select=%7B%7D&from=0&to=9", &all);
    assert_eq!(left.json()["series"].as_array().unwrap().len(), 2);
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn a_server_without_tokens_asks_for_them_from_the_first_one_on() {
    let site = Site::new();
    assert_eq!(site.get("/metrics").status, 200);
    let path = site.data.path().join("data/access.toml");
    let token = create(&path, "first", "read", None);
    let began = Instant::now();
    while site.get("/metrics").status != 401 {
        assert!(began.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(50));
    }
    let value = format!("Bearer {token}");
    let reply = site.get_with("/metrics", &[("authorization", &value)]);
    assert_eq!(reply.status, 200);
    // Without the file, nobody is admitted until the next start.
    std::fs::remove_file(&path).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(site.get("/metrics").status, 401);
}
