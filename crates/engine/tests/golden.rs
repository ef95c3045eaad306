//! Stores that released versions wrote must always be read, and what is written today must be
//! what the format pages say.
//!
//! `golden/engine/v1/` is added to and never edited. `store/` is a store with something of
//! everything, `store.txt` beside it every sample that it must answer. `morsel/` is as little as a
//! store can hold and still have one of each: its bytes are what is written today, too.
//! `SEINER_BLESS=1` writes what is missing.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod tiny;

use seiner_engine::check;
use seiner_platform::sim::SimDisk;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use tiny::{Samples, Story, disk_with, files, morsel, story, write};

type Files = BTreeMap<String, Vec<u8>>;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/engine/v1").join(name)
}

fn written(story: &Story) -> Files {
    let disk = SimDisk::new(1);
    write(story, &disk).unwrap();
    files(&disk)
}

/// The files of a golden store, written first if that is asked for and they are missing.
fn kept(name: &str, story: &Story) -> Files {
    let (folder, list) = (golden(name), golden(&format!("{name}.txt")));
    if !folder.exists() && std::env::var_os("SEINER_BLESS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in written(story) {
            fs::write(folder.join(name), bytes).unwrap();
        }
        fs::write(list, Samples::of(story).to_text()).unwrap();
    }
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}; SEINER_BLESS=1 writes what is missing", folder.display()));
    let read = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    entries.map(|entry| read(entry.unwrap())).collect()
}

fn is_read_as_listed(name: &str, story: &Story) {
    let disk = disk_with(&kept(name, story));
    let report = check(&disk, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{name}: {:?}", report.damage);
    let engine = tiny::open(&disk).unwrap();
    let (found, errors) = Samples::read(&engine);
    assert!(errors.is_empty(), "{name}: {errors:?}");
    let listed = fs::read_to_string(golden(&format!("{name}.txt"))).unwrap();
    let found = found.to_text();
    let differs = listed.lines().zip(found.lines()).find(|(listed, found)| listed != found);
    assert!(differs.is_none(), "{name}: listed and found differ: {differs:?}");
    assert_eq!(listed.lines().count(), found.lines().count(), "{name}: as many samples as are listed");
}

#[test]
fn stores_of_version_1_are_read() {
    is_read_as_listed("store", &story());
    is_read_as_listed("morsel", &morsel());
}

#[test]
fn the_bytes_written_are_those_of_version_1() {
    let (kept, today) = (kept("morsel", &morsel()), written(&morsel()));
    assert!(kept.keys().eq(today.keys()), "files are named otherwise today: {:?}, {:?}", kept.keys(), today.keys());
    for (name, bytes) in &kept {
        let at = bytes.iter().zip(&today[name]).position(|(kept, today)| kept != today);
        let at = at.or((bytes.len() != today[name].len()).then_some(bytes.len().min(today[name].len())));
        assert!(
            at.is_none(),
            "{name} is written otherwise today, from byte {at:?} on. If that is meant: raise the version in the file's \
             header, keep reading the old one, describe both in docs/format/, and add golden files beside these. If only \
             zstd finds other bytes for the same content, the samples above are still read: add a new morsel."
        );
    }
}

#[test]
fn writing_is_deterministic() {
    assert!(written(&story()) == written(&story()), "the same story leaves other bytes");
}

#[test]
fn the_story_is_answered_by_the_store_that_wrote_it() {
    let engine = tiny::open(&disk_with(&written(&story()))).unwrap();
    let (found, errors) = Samples::read(&engine);
    assert!(errors.is_empty() && found == Samples::of(&story()), "{errors:?}");
}
