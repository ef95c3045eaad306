//! Import of files whose form is detected, and reports of rejected rows.

use crate::program::run;
use std::fs;
use std::path::Path;

/// Imports a text and returns the status, the errors, and the stored rows.
fn import(path: &Path, name: &str, text: &[u8], flags: &[&str]) -> (i32, String, String) {
    fs::write(path.join(name), text).unwrap();
    let kind = match name.ends_with(".csv") {
        true => "csv",
        false => "json",
    };
    let data = format!("data-{name}");
    let command = ["import", kind, "--data", &data, name];
    let (status, _, err) = run(path, &[&command[..], flags].concat());
    let query = [
        "query",
        "{}",
        "--data",
        &data,
        "--from",
        "1990-01-01",
        "--to",
        "2100-01-01",
    ];
    let rows = match path.join(&data).exists() {
        true => run(path, &query).1,
        false => String::new(),
    };
    (status, err, rows)
}

#[test]
fn a_first_line_of_values_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let text = b"1700000000,20.5\n1700000001,21.5\n";
    let (status, err, rows) = import(path, "a.csv", text, &[]);
    assert_eq!(status, 0, "{err}");
    assert!(
        err.contains("the columns are called col1, col2; --columns names them")
            && err.contains("the time is in column \"col1\"")
            && err.contains("read as numbers in s or dates: 1700000000 is 2023-11-14T22:13:20Z"),
        "{err}"
    );
    assert!(rows.contains("20.5") && rows.contains("21.5"), "{rows}");
    let (status, err, rows) = import(path, "b.csv", text, &["--columns", "ts,temp"]);
    assert_eq!((status, err.lines().count()), (0, 1), "{err}");
    assert!(rows.contains("temp") && rows.contains("20.5"), "{rows}");
    let (status, err, _) = import(path, "c.csv", text, &["--columns", "ts"]);
    assert!(
        status == 2 && err.contains("gives 1 names, and the first line has 2 cells"),
        "{err}"
    );
    let (status, err, rows) = import(
        path,
        "d.csv",
        b"on,7\noff,8\n",
        &["--no-header", "--time-column", "col2"],
    );
    assert_eq!(status, 0, "{err}");
    assert!(
        err.contains("2 rows imported") && !rows.contains("on"),
        "{rows}"
    );
}

#[test]
fn dates_and_units_are_assumed_only_if_the_file_decides() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let air = "Date;Time;CO(GT);T;\n10/03/2004;18.00.00;2,6;13,6;\n13/03/2004;20.00.00;2;;\n;;;;\n";
    let (status, err, rows) = import(path, "air.csv", air.as_bytes(), &[]);
    assert_eq!(status, 0, "{err}");
    assert!(
        err.contains("read as %d/%m/%Y %H.%M.%S: \"10/03/2004 18.00.00\" is 2004-03-10T18:00:00Z")
            && err.contains("2 rows imported, 0 rejected"),
        "{err}"
    );
    assert!(
        rows.contains("2004-03-13T20:00:00Z") && rows.contains("13.6"),
        "{rows}"
    );

    let both = b"when,v\n03/04/2014 10:00,1\n04/04/2014 10:00,2\n";
    let (status, err, _) = import(path, "both.csv", both, &[]);
    assert!(
        status == 2
            && err.contains("--time-format '%d/%m/%Y %H:%M' or --time-format '%m/%d/%Y %H:%M'"),
        "{err}"
    );
    assert!(!path.join("data-both.csv").exists());
    let (status, err, rows) = import(
        path,
        "both.csv",
        both,
        &["--time-column", "when", "--time-format", "%m/%d/%Y %H:%M"],
    );
    assert!(
        status == 0 && rows.contains("2014-03-04T10:00:00Z"),
        "{err}{rows}"
    );

    // The deciding date is beyond the rows that are examined first.
    let mut late = "time,v\n".to_string();
    (0..1500).for_each(|row| {
        late.push_str(&format!(
            "01/02/2014 00:00:{:02}.{row:04},{row}\n",
            row % 60
        ))
    });
    late.push_str("13/02/2014 00:00:00,1\n");
    let (status, err, rows) = import(path, "late.csv", late.as_bytes(), &[]);
    assert!(
        status == 0 && rows.contains("2014-02-01T00:00:00Z"),
        "{err}"
    );
    assert!(!rows.contains("2014-01-02"), "{rows}");

    let (status, err, rows) = import(path, "ms.csv", b"ts,v\n1795238428644,1\n", &[]);
    assert!(
        status == 0 && err.contains("read as numbers in ms"),
        "{err}"
    );
    assert!(rows.contains("2026-11-21T05:20:28.644Z"), "{rows}");
    let (status, err, _) = import(
        path,
        "mixed.csv",
        b"ts,v\n1795238428644,1\n1700000000,1\n",
        &[],
    );
    assert!(
        status == 2 && err.contains("in ms or s; state the unit by --time-unit"),
        "{err}"
    );
    let mut odd = "ts,v\n".to_string();
    (0..1500).for_each(|row| odd.push_str(&format!("{},1\n", 1_795_238_428_644_i64 + row)));
    odd.push_str("7,1\n");
    let (status, err, _) = import(path, "odd.csv", odd.as_bytes(), &[]);
    assert!(
        status == 1 && err.contains("but 1 others are not (line 1502)"),
        "{err}"
    );
    assert!(!path.join("data-odd.csv").exists());
}

#[test]
fn a_counter_is_not_taken_for_the_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (status, err, _) = import(path, "c.csv", b"bytes,n\n1700000000,1\n1700000001,2\n", &[]);
    assert!(
        status == 2 && err.contains("candidates by their contents are bytes"),
        "{err}"
    );
    let (status, err, _) = import(
        path,
        "t.csv",
        b"n,start_time\n1,1700000000\n2,1700000001\n",
        &[],
    );
    assert!(
        status == 0 && err.contains("the time is in column \"start_time\""),
        "{err}"
    );
    let (status, err, _) = import(path, "short.csv", b"ts,v\n5,1\n6,1\n", &[]);
    assert!(
        status == 0 && err.contains("in s since 1970: 5 is 1970-01-01T00:00:05Z; --time-unit"),
        "{err}"
    );
    let (status, err, _) = import(path, "empty.csv", b"", &[]);
    assert!(status == 2 && err.contains("the file is empty"), "{err}");
    // A time of day can be a reading.
    let sun = b"date,sunrise\n2014-01-01,08:16\n2014-01-02,08:17\n";
    let (status, err, rows) = import(path, "sun.csv", sun, &[]);
    assert!(
        status == 0 && rows.contains("2014-01-01T00:00:00Z"),
        "{err}{rows}"
    );
    // A number among dates does not change the form of the others.
    let stray = b"date,v\n31/12/2014,1\n01/01/2015,2\n0,3\n";
    let (status, err, rows) = import(path, "stray.csv", stray, &[]);
    assert!(
        status == 1 && rows.contains("2015-01-01T00:00:00Z"),
        "{err}{rows}"
    );
    assert!(
        err.contains("stray.csv:4: \"0\" is not a time of the form %d/%m/%Y"),
        "{err}"
    );
    let two = b"from_date,to_date,v\n2014-01-01,2014-01-02,1\n";
    let (status, err, _) = import(path, "two.csv", two, &[]);
    assert!(
        status == 2 && err.contains("candidates by their contents are from_date, to_date"),
        "{err}"
    );
}

#[test]
fn rejected_rows_and_cells_are_listed_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut text = b"ts,a,b\n1700000000,1\nnever,1,1\n1700000002,\xff,2\n".to_vec();
    for row in 0..300 {
        text.extend_from_slice(format!("{},{row},1.5\n", 1_700_000_100 + row).as_bytes());
    }
    text.extend_from_slice(b"1700001000,bad,\"x,y\"\n");
    let flags = [
        "--rejects",
        "r.csv",
        "--types",
        "a=i64,b=f64",
        "--allow-empty",
    ];
    let (status, err, _) = import(path, "a.csv", &text, &flags);
    assert_eq!(status, 1);
    assert!(
        err.ends_with("300 rows imported, 3 rejected, 2 cells rejected\nr.csv lists all rejected rows and cells\n"),
        "{err}"
    );
    let mut reader = csv::Reader::from_path(path.join("r.csv")).unwrap();
    let listed: Vec<Vec<String>> = reader
        .records()
        .map(|record| record.unwrap().iter().map(String::from).collect())
        .collect();
    let at: Vec<[&str; 4]> = listed
        .iter()
        .map(|row| {
            [
                row[0].as_str(),
                row[1].as_str(),
                row[2].as_str(),
                row[4].as_str(),
            ]
        })
        .collect();
    assert_eq!(
        at,
        [
            ["a.csv", "2", "", "1700000000,1"],
            ["a.csv", "4", "", "1700000002,\u{fffd},2"],
            ["a.csv", "3", "ts", "never,1,1"],
            ["a.csv", "305", "a", "bad"],
            ["a.csv", "305", "b", "x,y"],
        ]
    );
    let (status, err, _) = import(path, "a.csv", &text, &flags);
    assert!(status == 2 && err.contains("r.csv exists"), "{err}");
}

#[test]
fn json_lines_are_imported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let text = br#"{"ts":"2026-11-21T08:00:00Z","device":"a","wifi":{"rssi":-61},"t":20.5,"list":[1]}
{"ts":"2026-11-21T08:00:01Z","device":"b","t":0.1000000000000000055511151231257827,"on":true,"gone":null}
{"ts":"2026-11-21T08:00:02Z","t":
"#;
    let flags = ["--tag-columns", "device", "--rejects", "r.csv"];
    let (status, err, rows) = import(path, "r.jsonl", text, &flags);
    assert_eq!(status, 1);
    assert!(
        err.contains("2 rows imported, 1 rejected, 1 cells rejected"),
        "{err}"
    );
    for words in ["wifi.rssi", "-61", "20.5", "0.1", "true"] {
        assert!(rows.contains(words), "{words}: {rows}");
    }
    let rejects = fs::read_to_string(path.join("r.csv")).unwrap();
    assert!(
        rejects.contains("r.jsonl,1,list,") && rejects.contains(",[1]\n"),
        "{rejects}"
    );
    assert!(
        rejects.contains("r.jsonl,3,,the line is not valid JSON"),
        "{rejects}"
    );
}

/// Export of InfluxDB with two databases. A text of the first one looks like a comment.
const EXPORT: &str = "# INFLUXDB EXPORT: 1677-09-21T00:12:43Z - 2262-04-11T23:47:16Z
# DDL
CREATE DATABASE first WITH NAME autogen
CREATE DATABASE \"second db\" WITH NAME autogen
# DML
# CONTEXT-DATABASE:first
# CONTEXT-RETENTION-POLICY:autogen
# writing tsm data
cpu,host=a usage=1.5,log=\"one
# CONTEXT-DATABASE:no
two\" 1700000000000000000
cpu,host=a usage=bad 1700000001000000000
# CONTEXT-RETENTION-POLICY:year
cpu,host=a usage=7i 1700000002000000000
cpu,host=b usage=2.5 1700000002000000000
# CONTEXT-DATABASE:second db
# CONTEXT-RETENTION-POLICY:autogen
# writing wal data
cpu,host=a usage=3.5 1700000000000000000
";

#[test]
fn an_export_of_influxdb_is_imported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("export"), EXPORT).unwrap();
    let import = |data: &str, flags: &[&str]| {
        let command = ["import", "line", "--data", data, "export"];
        let (status, _, err) = run(path, &[&command[..], flags].concat());
        let query = [
            "query",
            "cpu",
            "--data",
            data,
            "--from",
            "2023-01-01",
            "--fields",
            "usage",
        ];
        (status, err, run(path, &query).1)
    };
    let (status, err, _) = import("a", &[]);
    assert!(
        status == 1 && err.contains("the databases first and second db; --database-tag db"),
        "{err}"
    );
    assert!(err.contains("0 rows imported"), "{err}");
    let (status, err, rows) = import("b", &["--database-tag", "db", "--rejects", "r.csv"]);
    assert_eq!(status, 1, "{err}");
    assert!(err.contains("3 rows imported, 2 rejected"), "{err}");
    assert!(
        err.contains("retention policies autogen and year have the same names"),
        "{err}"
    );
    assert!(
        err.contains("export:12: ") && err.contains("export:14: "),
        "{err}"
    );
    assert!(
        rows.contains("db=second\\ db") && rows.contains("3.5") && rows.contains("db=first"),
        "{rows}"
    );
    let rejects = fs::read_to_string(path.join("r.csv")).unwrap();
    assert!(
        rejects.contains("\"cpu,host=a usage=7i 1700000002000000000\""),
        "{rejects}"
    );
    let (_, err, rows) = import("c", &["--database", "second db", "--policy-tag", "policy"]);
    assert!(
        err.contains("1 rows imported, 0 rejected") && rows.contains("policy=autogen"),
        "{err}{rows}"
    );
    let (_, err, _) = import("d", &["--database", "third"]);
    assert!(
        err.contains("the export has no database \"third\""),
        "{err}"
    );
}
