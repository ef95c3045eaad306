//! Rules of STYLE.md that a program can check: words, lengths of files, links, and README's table. The limits may only
//! be lowered.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum lines of a source file.
const LONGEST: usize = 600;
/// Maximum columns of a line of prose.
const WIDEST: usize = 120;
/// Pages that programs write, with lines of any length.
const GENERATED: [&str; 3] = ["bench/RESULTS.md", "docs/config.md", "docs/lab/"];
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
const REPLACED: [(&str, &str); 37] = [
    ("ageing", "roll-up"),
    ("buried", "obsolete"),
    ("bury", "retire"),
    ("census", "statistics"),
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
    ("refusal", "rejection"),
    ("refused", "rejected"),
    ("settle", "flush"),
    ("settled", "flushed"),
    ("settling", "flush"),
    ("sheaf", "merge group"),
    ("sheaves", "merge groups"),
    ("squeeze", "recompress"),
    ("squeezed", "recompressed"),
    ("squeezing", "recompressing"),
    ("survey", "scan"),
    ("surveyed", "scanned"),
    ("tallies", "counts"),
    ("tally", "counts"),
    ("timekeeper", "persisted clock"),
    ("unsettled", "dirty"),
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
/// Names that were replaced, and that contain words with other uses.
const REPLACED_NAMES: [(&str, &str); 4] = [
    (".coarser", ".rollup"),
    ("coarser =", "rollup ="),
    ("coarser=", "rollup="),
    ("showRoom", "showSpace"),
];
/// Replaced words that a file may contain: names that are aliases for one version, results of earlier versions, and names
/// of the standard library.
const PERMITTED: [(&str, &[&str]); 22] = [
    ("bench/RESULTS.md", &["chapter", "foretell", "refusal"]),
    // A name of Cassandra.
    ("crates/cassandra/src/local/settings.rs", &["settle"]),
    ("crates/cli/src/raid/control.rs", &["refused"]),
    ("crates/cli/src/raid/monitor.rs", &["unsettled"]),
    ("crates/nbd/src/listen.rs", &["refused"]),
    ("crates/server/src/array/report.rs", &["unsettled"]),
    ("crates/server/src/classes.rs", &["coarser="]),
    ("crates/server/src/health.rs", &["refusal"]),
    ("crates/server/src/http.rs", &["settle"]),
    ("crates/server/src/log.rs", &["squeezed"]),
    ("crates/server/src/parameters.rs", &["settle"]),
    (
        "crates/server/src/renamed.rs",
        &["refused", "squeezed", "unsettled"],
    ),
    ("crates/server/src/store_metrics.rs", &["squeezed"]),
    (
        "crates/server/tests/it/metrics.rs",
        &["refused", "settle", "squeezed"],
    ),
    ("crates/server/tests/it/queries.rs", &["settle"]),
    ("docs/http.md", &["refusal", "settle", "squeezed"]),
    ("docs/metrics.md", &["refused", "squeezed", "unsettled"]),
    ("python/README.md", &["refused", "settle"]),
    ("python/python/seiner/", &["refused", "settle"]),
    ("python/src/status.rs", &["squeezed"]),
    ("python/tests/test_errors.py", &["refused"]),
    ("python/tests/test_retention.py", &["coarser="]),
];
/// Kinds of files whose words are checked.
const CHECKED: [&str; 8] = ["rs", "md", "py", "ts", "tsx", "sh", "toml", "html"];

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
    let kinds = ["rs", "ts", "mjs", "css", "py", "sh"];
    for path in kinds.iter().flat_map(|kind| files(".", kind)) {
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
    let kinds = ["rs", "ts", "mjs", "py"];
    for path in kinds.iter().flat_map(|kind| files(".", kind)) {
        let text = read(&path);
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| begins_badly(line));
        wrong.extend(lines.map(|(number, line)| format!("{path}:{}: {}", number + 1, line.trim())));
    }
    assert_eq!(wrong, [""; 0], "a comment begins with a noun or a verb");
}

fn begins_badly(line: &str) -> bool {
    let line = line.trim_start();
    let marks = ["/// ", "//! ", "/** ", "\"\"\""];
    let text = marks.iter().find_map(|mark| line.strip_prefix(mark));
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
    let mut entries = PERMITTED.iter();
    entries.any(|(of, words)| path.starts_with(of) && words.contains(&word))
}

/// Returns the entries of the lists above with a word that occurs in a line of a file.
fn replaced(path: &str, line: &str) -> Vec<(&'static str, &'static str)> {
    let words = words(line);
    let is_prose = path.ends_with(".md") || line.trim_start().starts_with("//");
    let speech = SPEECH.iter().filter(|_| is_prose);
    let entries = REPLACED.iter().chain(speech);
    let entries =
        entries.filter(|(old, _)| words.contains(*old) || words.contains(&format!("{old}s")));
    let names = REPLACED_NAMES.iter().filter(|(old, _)| line.contains(old));
    entries.chain(names).copied().collect()
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
fn links_of_documents_point_to_existing_files_and_headings() {
    let mut dead = Vec::new();
    for path in files(".", "md") {
        let folder = Path::new(&path).parent().unwrap();
        for link in links(&read(&path)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => root().join(&path),
                file => root().join(folder).join(file),
            };
            let is_page = target.extension().is_some_and(|kind| kind == "md");
            let is_there = target.exists()
                && (anchor.is_empty()
                    || !is_page
                    || anchors(&fs::read_to_string(&target).unwrap()).contains(anchor));
            if !is_there {
                dead.push(format!("{path}: {link}"));
            }
        }
    }
    assert_eq!(
        dead, [""; 0],
        "links lead to files and headings that are there"
    );
}

/// Returns the anchors of a document: those of its headings, as GitHub forms them, and `<a id="…">`.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (line, is_code) in lines_of(text) {
        let heading = line.trim_start_matches('#');
        if !is_code && line.starts_with('#') && heading.starts_with(' ') {
            let name: String = heading.trim().to_lowercase().replace(' ', "-");
            let is_kept = |letter: &char| letter.is_alphanumeric() || "-_".contains(*letter);
            let name: String = name.chars().filter(is_kept).collect();
            let mut names = (0..).map(|n| {
                if n == 0 {
                    name.clone()
                } else {
                    format!("{name}-{n}")
                }
            });
            found.insert(names.find(|name| !found.contains(name)).unwrap());
        }
        let ids = line.split("<a id=\"").skip(1);
        found.extend(ids.filter_map(|part| Some(part.split_once('"')?.0.to_string())));
    }
    found
}

#[test]
fn prose_of_documents_fits_into_120_columns() {
    let mut wrong = Vec::new();
    let pages = files(".", "md").into_iter();
    for path in pages.filter(|path| !GENERATED.iter().any(|page| path.starts_with(page))) {
        let text = read(&path);
        let lines = lines_of(&text).enumerate();
        let lines = lines.filter(|(_, (line, is_code))| !is_code && is_too_wide(line));
        wrong.extend(lines.map(|(number, _)| format!("{path}:{}", number + 1)));
    }
    assert_eq!(
        wrong, [""; 0],
        "lines of prose have at most {WIDEST} columns"
    );
}

/// Returns whether a line has too many columns. Tables, links to the web and images cannot be wrapped.
fn is_too_wide(line: &str) -> bool {
    let text = line.trim_start();
    let is_free = text.starts_with('|') || text.starts_with("![") || line.contains("://");
    line.chars().count() > WIDEST && !is_free
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

/// Returns the lines of a document, each with true if it is a line of a code block.
fn lines_of(text: &str) -> impl Iterator<Item = (&str, bool)> {
    text.lines().scan(false, |is_code, line| {
        let is_fence = line.trim_start().starts_with("```");
        *is_code ^= is_fence;
        Some((line, *is_code || is_fence))
    })
}

/// Returns the targets of the links of a document, except for links in code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (line, is_code) in lines_of(text) {
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
fn time_and_randomness_are_checked_in_all_crates_but_the_benchmarks() {
    let folders = crates().into_iter().filter(|folder| folder != "bench");
    let roots = folders.map(|folder| {
        let library = format!("{folder}/src/lib.rs");
        match root().join(&library).exists() {
            true => library,
            false => format!("{folder}/src/main.rs"),
        }
    });
    let unchecked: Vec<String> = roots
        .filter(|path| !read(path).contains("warn(clippy::disallowed_methods"))
        .collect();
    assert_eq!(
        unchecked, [""; 0],
        "crates turn the lint disallowed_methods on"
    );
}

#[test]
fn violations_of_the_rules_are_detected() {
    assert!(begins_badly("    /// What it holds."));
    assert!(begins_badly("//! How it works"));
    assert!(begins_badly("/// It is."));
    assert!(begins_badly("  /** Whether it holds. */"));
    assert!(begins_badly("    \"\"\"How it works.\"\"\""));
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
    assert_eq!(found("class.coarser = levels"), [".coarser", "coarser ="]);
    assert_eq!(found("// a coarser unit"), [""; 0]);
    let text = "[a](b.md) and `[x](y)` [c](d.md#part \"title\")\n```\n[e](f)\n```\n";
    assert_eq!(links(text), ["b.md", "d.md#part"]);
    let text = "# A `b`, c\n## D\n```\n# e\n```\n## D\n";
    let expected = ["a-b-c", "d", "d-1"].map(str::to_string);
    assert_eq!(anchors(text), BTreeSet::from(expected));
    assert!(is_too_wide(&"word ".repeat(25)));
    assert!(!is_too_wide(&format!("| {} |", "word ".repeat(25))));
}
