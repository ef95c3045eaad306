//! Tests of arrays with checksums on members that return wrong data.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Plain, Power, Powered, eventually, page};
use seiner_platform::sim::Rng;
use seiner_raid::{
    Array, ArraySettings, Block, Condition, Creation, Level, Member, Page, Ram, create, superblock,
};
use std::sync::Arc;

const MEMBER: u64 = 6 << 20;

fn created(level: Level, count: usize) -> Vec<Arc<Ram>> {
    let rams: Vec<Arc<Ram>> = (0..count).map(|_| Arc::new(Ram::new(MEMBER))).collect();
    let creation = Creation {
        level,
        strip_bytes: 16 << 10,
        smallest: false,
        overwrite: false,
        zeroed: true,
        checksums: true,
    };
    create(&members(&rams), &creation).unwrap();
    rams
}

fn members(rams: &[Arc<Ram>]) -> Vec<Arc<dyn Member>> {
    rams.iter()
        .map(|ram| ram.clone() as Arc<dyn Member>)
        .collect()
}

fn assemble(rams: &[Arc<Ram>]) -> Array {
    let settings = ArraySettings {
        shards: 2,
        ..ArraySettings::default()
    };
    Array::assemble(members(rams), false, settings).unwrap()
}

fn wait_for_tasks(array: &Array) {
    eventually("tasks are over", || {
        array.status().unwrap().tasks.iter().all(|task| task.over)
    });
}

/// Flips bits in some blocks of a member's data.
fn rot(ram: &Ram, seed: u64, blocks: u64) {
    let mut rng = Rng::new(seed);
    let data = superblock(ram).unwrap().data();
    for _ in 0..blocks {
        let at = data.start + rng.below((data.end - data.start) / 4096) * 4096;
        let mut pages = [page(0, 0)];
        ram.read(at, &mut pages).unwrap();
        let byte = rng.below(4096) as usize;
        pages[0].bytes_mut()[byte] ^= 1 << rng.below(8);
        ram.write(at, &pages, true).unwrap();
    }
}

fn corrupt(array: &Array) -> Vec<u64> {
    let members = array.status().unwrap().members;
    members.iter().map(|member| member.corrupt).collect()
}

#[test]
fn corrupt_blocks_are_repaired_and_counted_for_their_member() {
    for (level, count) in [(Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 6)] {
        let rams = created(level, count);
        let array = assemble(&rams);
        let mut plain = Plain::new(&array);
        plain.load(&array, 1, 400);
        array.flush().unwrap();
        rot(&rams[1], 1, 200);
        // Writes over and reads the damaged blocks.
        plain.load(&array, 2, 40);
        plain.compare(&array);
        array.scrub().unwrap();
        wait_for_tasks(&array);
        let found = corrupt(&array);
        assert!(found[1] > 20 && found[1] <= 200, "{found:?}");
        assert_eq!(
            found.iter().sum::<u64>(),
            found[1],
            "only member 1 has damaged blocks"
        );
        array.scrub().unwrap();
        wait_for_tasks(&array);
        assert_eq!(corrupt(&array), found, "every block is repaired");
        array.stop().unwrap();
        // The members are repaired too: only one copy is left here.
        let array = assemble(&rams);
        array.fail(0).unwrap();
        plain.compare(&array);
        array.stop().unwrap();
    }
}

#[test]
fn without_redundancy_corrupt_blocks_are_not_returned() {
    let rams = created(Level::Raid5, 3);
    let array = assemble(&rams);
    let size = array.bytes() / 4096;
    let data: Vec<Page> = (0..size).map(|block| page(3, block)).collect();
    array.write(0, data.clone(), true).unwrap();
    array.fail(0).unwrap();
    rot(&rams[1], 2, 30);
    let mut failed_reads = 0;
    for (block, right) in data.iter().enumerate() {
        match array.read(block as u64, 1) {
            Ok(pages) => assert!(pages[0].same(right), "block {block} is wrong"),
            Err(_) => failed_reads += 1,
        }
    }
    assert!(failed_reads >= 20, "{failed_reads}");
}

#[test]
fn a_crash_between_a_block_and_its_checksum_is_not_corruption() {
    let mut cut_within = 0;
    for seed in 0..16u64 {
        let rams = created(Level::Raid6, 5);
        let power = Power::for_writes(40 + seed * 41);
        let powered = rams
            .iter()
            .map(|ram| Powered::member(ram, &power))
            .collect();
        let array = Array::assemble(powered, false, ArraySettings::default()).unwrap();
        let mut plain = Plain::new(&array);
        plain.load_until_it_fails(&array, seed);
        // The threads end as those of a killed process do.
        drop(array);
        let array = assemble(&rams);
        wait_for_tasks(&array);
        assert!(plain.learn(&array), "everything can be read");
        plain.compare(&array);
        assert_eq!(corrupt(&array).iter().sum::<u64>(), 0, "seed {seed}");
        array.scrub().unwrap();
        wait_for_tasks(&array);
        let status = array.status().unwrap();
        assert_eq!(
            (status.condition, status.counters.repaired),
            (Condition::Whole, 0)
        );
        array.fail(0).unwrap();
        array.fail(3).unwrap();
        plain.compare(&array);
        cut_within += u64::from(power.left() == 0);
    }
    assert!(cut_within > 12, "{cut_within} of 16");
}

#[test]
fn a_new_member_gets_checksums_of_its_own() {
    let rams = created(Level::Raid6, 4);
    let array = assemble(&rams);
    let mut plain = Plain::new(&array);
    plain.load(&array, 1, 300);
    array.fail(2).unwrap();
    let other = Arc::new(Ram::new(MEMBER));
    let noise: Vec<Page> = (0..MEMBER / 4096).map(|block| page(9, block)).collect();
    other.write(0, &noise, true).unwrap();
    array.replace(2, other.clone()).unwrap();
    plain.load(&array, 2, 300);
    wait_for_tasks(&array);
    plain.compare(&array);
    array.scrub().unwrap();
    wait_for_tasks(&array);
    assert_eq!(corrupt(&array), [0; 4]);
    array.stop().unwrap();
    let all = [&rams[0], &rams[1], &other, &rams[3]].map(Arc::clone);
    let array = assemble(&all);
    array.fail(0).unwrap();
    array.fail(1).unwrap();
    plain.compare(&array);
    array.stop().unwrap();
}

#[test]
fn a_run_of_small_writes_costs_one_block_of_checksums_and_a_durable_one_its_own() {
    let cost = |checksums: bool, durable: bool| {
        let rams: Vec<Arc<Ram>> = (0..4).map(|_| Arc::new(Ram::new(MEMBER))).collect();
        let creation = Creation {
            level: Level::Raid5,
            strip_bytes: 4096,
            smallest: false,
            overwrite: false,
            zeroed: true,
            checksums,
        };
        create(&members(&rams), &creation).unwrap();
        let power = Power::for_writes(1 << 40);
        let powered = rams
            .iter()
            .map(|ram| Powered::member(ram, &power))
            .collect();
        // The records of a start are the same in both cases.
        let begin = power.left();
        let array = Array::assemble(powered, false, ArraySettings::default()).unwrap();
        for block in 0..60 {
            array.write(block, vec![page(1, block)], durable).unwrap();
        }
        array.flush().unwrap();
        array.stop().unwrap();
        begin - power.left()
    };
    let (plain, checked) = (cost(false, false), cost(true, false));
    // One write per member and flush. The last flush comes at the stop.
    assert!(
        checked >= plain + 4 && checked <= plain + 16,
        "{plain}, {checked}"
    );
    let (plain, checked) = (cost(false, true), cost(true, true));
    assert!(checked >= plain + 120, "{plain}, {checked}");
}
