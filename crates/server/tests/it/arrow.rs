//! Arrow in both directions: wide answers, and bodies at `/write`.

use crate::site::Site;

const ARROW: [(&str, &str); 1] = [("Content-Type", "application/vnd.apache.arrow.stream")];

/// Rows with missing values, texts, a tag called like a field, and a field of two types.
const LINES: &str = "\
cpu,host=a,usage=x usage=1.5,n=3i,state=\"\",ok=t 1700000000000000000
cpu,host=b usage=2 1700000000000000000
cpu,host=a,usage=x n=-4i 1700000001000000000
mem,host=b usage=7i 1700000000000000000
mem,host=b free=18446744073709551615u 1700000000000000001
";

fn wide(site: &Site, format: &str) -> crate::site::Reply {
    let parameters = [
        ("select", "{}"),
        ("from", "2023-01-01"),
        ("shape", "wide"),
        ("format", format),
    ];
    let answer = site.query(&parameters);
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer
}

#[test]
fn rows_of_a_wide_answer_are_stored_as_they_were() {
    let (from, to) = (Site::new(), Site::new());
    from.write(LINES);
    let body = wide(&from, "arrow").bytes;
    let written = to.post("/write", &ARROW, &body);
    assert_eq!(written.status, 204, "{}", written.text);
    let expected = wide(&from, "csv").text;
    assert_eq!(
        expected.lines().next(),
        Some("time,measurement,host,usage,free,n,ok,state,usage::f64,usage::i64")
    );
    assert_eq!(expected.lines().count(), 6);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&wide(&to, "csv").text), sorted(&expected));
    let metrics = to.get("/metrics").text;
    assert!(
        metrics.contains("seiner_ingest_rows_total{protocol=\"arrow\"} 5"),
        "{metrics}"
    );
}

#[test]
fn rejected_rows_of_arrow_are_listed_and_the_rest_is_stored() {
    let (from, to) = (Site::new(), Site::new());
    from.write(LINES);
    // The field has another type already.
    to.write("cpu,host=b usage=\"text\" 1");
    let answer = to.post("/write", &ARROW, &wide(&from, "arrow").bytes);
    assert_eq!(answer.status, 400);
    let json = answer.json();
    assert_eq!(
        (&json["accepted"], &json["rejected"]),
        (&4.into(), &1.into()),
        "{json}"
    );
    let listed = json["rows"].as_array().unwrap();
    assert_eq!(listed.len(), 1);
    assert!(
        listed[0]["reason"].as_str().unwrap().contains("usage"),
        "{json}"
    );
    assert_eq!(wide(&to, "csv").text.lines().count(), 5);
}

#[test]
fn bodies_that_are_not_arrow_are_rejected() {
    let site = Site::new();
    for (body, headers, status) in [
        (&b"cpu usage=1"[..], &ARROW[..], 400),
        (b"", &ARROW, 400),
        (b"", &[ARROW[0], ("Content-Encoding", "gzip")], 415),
    ] {
        let answer = site.post("/write", headers, body);
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    assert_eq!(site.post("/write?shape=wide", &ARROW, b"").status, 400);
}
