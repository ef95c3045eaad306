//! Tests that run the program.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use flate2::Compression;
use flate2::write::GzEncoder;
use seiner_platform::Directory;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::SystemTime;

fn seiner(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seiner"));
    command
        .current_dir(directory)
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Runs the program to the end. Returns the exit status, standard output and standard error.
fn run(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    told(seiner(directory, arguments).output().unwrap())
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Starts a server on a free port. Returns the process and its address.
fn serve(directory: &Path, arguments: &[&str]) -> (Child, String) {
    let common = ["serve", "--listen", "127.0.0.1:0", "--host-sensors", "off"];
    let mut server = seiner(directory, &[&common, arguments].concat())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(server.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let announced = told.find(|line| line.contains("http://")).unwrap();
    let mut words = announced.split_whitespace();
    let address = words.find(|word| word.starts_with("http://")).unwrap();
    let address = address.trim_end_matches('/').to_string();
    // A server whose messages nobody reads must not wait for a reader.
    std::thread::spawn(move || told.count());
    (server, address)
}

/// Stops a server in good order.
fn stop(server: &mut Child) {
    let process = server.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &process]).status();
    assert!(sent.unwrap().success());
    assert!(server.wait().unwrap().success());
}

#[test]
fn config_tells_what_holds_and_why() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("seiner.toml"),
        "# mine\nmemory = \"1 GiB\"\nmax_queries = 3\n",
    )
    .unwrap();
    let output = seiner(directory.path(), &["config", "--max-body", "1 MiB"])
        .env("SEINER_MAX_QUERIES", "5")
        .output()
        .unwrap();
    let (status, out, err) = told(output);
    assert_eq!((status, err.as_str()), (0, ""));
    let line = |name: &str| {
        out.lines()
            .find(|line| line.starts_with(&format!("{name} = ")))
            .unwrap()
            .to_string()
    };
    assert!(
        line("memory").contains("\"1 GiB\"") && line("memory").ends_with("# ./seiner.toml, line 2"),
        "{out}"
    );
    assert!(
        line("max_queries").contains("\"5\"")
            && line("max_queries").ends_with("# variable SEINER_MAX_QUERIES")
    );
    assert!(
        line("max_body").contains("\"1 MiB\"") && line("max_body").ends_with("# flag --max-body")
    );
    assert!(line("listen").ends_with("# default"));

    // The printed settings are a valid settings file.
    fs::write(directory.path().join("again.toml"), &out).unwrap();
    let (status, again, _) = run(directory.path(), &["config", "--config", "again.toml"]);
    assert_eq!(status, 0);
    assert!(
        again
            .lines()
            .all(|line| line.contains("# again.toml, line ")),
        "{again}"
    );
}

#[test]
fn settings_that_make_no_sense_are_status_2() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, words) in [
        (
            &["serve", "--memory", "lots"][..],
            "flag --memory: memory: \"lots\" is no size",
        ),
        (&["serve", "--listen", "0.0.0.0:1"], "allow_remote = true"),
        (&["serve", "--log", "a=b=c"], "log: "),
        (&["config", "--config", "none.toml"], "none.toml"),
        (&["query"], "Usage"),
        (&["query", "cpu{", "--data", "d"], "character 5"),
        (&["import", "csv", "--types", "a=f16", "x.csv"], "f16"),
    ] {
        let (status, out, err) = run(directory.path(), arguments);
        assert_eq!((status, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(words), "{arguments:?}: {err}");
    }
    fs::write(directory.path().join("seiner.toml"), "\nmemmory = 1\n").unwrap();
    let (status, _, err) = run(directory.path(), &["serve"]);
    assert_eq!(status, 2);
    assert_eq!(
        err,
        "seiner: ./seiner.toml, line 2: there is no setting \"memmory\"; did you mean \"memory\"?\n"
    );
}

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
        err.starts_with("a.lp:2: ") && err.contains("1 lines were refused"),
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
fn csv_is_imported_exactly() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let rows = "series,ts,i,f,s,single,big,gap\n\
                a b,-2,1,6.869999900000001,on,1.9400482,9223372036854775807,\n\
                a b,-1,-7,-0.0,\"o,ff\",0.1,18446744073709551615,-200\n\
                \"c,d\",x,1,1,on,1,1,1\n\
                \"c,d\",5,,,,,,\n\
                \"c,d\",6,,2,,,,5\n";
    fs::write(path.join("kinds.csv"), rows).unwrap();
    let roles = [
        "--tag-columns",
        "series",
        "--missing",
        "-200",
        "--types",
        "single=f32",
        "--tag",
        "site=x",
        "--allow-empty",
    ];
    let (status, _, err) = run(
        path,
        &[&["import", "csv", "--data", "d", "kinds.csv"], &roles[..]].concat(),
    );
    assert_eq!(status, 1);
    assert!(
        err.contains("\nkinds.csv:4: \"x\" is no time")
            && err.contains("note: kinds.csv: column \"s\" is text\n")
            && err.contains("3 rows imported, 1 refused, 1 without values left out\n"),
        "{err}"
    );
    let (_, json, _) = run(
        path,
        &[
            "query",
            "kinds",
            "--data",
            "d",
            "--from",
            "-10000000000",
            "--format",
            "json",
        ],
    );
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let mut found: Vec<String> = answer["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|series| {
            format!(
                "{} {} {} {}",
                series["tags"]["series"], series["field"], series["type"], series["values"]
            )
        })
        .map(|text| text.replace('"', ""))
        .collect();
    found.sort();
    let expected = [
        "a b big u64 [9223372036854775807,18446744073709551615]",
        "a b f f64 [6.869999900000001,-0.0]",
        "a b i i64 [1,-7]",
        "a b s string [on,o,ff]",
        "a b single f32 [1.9400482,0.1]",
        "c,d f f64 [2.0]",
        "c,d gap i64 [5]",
    ];
    assert_eq!(found, expected);
    assert_eq!(
        answer["series"][0]["times"],
        serde_json::json!([-2_000_000_000_i64, -1_000_000_000])
    );
}

#[test]
fn a_directory_is_opened_with_the_rules_that_are_stored_there() {
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
        "no rule lets go"
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

/// Rows of two sensors with a tag column that users easily forget. One row has no value.
const FORGOTTEN: &str =
    "sensor,Time,temp\na,1700000000,1.5\nb,1700000000,2.5\na,1700000001,1.5\nb,1700000001,\n";

#[test]
fn an_import_stops_before_it_loses_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("two.csv"), FORGOTTEN).unwrap();
    let import = |flags: &[&str]| {
        let command = ["import", "csv", "--data", "d", "two.csv"];
        run(path, &[&command[..], flags].concat())
    };
    let (status, _, err) = import(&["--field-columns", "temp"]);
    assert_eq!(status, 1);
    assert!(
        err.contains(
            "two.csv: 1 rows would replace earlier ones of the same source and time (line 3)"
        ) && err.contains("two.csv: 1 rows have no value (line 5); --allow-empty")
            && err.ends_with("nothing was imported\n"),
        "{err}"
    );
    let (status, _, err) = import(&[]);
    assert!(
        status == 1 && err.contains("is \"sensor\" a tag? --tag-columns sensor"),
        "{err}"
    );
    assert!(!path.join("d").exists(), "the directory was not even made");
    let (status, _, err) = import(&["--tag-columns", "sensor"]);
    assert!(status == 1 && err.contains("no value"), "{err}");
    let tagged = ["--tag-columns", "sensor", "--allow-empty"];
    for note in ["", "note: there are samples of two in this time already"] {
        let (status, _, err) = import(&tagged);
        assert_eq!(status, 0, "{err}");
        assert!(
            err.starts_with(note)
                && err.ends_with("3 rows imported, 0 refused, 1 without values left out\n"),
            "{err}"
        );
    }
    let (status, _, err) = import(&["--field-columns", "temp", "--replace", "--allow-empty"]);
    assert!(
        status == 0 && err.contains("1 replaced earlier rows"),
        "{err}"
    );
}

#[test]
fn rows_in_no_order_are_compared_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(
        path.join("m.csv"),
        "ts,v\n1700000003,1\n1700000001,1\n1700000002,1\n1700000001,2\n1700000003,1\n",
    )
    .unwrap();
    let (status, _, err) = run(path, &["import", "csv", "--data", "d", "m.csv"]);
    assert_eq!(status, 1);
    assert!(
        err.contains("note: 1 rows are equal to earlier ones")
            && err
                .contains("1 rows would replace earlier ones of the same source and time (line 5)"),
        "{err}"
    );
}

#[test]
fn odd_cells_are_refused_or_stop_the_import() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut rows = "ts,temp,n\n".to_string();
    for row in 0..200 {
        rows.push_str(&format!("{},{row}.5,{row}\n", 1_700_000_000 + row));
    }
    fs::write(path.join("few.csv"), rows + "1700000200,bad,7\n").unwrap();
    let (status, _, err) = run(path, &["import", "csv", "--data", "d", "few.csv"]);
    assert_eq!(status, 1);
    assert!(
        err.contains("few.csv:202: column \"temp\": \"bad\" is no f64")
            && err.ends_with("201 rows imported, 0 refused, 1 cells refused\n"),
        "{err}"
    );
    let query = [
        "query",
        "few",
        "--data",
        "d",
        "--from",
        "1700000200",
        "--to",
        "now",
    ];
    let (_, table, err) = run(path, &query);
    assert!(
        table.contains("few                n      2023-11-14T22:16:40Z  7\n"),
        "{table}"
    );
    assert!(
        !table.contains("temp"),
        "the other cells of the row are stored: {table}"
    );
    assert!(
        err.contains("note: from=1700000200 was read as seconds since 1970"),
        "{err}"
    );

    fs::write(
        path.join("mixed.csv"),
        "ts,temp\n1700000000,1.5\n1700000001,bad\n1700000002,2\n",
    )
    .unwrap();
    let import = ["import", "csv", "--data", "d", "mixed.csv"];
    let (status, _, err) = run(path, &import);
    assert_eq!(status, 1);
    assert!(
        err.contains("2 of the 3 cells of column \"temp\" are numbers")
            && err.contains("line 3 \"bad\"")
            && err.ends_with("nothing was imported\n"),
        "{err}"
    );
    let decided = ["--types", "temp=string"];
    assert_eq!(run(path, &[&import[..], &decided].concat()).0, 0);
}

#[test]
fn a_dry_run_shows_dialect_columns_and_rows_and_stores_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let rows = "Timestamp;room;temp;open\n2014-01-01 00:00:00;hall;20,5;true\n2014-01-01 00:01:00;attic;-3,25;false\n";
    fs::write(path.join("rooms.csv"), rows).unwrap();
    let dry = [
        "import",
        "csv",
        "--dry-run",
        "--tag-columns",
        "room",
        "rooms.csv",
    ];
    let (status, out, err) = run(path, &dry);
    assert_eq!((status, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "rooms.csv: 2 rows, separator ';', decimal comma, measurement rooms\n\
         from 2014-01-01T00:00:00Z to 2014-01-01T00:01:00Z\n\
         \n\
         column     role   type\n\
         Timestamp  time\n\
         room       tag\n\
         temp       field  f64\n\
         open       field  bool\n\
         \n\
         2014-01-01T00:00:00Z  rooms,room=hall  temp=20.5 open=true\n\
         2014-01-01T00:01:00Z  rooms,room=attic  temp=-3.25 open=false\n"
    );
    fs::write(path.join("ms.csv"), "ts,v\n1795238428644,1\n").unwrap();
    let (status, out, err) = run(path, &["import", "csv", "--dry-run", "ms.csv"]);
    assert!(status == 1 && out.contains("refused: "), "{out}");
    assert!(err.contains("--time-unit ms would fit"), "{err}");
    assert_eq!(fs::read_dir(path).unwrap().count(), 2, "only the two files");
}

#[test]
fn queries_say_beside_their_answer_what_is_missing() {
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
        status != 0 && err.contains("from: \"2023\" is no time; write 2023-01-01 for the year"),
        "{err}"
    );
    let (status, _, err) = ask(&["m"]);
    assert!(
        status == 0 && err.contains("there are some from 2023-11-14T22:13:20Z"),
        "{err}"
    );
}

#[test]
fn a_server_takes_all_and_stops_without_loss() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (mut server, address) = serve(path, &["--durability", "1h"]);
    let address = address.as_str();

    let lines: String = (0..200_000)
        .map(|row| format!("m,k=v x={row}.5 {row}\n"))
        .collect();
    fs::write(path.join("m.lp"), lines + "bad\n").unwrap();
    let (status, _, err) = run(path, &["write", "--to", address, "m.lp"]);
    assert_eq!(status, 1);
    assert!(err.contains("m.lp:200001: "), "{err}");
    fs::write(path.join("c.csv"), "ts,x,t\n1,0.1,\"a \"\"b\"\"\"\n2,2,c\n").unwrap();
    let (status, _, err) = run(path, &["import", "csv", "--to", address, "c.csv"]);
    assert_eq!(
        (status, err.as_str()),
        (
            0,
            "note: c.csv: column \"t\" is text\n2 rows imported, 0 refused\n"
        )
    );
    let query = ["query", "c", "--from", "0", "--format", "csv"];
    let (status, before, err) = run(path, &[&query[..], &["--server", address]].concat());
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(
        before.contains("c,,t,1000000000,\"a \"\"b\"\"\"\n"),
        "{before}"
    );

    let (status, _, err) = run(path, &[&query[..], &["--data", "seiner-data"]].concat());
    assert_eq!(status, 0, "the server has the directory: {err}");
    stop(&mut server);
    let (_, after, _) = run(path, &[&query[..], &["--data", "seiner-data"]].concat());
    assert_eq!(before, after);
    let count = [
        "query",
        "m",
        "--from",
        "0",
        "--step",
        "1h",
        "--aggregate",
        "count",
        "--format",
        "csv",
    ];
    let (_, count, _) = run(path, &[&count[..], &["--data", "seiner-data"]].concat());
    assert!(count.ends_with("m,k=v,x,0,200000\n"), "{count}");
}

#[test]
fn a_clock_that_jumped_is_shown_and_confirmed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let class = "[[class]]\nname = \"young\"\nsources = \"m\"\nage = \"10d\"\n";
    fs::write(path.join("seiner.toml"), class).unwrap();
    let (mut server, _) = serve(path, &[]);
    stop(&mut server);

    // The store ran for the last time 400 days ago.
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as i64;
    let disk = Directory::open_existing(path.join("seiner-data")).unwrap();
    let before = now - 400 * 86_400_000_000_000;
    seiner_engine::set_stored_time(Arc::new(disk), before).unwrap();
    let (mut server, address) = serve(path, &[]);
    let clock = |arguments: &[&str]| {
        let told = run(path, &[&["clock"], arguments].concat());
        assert_eq!((told.0, told.2.as_str()), (0, ""), "{}", told.1);
        told.1
    };
    let of_server = ["--server", address.as_str()];
    let held = clock(&of_server);
    assert!(
        held.contains("jumped ahead by 400d") && held.contains("--accept confirms it"),
        "{held}"
    );
    let confirmed = clock(&[&of_server[..], &["--accept"]].concat());
    assert_eq!(confirmed, "the clock of the server's host is confirmed\n");
    assert_eq!(clock(&of_server), "the store goes by its host's clock\n");
    stop(&mut server);

    // A stopped store: its time is set to the host's, here back from next year.
    let disk = Directory::open_existing(path.join("seiner-data")).unwrap();
    let ahead = now + 400 * 86_400_000_000_000;
    seiner_engine::set_stored_time(Arc::new(disk), ahead).unwrap();
    let of_directory = ["--data", "seiner-data"];
    let changed = clock(&[&of_directory[..], &["--accept"]].concat());
    assert!(changed.contains("the time of the store is "), "{changed}");
    let disk = Directory::open_existing(path.join("seiner-data")).unwrap();
    let stored = seiner_engine::stored_time(&disk).unwrap().unwrap();
    assert!((now..ahead).contains(&stored), "{stored}");
    let shown = clock(&of_directory);
    assert!(!shown.contains("the time of the store is "), "{shown}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let (status, _, err) = run(
        directory.path(),
        &["query", "cpu", "--server", "http://127.0.0.1:9"],
    );
    assert_eq!(status, 1);
    assert!(
        err.contains("http://127.0.0.1:9 does not answer") && err.contains("seiner serve"),
        "{err}"
    );
}

#[test]
fn completions_and_manual_pages() {
    let directory = tempfile::tempdir().unwrap();
    let (status, script, _) = run(directory.path(), &["completions", "bash"]);
    assert!(status == 0 && script.contains("--host-sensors"));
    let (status, page, _) = run(directory.path(), &["man"]);
    assert!(status == 0 && page.contains(".SH"));
    assert_eq!(run(directory.path(), &["man", "--into", "pages"]).0, 0);
    assert!(directory.path().join("pages/seiner-serve.1").exists());
}
