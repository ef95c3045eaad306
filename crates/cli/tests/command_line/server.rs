//! Commands that talk to a server.

use crate::program::{run, serve, stop};
use seiner_platform::Directory;
use std::fs;
use std::sync::Arc;
use std::time::SystemTime;

#[test]
fn a_stopped_server_keeps_all_written_and_imported_rows() {
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
    let (status, _, err) = run(
        path,
        &[
            "import",
            "csv",
            "--time-unit",
            "s",
            "--to",
            address,
            "c.csv",
        ],
    );
    assert_eq!(
        (status, err.as_str()),
        (
            0,
            "note: c.csv: column \"t\" is text\n2 rows imported, 0 rejected\n"
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
        let (status, out, err) = run(path, &[&["clock"], arguments].concat());
        assert_eq!((status, err.as_str()), (0, ""), "{out}");
        out
    };
    let of_server = ["--server", address.as_str()];
    let held = clock(&of_server);
    assert!(
        held.contains("jumped ahead by 400d") && held.contains("--accept confirms the clock"),
        "{held}"
    );
    let confirmed = clock(&[&of_server[..], &["--accept"]].concat());
    assert_eq!(confirmed, "the clock of the server's host is confirmed\n");
    assert_eq!(clock(&of_server), "the store uses its host's clock\n");
    stop(&mut server);

    // The store is stopped. Its time is set to the host's time, here back from next year.
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
fn an_unreachable_server_is_named_in_the_error() {
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
