//! Tests of arrays that stop and start again: superblocks, intent records, crashes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::assembled::{
    MEMBER, assemble, assert_consistent, created, creation, members, rams, settings, wait_for_tasks,
};
use common::{Plain, Power, Powered, eventually, file, page};
use seiner_raid::{
    Array, ArraySettings, AssembleError, Block, Completeness, Condition, Creation, Device, Level,
    Member, Page, Ram, create, superblock,
};
use std::sync::Arc;

const LEVELS: [(Level, usize); 4] = [
    (Level::Raid0, 3),
    (Level::Raid1, 3),
    (Level::Raid5, 4),
    (Level::Raid6, 5),
];

#[test]
fn a_stopped_array_continues_with_its_data() {
    let dir = tempfile::tempdir().unwrap();
    for (level, count) in LEVELS {
        let path = |at: usize| dir.path().join(format!("{level:?}-{at}"));
        let devices: Vec<Arc<dyn Member>> = (0..count)
            .map(|at| {
                Arc::new(file(dir.path(), &format!("{level:?}-{at}"), MEMBER)) as Arc<dyn Member>
            })
            .collect();
        create(&devices, &creation(level)).unwrap();
        drop(devices);
        let mut plain: Option<Plain> = None;
        for round in 0..3 {
            let devices = (0..count)
                .rev()
                .map(|at| Arc::new(Device::open(&path(at)).unwrap()) as Arc<dyn Member>);
            let array = Array::assemble(devices.collect(), false, settings()).unwrap();
            assert!(
                array.status().unwrap().tasks.is_empty(),
                "a clean array has no tasks"
            );
            let plain = plain.get_or_insert_with(|| Plain::new(&array));
            plain.compare(&array);
            plain.load(&array, round, 100);
            array.stop().unwrap();
        }
    }
}

#[test]
fn acknowledged_writes_survive_a_crash_and_syndromes_match_afterwards() {
    for (level, count) in [
        (Level::Raid1, 2),
        (Level::Raid1, 3),
        (Level::Raid5, 4),
        (Level::Raid6, 5),
    ] {
        for seed in 0..4u64 {
            let rams = created(level, count);
            let mut plain: Option<Plain> = None;
            for round in 0..3 {
                // The power may fail again during the resync.
                let power = Power::for_writes(20 * round);
                let powered = rams
                    .iter()
                    .map(|ram| Powered::member(ram, &power))
                    .collect();
                if let Ok(array) = Array::assemble(powered, false, settings()) {
                    eventually("tasks end or fail", || {
                        array.status().unwrap().tasks.iter().all(|task| task.over)
                    });
                }
                let array = assemble(&rams);
                let plain = plain.get_or_insert_with(|| Plain::new(&array));
                assert!(plain.learn(&array));
                drop(array);
                let power = Power::for_writes(150 + 37 * seed + 100 * round);
                let powered = rams
                    .iter()
                    .map(|ram| Powered::member(ram, &power))
                    .collect();
                let array = Array::assemble(powered, false, settings()).unwrap();
                plain.load_until_it_fails(&array, seed << 8 | round);
                drop(array);
            }
            let array = assemble(&rams);
            let plain = plain.as_mut().unwrap();
            assert!(plain.learn(&array));
            plain.compare(&array);
            assert_consistent(&array);
            assert_eq!(array.status().unwrap().condition, Condition::Whole);
            // The syndromes are sufficient without member 0.
            if level != Level::Raid0 {
                array.fail(0).unwrap();
                plain.compare(&array);
            }
            array.stop().unwrap();
        }
    }
}

#[test]
fn without_the_intent_record_syndromes_do_not_match_after_a_crash() {
    let mut torn = 0;
    for seed in 0..12u64 {
        let rams = created(Level::Raid5, 4);
        let power = Power::for_writes(150 + 37 * seed);
        let powered = rams
            .iter()
            .map(|ram| Powered::member(ram, &power))
            .collect();
        let array = Array::assemble(powered, false, settings()).unwrap();
        Plain::new(&array).load_until_it_fails(&array, seed);
        drop(array);
        // The records of a new array state that nothing is being written.
        let again = Creation {
            overwrite: true,
            ..creation(Level::Raid5)
        };
        create(&members(&rams), &again).unwrap();
        let array = assemble(&rams);
        array.scrub().unwrap();
        wait_for_tasks(&array);
        torn += array
            .status()
            .unwrap()
            .tasks
            .iter()
            .filter(|task| task.failed > 0)
            .count();
    }
    assert!(
        torn > 3,
        "{torn} of 12: the test of crashes proves too little"
    );
}

#[test]
fn the_first_write_to_a_region_costs_a_record_on_every_member() {
    let costs = || {
        let rams = created(Level::Raid6, 5);
        let power = Power::for_writes(u64::MAX);
        let powered = rams
            .iter()
            .map(|ram| Powered::member(ram, &power))
            .collect();
        let array = Array::assemble(powered, false, settings()).unwrap();
        // The records of the start have been written by then, unless the machine stalls.
        let mut left = u64::MAX;
        while left != power.left() {
            left = power.left();
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let data = array.stripe_bytes() / 4096;
        let region = superblock(&*rams[0]).unwrap().region_stripes * data;
        [0, 1, data, region, region + 1].map(|block| {
            let before = power.left();
            array.write(block, vec![page(1, block)], false).unwrap();
            before - power.left()
        })
    };
    // A single block costs one strip and both syndromes. If the machine stalls for seconds, regions leave the
    // record meanwhile.
    assert!(
        (0..5).any(|_| costs() == [3 + 5, 3, 3, 3 + 5, 3]),
        "{:?}",
        costs()
    );
}

#[test]
fn a_failed_member_is_stale_and_a_missing_one_needs_permission() {
    let rams = created(Level::Raid6, 5);
    let array = assemble(&rams);
    let mut plain = Plain::new(&array);
    plain.load(&array, 1, 100);
    array.fail(1).unwrap();
    plain.load(&array, 2, 100);
    array.stop().unwrap();

    let error = Array::assemble(members(&rams), true, settings())
        .err()
        .unwrap();
    assert!(
        matches!(error, AssembleError::Stale { member: 1, .. }),
        "{error}"
    );
    let mut rest = rams.clone();
    rest.remove(1);
    let array = assemble(&rest);
    assert_eq!(array.status().unwrap().condition, Condition::Degraded(1));
    plain.compare(&array);
    array.stop().unwrap();

    let fewer = &rest[1..];
    let error = Array::assemble(members(fewer), false, settings())
        .err()
        .unwrap();
    assert!(
        matches!(&error, AssembleError::Missing { missing } if missing == &[0]),
        "{error}"
    );
    let array = Array::assemble(members(fewer), true, settings()).unwrap();
    plain.compare(&array);
    plain.load(&array, 3, 100);
    array.stop().unwrap();
    let error = Array::assemble(members(&rest), true, settings())
        .err()
        .unwrap();
    assert!(
        matches!(error, AssembleError::Stale { member: 0, .. }),
        "{error}"
    );
    let error = Array::assemble(members(&rest[2..]), true, settings())
        .err()
        .unwrap();
    assert!(
        matches!(
            error,
            AssembleError::TooFew {
                there: 2,
                needed: 3,
                ..
            }
        ),
        "{error}"
    );

    // The array accepts the member again as an empty device.
    let array = assemble(fewer);
    array.replace(0, rams[0].clone()).unwrap();
    array.replace(1, rams[1].clone()).unwrap();
    wait_for_tasks(&array);
    array.stop().unwrap();
    let array = assemble(&rams);
    assert_eq!(array.status().unwrap().condition, Condition::Whole);
    plain.compare(&array);
    assert_consistent(&array);
}

#[test]
fn more_losses_than_the_level_tolerates_are_not_recorded() {
    let rams = created(Level::Raid5, 4);
    let powers: Vec<_> = (0..4).map(|_| Power::for_writes(u64::MAX)).collect();
    let powered = rams
        .iter()
        .zip(&powers)
        .map(|(ram, power)| Powered::member(ram, power))
        .collect();
    let array = Array::assemble(powered, false, settings()).unwrap();
    let mut plain = Plain::new(&array);
    plain.load(&array, 1, 100);
    powers.iter().for_each(|power| power.cut());
    assert!(array.write(0, vec![page(1, 1)], false).is_err());
    assert!(array.flush().is_err());
    assert_eq!(array.status().unwrap().condition, Condition::Broken);
    assert!(array.stop().is_err());
    let array = assemble(&rams);
    assert_eq!(array.status().unwrap().condition, Condition::Whole);
    let first = array.read(0, 1).unwrap();
    let size = array.bytes() / 4096;
    let mut again = array.read(0, size).unwrap();
    again[0] = first[0].clone();
    assert_consistent(&array);
}

#[test]
fn a_rebuild_continues_after_a_crash_from_its_recorded_position() {
    let rams = created(Level::Raid6, 5);
    let slow = ArraySettings {
        // 5 MiB per member in about 8 s.
        background_rate: 640 << 10,
        ..settings()
    };
    let array = Array::assemble(members(&rams), false, slow).unwrap();
    let mut plain = Plain::new(&array);
    plain.load(&array, 1, 200);
    array.stop().unwrap();
    let array = Array::assemble(members(&rams), false, slow).unwrap();
    array.fail(2).unwrap();
    array.replace(2, rams[2].clone()).unwrap();
    let on_record = || match superblock(&*rams[0]).unwrap().completeness[2] {
        Completeness::Below(stripes) => stripes,
        other => panic!("{other:?}"),
    };
    eventually("a position is on record", || on_record() > 10);
    drop(array);
    let position = on_record();
    let array = assemble(&rams);
    wait_for_tasks(&array);
    let status = array.status().unwrap();
    assert_eq!(status.condition, Condition::Whole);
    let rebuilt: u64 = status.tasks.iter().map(|task| task.stripes).sum();
    assert!(
        rebuilt <= array.geometry().stripes() - position,
        "{rebuilt} stripes, from {position} on"
    );
    plain.compare(&array);
    assert_consistent(&array);
    array.fail(0).unwrap();
    array.fail(1).unwrap();
    plain.compare(&array);
}

#[test]
fn a_member_that_is_reported_complete_is_complete_after_a_crash() {
    let mut rams = created(Level::Raid6, 5);
    let array = assemble(&rams);
    array.fail(2).unwrap();
    rams[2] = Arc::new(Ram::new(MEMBER));
    array.replace(2, rams[2].clone()).unwrap();
    eventually("it is full", || {
        array.status().unwrap().condition == Condition::Whole
    });
    drop(array);
    let completeness = superblock(&*rams[0]).unwrap().completeness;
    assert_eq!(completeness[2], Completeness::Full);
    let array = assemble(&rams);
    // Two other members can be lost at once.
    array.fail(0).unwrap();
    array.fail(1).unwrap();
}

#[test]
fn a_spare_is_recorded_and_replaces_a_missing_member_after_a_restart() {
    let rams = created(Level::Raid5, 4);
    let spare = Arc::new(Ram::new(MEMBER + 8192));
    let array = assemble(&rams);
    let mut plain = Plain::new(&array);
    plain.load(&array, 1, 100);
    array.add_spare(spare.clone()).unwrap();
    array.stop().unwrap();
    let mut all = rams.clone();
    all.push(spare);
    let array = assemble(&all);
    assert_eq!(array.status().unwrap().spares.len(), 1);
    array.stop().unwrap();
    all.remove(0);
    let array = Array::assemble(members(&all), true, settings()).unwrap();
    wait_for_tasks(&array);
    let status = array.status().unwrap();
    assert_eq!(
        (status.condition, status.spares.len()),
        (Condition::Whole, 0)
    );
    plain.compare(&array);
    array.stop().unwrap();
    let array = assemble(&all);
    plain.compare(&array);
}

#[test]
fn devices_with_old_contents_are_resynced() {
    for (level, count) in [(Level::Raid1, 2), (Level::Raid6, 4)] {
        let rams = rams(count);
        for (at, ram) in rams.iter().enumerate() {
            let noise: Vec<Page> = (0..MEMBER / 4096)
                .map(|block| page(at as u8, block))
                .collect();
            ram.write(0, &noise, true).unwrap();
        }
        let over = Creation {
            overwrite: true,
            zeroed: false,
            ..creation(level)
        };
        create(&members(&rams), &over).unwrap();
        let array = assemble(&rams);
        // Writes before the stripe's turn in the resync.
        let size = array.bytes() / 4096;
        array.write(size - 1, vec![page(9, 9)], false).unwrap();
        assert!(array.read(size - 1, 1).unwrap()[0].same(&page(9, 9)));
        assert_consistent(&array);
        array.fail(0).unwrap();
        assert!(array.read(size - 1, 1).unwrap()[0].same(&page(9, 9)));
    }
}

#[test]
fn a_scrub_counts_repaired_blocks_per_member() {
    let rams = created(Level::Raid6, 5);
    let array = assemble(&rams);
    let size = array.bytes() / 4096;
    array
        .write(0, (0..size).map(|block| page(1, block)).collect(), true)
        .unwrap();
    rams[2]
        .write((1 << 20) + 8192, &[page(7, 7)], true)
        .unwrap();
    array.scrub().unwrap();
    wait_for_tasks(&array);
    let members = array.status().unwrap().members;
    let repaired: Vec<u64> = members.iter().map(|member| member.repaired).collect();
    assert_eq!(repaired, [0, 0, 1, 0, 0]);
}
