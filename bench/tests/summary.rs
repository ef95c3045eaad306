//! The page of results from the program itself, at toy scale and without any server.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn bench(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seiner-bench"))
        .arg("--output")
        .arg(folder)
        .arg("--page")
        .arg(folder.join("RESULTS.md"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn the_page_marks_missing_results_and_rejects_invalid_ones() {
    let folder = tempfile::tempdir().unwrap();
    assert!(bench(folder.path(), &["summary"]).status.success());
    let page = fs::read_to_string(folder.path().join("RESULTS.md")).unwrap();
    for name in ["peers", "embedded", "restart", "amplification", "merge-sim"] {
        assert!(
            page.contains(&format!("Not run yet: `make bench-{name}`")),
            "{page}"
        );
    }
    fs::write(folder.path().join("peers.json"), "{}").unwrap();
    let rejected = bench(folder.path(), &["summary"]);
    assert!(!rejected.status.success());
    let words = String::from_utf8_lossy(&rejected.stderr).into_owned();
    assert!(
        words.contains("peers.json") && words.contains("run its benchmark again"),
        "{words}"
    );
}

#[test]
fn a_missing_program_or_an_unknown_workload_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let rejected = bench(
        folder.path(),
        &["peers", "--servers", "s", "--seiner", "no/such/program"],
    );
    assert!(!rejected.status.success());
    let words = String::from_utf8_lossy(&rejected.stderr).into_owned();
    assert!(words.contains("no/such/program cannot be run"), "{words}");
    let unknown = bench(
        folder.path(),
        &["peers", "--servers", "s", "--workloads", "x"],
    );
    assert!(!unknown.status.success());
}

#[test]
fn a_modelled_array_gives_the_same_figures_every_time() {
    let cells = || {
        let folder = tempfile::tempdir().unwrap();
        let ran = bench(folder.path(), &["raid-matrix", "--only", "VDI"]);
        assert!(ran.status.success());
        let text = fs::read_to_string(folder.path().join("raid-matrix.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["checks"].as_array().unwrap().len(), 5);
        report["measured"]["cells"].clone()
    };
    let first = cells();
    assert_eq!(first.as_array().unwrap().len(), 1);
    assert_eq!(first, cells());
}
