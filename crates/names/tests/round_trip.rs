//! Files answer as the keys do that were written.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::*;
use seiner_model::Selector;
use seiner_names::{Cache, Error, NamesFile, Writer};

#[test]
fn a_file_of_100_000_sources_answers_as_its_keys() {
    let keys = hosts(100_000);
    let file = open(&keys);
    assert_eq!(*file.origin(), ORIGIN);
    assert!(file.sources().iter().eq(keys.keys().copied()));
    let bytes = file.len() as f64 / 100_000.0;
    let memory = file.memory() as f64 / 100_000.0;
    println!("{bytes:.1} bytes a source in the file, {memory:.2} in memory");
    assert!(bytes < 20.0 && memory < 2.0);
    let cache = Cache::new(4 << 20);
    for (source, key) in &keys {
        let name = name_of(key);
        assert!(file.may_have(file.hash(&name)));
        assert_eq!(file.find(&cache, &name).unwrap(), Some(*source));
        assert_eq!(file.key(&cache, *source).unwrap().as_ref(), Some(key));
    }
    assert!(cache.memory() <= 4 << 20);
    file.check().unwrap();
    let selector = Selector::parse(r#"http_requests{host="web-3",id=~".*77"}"#).unwrap();
    let found = file.select(&cache, &selector).unwrap();
    assert!(found.is_empty());
    let selector = Selector::parse(r#"http_requests{host="web-7",id=~".*77"}"#).unwrap();
    let found = file.select(&cache, &selector).unwrap();
    assert_eq!(found.len(), 1000);
    cache.forget(&file);
    assert_eq!(cache.memory(), 0);
}

#[test]
fn all_selectors_and_lists_agree_with_the_keys() {
    for (seed, count) in [(1, 0), (2, 1), (3, 40), (4, 700), (5, 9000)] {
        let keys = mixed(seed, count);
        let file = open(&keys);
        file.check().unwrap();
        let wanted = expected(&keys);
        for bytes in [0, 100_000, 8 << 20] {
            let cache = Cache::new(bytes);
            let found = answers(&file, &cache, &keys).unwrap();
            for (selector, (found, wanted)) in selectors()
                .iter()
                .zip(found.selected.iter().zip(&wanted.selected))
            {
                assert_eq!(found, wanted, "{selector}, {count} sources");
            }
            assert_eq!(found, wanted, "{count} sources");
        }
    }
}

#[test]
fn long_keys_and_spread_numbers_return() {
    let long = "x,=\\".repeat(4000);
    let mut keys = Keys::new();
    for n in 0..60u32 {
        let value = format!("{}{n}", &long[..15_000 + n as usize]);
        keys.insert(n * 71_582_788, key("m", &[("a", &value), ("b", "c")]));
    }
    keys.insert(u32::MAX, key("m", &[]));
    let file = open(&keys);
    file.check().unwrap();
    let cache = Cache::new(1 << 20);
    assert_eq!(answers(&file, &cache, &keys).unwrap(), expected(&keys));
    assert_eq!(file.key(&cache, 5).unwrap(), None);
}

#[test]
fn lists_of_all_lengths_return() {
    // Each value `n` of the tag has n sources, at places that are not runs.
    let mut keys = Keys::new();
    for value in 1..300u32 {
        for n in 0..value {
            let id = format!("{value}-{n}");
            let tag = value.to_string();
            keys.insert(
                n * 1009 + value * 3,
                key("m", &[("core", &tag), ("id", &id)]),
            );
        }
    }
    let file = open(&keys);
    file.check().unwrap();
    let cache = Cache::new(0);
    for value in 1..300 {
        let selector = Selector::parse(&format!("{{core={value}}}")).unwrap();
        let found = file.select(&cache, &selector).unwrap();
        let met = keys.iter().filter(|(_, key)| selector.holds(key));
        assert!(met.map(|(source, _)| *source).eq(&found), "{value}");
    }
}

#[test]
fn other_files_are_rejected() {
    let bytes = bytes_of(&*write(&mixed(3, 40)));
    let open = |bytes: &[u8]| NamesFile::open("names-7", file_of(bytes)).map(|_| ());
    assert!(open(&bytes).is_ok());
    let error = open(b"").unwrap_err().to_string();
    assert_eq!(
        error,
        "names file names-7, offset 0: the file has 0 bytes, too few"
    );
    assert!(matches!(
        open(&[0; 500]),
        Err(Error::Damage { offset: 0, .. })
    ));
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert!(matches!(open(&newer), Err(Error::Version { found: 2, .. })));
}

#[test]
#[should_panic(expected = "ascend")]
fn numbers_that_do_not_ascend_panic() {
    let mut writer = Writer::new(ORIGIN);
    for _ in 0..2 {
        writer.push(3, b"m", std::iter::empty());
    }
}
