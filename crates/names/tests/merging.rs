//! A merged file answers as a file that was written at once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::*;
use roaring::RoaringBitmap;
use seiner_names::{Cache, Error, NamesFile, merge};
use std::io;

/// Distributes sources among files: by runs, by turns, and at random.
fn parts(keys: &Keys, count: u32, way: u32) -> Vec<Keys> {
    let len = keys.len() as u32;
    let mut parts = vec![Keys::new(); count as usize];
    for (index, (source, key)) in (0u32..).zip(keys) {
        let part = match way {
            0 => index * count / len,
            1 => index % count,
            _ => random(9, u64::from(index), u64::from(count)) as u32,
        };
        parts[part as usize].insert(*source, key.clone());
    }
    parts
}

#[test]
fn a_merge_has_the_bytes_of_one_file() {
    let keys = mixed(5, 6000);
    let cache = Cache::new(1 << 20);
    for way in 0..3 {
        let files: Vec<NamesFile> = parts(&keys, 4, way).iter().map(open).collect();
        let files: Vec<&NamesFile> = files.iter().collect();
        for keep in [
            RoaringBitmap::new(),
            keys.keys().copied().filter(|n| n % 3 > 0).collect(),
            RoaringBitmap::full(),
        ] {
            let file = empty_file();
            let len = merge(ORIGIN, &files, &keep, &cache, &*file).unwrap();
            assert_eq!(len, file.len().unwrap());
            let kept = keys.iter().filter(|(source, _)| keep.contains(**source));
            let kept: Keys = kept.map(|(source, key)| (*source, key.clone())).collect();
            assert_eq!(bytes_of(&*file), bytes_of(&*write(&kept)), "way {way}");
            let merged = NamesFile::open("merged", file).unwrap();
            merged.check().unwrap();
            assert_eq!(answers(&merged, &cache, &kept).unwrap(), expected(&kept));
        }
    }
}

#[test]
fn the_first_file_with_a_source_counts() {
    let first: Keys = [(5, key("a", &[("x", "1")])), (7, key("b", &[]))].into();
    let second: Keys = [(5, key("c", &[("y", "2")])), (6, key("d", &[]))].into();
    let (a, b) = (open(&first), open(&second));
    let cache = Cache::new(0);
    let file = empty_file();
    merge(ORIGIN, &[&a, &b], &RoaringBitmap::full(), &cache, &*file).unwrap();
    let mut both = first.clone();
    both.insert(6, second[&6].clone());
    assert_eq!(bytes_of(&*file), bytes_of(&*write(&both)));
}

#[test]
fn errors_of_the_new_file_are_reported() {
    struct Full;
    impl seiner_platform::File for Full {
        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn reserve(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }
    }
    let file = open(&mixed(3, 40));
    let keep = RoaringBitmap::full();
    let found = merge(ORIGIN, &[&file], &keep, &Cache::new(0), &Full);
    assert!(matches!(found, Err(Error::Io { .. })));
}
