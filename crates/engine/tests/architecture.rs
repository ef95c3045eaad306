//! Checks of what ARCHITECTURE.md states about files, threads and locks.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold no sources.
const SKIPPED: [&str; 4] = ["target", "node_modules", ".git", "dist"];

#[test]
fn files_and_folders_in_architecture_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut paths = Vec::new();
    collect(&root, Path::new(""), &mut paths);
    let missing: Vec<&str> = named(&text)
        .filter(|name| {
            let name = name.trim_end_matches('/');
            !paths.iter().any(|path| path.ends_with(name))
        })
        .collect();
    assert_eq!(missing, [""; 0], "ARCHITECTURE.md names missing files");
}

/// Returns the paths between backticks: texts that end in a file extension or a slash.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|name| {
        let is_file = [".rs", ".md"].iter().any(|kind| name.ends_with(kind));
        (is_file || name.ends_with('/')) && !name.contains([' ', '*', '<'])
    })
}

fn collect(root: &Path, folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if SKIPPED.iter().any(|skipped| name == *skipped) {
            continue;
        }
        let path = folder.join(&name);
        if entry.file_type().unwrap().is_dir() {
            collect(root, &path, paths);
        }
        paths.push(path);
    }
}

#[test]
fn only_paths_in_backticks_are_found() {
    let text = "`a/b.rs` has `Type` and `c/`; `x * y/` is none, `cargo doc` neither";
    assert_eq!(named(text).collect::<Vec<_>>(), ["a/b.rs", "c/"]);
}

/// Returns the part of ARCHITECTURE.md from one text to another.
fn part(from: &str, to: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, rest) = text.split_once(from).unwrap();
    rest.split_once(to).unwrap().0.to_string()
}

/// Returns the names of this process's threads that belong to a store.
#[cfg(target_os = "linux")]
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread that ends at this moment has no name.
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    let names = names.map(|name| name.trim().to_string());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("seiner-")).collect();
    names.sort();
    names
}

/// Waits until the threads of stores are these. A thread gets its name, and its end, a moment later.
#[cfg(target_os = "linux")]
fn wait_for_threads(expected: &[String]) {
    let began = std::time::Instant::now();
    while threads() != expected && began.elapsed().as_secs() < 10 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(threads(), expected);
}

#[cfg(target_os = "linux")]
#[test]
fn a_store_has_the_threads_that_the_page_names() {
    use seiner_engine::{Engine, Options};
    let text = part("**Threads.**", "**Without threads.**");
    let named = text.split('`').skip(1).step_by(2);
    let named = named.filter(|name| name.starts_with("seiner-"));
    let mut named: Vec<String> = named.map(str::to_string).collect();
    named.sort();
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open_directory(dir.path(), Options::default()).unwrap();
    wait_for_threads(&named);
    engine.close().unwrap();
    wait_for_threads(&[]);
    drop(engine);
    // "Only `open_directory` and `start` start background threads."
    let disk = std::sync::Arc::new(seiner_platform::sim::SimDisk::new(1));
    let clock = std::sync::Arc::new(seiner_platform::sim::SimClock::new(0));
    let engine = Engine::open(disk, clock, Options::default()).unwrap();
    assert_eq!(threads(), [""; 0]);
    engine.close().unwrap();
}

/// The order of the locks stands on the page and beside the locks. Debug builds assert that no thread
/// locks the head after the log (`locks.rs`), and that nothing slow happens under either.
#[test]
fn the_order_of_locks_is_the_same_on_the_page_and_in_the_code() {
    let list = part(
        "Locks are always taken in this order:",
        "Builds with debug assertions",
    );
    let words = |text: &str| -> Vec<String> {
        let text = text
            .replace("persisted_clock", "clock")
            .replace("locks.rs", "");
        let words = text.split(|sign: char| !sign.is_ascii_alphabetic());
        let known = [
            "writers",
            "writing",
            "sealer",
            "journal",
            "clock",
            "catalog",
            "ledger",
            "head",
            "log",
            "dictionary",
            "members",
            "health",
        ];
        let words = words.filter(|word| known.contains(word));
        words.map(str::to_string).collect()
    };
    let ordered: Vec<String> = list
        .lines()
        .filter(|line| line.starts_with(|sign: char| sign.is_ascii_digit()))
        .flat_map(|line| {
            words(
                &line
                    .replace("(records)", "")
                    .replace("(encoding of blocks)", ""),
            )
        })
        .collect();
    let core = include_str!("../src/core.rs");
    let (_, rest) = core.split_once("taken in this order:").unwrap();
    let order = rest.split_once(". ").unwrap().0.replace("//!", "");
    let order = order.replace("(segments)", "");
    assert_eq!(words(&order), ordered);
}
