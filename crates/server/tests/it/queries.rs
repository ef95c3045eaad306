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
fn measurements_tags_values_fields_and_sources_are_listed() {
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
        json!({
            "total": 2,
            "sources": [{ "measurement": "cpu", "tags": { "core": "0", "host": "a" } }],
            "truncated": true
        })
    );
}

#[test]
fn a_truncated_list_is_marked() {
    let site = filled();
    for list in ["sources?select=cpu", "values?select=cpu&tag=host"] {
        for (limit, is_cut) in [(0, true), (1, true), (2, false), (3, false)] {
            let listed = site.get(&format!("/api/v1/{list}&limit={limit}"));
            let marked = listed.headers.contains_key("seiner-truncated");
            assert_eq!(marked, is_cut, "{list}, limit {limit}");
            let json = listed.json();
            if list.starts_with("sources") {
                assert_eq!(json["truncated"], is_cut, "limit {limit}");
                assert_eq!(json["total"], 2);
                assert_eq!(json["sources"].as_array().unwrap().len(), limit.min(2));
            } else {
                assert_eq!(json.as_array().unwrap().len(), limit.min(2));
            }
        }
    }
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
        (&json!([24.5, 74.5]), &json!([49, 99]), &json!([50, 50]))
    );
    assert_eq!(
        (&series["first"], &series["last"]),
        (&json!([0, 50]), &json!([49, 99]))
    );
    assert_eq!(
        (&series["sum"], &series["min"]),
        (&json!([1225, 3725]), &json!([0, 50]))
    );
    let pointed = site
        .query(&[&query[..], &[("points", "10"), ("times", "ms")]].concat())
        .json();
    assert_eq!(pointed["step_ns"], json!(10_000_000_000_i64));
    assert_eq!(pointed["series"][0]["times"][3], json!(30_000));
    assert_eq!(pointed["series"][0]["mean"].as_array().unwrap().len(), 10);
}

/// Regression: values were converted to floats, so 9007199254740993 became ...992.
#[test]
fn aggregates_of_integers_have_all_their_digits() {
    let site = Site::new();
    let lines =
        "m i=9007199254740993i,u=18446744073709551615u 1\nm i=9007199254740993i,u=1u 2\nf v=0.5 1";
    site.write(lines);
    let ask = |select, format| {
        let all = "last,first,min,max,sum";
        let to = [
            ("from", "0"),
            ("to", "9"),
            ("step", "1h"),
            ("aggregate", all),
        ];
        site.query(&[&[("select", select), ("format", format)], &to[..]].concat())
    };
    let csv = ask("m", "csv").text;
    let rows: Vec<&str> = csv.lines().skip(1).collect();
    assert_eq!(
        rows,
        [
            "m,,i,0,9007199254740993,9007199254740993,9007199254740993,9007199254740993,18014398509481986",
            "m,,u,0,1,18446744073709551615,1,18446744073709551615,18446744073709551616",
        ]
    );
    let json = ask("m", "json").text;
    assert!(json.contains("\"last\":[9007199254740993]"), "{json}");
    assert!(json.contains("\"sum\":[18446744073709551616]"), "{json}");
    // Fields of several types, which have one column in Arrow.
    let address = format!(
        "http://{}/api/v1/query?select=%7B%7D&from=0&to=9&step=1h&aggregate=last&format=arrow",
        site.address
    );
    assert_eq!(ureq::get(&address).call().unwrap().status(), 200);
}

#[test]
fn csv_and_arrow() {
    let site = filled();
    let query = [
        ("select", "cpu{host=a}"),
        ("fields", "usage"),
        ("from", "0"),
        ("to", "1000000000ns"),
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
    // Markers of the first message and of the end of a stream.
    assert_eq!(
        (&bytes[..4], &bytes[bytes.len() - 8..]),
        (&[0xff; 4][..], &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0][..])
    );
}

#[test]
fn invalid_queries_are_rejected_with_a_reason() {
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
fn health_status_and_metrics_describe_the_store() {
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
        metrics
            .text
            .contains("\nseiner_ingest_rows_total{protocol=\"line\"} 201\n")
            && metrics.text.ends_with("# EOF\n")
    );
    assert_eq!(site.get("/nowhere").status, 404);
    assert_eq!(site.get("/write").status, 405);
    assert_eq!(site.post("/api/v1/flush", &[], b"").status, 204);
    let deprecated = site.post("/api/v1/settle", &[], b"");
    assert_eq!(deprecated.status, 204);
    assert!(site.store().status().segments > 0);
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
            .query(&[("select", "host_cpu{core=all}"), ("fields", "usage")])
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
    for measurement in ["host_cpu", "host_mem", "host_load", "host_fs", "seiner"] {
        assert!(
            measurements
                .as_array()
                .unwrap()
                .contains(&json!(measurement)),
            "{measurements}"
        );
    }
}

#[test]
fn a_limit_that_leaves_series_out_shows_in_every_notation() {
    let site = filled();
    let ask = |limit: &str, format: &str, more: &[(&str, &str)]| {
        let asked = [
            ("select", "cpu"),
            ("fields", "usage"),
            ("from", "0"),
            ("limit", limit),
            ("format", format),
        ];
        site.query(&[&asked[..], more].concat())
    };
    let step = [("step", "10s")];
    for more in [&[][..], &step] {
        let csv = ask("1", "csv", more);
        assert_eq!(csv.headers["seiner-truncated"], "true");
        let last = csv.text.lines().last().unwrap();
        assert!(
            last.starts_with("# truncated: only 1 series"),
            "{}",
            csv.text
        );
        let bare = ask("1", "csv", &[more, &[("marker", "false")]].concat());
        assert_eq!(bare.headers["seiner-truncated"], "true");
        assert_eq!(
            bare.text.as_str(),
            csv.text.strip_suffix(&format!("{last}\n")).unwrap()
        );
        let arrow = ask("1", "arrow", more);
        assert_eq!(arrow.headers["seiner-truncated"], "true");
        assert!(arrow.text.contains("truncated"));
        let json = ask("1", "json", more).json();
        assert_eq!(json["truncated"], true);
        for format in ["csv", "arrow"] {
            let whole = ask("2", format, more);
            assert!(!whole.headers.contains_key("seiner-truncated"), "{format}");
            assert!(!whole.text.contains("truncated"), "{format}");
        }
    }
    // Sources without samples in the interval are not left out by the limit.
    site.write("cpu,host=c usage=1 0\n");
    let late = [
        ("select", "cpu"),
        ("from", "10000000000"),
        ("fields", "usage"),
        ("limit", "2"),
        ("format", "csv"),
    ];
    assert!(!site.query(&late).headers.contains_key("seiner-truncated"));
    let values = site.get("/api/v1/values?select=cpu&tag=host&limit=1");
    assert_eq!(values.headers["seiner-truncated"], "true");
    let values = site.get("/api/v1/values?select=cpu&tag=host&limit=3");
    assert!(!values.headers.contains_key("seiner-truncated"));
}

#[test]
fn unknown_parameters_are_rejected_with_the_nearest_name() {
    let site = filled();
    let rejected = site.get("/api/v1/query?select=cpu&start=-3s&limt=3");
    assert_eq!(rejected.status, 400);
    let error = rejected.json()["error"].as_str().unwrap().to_string();
    assert!(
        error.contains("\"start\"; did you mean \"from\"?"),
        "{error}"
    );
    assert_eq!(site.post("/write?precison=s", &[], b"a b=1 1").status, 400);
    // If the server ignored the misspelt predicate, it would delete everything.
    let body = br#"{"start":"1970-01-01","stop":"2100-01-01","predicat":"_measurement=\"none\""}"#;
    let rejected = site.post("/api/v2/delete", &[], body);
    assert_eq!(rejected.status, 400);
    assert!(rejected.text.contains("predicat"), "{}", rejected.text);
    assert_eq!(
        site.post("/write?db=x&rp=y&precision=s", &[], b"a b=1 1")
            .status,
        204
    );
}

#[test]
fn unknown_names_and_empty_intervals_come_with_a_hint() {
    let site = filled();
    let hint = |parameters: &[(&str, &str)]| {
        let json = site.query(parameters).json();
        assert_eq!(json["series"], json!([]), "{json}");
        let hint = json["hints"][0].as_str().unwrap_or_default().to_string();
        // The other formats have the same text in a header.
        let csv = site.query(&[parameters, &[("format", "csv")]].concat());
        let header = csv.headers["seiner-hints"].to_str().unwrap().to_string();
        let header: Vec<String> = serde_json::from_str(&header).unwrap();
        assert_eq!(json!(header), json["hints"]);
        (hint, json["range"].clone())
    };
    let (unknown, range) = hint(&[("select", "CPU")]);
    assert_eq!(
        unknown,
        "there is no measurement \"CPU\"; did you mean \"cpu\"?"
    );
    assert!(range.is_null());
    let (unknown, _) = hint(&[("select", "cpu{hots=a}")]);
    assert_eq!(unknown, "there is no tag \"hots\"; did you mean \"host\"?");
    let (unknown, _) = hint(&[("select", "cpu{host=é}")]);
    assert!(
        unknown.contains("\"é\"") && unknown.contains("a, b"),
        "{unknown}"
    );
    let (unknown, _) = hint(&[("select", "cpu"), ("from", "0"), ("fields", "usge")]);
    assert_eq!(
        unknown,
        "there is no field \"usge\"; did you mean \"usage\"?"
    );
    let (elsewhere, range) = hint(&[("select", "cpu")]);
    assert!(
        elsewhere.ends_with("there are samples from 1970-01-01T00:00:00Z to 1970-01-01T00:01:39Z"),
        "{elsewhere}"
    );
    assert_eq!(range, json!({ "from": "0", "to": "99000000000" }));
    // An answer with samples is unchanged.
    let full = site.query(&[("select", "cpu"), ("from", "0")]);
    assert!(full.json()["hints"].is_null() && full.json()["range"].is_null());
    assert!(!full.headers.contains_key("seiner-hints"));
}

#[test]
fn bare_numbers_are_read_by_their_size_with_a_note() {
    let site = filled();
    site.write("now x=1 1795408380000000000\n");
    for from in [
        "1795408380",
        "1795408380000",
        "2026-11-23 04:33",
        "2026-11-23T04:33:00",
    ] {
        let answer = site
            .query(&[("select", "now"), ("from", from), ("to", "2100-01-01")])
            .json();
        assert_eq!(answer["from"], "1795408380000000000", "{from}");
        assert_eq!(answer["series"][0]["values"], json!([1.0]));
        let noted = answer["hints"][0].as_str().unwrap_or_default();
        assert_eq!(noted.contains("was read as"), from.starts_with('1'));
    }
    let deleted = site
        .post("/api/v1/delete?select=now&from=1795408381", &[], b"")
        .json();
    assert_eq!(deleted["from"], "1795408381000000000");
    assert!(deleted["hints"][0].as_str().unwrap().contains("seconds"));
}

#[test]
fn a_bare_year_is_rejected_with_the_remedies() {
    let site = filled();
    for rejected in [
        site.query(&[("select", "cpu"), ("from", "2026")]),
        site.query(&[("select", "cpu"), ("to", " 2026 ")]),
        site.post("/api/v1/delete?select=cpu&from=2026", &[], b""),
    ] {
        assert_eq!(rejected.status, 400, "{}", rejected.text);
        for remedy in ["2026-01-01", "1970-01-01T00:33:46Z", "2026ns"] {
            assert!(rejected.text.contains(remedy), "{}", rejected.text);
        }
    }
    let answer = site.query(&[("select", "cpu"), ("from", "2026ns"), ("to", "2027ns")]);
    assert_eq!(answer.json()["from"], "2026");
}

#[test]
fn latest_samples_have_their_own_times_and_types() {
    let site = Site::new();
    let lines = b"room,room=a t=1.5,n=7i,state=\"on\" 10\nroom,room=a t=2.5 20\nroom,room=b n=-3i,up=true 15";
    site.post("/write?precision=s", &[], lines);
    for flushed in [false, true] {
        if flushed {
            site.post("/api/v1/flush", &[], b"");
        }
        let answer = site.get("/api/v1/latest?select=room&format=csv").text;
        let mut rows: Vec<&str> = answer.lines().skip(1).collect();
        rows.sort_unstable();
        assert_eq!(rows.len(), 5, "{answer}");
        for part in [
            "10000000000,7",
            "10000000000,on",
            "20000000000,2.5",
            "15000000000,-3",
            "15000000000,true",
        ] {
            assert!(answer.contains(part), "{part}: {answer}");
        }
        let recent = site
            .get("/api/v1/latest?select=room&from=15000000000&fields=n,t&limit=9")
            .json();
        assert_eq!(
            recent["series"].as_array().map(Vec::len),
            Some(2),
            "{recent}"
        );
    }
    assert_eq!(site.get("/api/v1/latest?select=room&step=5s").status, 400);
}
