//! Tests of filing on a small store.

use super::{MANY, file_some, filed, mend, merge_files, unfile};
use crate::dictionary::filed::is_names;
use crate::jobs::forgetting::forget;
use crate::jobs::testing::{World, options};
use crate::names::{key, known_key, measurements, select, tag_names, tag_values};
use crate::options::Options;
use crate::retention::class::{Class, Classes};
use crate::rules::given::Given;
use roaring::RoaringBitmap;
use seiner_model::Selector;
use seiner_platform::Disk;
use std::time::Duration;

/// Sources of a batch of names.
pub(super) const SOME: u32 = 1024;

pub(super) fn name(number: u32) -> String {
    let m = ["cpu", "mem"][number as usize % 2];
    format!("{m},host=h{},pod=p-{number}", number / 10)
}

/// Appends a row to each of some sources, and makes them durable.
pub(super) fn write(world: &World, numbers: impl Iterator<Item = u32>, time: i64) {
    let names: Vec<String> = numbers.map(name).collect();
    names
        .chunks(512)
        .for_each(|names| world.append_named(names, time));
    world.flush();
}

pub(super) fn found(world: &World, selector: &str) -> Vec<u32> {
    let selector = Selector::parse(selector).unwrap();
    let found = select(&world.core, &selector).unwrap();
    found.iter().collect()
}

/// Compares all answers about the first `count` sources, in which number and source are the same.
pub(super) fn check(world: &World, count: u32) {
    let core = &world.core;
    let all = Selector::all();
    assert!(found(world, "").into_iter().eq(0..count));
    assert!(found(world, "cpu").into_iter().eq((0..count).step_by(2)));
    assert_eq!(found(world, r#"cpu{pod="p-14"}"#), [14]);
    assert_eq!(found(world, r#"mem{pod="p-14"}"#), []);
    assert_eq!(found(world, r#"{host="h7"}"#).len(), 10);
    let last = count - 1;
    let ends = format!(r#"{{pod=~"p-(3|{last})"}}"#);
    assert_eq!(found(world, &ends), [3, last]);
    let others = format!(r#"cpu{{pod!="p-0",other="",host=~"h0|h{}"}}"#, last / 10);
    assert!(found(world, &others).len() > 4);
    assert_eq!(measurements(core).unwrap(), ["cpu", "mem"]);
    assert_eq!(tag_names(core, &all).unwrap(), ["host", "pod"]);
    let pods = tag_values(core, &all, "pod", usize::MAX).unwrap();
    assert_eq!(pods.len() as u32, count);
    assert_eq!(tag_values(core, &all, "pod", 2).unwrap(), ["p-0", "p-1"]);
    for source in 0..count {
        let key = key(core, source).unwrap().unwrap();
        assert_eq!(key.tag("pod"), format!("p-{source}"));
    }
    assert_eq!(key(core, count).unwrap(), None);
}

pub(super) fn files(world: &World) -> Vec<String> {
    let mut names = world.disk.list().unwrap();
    names.retain(|name| is_names(name));
    names.sort();
    names
}

pub(super) fn filed_sources(world: &World) -> u64 {
    filed(&world.core).sources().len()
}

#[test]
fn filed_names_are_found_as_those_in_memory() {
    let world = World::new(options());
    write(&world, 0..SOME, 0);
    check(&world, SOME);
    let before = world.core.head().dictionary_bytes();
    assert!(file_some(&world.core, &mut world.writing()).unwrap());
    assert_eq!(filed_sources(&world), u64::from(SOME));
    check(&world, SOME);
    // Rows of filed sources need no file, and others are registered beside them.
    write(&world, 0..SOME + 50, 1);
    check(&world, SOME + 50);
    assert_eq!(world.rows() as u32, 2 * SOME + 50);
    let pairs = world.core.dictionary(|dictionary| dictionary.pair_bytes());
    assert!(pairs < before / 2, "{pairs} of {before}");
    // Too few for a file.
    assert!(!file_some(&world.core, &mut world.writing()).unwrap());
}

#[test]
fn a_start_leaves_filed_names_in_their_files() {
    let world = World::new(options());
    write(&world, 0..SOME, 0);
    assert!(file_some(&world.core, &mut world.writing()).unwrap());
    write(&world, SOME..SOME + 100, 0);
    let world = world.reopen(options());
    assert_eq!(filed_sources(&world), u64::from(SOME));
    check(&world, SOME + 100);
    write(&world, 0..SOME + 100, 1);
    assert_eq!(world.rows() as u32, 2 * (SOME + 100));
    let report = crate::check(&*world.disk, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
}

/// Jobs file names when these take a fifth of the registry, and a store with roll-up keeps them in memory.
#[test]
fn memory_for_tags_is_bounded() {
    let world = World::new(options());
    let mut most = 0;
    for part in 0..10 {
        write(&world, part * SOME..(part + 1) * SOME, 0);
        while crate::jobs::step(&world.core).unwrap() {}
        let pairs = world.core.dictionary(|dictionary| dictionary.pair_bytes());
        most = most.max(pairs);
    }
    assert!(filed_sources(&world) >= 4 * u64::from(SOME));
    let spare = world.core.dictionary(|dictionary| dictionary.spare());
    assert!(spare < 256 << 10, "{spare}");
    let fifth = (options().memory as usize) * 17 / 32 / 5;
    assert!(most < fifth, "{most} of {fifth}");
    check(&world, 10 * SOME);
}

#[test]
fn small_files_are_merged() {
    let world = World::new(options());
    for part in 0..MANY as u32 {
        write(&world, part * SOME..(part + 1) * SOME, 0);
        assert!(!merge_files(&world.core, &mut world.writing()).unwrap());
        assert!(file_some(&world.core, &mut world.writing()).unwrap());
    }
    assert_eq!(files(&world).len(), MANY);
    let bytes = world.core.log().space.names();
    assert!(merge_files(&world.core, &mut world.writing()).unwrap());
    assert_eq!(files(&world), ["names-00000005"]);
    assert!(world.core.log().space.names() < bytes);
    check(&world, MANY as u32 * SOME);
    assert!(!merge_files(&world.core, &mut world.writing()).unwrap());
    // Most sources leave the file.
    let some = RoaringBitmap::from_sorted_iter(0..3 * SOME).unwrap();
    unfile(&world.core, &some).unwrap();
    assert!(merge_files(&world.core, &mut world.writing()).unwrap());
    assert_eq!(
        filed(&world.core).files()[0].sources().len(),
        u64::from(SOME)
    );
    check(&world, MANY as u32 * SOME);
    let rest = RoaringBitmap::from_sorted_iter(0..4 * SOME).unwrap();
    unfile(&world.core, &rest).unwrap();
    assert!(merge_files(&world.core, &mut world.writing()).unwrap());
    assert_eq!(files(&world), [""; 0]);
    assert_eq!(world.core.log().space.names(), 0);
    check(&world, MANY as u32 * SOME);
}

/// Damage in a page is found when it is read. The names come from the catalog then.
#[test]
fn a_damaged_file_is_replaced_by_the_catalog() {
    let world = World::new(options());
    write(&world, 0..SOME, 0);
    assert!(file_some(&world.core, &mut world.writing()).unwrap());
    let name = files(&world).remove(0);
    let file = world.disk.open(&name).unwrap();
    let mut byte = [0];
    file.read_at(100, &mut byte).unwrap();
    file.write_at(100, &[!byte[0]]).unwrap();
    assert!(
        !crate::check(&*world.disk, &mut |_, _| {})
            .unwrap()
            .is_sound()
    );
    let error = known_key(&world.core, 0).unwrap_err().to_string();
    assert!(error.starts_with(&name), "{error}");
    // A reader does not wait for the next job.
    check(&world, SOME);
    assert!(!mend(&world.core, &world.writing()).unwrap());
    assert_eq!((files(&world).len(), filed_sources(&world)), (0, 0));
    assert!(world.disk.open(&format!("{name}.damaged")).is_ok());
    // The next file does not get the name of the damaged one.
    assert!(file_some(&world.core, &mut world.writing()).unwrap());
    assert_ne!(files(&world), [name]);
    check(&world, SOME);
}

/// Regression: rows with a new name were rejected, because it might have been one of the lost names.
#[test]
fn names_that_file_and_catalog_have_lost_are_replaced() {
    let world = World::new(options());
    write(&world, 0..100, 0);
    let frame = world.core.catalogued().unwrap().2;
    write(&world, 100..SOME, 0);
    assert!(file_some(&world.core, &mut world.writing()).unwrap());
    for catalog in ["catalog", "catalog.copy"] {
        world.disk.flip_bit(catalog, 8 * (frame - 10));
    }
    world.disk.flip_bit(&files(&world).remove(0), 8 * 100);
    let all = found(&world, "");
    assert!(all.into_iter().eq(0..SOME));
    let key_of = |source| key(&world.core, source).unwrap().unwrap().to_string();
    assert_eq!(key_of(7), r#"seiner_lost_source{number="7"}"#);
    assert_eq!(found(&world, r#"cpu{pod="p-100"}"#), [100]);
    assert_eq!(found(&world, r#"cpu{pod="p-98"}"#), []);
    write(&world, 98..102, 1);
    assert_eq!(found(&world, r#"cpu{pod="p-98"}"#), [SOME]);
    assert_eq!(found(&world, r#"cpu{pod="p-100"}"#), [100]);
}

/// Regression: damage that a merge of names files found poisoned the store.
#[test]
fn damage_that_a_merge_finds_is_mended() {
    let world = World::new(options());
    for part in 0..MANY as u32 {
        write(&world, part * SOME..(part + 1) * SOME, 0);
        assert!(file_some(&world.core, &mut world.writing()).unwrap());
    }
    let name = files(&world).remove(1);
    let file = world.disk.open(&name).unwrap();
    let mut byte = [0];
    file.read_at(100, &mut byte).unwrap();
    file.write_at(100, &[!byte[0]]).unwrap();
    let before = world.core.log().space.names();
    assert!(merge_files(&world.core, &mut world.writing()).unwrap());
    assert_eq!(world.core.log().space.names(), before);
    assert_eq!(files(&world).len(), MANY);
    while crate::jobs::step(&world.core).unwrap() {}
    assert!(world.disk.open(&format!("{name}.damaged")).is_ok());
    check(&world, MANY as u32 * SOME);
    world.core.health.writable().unwrap();
}

#[test]
fn a_file_that_cannot_be_opened_is_set_aside() {
    let world = World::new(options());
    write(&world, 0..SOME, 0);
    assert!(file_some(&world.core, &mut world.writing()).unwrap());
    let name = files(&world).remove(0);
    let file = world.disk.open(&name).unwrap();
    file.set_len(file.len().unwrap() - 1).unwrap();
    let world = world.reopen(options());
    assert_eq!(world.core.recovery.set_aside.len(), 1);
    assert_eq!(files(&world), [""; 0]);
    check(&world, SOME);
}

/// A catalog that was copied back may give the numbers other names than a later names file.
#[test]
fn a_file_that_is_newer_than_the_catalog_is_removed() {
    let world = World::new(options());
    write(&world, 0..SOME, 0);
    let copies = ["catalog", "catalog.copy"].map(|name| {
        let file = world.disk.open(name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        (name, bytes)
    });
    write(&world, SOME..SOME + 10, 0);
    assert!(file_some(&world.core, &mut world.writing()).unwrap());
    for (name, bytes) in copies {
        let file = world.disk.create(name).unwrap();
        file.write_at(0, &bytes).unwrap();
        file.sync().unwrap();
    }
    let world = world.reopen(options());
    assert_eq!((files(&world).len(), filed_sources(&world)), (0, 0));
}

#[test]
fn rules_that_change_apply_to_filed_sources() {
    let world = World::new(options());
    write(&world, 0..SOME, 0);
    assert!(file_some(&world.core, &mut world.writing()).unwrap());
    write(&world, 0..SOME, 1);
    let mut cpu = Class::forever();
    (cpu.name, cpu.sources) = ("cpu".to_string(), "cpu".to_string());
    cpu.keep.rows = Some(1);
    let with = |classes: Vec<Class>| Options {
        classes: Classes::new(classes).unwrap(),
        given: Given::All,
        apply_retention: true,
        ..options()
    };
    let world = world.reopen(with(vec![cpu, Class::forever()]));
    assert_eq!(filed_sources(&world), u64::from(SOME));
    let class_of = |source| world.core.head().members().class_of(source);
    assert_eq!([0, 1, 2, 3].map(class_of), [0, 1, 0, 1]);
    assert_eq!(world.rows() as u32, SOME / 2 * 3);
    // Rows that were dead stay dead.
    let world = world.reopen(with(vec![Class::forever()]));
    assert_eq!(filed_sources(&world), 0);
    assert_eq!(world.rows() as u32, SOME / 2 * 3);
    check(&world, SOME);
}

/// Levels are found by the names of their sources.
#[test]
fn a_store_with_rollup_has_all_names_in_memory() {
    let world = World::new(options());
    write(&world, 0..SOME, 0);
    assert!(file_some(&world.core, &mut world.writing()).unwrap());
    let mut class = Class::forever();
    class.keep.age = Some(Duration::from_secs(3600));
    class.rollup = crate::parse_levels("1m for ever").unwrap();
    let changed = Options {
        classes: Classes::new(vec![class]).unwrap(),
        given: Given::All,
        apply_retention: true,
        ..options()
    };
    let world = world.reopen(changed);
    assert_eq!(filed_sources(&world), 0);
    check(&world, SOME);
    // The file is of no use any more.
    while crate::jobs::step(&world.core).unwrap() {}
    assert_eq!(files(&world), [""; 0]);
    check(&world, SOME);
}

/// The number of a forgotten source stays unused while a names file contains it: after the next start, the file would
/// give the new source the old name.
#[test]
fn numbers_in_files_are_not_used_again() {
    let hourly = || {
        let mut class = Class::forever();
        class.keep.age = Some(Duration::from_secs(3600));
        Options {
            classes: Classes::new(vec![class]).unwrap(),
            ..options()
        }
    };
    let world = World::new(hourly());
    write(&world, 0..SOME, 0);
    assert!(file_some(&world.core, &mut world.writing()).unwrap());
    write(&world, SOME..2 * SOME, 0);
    // An eighth of the filed sources expires: too few to write the file anew.
    let staying = SOME / 8 * 7;
    world.wait(3000);
    write(&world, 0..staying, 3000);
    world.wait(3000);
    while crate::jobs::step(&world.core).unwrap() {}
    world.run(forget);
    assert!(found(&world, "").into_iter().eq(0..staying));
    world.wait(120);
    world.run(forget);
    // Those that were never filed are free.
    write(&world, 5000..5000 + SOME, 6000);
    let sources = world.core.head().sources();
    assert_eq!(sources, 2 * SOME);
    let new = r#"{pod=~"p-[56]..."}"#;
    assert!(found(&world, new).into_iter().eq(SOME..2 * SOME));
    // The file is written anew without the forgotten sources.
    let some = RoaringBitmap::from_sorted_iter(0..SOME / 4).unwrap();
    unfile(&world.core, &some).unwrap();
    world.run(merge_files);
    let left = u64::from(staying - SOME / 4);
    assert_eq!(filed(&world.core).files()[0].sources().len(), left);
    world.run(forget);
    world.run(forget);
    write(&world, 7000..7000 + SOME / 8, 6001);
    assert_eq!(world.core.head().sources(), 2 * SOME);
    let before = (found(&world, ""), world.rows());
    let world = world.reopen(hourly());
    assert_eq!((found(&world, ""), world.rows()), before);
    let found = found(&world, r#"{pod=~"p-7..."}"#);
    assert!(found.into_iter().eq(staying..SOME));
}
