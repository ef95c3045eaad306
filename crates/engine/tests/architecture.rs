//! Checks that the files and folders named in ARCHITECTURE.md exist.

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
