//! Tests that run `seiner check` and `seiner inspect`.

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

/// Copies the store that version 1 wrote, with a lock file.
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
fn a_check_distinguishes_sound_damaged_and_missing_stores() {
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

    // Checks while another process has the store open.
    let engine = Engine::open_directory(&data, Options::default()).unwrap();
    let (status, out, err) = seiner(&["check", name]);
    assert_eq!((status, err.as_str()), (1, ""), "{out}");
    engine.close().unwrap();

    let (status, _, err) = seiner(&["check", directory.path().to_str().unwrap()]);
    assert_eq!(status, 2);
    assert!(err.contains("is not a store"), "{err}");
}

#[test]
fn a_check_reads_the_tokens_of_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let data = copy(directory.path());
    let name = data.to_str().unwrap();
    let (status, _, err) = seiner(&["token", "create", "ann", "--scope", "read", "--data", name]);
    assert_eq!(status, 0, "{err}");
    let (status, out, err) = seiner(&["check", name]);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("\ntokens    1 in access.toml\n"), "{out}");
    assert!(!out.contains("not a file of a store"), "{out}");

    let file = data.join("access.toml");
    let text = fs::read_to_string(&file).unwrap();
    let broken = text.replace("\"read\"", "\"reed\"");
    assert_ne!(text, broken);
    fs::write(&file, broken).unwrap();
    let (status, out, _) = seiner(&["check", name]);
    assert_eq!(status, 1, "{out}");
    assert!(
        out.contains("access.toml: ") && out.contains("reed"),
        "{out}"
    );
    assert!(out.contains("the data are sound, but "), "{out}");
    let (status, out, _) = seiner(&["check", name, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let found = (status, &report["sound"], &report["damaged"]);
    assert_eq!(found, (1, &false.into(), &0.into()), "{out}");
    assert!(
        report["access"]["error"].as_str().unwrap().contains("reed"),
        "{out}"
    );
    fs::write(&file, text).unwrap();
    let (_, out, _) = seiner(&["check", name, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["access"]["tokens"], 1, "{out}");
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

/// Returns names, contents and times of the files of a directory.
fn fingerprint(directory: &Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let changed = fs::metadata(&path).unwrap().modified().unwrap();
            let bytes = fs::read(&path).unwrap();
            (path, bytes, changed)
        })
        .collect();
    files.sort();
    files
}

/// Regression: a command that only read a store emptied it, because of a configuration in the current folder.
#[test]
fn reading_commands_change_nothing_despite_a_local_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let data = copy(directory.path());
    let run = |arguments: &[&str]| {
        let program = Command::new(env!("CARGO_BIN_EXE_seiner"))
            .current_dir(directory.path())
            .args(arguments)
            .stdin(Stdio::null())
            .output();
        let output = program.unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
            err,
        )
    };
    // A start brings the store of an older version up to date.
    let engine = Engine::open_directory(&data, Options::default()).unwrap();
    engine.close().unwrap();
    drop(engine);
    let file = directory.path().join("seiner.toml");
    fs::write(file, "[[class]]\nname = \"short\"\nage = \"1s\"\n").unwrap();
    let before = fingerprint(&data);
    let commands: [&[&str]; 5] = [
        &[
            "query",
            "{}",
            "--from",
            "1970-01-01",
            "--format",
            "csv",
            "--data",
            "data",
        ],
        &["check", "data"],
        &["inspect", "data", "segments"],
        &["log", "trace", "--data", "data"],
        &["clock", "--data", "data"],
    ];
    for arguments in commands {
        let (done, out, err) = run(arguments);
        assert!(done, "{arguments:?}: {err}");
        assert!(
            fingerprint(&data) == before,
            "{arguments:?} changed something"
        );
        assert!(
            arguments[0] != "query" || out.lines().count() > 100,
            "{out}"
        );
    }
    let (done, _, err) = run(&["serve", "--data", "data", "--listen", "127.0.0.1:0"]);
    assert!(!done && err.contains("--apply-retention"), "{err}");
    let (done, _, _) = run(&["query", "{}", "--data", "missing"]);
    assert!(!done && !directory.path().join("missing").exists());
}
