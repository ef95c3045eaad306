//! Commands on the directory of a store.

use crate::program::{run, seiner};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use std::process::Stdio;

#[test]
fn lines_into_a_directory_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("a.lp"), "m,k=v x=1.5 1\nbad\nm,k=v x=2.5 2\n").unwrap();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(b"m,k=v x=3.5 3").unwrap();
    fs::write(path.join("b.lp.gz"), encoder.finish().unwrap()).unwrap();
    let (status, _, err) = run(path, &["write", "--data", "d", "a.lp", "b.lp.gz"]);
    assert_eq!(status, 1);
    assert!(
        err.starts_with("a.lp:2: ") && err.contains("1 line was rejected"),
        "{err}"
    );

    let mut writing = seiner(path, &["write", "--data", "d", "--precision", "s"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writing
        .stdin
        .take()
        .unwrap()
        .write_all(b"m,k=v x=4.5 4\n")
        .unwrap();
    assert!(writing.wait().unwrap().success());

    let query = ["query", "m", "--data", "d", "--from", "0", "--format"];
    let (status, csv, err) = run(path, &[&query[..], &["csv"]].concat());
    assert_eq!((status, err.as_str()), (0, ""));
    let expected = "measurement,tags,field,time,value\nm,k=v,x,1,1.5\nm,k=v,x,2,2.5\nm,k=v,x,3,3.5\nm,k=v,x,4000000000,4.5\n";
    assert_eq!(csv, expected);
    let (_, table, _) = run(path, &[&query[..], &["table"]].concat());
    assert_eq!(
        table.lines().nth(1),
        Some("m            k=v   x      1970-01-01T00:00:00.000000001Z  1.5")
    );
    let (_, json, _) = run(
        path,
        &[
            &query[..],
            &["json", "--step", "10s", "--aggregate", "count,max"],
        ]
        .concat(),
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["series"][0]["max"], serde_json::json!([4.5]));
}

#[test]
fn a_directory_is_opened_with_its_stored_rules() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let classes = "[[class]]\nname = \"young\"\nsources = \"m\"\nage = \"1h\"\n";
    fs::write(path.join("seiner.toml"), classes).unwrap();
    fs::write(path.join("a.lp"), "m x=1 1000\nother x=1 1000\n").unwrap();
    let (status, _, err) = run(path, &["write", "--data", "d", "a.lp"]);
    // The configuration in the folder has no effect: the row of 1970 stays.
    assert_eq!(status, 0, "{err}");
    let (status, found, err) = run(
        path,
        &[
            "query",
            "{}",
            "--from",
            "1970-01-01",
            "--data",
            "d",
            "--format",
            "csv",
        ],
    );
    assert_eq!(status, 0, "{err}");
    assert!(
        found.contains("other,") && found.contains("\nm,"),
        "{found}"
    );
    fs::write(path.join("seiner.toml"), "disk = \"1 KiB\"\n").unwrap();
    let (status, _, err) = run(path, &["write", "--data", "d", "a.lp"]);
    assert_eq!(status, 0, "{err}");
}

#[test]
fn a_trace_of_a_store_is_simulated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let lines: String = (0..40_000)
        .map(|row| {
            let noise = (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            format!(
                "m,k={} x={noise} {}\n",
                row % 7,
                i64::from(row) * 1_000_000_000
            )
        })
        .collect();
    fs::write(path.join("a.lp"), lines).unwrap();
    let (status, _, err) = run(path, &["write", "--data", "d", "--allow-1970", "a.lp"]);
    assert_eq!(status, 0, "{err}");
    let (status, trace, err) = run(path, &["log", "trace", "--data", "d", "--repeat", "3"]);
    assert_eq!((status, err.as_str()), (0, ""));
    let mut lines = trace.lines();
    assert_eq!(lines.next(), Some("time,source,bytes,keep"));
    let fields: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(
        fields.len() > 30 && fields.len().is_multiple_of(3),
        "{trace}"
    );
    let bytes = |from: usize| -> u64 {
        let lap = fields.iter().skip(from).take(fields.len() / 3);
        lap.map(|line| line[2].parse::<u64>().unwrap()).sum()
    };
    assert!(bytes(0) > 40_000 && bytes(0) == bytes(fields.len() / 3));
    assert!(
        fields[0][0].starts_with('-') && fields[fields.len() / 3][0] == "0",
        "{trace}"
    );
    assert!(
        fields.iter().all(|line| line[3] == "forever"),
        "blocks without a rule have no end"
    );
    fs::write(path.join("trace"), &trace).unwrap();
    let simulate = [
        "sim", "merge", "--trace", "trace", "--budget", "64MiB", "--json",
    ];
    let (status, runs, err) = run(path, &simulate);
    assert_eq!(status, 0, "{err}");
    let runs: serde_json::Value = serde_json::from_str(&runs).unwrap();
    assert_eq!(runs.as_array().unwrap().len(), 5, "a run for each policy");

    let (status, _, err) = run(path, &["log", "trace", "--data", "nowhere"]);
    assert!(status == 1 && err.contains("nowhere"), "{err}");
}

#[test]
fn queries_print_notes_and_hints_on_stderr() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let lines = "m,k=a x=1 1700000000\nm,k=b x=2 1700000000\n";
    fs::write(path.join("a.lp"), lines).unwrap();
    let (status, _, err) = run(path, &["write", "--data", "d", "a.lp"]);
    assert!(status == 1 && err.contains("give precision=s"), "{err}");
    let (status, _, err) = run(path, &["write", "--data", "d", "--precision", "s", "a.lp"]);
    assert_eq!(
        (status, err.as_str()),
        (0, ""),
        "success is silent in scripts"
    );
    let ask = |arguments: &[&str]| run(path, &[&["query", "--data", "d"], arguments].concat());
    let since = ["--from", "2023-11-14", "--to", "2023-11-15"];
    for format in ["csv", "table", "arrow"] {
        let limited = ["m", "--limit", "1", "--format", format];
        let mut command = seiner(path, &["query", "--data", "d"]);
        let output = command
            .args([&limited[..], &since].concat())
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            err, "note: only 1 series are shown, there are more; raise --limit\n",
            "{format}"
        );
    }
    let (_, out, _) = ask(&[&["m", "--limit", "1", "--format", "csv"][..], &since].concat());
    assert!(!out.contains('#'), "the note is enough: {out}");
    let (_, _, err) = ask(&[&["M"][..], &since].concat());
    assert_eq!(
        err,
        "note: there is no measurement \"M\"; did you mean \"m\"?\n"
    );
    let (status, _, err) = ask(&["m", "--from", "2023"]);
    assert!(
        status != 0 && err.contains("from: \"2023\" is not a time; write 2023-01-01 for the year"),
        "{err}"
    );
    let (status, _, err) = ask(&["m"]);
    assert!(
        status == 0 && err.contains("there are samples from 2023-11-14T22:13:20Z"),
        "{err}"
    );
}
