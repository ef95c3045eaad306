//! Rules of STYLE.md that a program can check: words, lengths of files, links, and README's table. The limits may only
//! be lowered.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum lines of a source file.
const LONGEST: usize = 600;
/// Words with which no documentation comment begins. A comment begins with a noun or a verb.
const FIRST_WORDS: [&str; 7] = [
    "What",
    "Whether",
    "How",
    "Who",
    "Why",
    "It is.",
    "See the module",
];
/// Words that were replaced by standard terms, each with the term to use instead. The test finds a word in all
/// notations: `chapter`, `chapters`, `end_chapter`, `EndChapter`.
const REPLACED: [(&str, &str); 26] = [
    ("ageing", "roll-up"),
    ("buried", "obsolete"),
    ("bury", "retire"),
    ("chapter", "checkpoint"),
    ("chore", "job"),
    ("crew", "worker pool"),
    ("fates", "expiry forecast"),
    ("foretell", "forecast"),
    ("foretold", "forecast"),
    ("graveyard", "obsolete segments"),
    ("keeper", "background threads, coordinator"),
    ("ladder", "roll-up model"),
    ("liar", "faulty disk"),
    ("limbo", "pending free"),
    ("outflow", "response stream"),
    ("sheaf", "merge group"),
    ("sheaves", "merge groups"),
    ("squeeze", "recompress"),
    ("squeezed", "recompressed"),
    ("squeezing", "recompressing"),
    ("timekeeper", "persisted clock"),
    ("upkeep", "maintenance"),
    ("veil", "visibility filter"),
    ("vouch", "cover"),
    ("vouched", "covered"),
    ("witness", "crash injector"),
];
/// Words that comments and documents do not use of data, files and threads.
const SPEECH: [(&str, &str); 5] = [
    ("believe", "accept"),
    ("believed", "accepted"),
    ("believes", "accepts"),
    ("tells", "states, contains, returns"),
    ("told", "stated, received"),
];
/// Replaced words that a file may contain: names that are aliases for one version, and results of earlier versions.
const PERMITTED: [(&str, &str); 9] = [
    ("bench/RESULTS.md", "chapter"),
    ("bench/RESULTS.md", "foretell"),
    ("crates/server/src/log.rs", "squeezed"),
    ("crates/server/src/renamed.rs", "squeezed"),
    ("crates/server/src/store_metrics.rs", "squeezed"),
    ("crates/server/tests/it/metrics.rs", "squeezed"),
    ("docs/http.md", "squeezed"),
    ("docs/metrics.md", "squeezed"),
    ("python/src/store.rs", "squeezed"),
];
/// Kinds of files whose words are checked.
const CHECKED: [&str; 8] = ["rs", "md", "py", "ts", "tsx", "sh", "toml", "html"];

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
        if lines > LONGEST {
            wrong.push(format!("{path} has {lines} lines"));
        }
    }
    assert_eq!(wrong, [""; 0], "a file has at most {LONGEST} lines");
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
fn replaced_words_do_not_return() {
    let paths = CHECKED.iter().flat_map(|kind| files(".", kind));
    let is_checked = |path: &str| {
        path != "CHANGELOG.md" && !path.starts_with("docs/lab/") && !path.ends_with("tests/tidy.rs")
    };
    let mut wrong = Vec::new();
    for path in paths.filter(|path| is_checked(path)) {
        for (number, line) in read(&path).lines().enumerate() {
            let found = replaced(&path, line).into_iter();
            let found = found.filter(|(old, _)| !is_permitted(&path, old));
            let place = |(old, new)| format!("{path}:{}: {old}; use: {new}", number + 1);
            wrong.extend(found.map(place));
        }
    }
    let list = wrong.join("\n");
    assert!(
        wrong.is_empty(),
        "use the terms of docs/glossary.md:\n{list}"
    );
}

fn is_permitted(path: &str, word: &str) -> bool {
    PERMITTED.contains(&(path, word))
}

/// Returns the entries of the lists above with a word that occurs in a line of a file.
fn replaced(path: &str, line: &str) -> Vec<(&'static str, &'static str)> {
    let words = words(line);
    let is_prose = path.ends_with(".md") || line.trim_start().starts_with("//");
    let speech = SPEECH.iter().filter(|_| is_prose);
    let entries = REPLACED.iter().chain(speech).copied();
    entries
        .filter(|(old, _)| words.contains(*old) || words.contains(&format!("{old}s")))
        .collect()
}

/// Returns the words of a line in lower case. The parts of a compound name are separate words.
fn words(line: &str) -> BTreeSet<String> {
    let (mut words, mut word, mut was_lower) = (BTreeSet::new(), String::new(), false);
    for letter in line.chars().chain([' ']) {
        if !letter.is_alphabetic() || was_lower && letter.is_uppercase() {
            words.insert(std::mem::take(&mut word));
        }
        if letter.is_alphabetic() {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase();
    }
    words
}

#[test]
fn links_of_documents_point_to_existing_files() {
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

/// Returns the targets of the links of a document, except for links in code.
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
fn violations_of_the_rules_are_detected() {
    assert!(begins_badly("    /// What it holds."));
    assert!(begins_badly("//! How it works"));
    assert!(begins_badly("/// It is."));
    assert!(!begins_badly("/// Whatever comes."));
    assert!(!begins_badly(
        "// What a comment inside a function says is free."
    ));
    let found = |line| {
        let found = replaced("a.rs", line).into_iter();
        found.map(|(old, _)| old).collect::<Vec<_>>()
    };
    assert_eq!(found("let next = Next::EndChapters;"), ["chapter"]);
    assert_eq!(found("fn veils_of(told: Limbo) {"), ["limbo", "veil"]);
    assert_eq!(found("/// A file is told."), ["told"]);
    assert_eq!(found("// a chapterhouse, unveiled"), [""; 0]);
    let text = "[a](b.md) and `[x](y)` [c](d.md#part \"title\")\n```\n[e](f)\n```\n";
    assert_eq!(links(text), ["b.md", "d.md#part"]);
}
