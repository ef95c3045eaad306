//! Tests of running arrays: threads, members in memory and in files.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Flaky, Plain, eventually, file, page};
use seiner_platform::sim::Rng;
use seiner_raid::{
    Array, ArraySettings, Block, Command, Completeness, Condition, Device, Failure, Geometry,
    IoMethod, Level, Member, Merging, OrderError, Page, Ram, ShardSettings,
};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc::channel;

const STRIP: u64 = 16 << 10;
const MEMBER: u64 = 8 << 20;

const LEVELS: [(Level, usize); 4] = [
    (Level::Raid0, 3),
    (Level::Raid1, 3),
    (Level::Raid5, 4),
    (Level::Raid6, 5),
];

fn settings(method: IoMethod, merging: Merging) -> ArraySettings {
    ArraySettings {
        shard: ShardSettings {
            merging,
            region_stripes: 8,
            ..ShardSettings::default()
        },
        shards: 3,
        method,
        ..ArraySettings::default()
    }
}

fn geometry(level: Level, members: usize) -> Geometry {
    Geometry::new(level, members, STRIP, MEMBER).unwrap()
}

fn in_memory(level: Level, members: usize) -> (Array, Vec<Arc<Flaky>>) {
    let flaky: Vec<Arc<Flaky>> = (0..members)
        .map(|_| Arc::new(Flaky::new(Ram::new(MEMBER))))
        .collect();
    let members = flaky
        .iter()
        .map(|member| member.clone() as Arc<dyn Member>)
        .collect();
    let settings = settings(IoMethod::Automatic, Merging::Adaptive);
    let array = Array::bare(geometry(level, flaky.len()), members, settings).unwrap();
    (array, flaky)
}

#[test]
fn every_level_keeps_its_data_with_every_method_and_strategy() {
    let dir = tempfile::tempdir().unwrap();
    let mut seed = 0;
    for (level, members) in LEVELS {
        for (method, merging) in [
            (IoMethod::Automatic, Merging::Adaptive),
            (IoMethod::Threads, Merging::Batch),
            (IoMethod::Automatic, Merging::Always),
        ] {
            seed += 1;
            let device = |at| -> Arc<dyn Member> {
                Arc::new(file(dir.path(), &format!("{seed}-{at}"), MEMBER))
            };
            let devices = (0..members).map(device).collect();
            let array =
                Array::bare(geometry(level, members), devices, settings(method, merging)).unwrap();
            let mut plain = Plain::new(&array);
            plain.load(&array, seed, 300);
            plain.compare(&array);
            array.stop().unwrap();
            assert_eq!(array.read(0, 1).unwrap_err(), Failure::Stopped);
        }
    }
}

#[test]
fn requests_across_shards_are_combined_and_zeroes_and_trims_are_accepted() {
    let (array, _) = in_memory(Level::Raid6, 5);
    let size = array.bytes() / u64::from(array.block_bytes());
    assert_eq!(array.stripe_bytes(), 3 * STRIP);
    let data: Vec<Page> = (0..size).map(|block| page(7, block)).collect();
    array.write(0, data, false).unwrap();
    array.write_zeroes(100, size - 200, true).unwrap();
    array.trim(0, 50).unwrap();
    let read = array.read(0, size).unwrap();
    for (block, found) in (0..).zip(read) {
        let expected = match (100..size - 100).contains(&block) {
            true => Page::zero(),
            false => page(7, block),
        };
        assert!(found.same(&expected), "block {block}");
    }
    assert!(matches!(
        array.read(size, 1),
        Err(Failure::OutOfRange { .. })
    ));
    assert!(matches!(
        array.trim(size, 1),
        Err(Failure::OutOfRange { .. })
    ));
    assert!(matches!(
        array.write(5, Vec::new(), false),
        Err(Failure::OutOfRange { .. })
    ));
}

#[test]
fn trimmed_stripes_contain_zeroes_and_matching_syndromes() {
    for (level, count) in LEVELS {
        let dir = tempfile::tempdir().unwrap();
        let geometry = geometry(level, count);
        let paths: Vec<_> = (0..count)
            .map(|at| dir.path().join(at.to_string()))
            .collect();
        let files = paths.iter().map(|path| {
            Arc::new(Device::create(path, geometry.member_bytes()).unwrap()) as Arc<dyn Member>
        });
        let settings = settings(IoMethod::Automatic, Merging::Adaptive);
        let array = Array::bare(geometry, files.collect(), settings).unwrap();
        let stripe = u64::from(geometry.stripe_blocks());
        let size = geometry.blocks();
        let data: Vec<Page> = (0..size).map(|block| page(5, block)).collect();
        array.write(0, data.clone(), true).unwrap();
        let allocated = |path: &std::path::PathBuf| std::fs::metadata(path).unwrap().blocks() * 512;
        let before: u64 = paths.iter().map(allocated).sum();
        // The range goes from the middle of one stripe to the middle of another, across regions and shards.
        let (start, end) = (stripe + 1, size - 1);
        array.trim(start, end - start).unwrap();
        // This range is smaller than a stripe.
        array.trim(1, stripe - 1).unwrap();
        let after: u64 = paths.iter().map(allocated).sum();
        let trimmed = 2 * stripe..end / stripe * stripe;
        assert_eq!(
            array.status().unwrap().counters.trimmed,
            trimmed.end - trimmed.start
        );
        assert!(
            after < before / 4,
            "{level:?}: {before} bytes allocated, then {after}"
        );
        let check = |array: &Array| {
            let read = array.read(0, size).unwrap();
            for (block, found) in (0..).zip(read) {
                let wanted = match trimmed.contains(&block) {
                    true => Page::zero(),
                    false => data[block as usize].clone(),
                };
                assert!(found.same(&wanted), "{level:?}: block {block}");
            }
        };
        check(&array);
        array.scrub().unwrap();
        eventually("the scrub is over", || {
            array.status().unwrap().tasks.iter().all(|task| task.over)
        });
        let status = array.status().unwrap();
        assert_eq!((status.counters.repaired, status.tasks[0].failed), (0, 0));
        for lost in 0..geometry.syndromes() {
            array.fail(lost).unwrap();
            check(&array);
            array.trim(2 * stripe, stripe).unwrap();
        }
        check(&array);
        array.stop().unwrap();
    }
}

#[test]
fn an_array_works_without_a_failed_member_and_rebuilds_its_replacement() {
    for (level, members) in LEVELS {
        let (array, flaky) = in_memory(level, members);
        let mut plain = Plain::new(&array);
        plain.load(&array, 1, 200);
        flaky[1].break_it();
        if level == Level::Raid0 {
            let failed =
                (0..100).any(|block| array.write(block, vec![page(1, block)], false).is_err());
            assert!(failed);
            assert_eq!(array.status().unwrap().condition, Condition::Broken);
            continue;
        }
        plain.load(&array, 2, 200);
        plain.compare(&array);
        let status = array.status().unwrap();
        assert_eq!(status.condition, Condition::Degraded(1), "{level:?}");
        assert_eq!(status.members[1].completeness, Completeness::Gone);
        assert_eq!(
            array.replace(0, Arc::new(Ram::new(MEMBER))),
            Err(OrderError::There(0))
        );
        assert_eq!(
            array.replace(9, Arc::new(Ram::new(MEMBER))),
            Err(OrderError::NoMember(9, members - 1))
        );
        let small = Arc::new(Ram::new(MEMBER / 2));
        assert!(matches!(
            array.replace(1, small),
            Err(OrderError::Small { .. })
        ));
        array.replace(1, Arc::new(Ram::new(MEMBER))).unwrap();
        plain.load(&array, 3, 200);
        eventually("it is filled", || {
            array.status().unwrap().condition == Condition::Whole
        });
        flaky[0].break_it();
        plain.compare(&array);
        array.stop().unwrap();
    }
}

#[test]
fn a_spare_replaces_a_lost_member_automatically() {
    let (array, flaky) = in_memory(Level::Raid5, 4);
    let mut plain = Plain::new(&array);
    plain.load(&array, 1, 100);
    array.add_spare(Arc::new(Ram::new(MEMBER))).unwrap();
    assert_eq!(array.status().unwrap().spares.len(), 1);
    flaky[2].break_it();
    plain.load(&array, 2, 100);
    eventually("the spare is filled", || {
        let status = array.status().unwrap();
        status.condition == Condition::Whole && status.spares.is_empty()
    });
    flaky[0].break_it();
    plain.compare(&array);
}

#[test]
fn a_needed_member_cannot_be_taken_out_of_use() {
    let (array, _) = in_memory(Level::Raid6, 5);
    assert_eq!(array.fail(0), Ok(()));
    assert_eq!(array.fail(0), Err(OrderError::Gone(0)));
    assert_eq!(array.fail(3), Ok(()));
    assert_eq!(array.fail(4), Err(OrderError::Needed(4)));
    let mut plain = Plain::new(&array);
    plain.load(&array, 1, 100);
    plain.compare(&array);
}

#[test]
fn more_losses_than_the_level_tolerates_are_reported() {
    let (array, flaky) = in_memory(Level::Raid5, 4);
    let mut plain = Plain::new(&array);
    plain.load(&array, 1, 100);
    flaky[0].break_it();
    flaky[3].break_it();
    let lost = (0..200).any(|block| array.read(block, 1).is_err());
    assert!(lost);
    assert!(array.write(0, vec![page(1, 0)], false).is_err());
    assert_eq!(array.status().unwrap().condition, Condition::Broken);
    assert!(array.flush().is_err());
}

#[test]
fn a_scrub_repairs_identified_blocks_and_reports_other_stripes() {
    let (array, flaky) = in_memory(Level::Raid6, 5);
    let mut plain = Plain::new(&array);
    plain.load(&array, 1, 200);
    flaky[2].write(5 * 4096, &[page(99, 1)], false).unwrap();
    array.scrub().unwrap();
    let scrubbed = |array: &Array| {
        array
            .status()
            .unwrap()
            .tasks
            .iter()
            .find(|task| task.over)
            .cloned()
    };
    eventually("it is scrubbed", || scrubbed(&array).is_some());
    let task = scrubbed(&array).unwrap();
    assert_eq!(
        (task.stripes, task.done, task.failed),
        (MEMBER / STRIP, MEMBER / STRIP, 0)
    );
    assert_eq!(array.status().unwrap().counters.repaired, 1);
    plain.compare(&array);
    let (array, flaky) = in_memory(Level::Raid5, 4);
    flaky[2].write(5 * 4096, &[page(99, 1)], false).unwrap();
    array.scrub().unwrap();
    eventually("it is scrubbed", || scrubbed(&array).is_some());
    let task = scrubbed(&array).unwrap();
    assert_eq!(task.failed, 1);
    assert!(task.failures[0].contains("stripe 1"), "{:?}", task.failures);
}

#[test]
fn a_dropped_array_answers_all_requests() {
    let (array, _) = in_memory(Level::Raid6, 5);
    let (sender, results) = channel();
    for block in 0..500 {
        let sender = sender.clone();
        let command = Command::Write {
            start: block % 100,
            data: vec![page(1, block)],
            durable: false,
        };
        array.submit(
            command,
            Box::new(move |result| sender.send(result.is_ok()).unwrap()),
        );
    }
    drop((array, sender));
    assert_eq!(results.iter().count(), 500);
}

#[test]
fn many_threads_submit_at_the_same_time() {
    let (array, _) = in_memory(Level::Raid6, 6);
    let size = array.bytes() / 4096;
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let array = &array;
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                let (first, share) = (thread * (size / 4), size / 4);
                for round in 0..500u64 {
                    let block = first + rng.below(share);
                    let tag = (thread << 32) | round;
                    array.write(block, vec![page(3, tag)], false).unwrap();
                    assert!(array.read(block, 1).unwrap()[0].same(&page(3, tag)));
                }
            });
        }
    });
    array.stop().unwrap();
}
