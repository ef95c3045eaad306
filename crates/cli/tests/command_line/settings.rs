//! The configuration, and commands that need no store.

use crate::program::{results, run, seiner};
use std::fs;

#[test]
fn config_prints_settings_and_their_origins() {
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
    let (status, out, err) = results(output);
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
fn invalid_settings_exit_with_status_2() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, words) in [
        (
            &["serve", "--memory", "lots"][..],
            "flag --memory: memory: \"lots\" is not a size",
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
fn completions_and_manual_pages_are_printed() {
    let directory = tempfile::tempdir().unwrap();
    let (status, script, _) = run(directory.path(), &["completions", "bash"]);
    assert!(status == 0 && script.contains("--host-sensors"));
    let (status, page, _) = run(directory.path(), &["man"]);
    assert!(status == 0 && page.contains(".SH"));
    assert_eq!(run(directory.path(), &["man", "--into", "pages"]).0, 0);
    assert!(directory.path().join("pages/seiner-serve.1").exists());
}

/// Regression: comments on the list of subcommands replaced their descriptions, with the examples.
#[test]
fn help_contains_the_whole_description_of_a_subcommand() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, words) in [
        (&["write", "--help"][..], "Rejected lines"),
        (&["query", "--help"], "Examples:"),
        (&["raid", "create", "--help"], "superblock"),
        (&["sim", "merge", "--help"], "merges rewrote nothing"),
        (&["import", "csv", "--help"], "A row becomes"),
        (&["lab", "disk", "--help"], "direct I/O"),
    ] {
        let is_built = match arguments[0] {
            "lab" => cfg!(feature = "lab"),
            "raid" => cfg!(feature = "raid"),
            _ => true,
        };
        let (status, out, _) = run(directory.path(), arguments);
        assert_eq!(status, if is_built { 0 } else { 2 }, "{arguments:?}");
        assert!(!is_built || out.contains(words), "{arguments:?}: {out}");
    }
}
