//! Line protocol over HTTP.

use crate::site::Site;
use flate2::Compression;
use flate2::write::GzEncoder;
use seiner_engine::Durability;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_precision() {
    let site = Site::new();
    for (precision, time, ns) in [
        ("", "1700000000000000001", 1_700_000_000_000_000_001_i64),
        ("n", "-5", -5),
        ("ns", "7", 7),
        ("u", "1700000000000001", 1_700_000_000_000_001_000),
        ("us", "-1", -1_000),
        ("%C2%B5", "3", 3_000),
        ("ms", "1700000000001", 1_700_000_000_001_000_000),
        ("s", "1700000001", 1_700_000_001_000_000_000),
        ("m", "2", 120_000_000_000),
        ("h", "1", 3_600_000_000_000),
    ] {
        let measurement = format!("m{}", precision.replace('%', ""));
        for address in [
            "/write?db=x&rp=y&u=z&p=q&consistency=one",
            "/api/v2/write?org=o&bucket=b",
        ] {
            let lines = format!("{measurement},of={} x=1 {time}", &address[1..2]);
            let written = site.post(
                &format!("{address}&precision={precision}"),
                &[],
                lines.as_bytes(),
            );
            assert_eq!(written.status, 204, "{precision}: {}", written.text);
            let select = format!("{measurement}{{of={}}}", &address[1..2]);
            assert_eq!(site.values(&select)["times"], json!([ns]), "{precision}");
        }
    }
    let rejected = site.post("/write?precision=days", &[], b"m x=1 1");
    assert_eq!(rejected.status, 400);
    assert!(rejected.text.contains("there are ns"), "{}", rejected.text);
}

#[test]
fn lines_without_a_time_get_the_current_time() {
    let site = Site::new();
    let before = seiner_server::ingest::now();
    site.write("m x=1");
    let time = site.values("m")["times"][0].as_i64().unwrap();
    assert!((before..=seiner_server::ingest::now()).contains(&time));
}

#[test]
fn rejected_lines_are_listed_and_the_others_stored() {
    let site = Site::new();
    let body = "# a comment\n\nm,a=1 x=1 1\nm,a=1 x 2\nm,a=1 x=3 3\nm,a=1 x=\"text\" 4\n,a=1 x=1 5\nm,a=1 x=6 6";
    let answer = site.post("/write", &[], body.as_bytes());
    assert_eq!(answer.status, 400);
    let answer = answer.json();
    assert_eq!(
        (&answer["accepted"], &answer["rejected"], &answer["code"]),
        (&json!(3), &json!(3), &json!("invalid"))
    );
    let lines: Vec<i64> = answer["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["line"].as_i64().unwrap())
        .collect();
    assert_eq!(lines, [4, 6, 7]);
    assert!(
        answer["error"]
            .as_str()
            .unwrap()
            .starts_with("partial write: 3 of 6 lines were rejected")
    );
    assert_eq!(answer["error"], answer["message"]);
    assert!(
        answer["lines"][1]["reason"]
            .as_str()
            .unwrap()
            .contains("not string")
    );
    assert_eq!(site.values("m")["values"], json!([1.0, 3.0, 6.0]));
}

#[test]
fn of_many_rejected_lines_the_first_hundred_are_named() {
    let site = Site::new();
    let body: String = (0..5000)
        .map(|row| {
            if row % 2 == 0 {
                "bad\n".into()
            } else {
                format!("m x={row} {row}\n")
            }
        })
        .collect();
    let answer = site.post("/write", &[], body.as_bytes()).json();
    assert_eq!(
        (&answer["accepted"], &answer["rejected"]),
        (&json!(2500), &json!(2500))
    );
    let lines = answer["lines"].as_array().unwrap();
    assert_eq!(
        (lines.len(), &lines[0]["line"], &lines[99]["line"]),
        (100, &json!(1), &json!(199))
    );
}

#[test]
fn a_large_body_comes_in_many_frames_and_loses_nothing() {
    let site = Site::new();
    // Texts with newlines and escapes also cross frames.
    let lines: Vec<String> = (0..60_000)
        .map(|row| {
            format!(
                "m,host=h{} x={row}.5,t=\"a\n{}\\\"b\" {row}\n",
                row % 7,
                "y".repeat(row % 50)
            )
        })
        .collect();
    for body in [
        lines.concat().into_bytes(),
        lines.concat().trim_end().as_bytes().to_vec(),
    ] {
        let answer = site.post("/write", &[], &body);
        assert_eq!(answer.status, 204, "{}", answer.text);
    }
    let packed = gzip(lines.concat().replace("m,", "packed,").as_bytes());
    assert_eq!(
        site.post("/write", &[("content-encoding", "gzip")], &packed)
            .status,
        204
    );
    for measurement in ["m", "packed"] {
        let select = format!("{measurement}{{host=h3}}");
        let answer = site.query(&[("select", &select), ("from", "0")]).json();
        let expected: Vec<usize> = (0..60_000).filter(|row| row % 7 == 3).collect();
        assert_eq!(answer["series"][0]["times"], json!(expected));
        let texts = answer["series"][1]["values"].as_array().unwrap();
        assert_eq!(texts[1], json!(format!("a\n{}\"b", "y".repeat(10))));
        assert_eq!(texts.len(), expected.len());
    }
    let status = site.get("/status").json();
    assert_eq!(status["ingest"]["rows"], json!(180_000));
    assert_eq!(status["ingest"]["rejected_lines"], json!(0));
}

#[test]
fn a_body_may_arrive_byte_by_byte() {
    let site = Site::new();
    let mut stream = TcpStream::connect(site.address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(b"POST /write HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n").unwrap();
    for byte in b"m x=1 1\nm t=\"a\nb\" 2\nbad\nm x=3 3" {
        stream
            .write_all(&[b'1', b'\r', b'\n', *byte, b'\r', b'\n'])
            .unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"line\":4,"), "{answer}");
    let series = site.query(&[("select", "m"), ("from", "0")]).json()["series"].clone();
    assert_eq!(
        (&series[0]["values"], &series[1]["values"]),
        (&json!([1.0, 3.0]), &json!(["a\nb"]))
    );
}

#[test]
fn invalid_gzip_and_unknown_encodings_are_rejected() {
    let site = Site::new();
    let packed = gzip(b"m x=1 1\n");
    for (encoding, body) in [
        ("gzip", &b"m x=1 1"[..]),
        ("gzip", &packed[..packed.len() - 9]),
        ("br", &packed),
    ] {
        let answer = site.post("/write", &[("content-encoding", encoding)], body);
        assert_eq!(answer.status, 400, "{}", answer.text);
    }
    // Several gzip members in a row form one text.
    let two = [gzip(b"m x=1 1\nm x"), gzip(b"=2 2")].concat();
    assert_eq!(
        site.post("/write", &[("content-encoding", "gzip")], &two)
            .status,
        204
    );
    assert_eq!(site.values("m")["values"], json!([1.0, 2.0]));
}

#[test]
fn acknowledged_writes_are_durable_with_sync() {
    let site = Site::with(|settings| settings.durability = Durability::Sync);
    for row in 0..5 {
        site.write(&format!("m x={row} {row}"));
        assert_eq!(site.store().status().unsynced_samples, 0);
    }
    assert!(site.store().status().journal_syncs >= 5);
    site.write("");
}

#[test]
fn introductory_requests_of_influxdb_clients_are_answered() {
    let site = Site::new();
    let ping = site.get("/ping");
    assert_eq!(
        (ping.status, ping.headers.contains_key("x-influxdb-version")),
        (204, true)
    );
    assert!(
        site.get("/query?q=SHOW%20DATABASES")
            .text
            .contains("\"seiner\"")
    );
    assert_eq!(site.get("/query?q=create+database+x").status, 200);
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(
        site.post("/query", &form, b"q=CREATE+DATABASE+%22x%22;")
            .status,
        200
    );
}

#[test]
fn databases_are_kept_as_a_tag_if_the_setting_says_so() {
    let site = Site::with(|settings| settings.database_tag = Some("db".to_string()));
    for address in [
        "/write?db=a+b",
        "/api/v2/write?bucket=b2&org=o",
        "/api/v3/write_lp?db=d3",
        "/write",
    ] {
        let written = site.post(address, &[], b"cpu,host=x v=1");
        assert_eq!(written.status, 204, "{address}: {}", written.text);
    }
    let sources = site.get("/api/v1/sources?select=cpu").text;
    for source in [
        r#"{"db":"a b","host":"x"}"#,
        r#"{"db":"b2","host":"x"}"#,
        r#"{"db":"d3","host":"x"}"#,
        r#"{"host":"x"}"#,
    ] {
        assert!(sources.contains(source), "{sources}");
    }
    let twice = site.post("/write?db=x", &[], b"cpu,db=y v=1\ncpu v=1");
    assert_eq!(twice.status, 400);
    assert!(
        twice.text.contains("line 1: tag \\\"db\\\" stands twice"),
        "{}",
        twice.text
    );
    assert_eq!(site.post("/write?db=x%0A", &[], b"cpu v=1").status, 400);
}

#[test]
fn statements_in_influxql_are_answered() {
    let site = Site::new();
    site.post(
        "/write?precision=s",
        &[],
        b"cpu,host=a usage=1.5 10\ncpu,host=a usage=2.5 20",
    );
    let answer = site
        .get("/query?epoch=s&q=select+usage+from+cpu%3B+select+mean(host)+from+cpu;+show+tag+keys");
    assert_eq!(answer.status, 200);
    let expected = [
        r#"{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","usage"],"values":[[10,1.5],[20,2.5]]}]},"#,
        r#"{"statement_id":1},{"statement_id":2,"series":[{"name":"cpu","columns":["tagKey"],"values":[["host"]]}]}]}"#,
    ];
    assert_eq!(answer.text.trim(), expected.concat());
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let bound = site.post(
        "/query",
        &form,
        b"q=select+usage+from+cpu+where+usage>$u&params={\"u\":2}&chunked=true",
    );
    assert_eq!(bound.text.matches("2.5").count(), 1, "{}", bound.text);
    assert!(!bound.text.contains("1.5"));
    for (query, text) in [
        ("q=drop+measurement+cpu", "DROP is not supported"),
        ("q=select", "at character 7"),
        ("q=select+1+from+cpu&epoch=d", "epoch"),
        ("epoch=s", "required parameter"),
    ] {
        let rejected = site.get(&format!("/query?{query}"));
        assert_eq!(rejected.status, 400, "{query}");
        assert!(rejected.text.contains(text), "{query}: {}", rejected.text);
    }
}

#[test]
fn lines_in_1970_due_to_a_missing_precision_are_rejected() {
    let site = Site::with(|settings| settings.allow_1970 = false);
    let lines = b"temp v=1 1700000000\ntemp v=2 1700000000000000000\ntemp v=3 5\n";
    let written = site.post("/write", &[], lines);
    assert_eq!(written.status, 400);
    let answer = written.json();
    assert_eq!(
        (&answer["accepted"], &answer["rejected"]),
        (&2.into(), &1.into())
    );
    assert_eq!(answer["lines"][0]["line"], 1);
    let reason = answer["lines"][0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("give precision=s") && reason.contains("1970-01-01T00:00:01.7Z"),
        "{reason}"
    );
    for address in ["/write?precision=s", "/write?allow_1970=true"] {
        assert_eq!(
            site.post(address, &[], b"temp v=1 1700000000").status,
            204,
            "{address}"
        );
    }
    assert_eq!(site.post("/write?allow_1970=1", &[], b"a b=1").status, 400);
}

#[test]
fn windows_paths_are_distinct_sources_and_are_returned_unchanged() {
    let site = Site::new();
    site.write(r"disk,path=\\server\share used=1 1");
    site.write(r"disk,path=\server\share used=2 1");
    site.write(r"disk,path=D:\\,x used=3 1");
    let sources = site.get("/api/v1/sources?select=disk").json();
    assert_eq!(sources["total"], json!(3), "{sources}");
    let all = [("select", "disk"), ("from", "0"), ("to", "9")];
    let answer = site.query(&all).json();
    let mut found = Vec::new();
    for series in answer["series"].as_array().unwrap() {
        let path = series["tags"]["path"].as_str().unwrap();
        // Name in the notation of a selector.
        let key = seiner_model::SourceKey::new("disk", [("path", path)]).unwrap();
        assert_eq!(site.values(&key.to_string())["values"], series["values"]);
        found.push(path.to_string());
    }
    found.sort();
    assert_eq!(found, [r"D:\,x", r"\\server\share", r"\server\share"]);
    // Name in the notation of a CSV column. Writing the same lines again changes only values.
    let csv = site.query(&[&all[..], &[("format", "csv")]].concat()).text;
    for line in csv.lines().skip(1) {
        let tags = line.strip_prefix("disk,").unwrap();
        let tags = tags.rsplit_once(",used,").unwrap().0.trim_matches('"');
        site.write(&format!("disk,{tags} used=9 1"));
    }
    assert_eq!(
        site.get("/api/v1/sources?select=disk").json()["total"],
        json!(3)
    );
    let values = site.query(&all).json();
    for series in values["series"].as_array().unwrap() {
        assert_eq!(series["values"], json!([9.0]), "{values}");
    }
}
