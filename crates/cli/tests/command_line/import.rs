//! Import of files.

use crate::program::run;
use std::fs;

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
        err.contains("\nkinds.csv:4: \"x\" is not a time")
            && err.contains("note: kinds.csv: column \"s\" is text\n")
            && err.contains("3 rows imported, 1 rejected, 1 without values left out\n"),
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

/// Rows of two sensors. Users easily forget to name the tag column. One row has no value.
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
    assert!(!path.join("d").exists(), "the import makes no directory");
    let (status, _, err) = import(&["--tag-columns", "sensor"]);
    assert!(status == 1 && err.contains("no value"), "{err}");
    let tagged = ["--tag-columns", "sensor", "--allow-empty"];
    for note in ["", "note: there are samples of two in this time already"] {
        let (status, _, err) = import(&tagged);
        assert_eq!(status, 0, "{err}");
        assert!(
            err.starts_with(note)
                && err.ends_with("3 rows imported, 0 rejected, 1 without values left out\n"),
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
fn unordered_rows_are_compared_with_earlier_ones() {
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
fn odd_cells_are_rejected_or_stop_the_import() {
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
        err.contains("few.csv:202: column \"temp\": \"bad\" is not of type f64")
            && err.ends_with("201 rows imported, 0 rejected, 1 cells rejected\n"),
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
         Timestamp  time   numbers in s or dates\n\
         room       tag\n\
         temp       field  f64\n\
         open       field  bool\n\
         \n\
         2014-01-01T00:00:00Z  rooms,room=hall  temp=20.5 open=true\n\
         2014-01-01T00:01:00Z  rooms,room=attic  temp=-3.25 open=false\n"
    );
    fs::write(path.join("ms.csv"), "ts,v\n1795238428644,1\n").unwrap();
    let (status, out, err) = run(
        path,
        &["import", "csv", "--dry-run", "--time-unit", "s", "ms.csv"],
    );
    assert!(status == 1 && out.contains("rejected: "), "{out}");
    assert!(err.contains("--time-unit ms would fit"), "{err}");
    assert_eq!(
        fs::read_dir(path).unwrap().count(),
        2,
        "the directory contains only the two files"
    );
}
