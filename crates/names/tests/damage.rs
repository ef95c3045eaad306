//! Damaged files: every answer is right or an error.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::*;
use seiner_names::{Cache, NamesFile};

#[test]
fn a_changed_byte_causes_no_wrong_answer() {
    let keys = mixed(6, 60);
    let bytes = bytes_of(&*write(&keys));
    let wanted = expected(&keys);
    let (mut opened, mut answered) = (0, 0);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        let Ok(file) = NamesFile::open("names", file_of(&changed)) else {
            continue;
        };
        opened += 1;
        assert!(file.check().is_err(), "byte {at}");
        let cache = Cache::new(1 << 20);
        if let Ok(found) = answers(&file, &cache, &keys) {
            assert_eq!(found, wanted, "byte {at}");
            answered += 1;
        }
    }
    // Bytes of pages are read after opening.
    assert!(opened > bytes.len() / 2, "{opened} of {}", bytes.len());
    println!("{answered} of {} changes were not noticed", bytes.len());
}

#[test]
fn each_method_gives_an_error_or_the_right_answer() {
    let keys = mixed(6, 60);
    let bytes = bytes_of(&*write(&keys));
    let cache = Cache::new(0);
    let whole = NamesFile::open("names", file_of(&bytes)).unwrap();
    let selectors = selectors();
    for at in (0..bytes.len()).step_by(5) {
        let mut changed = bytes.clone();
        changed[at] = !changed[at];
        let Ok(file) = NamesFile::open("names", file_of(&changed)) else {
            continue;
        };
        for (source, key) in &keys {
            if let Ok(found) = file.key(&cache, *source) {
                assert_eq!(found.as_ref(), Some(key), "byte {at}");
            }
            if let Ok(found) = file.find(&cache, &name_of(key)) {
                assert_eq!(found, Some(*source), "byte {at}");
            }
        }
        for selector in &selectors {
            if let Ok(found) = file.select(&cache, selector) {
                assert_eq!(found, whole.select(&cache, selector).unwrap(), "byte {at}");
            }
        }
    }
}

#[test]
fn a_truncated_file_is_rejected() {
    let bytes = bytes_of(&*write(&mixed(6, 60)));
    for len in 0..bytes.len() {
        assert!(
            NamesFile::open("names", file_of(&bytes[..len])).is_err(),
            "{len}"
        );
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(NamesFile::open("names", file_of(&longer)).is_err());
}
