//! `soak` with other servers beside, at toy scale.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use serde_json::Value;
use std::fs;
use std::process::Command;

/// Returns true if a program of a Debian package is installed.
fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--help").output().is_ok()
}

#[test]
fn every_store_gets_the_same_rows() {
    let names = [
        ("influxd", "influxdb"),
        ("victoria-metrics", "victoriametrics"),
    ];
    let there = names.iter().filter(|(program, _)| is_installed(program));
    let peers: Vec<&str> = there.map(|(_, name)| *name).collect();
    if peers.is_empty() {
        eprintln!("neither InfluxDB nor VictoriaMetrics is installed: nothing to compare with");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_seiner-bench"))
        .arg("--output")
        .arg(folder.path())
        .arg("--page")
        .arg(folder.path().join("RESULTS.md"))
        .args(["soak", "--volume", "32", "--live", "0.4", "--turns", "2"])
        .args(["--peers", &peers.join(","), "--peer-turns", "0.2"])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    let json = fs::read(folder.path().join("soak-peers.json")).unwrap();
    let report: Value = serde_json::from_slice(&json).unwrap();
    let own = &report["measured"]["own"];
    assert!(own["stored"].as_f64().unwrap() >= 2.0, "{own}");
    assert!(own["failed"].is_null(), "{own}");
    let budget = report["measured"]["budget"].as_u64().unwrap();
    assert!(own["most"].as_u64().unwrap() <= budget, "{own}");
    let fared = report["measured"]["peers"].as_array().unwrap();
    assert_eq!(fared.len(), peers.len());
    for one in fared {
        let rows = one["rows_offered"].as_f64().unwrap();
        let turns = rows * own["row_bytes"].as_f64().unwrap() / budget as f64;
        assert!((0.2..0.3).contains(&turns), "{one}");
        assert_eq!(one["rows_acknowledged"], one["rows_offered"], "{one}");
        assert!(one["most"].as_u64().unwrap() > 0, "{one}");
    }
    // No volume is left mounted.
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(folder.path().to_str().unwrap()));
}

#[test]
fn an_unknown_server_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_seiner-bench"))
        .arg("--output")
        .arg(folder.path())
        .args(["soak", "--peers", "sqlite"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        words.contains("choose among influxdb,victoriametrics"),
        "{words}"
    );
}
