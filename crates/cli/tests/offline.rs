//! `seiner check` and `seiner inspect` as people run them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use seiner_engine::{Engine, Options};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn seiner(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_seiner"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A copy of the store that version 1 left, with a lock to take.
fn copy(into: &Path) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/engine/v1/store");
    let copy = into.join("data");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(golden).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    fs::write(copy.join("lock"), "").unwrap();
    copy
}

#[test]
fn a_check_tells_sound_from_damaged_from_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let data = copy(directory.path());
    let name = data.to_str().unwrap();

    let (status, out, err) = seiner(&["check", name]);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("\nsound: "), "{out}");

    let segment = data.join("segment-00000001.log");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[100] ^= 4;
    fs::write(&segment, bytes).unwrap();
    let (status, out, _) = seiner(&["check", name, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (status, &report["sound"], &report["damaged"]),
        (1, &false.into(), &1.into()),
        "{out}"
    );
    assert_eq!(report["damage"][0]["file"], "segment-00000001.log");

    let engine = Engine::open_directory(&data, Options::default()).unwrap();
    let (status, _, err) = seiner(&["check", name]);
    assert_eq!(status, 2);
    assert!(err.contains("in use by another process"), "{err}");
    drop(engine);

    let (status, _, err) = seiner(&["check", directory.path().to_str().unwrap()]);
    assert_eq!(status, 2);
    assert!(err.contains("is no store"), "{err}");
}

#[test]
fn every_part_is_shown_as_table_and_as_json() {
    let directory = tempfile::tempdir().unwrap();
    let data = copy(directory.path());
    let name = data.to_str().unwrap();
    let before: Vec<u8> = fs::read(data.join("catalog")).unwrap();
    let parts: [&[&str]; 9] = [
        &[],
        &["files"],
        &["segments"],
        &["segment", "1"],
        &["blocks", "2", "--source", "cpu"],
        &["journal"],
        &["catalog"],
        &["layouts"],
        &["sources", "cpu{host=b}"],
    ];
    for part in parts {
        let (status, table, err) = seiner(&[&["inspect", name], part].concat());
        assert_eq!((status, err.as_str()), (0, ""), "{part:?}");
        let (status, json, err) = seiner(&[&["inspect", name, "--json"], part].concat());
        assert_eq!((status, err.as_str()), (0, ""), "{part:?}");
        let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
        assert!(!rows.is_empty(), "{part:?}");
        assert_eq!(table.lines().count(), rows.len() + 1, "{part:?}: {table}");
    }
    let (_, table, _) = seiner(&["inspect", name, "sources", "cpu{host=b}"]);
    assert!(table.contains("usage:f64, load:i64"), "{table}");
    let (status, _, err) = seiner(&["inspect", name, "segment", "77"]);
    assert_eq!(
        (status, err.as_str()),
        (1, "seiner: there is no sealed segment 77\n")
    );
    assert_eq!(fs::read(data.join("catalog")).unwrap(), before);
}
