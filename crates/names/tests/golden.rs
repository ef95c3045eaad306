//! Compatibility with the names files that released versions wrote.
//!
//! `golden/names/v1/` holds files that are added and never edited. Each must pass its check and answer as the keys
//! made here. Where no page is compressed, today's file must also have the same bytes: other versions of zstd may
//! write others. `SEINER_BLESS=1` writes missing files.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::*;
use seiner_names::{Cache, NamesFile};
use std::path::PathBuf;

/// Returns the contents of the named file; writes the file first if blessing is on.
fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../golden/names/v1")
        .join(name);
    if !path.exists() && std::env::var_os("SEINER_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{name}: {error}; SEINER_BLESS=1 writes missing files"))
}

fn check(name: &str, keys: &Keys, same_bytes: bool) {
    let written = bytes_of(&*write(keys));
    let kept = golden(name, &written);
    assert!(
        !same_bytes || kept == written,
        "{name}: the writer writes other bytes"
    );
    let file = NamesFile::open(name, file_of(&kept)).unwrap();
    file.check().unwrap();
    assert_eq!(file.origin(), &ORIGIN);
    let found = answers(&file, &Cache::new(1 << 20), keys).unwrap();
    assert_eq!(found, expected(keys), "{name}");
}

#[test]
fn files_of_version_1() {
    check("empty", &Keys::new(), true);
    let one: Keys = [(9, key("m,x", &[("a=b", "1"), ("host", "web-1")]))].into();
    check("one", &one, true);
    check("hosts", &hosts(3000), false);
    check("mixed", &mixed(11, 1500), false);
}

#[test]
fn lists_elsewhere_in_the_file_of_version_1() {
    // Each second source has the tag, so that its set has no runs and is not in a page.
    let source = |n: u32| {
        let id = n.to_string();
        let core: &[(&str, &str)] = match random(3, n.into(), 2) {
            0 => &[("core", "0"), ("id", &id)],
            _ => &[("id", &id)],
        };
        (n, key("cpu", core))
    };
    check("sets", &(0..2500).map(source).collect(), false);
}
