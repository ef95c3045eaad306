//! Queries over HTTP.

use crate::site::Site;
use serde_json::json;

fn filled() -> Site {
    let site = Site::new();
    let mut lines = String::new();
    for second in 0..100 {
        for host in ["a", "b"] {
            lines.push_str(&format!(
                "cpu,host={host},core=0 usage={second}.5,n={second}i {}\n",
                second * 1_000_000_000_i64
            ));
        }
    }
    lines.push_str("mem used=7u 0\n");
    site.write(&lines);
    site
}

#[test]
fn what_there_is() {
    let site = filled();
    assert_eq!(
        site.get("/api/v1/measurements").json(),
        json!(["cpu", "mem"])
    );
    assert_eq!(
        site.get("/api/v1/tags?select=cpu").json(),
        json!(["core", "host"])
    );
    assert_eq!(
        site.get("/api/v1/values?select=cpu&tag=host").json(),
        json!(["a", "b"])
    );
    assert_eq!(
        site.get("/api/v1/values?select=cpu&tag=host&limit=1")
            .json(),
        json!(["a"])
    );
    assert_eq!(site.get("/api/v1/values?select=cpu").status, 400);
    let fields = site.get("/api/v1/fields?select=cpu").json();
    assert_eq!(fields.as_array().unwrap().len(), 2);
    assert!(
        fields
            .as_array()
            .unwrap()
            .contains(&json!({ "name": "n", "type": "i64" }))
    );
    let sources = site.get("/api/v1/sources?select=cpu&limit=1").json();
    assert_eq!(
        sources,
        json!({ "total": 2, "sources": [{ "measurement": "cpu", "tags": { "core": "0", "host": "a" } }] })
    );
}

#[test]
fn samples_as_json() {
    let site = filled();
    let answer = site.query(&[
        ("select", "cpu{host=b}"),
        ("fields", "usage"),
        ("from", "10000000000"),
        ("to", "12000000000"),
    ]);
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(
        answer.json(),
        json!({
            "from": "10000000000", "to": "12000000000", "truncated": false,
            "series": [{
                "measurement": "cpu", "tags": { "core": "0", "host": "b" }, "field": "usage", "type": "f64",
                "times": [10_000_000_000_i64, 11_000_000_000_i64, 12_000_000_000_i64], "values": [10.5, 11.5, 12.5],
            }],
        })
    );
    let limited = site
        .query(&[("select", "cpu"), ("from", "0"), ("limit", "1")])
        .json();
    assert_eq!(
        (
            limited["series"].as_array().unwrap().len(),
            &limited["truncated"]
        ),
        (1, &json!(true))
    );
}

#[test]
fn buckets() {
    let site = filled();
    let query = [
        ("select", "cpu{host=a}"),
        ("fields", "n"),
        ("from", "0"),
        ("to", "99000000000"),
    ];
    let stepped = [
        &query[..],
        &[
            ("step", "50s"),
            ("aggregate", "mean,max,count,first,last,sum,min"),
        ],
    ]
    .concat();
    let answer = site.query(&stepped).json();
    let series = &answer["series"][0];
    assert_eq!(answer["step_ns"], json!(50_000_000_000_i64));
    assert_eq!(series["times"], json!([0, 50_000_000_000_i64]));
    assert_eq!(
        (&series["mean"], &series["max"], &series["count"]),
        (&json!([24.5, 74.5]), &json!([49.0, 99.0]), &json!([50, 50]))
    );
    assert_eq!(
        (&series["first"], &series["last"]),
        (&json!([0.0, 50.0]), &json!([49.0, 99.0]))
    );
    assert_eq!(
        (&series["sum"], &series["min"]),
        (&json!([1225.0, 3725.0]), &json!([0.0, 50.0]))
    );
    let pointed = site
        .query(&[&query[..], &[("points", "10"), ("times", "ms")]].concat())
        .json();
    assert_eq!(pointed["step_ns"], json!(10_000_000_000_i64));
    assert_eq!(pointed["series"][0]["times"][3], json!(30_000));
    assert_eq!(pointed["series"][0]["mean"].as_array().unwrap().len(), 10);
}

#[test]
fn csv_and_arrow() {
    let site = filled();
    let query = [
        ("select", "cpu{host=a}"),
        ("fields", "usage"),
        ("from", "0"),
        ("to", "1000000000"),
    ];
    let csv = site.query(&[&query[..], &[("format", "csv")]].concat());
    assert!(
        csv.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/csv")
    );
    assert_eq!(
        csv.text,
        "measurement,tags,field,time,value\ncpu,\"core=0,host=a\",usage,0,0.5\ncpu,\"core=0,host=a\",usage,1000000000,1.5\n"
    );
    let mixed = site.query(&[("select", "cpu"), ("from", "0"), ("format", "arrow")]);
    assert_eq!(mixed.status, 400);
    assert!(
        mixed.text.contains("usage (f64)") && mixed.text.contains("fields="),
        "{}",
        mixed.text
    );
}

#[test]
fn an_arrow_stream_begins_and_ends_as_one() {
    let site = filled();
    let address = format!(
        "http://{}/api/v1/query?select=cpu&fields=usage&from=0&format=arrow",
        site.address
    );
    let mut answer = ureq::get(&address).call().unwrap();
    assert_eq!(
        answer.headers()["content-type"],
        "application/vnd.apache.arrow.stream"
    );
    let bytes = answer.body_mut().read_to_vec().unwrap();
    // The marks of the first message and of the end of a stream.
    assert_eq!(
        (&bytes[..4], &bytes[bytes.len() - 8..]),
        (&[0xff; 4][..], &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0][..])
    );
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let site = filled();
    for (query, words) in [
        (&[][..], "select="),
        (&[("select", "cpu{")], "character 5"),
        (&[("select", "cpu"), ("from", "yesterday")], "RFC 3339"),
        (&[("select", "cpu"), ("step", "0s")], "1ns"),
        (
            &[("select", "cpu"), ("step", "1s"), ("aggregate", "median")],
            "none of count",
        ),
        (
            &[("select", "cpu"), ("format", "xml")],
            "json, csv and arrow",
        ),
    ] {
        let answer = site.query(query);
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (400, &json!("invalid"))
        );
        assert!(answer.text.contains(words), "{}", answer.text);
    }
}

#[test]
fn a_long_answer_is_streamed_and_stops_with_its_reader() {
    let site = Site::new();
    for start in (0..400_000).step_by(50_000) {
        let lines: String = (start..start + 50_000)
            .map(|row| format!("m x={row}.25 {row}\n"))
            .collect();
        site.write(&lines);
    }
    let answer = site.query(&[("select", "m"), ("from", "0")]).json();
    assert_eq!(
        answer["series"][0]["values"].as_array().unwrap().len(),
        400_000
    );
    let mut impatient = ureq::get(format!(
        "http://{}/api/v1/query?select=m&from=0&format=csv",
        site.address
    ))
    .call()
    .unwrap();
    let mut first = [0; 100];
    std::io::Read::read_exact(&mut impatient.body_mut().as_reader(), &mut first).unwrap();
    drop(impatient);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while site.get("/status").json()["ingest"]["queries_in_flight"] != json!(0) {
        assert!(
            std::time::Instant::now() < deadline,
            "the query outlives its reader"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn state_is_told() {
    let site = filled();
    assert_eq!(site.get("/health").json()["status"], json!("pass"));
    assert_eq!(site.get("/ready").status, 200);
    let status = site.get("/status").json();
    assert_eq!(status["engine"]["rows_accepted"], json!(201));
    assert_eq!(status["engine"]["samples_accepted"], json!(401));
    assert_eq!(
        status["durability"],
        json!({ "mode": "interval", "interval_ms": 20 })
    );
    assert!(status["process"]["rss_bytes"].as_u64().unwrap() > 1_000_000);
    let metrics = site.get("/metrics");
    assert!(
        metrics.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    assert!(
        metrics
            .text
            .contains("\nseiner_samples_accepted_total 401\n"),
        "{}",
        metrics.text
    );
    assert!(
        metrics.text.contains("\nseiner_ingest_rows_total 201\n")
            && metrics.text.ends_with("# EOF\n")
    );
    assert_eq!(site.get("/nowhere").status, 404);
    assert_eq!(site.get("/write").status, 405);
    assert_eq!(site.post("/api/v1/settle", &[], b"").status, 204);
    assert!(site.engine().status().segments > 0);
    assert_eq!(
        site.query(&[("select", "mem"), ("from", "0")]).json()["series"][0]["values"],
        json!([7])
    );
}

#[test]
fn the_hosts_sensors_are_there_within_seconds() {
    let site =
        Site::with(|settings| settings.host_sensors = Some(std::time::Duration::from_millis(50)));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let found = site
            .query(&[("select", "cpu{core=all}"), ("fields", "usage")])
            .json();
        let times = found["series"][0]["times"].as_array().map_or(0, Vec::len);
        if times >= 3 {
            let usage = found["series"][0]["values"][0].as_f64().unwrap();
            assert!((0.0..=100.0).contains(&usage));
            assert_eq!(
                found["series"][0]["times"][0].as_i64().unwrap() % 50_000_000,
                0
            );
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{found}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let measurements = site.get("/api/v1/measurements").json();
    for measurement in ["cpu", "mem", "load", "fs", "seiner"] {
        assert!(
            measurements
                .as_array()
                .unwrap()
                .contains(&json!(measurement)),
            "{measurements}"
        );
    }
}
