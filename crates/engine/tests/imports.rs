//! Limits on import circles between the files of each crate. The limits may only be lowered.
//!
//! A file imports another file if its code outside tests has a path that begins with `crate::` or
//! `super::` and leads to that file. Files that import each other, directly or through other files,
//! form a circle: none of them can be read, built or tested without the rest. Imports of a module's
//! own children do not count. The crate's root does not count either, because it only lists public
//! items.
//!
//! Methods need no import. So a type with `impl` blocks in many files connects these files without
//! imports. The number of such files is limited as well.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Folder of a crate, maximum files in a circle, maximum files with `impl` blocks of one type.
const LIMITS: [(&str, usize, usize); 26] = [
    ("bench", 1, 1),
    ("crates/alert", 1, 1),
    ("crates/backup", 1, 1),
    ("crates/bundle", 1, 2),
    ("crates/cassandra", 1, 3),
    ("crates/chart", 1, 1),
    ("crates/cli", 1, 1),
    ("crates/cluster", 2, 1),
    ("crates/codec", 2, 1),
    ("crates/engine", 1, 6),
    ("crates/influxql", 1, 1),
    ("crates/lab", 1, 1),
    ("crates/merge", 1, 1),
    ("crates/model", 1, 1),
    ("crates/names", 1, 1),
    ("crates/nbd", 2, 2),
    ("crates/plan", 1, 1),
    ("crates/platform", 1, 1),
    ("crates/promql", 1, 4),
    ("crates/raid", 1, 5),
    ("crates/random", 1, 1),
    ("crates/server", 2, 2),
    ("crates/sim", 1, 6),
    ("crates/store", 1, 1),
    ("crates/volume", 2, 1),
    ("crates/wire", 1, 1),
];

/// Sources of a crate by module path. The path of `src/merging/tidying.rs` is `["merging", "tidying"]`.
type Sources = BTreeMap<Vec<String>, String>;

#[test]
fn import_circles_only_shrink() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders: Vec<String> = fs::read_dir(root.join("crates"))
        .unwrap()
        .map(|entry| format!("crates/{}", entry.unwrap().file_name().to_str().unwrap()))
        .chain(["bench".to_string()])
        .filter(|folder| root.join(folder).join("Cargo.toml").exists())
        .collect();
    folders.sort();
    let mut limited: Vec<&str> = LIMITS.iter().map(|&(folder, ..)| folder).collect();
    limited.sort();
    assert_eq!(folders, limited, "every crate has a limit");
    let large = LIMITS.iter().filter(|limit| limit.1 > 2).count();
    assert_eq!(large, 0, "no circle has more than two files");

    let mut over = Vec::new();
    for (folder, largest, widest) in LIMITS {
        let sources = sources(&root.join(folder).join("src"));
        assert!(!sources.is_empty(), "{folder} has sources");
        for circle in circles(&sources) {
            let names: Vec<String> = circle.iter().map(|file| file.join("::")).collect();
            let text = format!(
                "{folder}: a circle of {}: {}",
                names.len(),
                names.join(", ")
            );
            println!("{text}");
            if names.len() > largest {
                over.push(format!("{text}; the limit is {largest}"));
            }
        }
        for (name, files) in spread(&sources) {
            if files > 1 {
                println!("{folder}: impl {name} in {files} files");
            }
            if files > widest {
                over.push(format!(
                    "{folder}: impl {name} in {files} files; the limit is {widest}"
                ));
            }
        }
    }
    assert!(
        over.is_empty(),
        "move what two files share into a file beneath both:\n{}",
        over.join("\n")
    );
}

#[test]
fn a_circle_is_found_through_other_files_and_nested_imports() {
    let found = circles(&made(&[
        ("a", "use crate::{b::{Deep, Other}, f};"),
        ("b", "pub(crate) fn go() { crate::c::d::run(1) }"),
        ("c::d", "use super::super::a::Thing as Name;"),
        ("e", "use crate::a::Thing;"),
        ("f", "use std::fmt;"),
    ]));
    let names = [vec!["a"], vec!["b"], vec!["c", "d"]];
    assert_eq!(found, [BTreeSet::from(names.map(words))]);
}

#[test]
fn comments_texts_and_tests_import_nothing() {
    let found = circles(&made(&[
        ("a", "use crate::b::Thing;"),
        (
            "b",
            "//! use crate::a;\n/* use crate::a; /* nested */ crate::a::x */\n\
             const TEXT: &str = \"crate::a::\\\"x\"; const RAW: &str = r#\"crate::a::y\"#;\n\
             fn quote<'a>() -> char { '\"' }\n\
             #[cfg(test)]\n#[allow(dead_code)]\nmod tests { use crate::a::Thing; fn x() { { crate::a::y() } } }\n\
             #[cfg(test)]\nuse crate::a::Other;\nfn end() {}",
        ),
    ]));
    assert_eq!(found, []);
    // The same files with the import at the end. Shows that the test above can fail.
    let found = circles(&made(&[
        ("a", "use crate::b::Thing;"),
        (
            "b",
            "const TEXT: &str = \"\\\"\"; fn quote<'a>() -> char { '\"' } /* \" */ use crate::a;",
        ),
    ]));
    assert_eq!(found.len(), 1);
}

#[test]
fn methods_are_counted_by_the_files_that_they_lie_in() {
    let sources = made(&[
        (
            "a",
            "pub struct Big; struct Small; impl Big { } impl Big { } impl Small { }",
        ),
        (
            "b",
            "impl<F: Fn() -> u8> Big { } impl Drop for Small { } struct Twin; impl Twin { }",
        ),
        (
            "c",
            "impl super::Big<T> { }\n#[cfg(test)]\nimpl Small { }\nenum Twin { } impl Twin { }\n\
             fn all() -> impl Small { }",
        ),
    ]);
    let expected = [
        ("a::Big", 3),
        ("a::Small", 1),
        ("b::Twin", 1),
        ("c::Twin", 1),
    ]
    .map(|(name, files)| (name.to_string(), files));
    assert_eq!(spread(&sources), BTreeMap::from(expected));
}

fn made(files: &[(&str, &str)]) -> Sources {
    let file = |&(name, text): &(&str, &str)| {
        let path = name.split("::").map(str::to_string).collect();
        (path, without_tests(&code(text)))
    };
    files.iter().map(file).collect()
}

fn words(path: Vec<&str>) -> Vec<String> {
    path.into_iter().map(str::to_string).collect()
}

/// Reads the sources of a crate without comments, texts and tests.
fn sources(root: &Path) -> Sources {
    let mut found = Sources::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = path.strip_prefix(root).unwrap().with_extension("");
                let parts = name.iter().map(|part| part.to_str().unwrap());
                let mut module = words(parts.collect());
                if module.last().is_some_and(|name| name == "mod") {
                    module.pop();
                }
                let text = fs::read_to_string(&path).unwrap();
                found.insert(module, without_tests(&code(&text)));
            }
        }
    }
    found
}

/// Replaces comments, texts and characters by blanks.
fn code(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if first == '"' {
            text(rest)
        } else if let Some(len) = raw_text(rest, out.chars().last()) {
            len
        } else if first == '\'' {
            // A lifetime has no second quote after its first character.
            let mut after = rest[1..].char_indices().skip(1);
            match (rest[1..].starts_with('\\'), after.next()) {
                (true, _) => 3 + rest[3..].find('\'').unwrap() + 1,
                (false, Some((at, '\''))) => at + 2,
                (false, _) => 0,
            }
        } else {
            0
        };
        match skipped {
            0 => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
            _ => {
                out.push(' ');
                rest = &rest[skipped..];
            }
        }
    }
    out
}

fn block_comment(source: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        if source[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if source[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += source[at..].chars().next().unwrap().len_utf8();
        }
    }
}

fn text(source: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in source.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    source.len()
}

/// Returns the length of the raw text at the beginning of `source`, if there is one.
fn raw_text(source: &str, before: Option<char>) -> Option<usize> {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    // The `b` of `br"…"` is not removed.
    if before.is_some_and(|letter| is_name(letter) && letter != 'b') {
        return None;
    }
    let marks = source.strip_prefix('r')?;
    let hashes = marks.len() - marks.trim_start_matches('#').len();
    let body = marks[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(1 + hashes + 1 + body.find(&end)? + end.len())
}

/// Removes the items after `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let mut parts = code.split("#[cfg(test)]");
    let mut out = parts.next().unwrap().to_string();
    for part in parts {
        let (mut depth, mut end) = (0, part.len());
        for (at, letter) in part.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 && (letter == '}' || letter == ';') {
                end = at + 1;
                break;
            }
        }
        out.push_str(&part[end..]);
    }
    out
}

/// Splits code into names, `::`, and single characters.
fn tokens(code: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let name = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let len = match name.unwrap_or(rest.len()) {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            len => len,
        };
        out.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    out
}

/// Lists the paths in some tokens that begin with `crate::` or `super::`.
fn paths<'a>(tokens: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    for (at, &token) in tokens.iter().enumerate() {
        let begins = at == 0 || tokens[at - 1] != "::";
        if begins && matches!(token, "crate" | "super") && tokens.get(at + 1) == Some(&"::") {
            tree(&tokens[at..], &[], &mut found);
        }
    }
    found
}

/// Adds the paths of one tree, such as `a::{b, c::{d, e}}`. Returns the number of tokens in the tree.
fn tree<'a>(tokens: &[&'a str], before: &[&'a str], found: &mut Vec<Vec<&'a str>>) -> usize {
    let mut path = before.to_vec();
    let mut at = 0;
    loop {
        match tokens.get(at) {
            Some(&"{") => {
                at += 1;
                while tokens[at] != "}" {
                    at += tree(&tokens[at..], &path, found);
                    // Skips ` as name` and the comma.
                    while !matches!(tokens[at], "}" | ",") {
                        at += 1;
                    }
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            Some(name) => path.push(name),
            None => {}
        }
        at += 1;
        if tokens.get(at) != Some(&"::") {
            found.push(path);
            return at;
        }
        at += 1;
    }
}

/// Returns the file to which a path in `file` leads: the longest prefix of the path that is a file.
fn target<'a>(sources: &'a Sources, file: &[String], path: &[&str]) -> Option<&'a Vec<String>> {
    let supers = path.iter().take_while(|&&part| part == "super").count();
    let mut at: Vec<String> = match supers {
        0 => Vec::new(),
        _ => file[..file.len().saturating_sub(supers)].to_vec(),
    };
    at.extend(words(path[supers.max(1)..].to_vec()));
    while !at.is_empty() && !sources.contains_key(&at) {
        at.pop();
    }
    let (target, _) = sources.get_key_value(&at)?;
    Some(target).filter(|&target| target != file)
}

/// Returns the files that each file imports.
fn imports(sources: &Sources) -> BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> {
    let mut found = BTreeMap::new();
    for (file, code) in sources {
        let paths = paths(&tokens(code));
        let targets = paths.iter().filter_map(|path| target(sources, file, path));
        found.insert(file, targets.collect());
    }
    found
}

/// Returns the strongly connected components of more than one file, smallest name first.
fn circles(sources: &Sources) -> Vec<BTreeSet<Vec<String>>> {
    let imports = imports(sources);
    let reached = |from| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(file) = open.pop() {
            for &to in &imports[file] {
                if seen.insert(to) {
                    open.push(to);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<_, _> = imports.keys().map(|&file| (file, reached(file))).collect();
    let mut found: Vec<BTreeSet<Vec<String>>> = Vec::new();
    for (&file, to) in &reach {
        let back = to.iter().filter(|&&other| reach[other].contains(file));
        let circle: BTreeSet<Vec<String>> = back.map(|&other| other.clone()).collect();
        if !circle.is_empty() && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

/// Returns, for each type, the number of files with `impl` blocks of it. A type is named by the file
/// that declares it. `impl` blocks of traits do not count.
fn spread(sources: &Sources) -> BTreeMap<String, usize> {
    let tokens: BTreeMap<_, _> = sources
        .iter()
        .map(|(file, code)| (file, tokens(code)))
        .collect();
    let mut declared: BTreeMap<&str, Vec<&Vec<String>>> = BTreeMap::new();
    for (&file, tokens) in &tokens {
        for pair in tokens.windows(2) {
            if matches!(pair[0], "struct" | "enum" | "union") {
                declared.entry(pair[1]).or_default().push(file);
            }
        }
    }
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    for (&file, tokens) in &tokens {
        let names: BTreeSet<&str> = (0..tokens.len())
            .filter(|&at| tokens[at] == "impl")
            .filter(|&at| at == 0 || matches!(tokens[at - 1], "}" | "{" | ";" | "]" | "unsafe"))
            .filter_map(|at| subject(&tokens[at + 1..]))
            .collect();
        for name in names {
            let from = declared.get(name).map_or(&[][..], |files| &files[..]);
            let home = match from {
                _ if from.contains(&file) => Some(file),
                [only] => Some(*only),
                // If several types have the name, the imported type counts.
                _ => paths(tokens)
                    .iter()
                    .filter(|path| path.last() == Some(&name))
                    .find_map(|path| target(sources, file, path)),
            };
            if let Some(home) = home {
                let full = format!("{}::{name}", home.join("::"));
                *files.entry(full).or_default() += 1;
            }
        }
    }
    files
}

/// Returns the type of an `impl` block that begins with these tokens; `None` for the `impl` of a trait.
fn subject<'a>(tokens: &[&'a str]) -> Option<&'a str> {
    let mut depth = 0;
    let mut name = None;
    for (at, &token) in tokens.iter().enumerate() {
        match token {
            "<" => depth += 1,
            ">" if at > 0 && tokens[at - 1] == "-" => {}
            ">" => depth -= 1,
            "{" | "where" if depth == 0 => return name,
            "for" if depth == 0 => return None,
            _ if depth == 0 && token != "::" => name = Some(token),
            _ => {}
        }
    }
    None
}
