//! Files, and a store, on an array: whole stripes, lost members, killed processes.
#![allow(clippy::unwrap_used)]

use seiner_engine::{Durability, Engine, Options, Query};
use seiner_model::{Column, Interval, Selector, SourceKey};
use seiner_platform::sim::Rng;
use seiner_platform::{Disk, File};
use seiner_raid::{
    Array, ArraySettings, Condition, Creation, Device, IoMethod, Level, Member, Merging, Ram,
    ShardSettings, create,
};
use seiner_volume::{ArrayBlocks, OpenError, VolumeDisk, clear};
use std::sync::Arc;
use std::time::Duration;

const STRIP: u64 = 16 << 10;
const STRIPE: u64 = 4 * STRIP;

fn devices(count: usize, bytes: u64) -> Vec<Arc<dyn Member>> {
    (0..count)
        .map(|_| Arc::new(Ram::new(bytes)) as Arc<dyn Member>)
        .collect()
}

/// Returns a RAID 6 of six members with 4 × 16 KiB of data per stripe.
fn members(bytes: u64) -> Vec<Arc<dyn Member>> {
    let members = devices(6, bytes);
    create(&members, &creation()).unwrap();
    members
}

fn creation() -> Creation {
    Creation {
        level: Level::Raid6,
        strip_bytes: STRIP,
        smallest: false,
        overwrite: false,
        zeroed: true,
        checksums: false,
    }
}

fn assemble(members: &[Arc<dyn Member>]) -> Arc<Array> {
    let settings = ArraySettings {
        shard: ShardSettings {
            merging: Merging::Batch,
            checked_above: true,
            ..ShardSettings::default()
        },
        shards: 2,
        method: IoMethod::Threads,
        background_rate: 0,
        ..ArraySettings::default()
    };
    Arc::new(Array::assemble(members.to_vec(), false, settings).unwrap())
}

fn open(array: &Arc<Array>) -> Arc<VolumeDisk> {
    let blocks = Arc::new(ArrayBlocks::new(array.clone()));
    Arc::new(VolumeDisk::open(blocks, [7; 16]).unwrap())
}

/// Waits until no task, such as a rebuild or a resync, is running.
fn wait_for_tasks(array: &Array) {
    while array.status().unwrap().tasks.iter().any(|task| !task.over) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn sequential_writes_of_a_file_cause_no_reads_of_members() {
    let members = members(24 << 20);
    let array = assemble(&members);
    let disk = open(&array);
    let before = array.status().unwrap().counters;
    // Writes like segments: several at a time, in pieces of pages, with reserved space that is returned at the end.
    let files: Vec<Arc<dyn File>> = (0..4)
        .map(|at| disk.create(&format!("segment-{at}")).unwrap())
        .collect();
    for piece in 0..160u64 {
        for (at, file) in files.iter().enumerate() {
            let size = 4096 * (1 + (piece + at as u64) % 3);
            let len = file.len().unwrap();
            file.reserve(len + size).unwrap();
            file.write_at(len, &vec![piece as u8; size as usize])
                .unwrap();
        }
    }
    for file in &files {
        file.write_at(file.len().unwrap(), &[9; 1000]).unwrap();
        file.set_len(file.len().unwrap()).unwrap();
        file.sync().unwrap();
    }
    disk.sync_names().unwrap();
    let done = array.status().unwrap().counters.since(&before);
    // Each sync adds a record to the table. The first record in a stripe is written with the whole stripe.
    assert!(done.partial <= 5, "{done:?}");
    assert!(done.blocks_read <= 5 * 6, "{done:?}");
    let bytes: u64 = files.iter().map(|file| file.len().unwrap()).sum();
    let stripes = bytes.div_ceil(STRIPE);
    assert!((stripes..stripes + 10).contains(&done.full), "{done:?}");
}

/// Creates a synced file of `bytes` bytes.
fn fill(disk: &VolumeDisk, name: &str, bytes: u64) {
    let file = disk.create(name).unwrap();
    file.write_at(0, &vec![1; bytes as usize]).unwrap();
    file.sync().unwrap();
    disk.sync_names().unwrap();
}

#[test]
fn units_of_removed_files_are_trimmed_after_the_removal_is_durable() {
    let members = members(24 << 20);
    let array = assemble(&members);
    let disk = open(&array);
    let trimmed = || array.status().unwrap().counters.trimmed * 4096;
    for name in ["a", "b", "c", "d"] {
        fill(&disk, name, 10 * STRIPE);
    }
    let open = disk.open("a").unwrap();
    disk.remove("a").unwrap();
    disk.remove("b").unwrap();
    assert_eq!(trimmed(), 0, "the table still has both files");
    disk.sync_names().unwrap();
    assert_eq!(trimmed(), 10 * STRIPE, "an open file is not trimmed");
    drop(open);
    disk.sync_names().unwrap();
    assert_eq!(trimmed(), 20 * STRIPE);
    let file = disk.open("c").unwrap();
    file.set_len(STRIPE).unwrap();
    file.sync().unwrap();
    assert_eq!(
        trimmed(),
        29 * STRIPE,
        "the end that was cut off is trimmed"
    );
    // All space is free again.
    let free = disk.free().unwrap().unwrap();
    fill(&disk, "e", free);
    assert_eq!(disk.free().unwrap(), Some(0));
    // With a missing member, blocks are not trimmed: readers may still get the old bytes.
    disk.remove("e").unwrap();
    array.fail(3).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    disk.sync_names().unwrap();
    assert_eq!(trimmed(), 29 * STRIPE);
    assert_eq!(disk.free().unwrap(), Some(free));
}

#[test]
fn members_that_are_files_keep_their_space() {
    let folder = tempfile::tempdir().unwrap();
    let devices = (0..4).map(|at| {
        let path = folder.path().join(at.to_string());
        Arc::new(Device::create(&path, 16 << 20).unwrap()) as Arc<dyn Member>
    });
    let members: Vec<Arc<dyn Member>> = devices.collect();
    let creation = Creation {
        level: Level::Raid5,
        ..creation()
    };
    create(&members, &creation).unwrap();
    let array = assemble(&members);
    let disk = open(&array);
    fill(&disk, "a", 10 * STRIPE);
    disk.remove("a").unwrap();
    disk.sync_names().unwrap();
    assert_eq!(array.status().unwrap().counters.trimmed, 0);
}

#[test]
fn a_volume_with_other_contents_is_rejected_until_it_is_cleared() {
    let members = members(8 << 20);
    let array = assemble(&members);
    let page = seiner_raid::Page::copy_of(&[1; 4096]);
    array.write(3, vec![page], true).unwrap();
    let blocks = Arc::new(ArrayBlocks::new(array.clone()));
    let error = VolumeDisk::open(blocks.clone(), [7; 16]).unwrap_err();
    assert!(matches!(error, OpenError::Foreign), "{error}");
    clear(&*blocks).unwrap();
    let disk = VolumeDisk::open(blocks.clone(), [7; 16]).unwrap();
    disk.create("a").unwrap();
    disk.sync_names().unwrap();
    drop(disk);
    assert_eq!(
        VolumeDisk::open(blocks.clone(), [8; 16])
            .unwrap()
            .list()
            .unwrap(),
        ["a"]
    );
    clear(&*blocks).unwrap();
    assert!(
        VolumeDisk::open(blocks, [8; 16])
            .unwrap()
            .list()
            .unwrap()
            .is_empty()
    );
}

fn options() -> Options {
    Options {
        durability: Durability::Sync,
        memory: 8 << 20,
        block_bytes: 512,
        segment_bytes: 256 << 10,
        journal_bytes: 1 << 20,
        disk: Some(24 << 20),
        lanes: 2,
        ..Options::default()
    }
}

const ROWS: i64 = 200;

fn append(engine: &Engine, from: i64) {
    let ids = ["a", "b", "c"].map(|name| {
        let key = SourceKey::new(name, std::iter::empty::<(&str, &str)>()).unwrap();
        engine.register(&key).unwrap()
    });
    let times: Vec<i64> = (from..from + ROWS).collect();
    let sources: Vec<_> = times.iter().map(|&time| ids[time as usize % 3]).collect();
    let values: Vec<f64> = times
        .iter()
        .map(|&time| (time * 7919 % 100_003) as f64 / 8.0)
        .collect();
    let receipt = engine
        .append_samples("value", &sources, &times, &values)
        .unwrap();
    assert_eq!(receipt.rejected_total, 0, "{:?}", receipt.rejected);
}

/// Returns the times in the store, and checks the value of each.
fn times(engine: &Engine) -> Vec<i64> {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let mut times = Vec::new();
    for series in engine.select(&query).unwrap() {
        let series = series.unwrap();
        let Column::F64(values) = series.values else {
            panic!("floats")
        };
        for (time, value) in series.times.iter().zip(values) {
            assert_eq!(value, (time * 7919 % 100_003) as f64 / 8.0);
        }
        times.extend(series.times);
    }
    times.sort_unstable();
    times
}

#[test]
fn a_store_keeps_its_data_with_two_lost_members_and_repeated_kills() {
    let mut members = members(24 << 20);
    let mut lost = Vec::new();
    let mut rng = Rng::new(1);
    let mut acknowledged = 0;
    for life in 0..12 {
        let array = assemble(&without(&members, &lost));
        let disk = open(&array);
        let engine = Engine::start(disk.clone(), options()).unwrap();
        let found = times(&engine);
        let whole = found.iter().copied().eq(0..found.len() as i64);
        assert!(whole, "life {life}: rows are missing before the last");
        let count = found.len() as i64;
        assert!(
            count >= acknowledged,
            "life {life}: {acknowledged} were acknowledged, {count} are there"
        );
        acknowledged = count;
        let turns = rng.between(5, 60);
        for turn in 0..turns {
            if life == 1 && turn == 3 {
                lost = vec![1, 4];
                lost.iter().for_each(|&member| array.fail(member).unwrap());
            }
            append(&engine, acknowledged);
            engine.commit().unwrap();
            acknowledged += ROWS;
        }
        // A write is in progress when the process dies.
        let last = engine.clone();
        let from = acknowledged;
        let busy = std::thread::spawn(move || {
            append(&last, from);
            // The array may have halted.
            let _ = last.commit();
        });
        std::thread::sleep(Duration::from_micros(rng.below(3000)));
        array.halt();
        busy.join().unwrap();
        drop((engine, disk));
        if life == 8 {
            replace(&mut members, &lost);
            lost.clear();
        }
    }
}

fn without(members: &[Arc<dyn Member>], lost: &[usize]) -> Vec<Arc<dyn Member>> {
    let there = members
        .iter()
        .enumerate()
        .filter(|(member, _)| !lost.contains(member));
    there.map(|(_, device)| device.clone()).collect()
}

/// Replaces the lost members by new devices and rebuilds them.
fn replace(members: &mut [Arc<dyn Member>], lost: &[usize]) {
    let array = assemble(&without(members, lost));
    for &member in lost {
        members[member] = devices(1, 24 << 20).remove(0);
        array.replace(member, members[member].clone()).unwrap();
    }
    wait_for_tasks(&array);
    assert_eq!(array.status().unwrap().condition, Condition::Whole);
    array.stop().unwrap();
}
