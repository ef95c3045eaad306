//! Rules of STYLE.md that a program can check: words, lengths of files, links, and README's table. The limits may only
//! be lowered.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a source file at most.
const LONGEST: usize = 600;
/// Longer files, with their lines rounded up to tens.
const LONG: [(&str, usize); 17] = [
    ("bench/src/log/load.rs", 740),
    ("bench/src/run/core_lock.rs", 640),
    ("crates/engine/src/buffer/row.rs", 700),
    ("crates/engine/src/catalog.rs", 640),
    ("crates/engine/src/jobs/merging/rewriting.rs", 620),
    ("crates/engine/src/journal/files.rs", 710),
    ("crates/engine/src/ledger.rs", 710),
    ("crates/engine/tests/retention.rs", 1000),
    ("crates/engine/tests/store.rs", 680),
    ("crates/raid/src/merging/adaptive.rs", 720),
    ("crates/raid/src/shard/mod.rs", 660),
    ("crates/raid/src/simulate/faults.rs", 1160),
    ("crates/raid/tests/assembly.rs", 660),
    ("crates/server/src/settings.rs", 1060),
    ("crates/volume/src/file.rs", 630),
    ("crates/volume/tests/crash.rs", 690),
    ("crates/wire/src/line/tests.rs", 810),
];
/// Words with which no documentation comment begins: it begins with a noun or a verb.
const FIRST_WORDS: [&str; 7] = [
    "What",
    "Whether",
    "How",
    "Who",
    "Why",
    "It is.",
    "See the module",
];
/// Crates that may use the clock of the system: programs, and crates that serve sockets or measure time. In all others,
/// clippy checks that time and randomness come from their callers.
const PROGRAMS: [&str; 6] = [
    "bench",
    "crates/cli",
    "crates/lab",
    "crates/nbd",
    "crates/plan",
    "crates/server",
];
/// Folders that hold no sources of the project.
const SKIPPED: [&str; 6] = ["target", "node_modules", ".git", "dist", "corpus", "golden"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Returns the files with an extension below a folder, by their paths from the root.
fn files(folder: &str, kind: &str) -> Vec<String> {
    let (root, mut found, mut folders) = (root(), Vec::new(), vec![PathBuf::from(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            if SKIPPED.iter().any(|skipped| name == *skipped) {
                continue;
            }
            let path = folder.join(&name);
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == kind) {
                found.push(path.to_str().unwrap().trim_start_matches("./").to_string());
            }
        }
    }
    found.sort();
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Returns the folders of the workspace's crates.
fn crates() -> Vec<String> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut folders: Vec<String> = names.map(|name| format!("crates/{name}")).collect();
    folders.push("bench".to_string());
    folders.sort();
    folders
}

#[test]
fn source_files_are_short() {
    let mut wrong = Vec::new();
    for path in crates().iter().flat_map(|folder| files(folder, "rs")) {
        let lines = read(&path).lines().count();
        let limit = LONG.iter().find(|(long, _)| *long == path);
        let most = limit.map_or(LONGEST, |(_, most)| *most);
        if lines > most || limit.is_some() && lines <= LONGEST {
            wrong.push(format!("{path} has {lines} lines; the limit is {most}"));
        }
    }
    assert_eq!(
        wrong, [""; 0],
        "divide files, and lower limits that are not needed any more"
    );
}

#[test]
fn comments_begin_with_a_noun_or_a_verb() {
    let mut wrong = Vec::new();
    for path in crates().iter().flat_map(|folder| files(folder, "rs")) {
        let text = read(&path);
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| begins_badly(line));
        wrong.extend(lines.map(|(number, line)| format!("{path}:{}: {}", number + 1, line.trim())));
    }
    assert_eq!(wrong, [""; 0], "a comment begins with a noun or a verb");
}

fn begins_badly(line: &str) -> bool {
    let line = line.trim_start();
    let text = line.strip_prefix("/// ").or(line.strip_prefix("//! "));
    text.is_some_and(|text| {
        FIRST_WORDS.iter().any(|word| {
            let rest = text.strip_prefix(word);
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        })
    })
}

#[test]
fn links_of_documents_lead_somewhere() {
    let mut dead = Vec::new();
    for path in files(".", "md") {
        let folder = Path::new(&path).parent().unwrap();
        for link in links(&read(&path)) {
            let file = link.split('#').next().unwrap();
            let is_outside = link.contains("://") || link.starts_with("mailto:");
            if !is_outside && !file.is_empty() && !root().join(folder).join(file).exists() {
                dead.push(format!("{path}: {link}"));
            }
        }
    }
    assert_eq!(dead, [""; 0], "links lead to files that are there");
}

#[test]
fn each_page_of_the_documentation_links_the_glossary() {
    let pages = files("docs", "md");
    let missing: Vec<String> = pages
        .into_iter()
        .filter(|path| !path.ends_with("glossary.md"))
        .filter(|path| {
            let text = read(path);
            !links(&text).iter().any(|link| link.contains("glossary.md"))
        })
        .collect();
    assert_eq!(
        missing, [""; 0],
        "a page begins with a link to the glossary"
    );
}

/// Returns the targets of the links of a document. Code is left out.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
        for part in prose.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap();
            found.push(target.to_string());
        }
    }
    found
}

#[test]
fn the_readme_lists_every_crate() {
    let readme = read("README.md");
    let named: BTreeSet<&str> = readme.split('`').skip(1).step_by(2).collect();
    let missing: Vec<String> = crates()
        .into_iter()
        .filter(|folder| !named.contains(&**folder))
        .collect();
    assert_eq!(missing, [""; 0], "README.md has a table of the folders");
}

#[test]
fn only_programs_use_the_clock_of_the_system() {
    let libraries = crates()
        .into_iter()
        .filter(|folder| !PROGRAMS.contains(&&**folder));
    let unchecked: Vec<String> = libraries
        .map(|folder| format!("{folder}/src/lib.rs"))
        .filter(|path| !read(path).contains("warn(clippy::disallowed_methods)"))
        .collect();
    assert_eq!(
        unchecked, [""; 0],
        "libraries turn the lint disallowed_methods on"
    );
}

#[test]
fn the_rules_are_noticed() {
    assert!(begins_badly("    /// What it holds."));
    assert!(begins_badly("//! How it works"));
    assert!(begins_badly("/// It is."));
    assert!(!begins_badly("/// Whatever comes."));
    assert!(!begins_badly(
        "// What a comment inside a function says is free."
    ));
    let text = "[a](b.md) and `[x](y)` [c](d.md#part \"title\")\n```\n[e](f)\n```\n";
    assert_eq!(links(text), ["b.md", "d.md#part"]);
}
