//! Deletes, budgets and the reports about the log.

use crate::site::Site;
use seiner_engine::{Class, Classes, Engine, Keep, Options, parse_levels, set_stored_time};
use seiner_platform::Directory;
use seiner_server::log::{DecisionReport, LogReport};
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Returns lines with values that do not compress.
fn noise(measurement: &str, first: u64, count: u64) -> String {
    let mut lines = String::new();
    for n in first..first + count {
        // The differences of a plain product are all equal and would compress well.
        let bits = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = (bits ^ bits >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 2;
        writeln!(
            lines,
            "{measurement},n={} v={} {n}",
            n % 4,
            f64::from_bits(bits)
        )
        .unwrap();
    }
    lines
}

#[test]
fn deletes_over_http() {
    let site = Site::new();
    site.write("m,n=1 x=1 1\nm,n=1 x=2 2\nm,n=2 x=3 3\n");
    let path = "/api/v1/delete?select=m%7Bn%3D%221%22%7D&from=2";
    assert_eq!(
        site.post(path, &[], b"").json(),
        json!({ "sources": 1, "from": "2", "to": i64::MAX.to_string() })
    );
    assert_eq!(site.values("m{n=1}")["values"], json!([1.0]));
    let body =
        br#"{"start":"1970-01-01T00:00:00Z","stop":"1970-01-01T00:00:01Z","predicate":"n=\"2\""}"#;
    assert_eq!(site.post("/api/v2/delete", &[], body).status, 204);
    let left = site.query(&[("select", "m"), ("from", "0")]).json();
    assert_eq!(left["series"].as_array().map(Vec::len), Some(1));
    for (path, body) in [
        ("/api/v1/delete", ""),
        ("/api/v1/delete?select=m&from=2&to=1", ""),
        ("/api/v2/delete", "{}"),
        (
            "/api/v2/delete",
            r#"{"start":"0","stop":"1","predicate":"_field=\"x\""}"#,
        ),
    ] {
        let rejected = site.post(path, &[], body.as_bytes());
        assert_eq!(rejected.status, 400, "{path} {body}: {}", rejected.text);
    }
}

#[test]
fn a_full_store_answers_507_and_shows_its_log() {
    let site = Site::with(|settings| {
        settings.disk = Some(8 << 20);
        settings.device_tbw = Some(1 << 40);
    });
    let mut first = 0;
    let rejected = loop {
        let answer = site.post("/write", &[], noise("m", first, 20_000).as_bytes());
        if answer.status != 204 {
            break answer;
        }
        first += 20_000;
        assert!(first < 10_000_000, "the store takes more than its budget");
    };
    assert_eq!(
        (rejected.status, &rejected.json()["code"]),
        (507, &json!("full"))
    );
    assert!(rejected.text.contains("raise `disk`"), "{}", rejected.text);
    assert!(!rejected.headers.contains_key("retry-after"));
    let log: LogReport = serde_json::from_str(&site.get("/api/v1/log").text).unwrap();
    assert_eq!(log.space.budget, Some(8 << 20));
    assert!(
        log.space.used <= 8 << 20 && log.space.u > 0.5,
        "{:?}",
        log.space
    );
    assert!(log.segments.iter().any(|segment| segment.live > 0));
    assert!(log.written.start.stored > 1 << 20, "{:?}", log.written);
    assert_eq!(
        (log.classes[0].name.as_str(), log.classes[0].sources),
        ("default", 4)
    );
    let names_remedy = |warning: &String| warning.contains("raise `disk`");
    assert!(log.warnings.iter().any(names_remedy), "{:?}", log.warnings);
    assert_eq!(site.get("/health").status, 503);
    assert!(site.get("/metrics").text.contains("seiner_disk_full 1.0"));
    let trace = site.get("/api/v1/log/trace").text;
    assert!(trace.starts_with("time,source,bytes,keep\n"), "{trace}");
    let sizes = trace.lines().skip(1).map(|line| line.split(',').nth(2));
    let bytes: u64 = sizes
        .map(|bytes| bytes.unwrap().parse::<u64>().unwrap())
        .sum();
    assert!(bytes > 1 << 20, "{bytes} bytes in the trace");
    site.post("/api/v1/delete?select=m", &[], b"");
    let freed = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        site.post("/write", &[], b"m x=1 1").status == 204
    });
    assert!(freed, "a delete frees no space");
    let why: Vec<DecisionReport> = serde_json::from_str(&site.get("/api/v1/log/why").text).unwrap();
    assert!(
        why.iter().any(|decision| !decision.drop.is_empty()),
        "{why:?}"
    );
    let metrics = site.get("/metrics").text;
    for line in [
        // The deleted sources may be forgotten already.
        "seiner_class_sources{class=\"default\"} ",
        "seiner_disk_budget 8388608",
        "# TYPE seiner_segments_dropped counter",
        "# TYPE seiner_log_planing gauge",
        "seiner_process_written_bytes_total",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

/// Nanoseconds per second.
const SECOND: i64 = 1_000_000_000;

/// Returns the time of the host's clock, ns since 1970.
fn clock() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as i64
}

#[test]
fn older_samples_are_rolled_up_and_answers_state_the_levels() {
    let site = Site::with(|settings| {
        settings.classes = Classes::new(vec![Class {
            name: "raw".to_string(),
            keep: Keep {
                age: Some(Duration::from_secs(2)),
                ..Keep::default()
            },
            rollup: parse_levels("1s for 1h then 2s for ever").unwrap(),
            ..Class::forever()
        }])
        .unwrap();
    });
    // In the middle of a second, so that all samples are in one step of a second and in one step of two seconds.
    let into_second = clock() % SECOND;
    std::thread::sleep(Duration::from_nanos(
        (SECOND + SECOND / 2 - into_second) as u64 % SECOND as u64,
    ));
    let now = clock() / SECOND * SECOND + SECOND / 2;
    let mut lines = String::new();
    for n in 0..100 {
        writeln!(lines, "m,n=1 v={n},i={n}i {}", now - n * 1_000_000).unwrap();
    }
    site.write(&lines);
    let from = (now - 10_000_000_000).to_string();
    let asked = [
        ("select", "m"),
        ("from", from.as_str()),
        ("step", "1h"),
        ("aggregate", "count,sum,min,max,last"),
    ];
    let figures = |answer: &serde_json::Value| {
        let series = answer["series"].as_array().unwrap().iter();
        let figures = ["count", "sum", "min", "max", "last"];
        // The hour may end between the two requests.
        let sum = |series: &serde_json::Value, name: &str| {
            let values = series[name].as_array().unwrap().iter();
            values
                .map(|value| value.as_f64().unwrap())
                .collect::<Vec<f64>>()
        };
        series
            .map(|series| figures.map(|name| sum(series, name)))
            .collect::<Vec<_>>()
    };
    let before = site.query(&asked);
    assert_eq!(before.json()["levels"], json!(null));
    assert!(!before.headers.contains_key("seiner-levels"));
    let aged = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        // Before a level answers for the samples, the samples themselves are counted.
        let level = &site.query(&asked).json()["levels"][0];
        site.get("/status").json()["engine"]["aged_samples"] == json!(200)
            && level["to"]
                .as_str()
                .is_some_and(|to| to.parse::<i64>().unwrap() >= now)
    });
    assert!(aged, "{}", site.get("/status").text);
    let after = site.query(&asked);
    assert_eq!(figures(&before.json()), figures(&after.json()));
    let levels = &after.json()["levels"][0];
    assert_eq!(levels["step_ns"], json!(1_000_000_000));
    let to: i64 = levels["to"].as_str().unwrap().parse().unwrap();
    assert_eq!(to % 1_000_000_000, 999_999_999);
    assert!(to >= now);
    let csv = site.query(&[("select", "m"), ("from", &from), ("format", "csv")]);
    assert!(
        csv.headers["seiner-levels"]
            .to_str()
            .unwrap()
            .ends_with("/1000000000")
    );
    // One header, and one second with two fields. One field still has whole numbers.
    assert_eq!(csv.text.lines().count(), 3, "{}", csv.text);
    let log: LogReport = serde_json::from_str(&site.get("/api/v1/log").text).unwrap();
    let classes = log
        .classes
        .iter()
        .map(|class| (&*class.name, class.step_ns));
    let expected = [
        ("raw", None),
        ("raw/1s", Some(1_000_000_000)),
        ("raw/2s", Some(2_000_000_000)),
    ];
    assert!(classes.eq(expected), "{:?}", log.classes);
    assert!(log.warnings.is_empty(), "{:?}", log.warnings);
    let metrics = site.get("/metrics").text;
    for line in [
        "seiner_class_sources{class=\"raw/1s\"} 1",
        "seiner_aged_samples_total 200",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    // A line of a client cannot name the source of a level.
    let answer = site.post("/write", &[], b"m,\0step=1000000000 v=1");
    assert_eq!(answer.status, 400, "{}", answer.text);
}

/// Nanoseconds per day.
const DAY: i64 = 86_400_000_000_000;

#[test]
fn the_clock_is_held_after_a_jump_until_it_is_confirmed_over_http() {
    let now = clock();
    let before = now - 400 * DAY;
    let site = Site::with(|settings| {
        let class = Class {
            keep: Keep {
                age: Some(Duration::from_secs(10 * 86_400)),
                ..Keep::default()
            },
            ..Class::forever()
        };
        settings.classes = Classes::new(vec![class]).unwrap();
        // A store that ran for the last time 400 days ago.
        let options = Options {
            classes: settings.classes.clone(),
            ..Options::default()
        };
        let engine = Engine::open_directory(&settings.data, options).unwrap();
        engine.close().unwrap();
        drop(engine);
        let disk = Directory::open_existing(&settings.data).unwrap();
        set_stored_time(Arc::new(disk), before).unwrap();
    });
    site.write(&format!("m x=1 {before}\nm x=2 {now}"));
    let held = || {
        site.get("/status").json()["engine"]["clock_held_ns"]
            .as_i64()
            .unwrap()
    };
    let values = || site.values("m")["values"].clone();
    assert!(held() > 399 * DAY, "{} ns are held", held());
    assert_eq!(values(), json!([1.0, 2.0]));
    let health = site.get("/health");
    assert_eq!(
        (health.status, &health.json()["status"]),
        (200, &json!("warn"))
    );
    assert!(
        health.text.contains("seiner clock --accept"),
        "{}",
        health.text
    );

    assert_eq!(site.get("/api/v1/clock").status, 405);
    assert!(held() > 399 * DAY, "a GET confirms the clock");
    let confirmed = site.post("/api/v1/clock", &[], b"");
    assert_eq!(confirmed.status, 204, "{}", confirmed.text);
    assert_eq!(held(), 0);
    assert_eq!(values(), json!([2.0]), "the older row is past its age");
    let health = site.get("/health");
    assert_eq!(
        (health.status, &health.json()["status"]),
        (200, &json!("pass"))
    );
    let old = site.post("/write", &[], format!("m x=3 {before}").as_bytes());
    assert_eq!(old.status, 400, "{}", old.text);
    assert!(old.text.contains("older than"), "{}", old.text);
}

#[test]
fn health_status_log_and_metrics_have_one_list_of_troubles() {
    let site = Site::with(|settings| {
        let idle = Class {
            name: "rings".to_string(),
            sources: "frame".to_string(),
            ..Class::forever()
        };
        settings.classes = Classes::new(vec![idle]).unwrap();
    });
    site.write("m x=1 1");
    let troubles = site.get("/status").json()["troubles"].clone();
    assert_eq!(troubles.as_array().map(Vec::len), Some(1), "{troubles}");
    assert_eq!(troubles[0]["health"], "pass");
    assert_eq!(troubles[0]["severity"], "notice");
    let text = troubles[0]["text"].as_str().unwrap();
    assert!(text.contains("retention class \"rings\""), "{text}");
    for list in ["/status", "/api/v1/log"] {
        let report = site.get(list).json();
        assert_eq!(report["warnings"], json!([text]), "{list}");
        assert_eq!(report["troubles"], troubles, "{list}");
    }
    let health = site.get("/health").json();
    assert_eq!(health["status"], "pass");
    let message = format!("ready for queries and writes, but {text}");
    assert_eq!(health["message"], json!(message));
    let metrics = site.get("/metrics").text;
    assert!(metrics.contains("seiner_writes_rejected 0.0"), "{metrics}");
}
