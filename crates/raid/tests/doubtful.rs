//! Tests of doubtful stripes: a crash while a member is missing.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::assembled::{
    MEMBER, STRIP, assemble, assert_consistent, created, settings, wait_for_tasks,
};
use common::{Plain, eventually, page};
use seiner_platform::sim::Rng;
use seiner_raid::{Array, Block, Condition, Failure, Level, Member, Ram};
use std::sync::Arc;

#[test]
fn a_crash_without_a_member_leaves_stripes_doubtful_until_they_are_written_whole() {
    let rams = created(Level::Raid5, 4);
    let array = assemble(&rams);
    let size = array.bytes() / 4096;
    array
        .write(0, (0..size).map(|block| page(1, block)).collect(), false)
        .unwrap();
    array.stop().unwrap();
    let array = assemble(&rams);
    array.fail(0).unwrap();
    // Writes in the first stripes that no flush makes durable.
    let (written, data) = (8, array.stripe_bytes() / 4096);
    for stripe in 0..written {
        let block = stripe * data + 1;
        array.write(block, vec![page(1, block)], false).unwrap();
    }
    drop(array);
    let mut rest = rams[1..].to_vec();
    let array = assemble(&rest);
    wait_for_tasks(&array);
    let doubtful = |array: &Array| array.status().unwrap().doubtful_stripes;
    // In every fourth stripe the lost member has only the syndrome: nothing is lost there.
    assert_eq!(doubtful(&array), 6);
    assert!(matches!(array.read(0, 1), Err(Failure::Doubtful { .. })));
    array.read(written * data, size - written * data).unwrap();
    let before = doubtful(&array);
    array
        .write(0, (0..data).map(|block| page(3, block)).collect(), false)
        .unwrap();
    assert_eq!(doubtful(&array), before - 1);
    array.stop().unwrap();
    for _ in 0..2 {
        let array = assemble(&rest);
        wait_for_tasks(&array);
        assert_eq!(
            doubtful(&array),
            before - 1,
            "the number is the same as before the stop"
        );
        assert!(array.read(0, 1).unwrap()[0].same(&page(3, 0)));
        assert!(array.read(data, data).is_err());
        array.stop().unwrap();
    }
    // After a rewrite of all blocks and with a new member the array is complete.
    let array = assemble(&rest);
    array
        .write(0, (0..size).map(|block| page(4, block)).collect(), false)
        .unwrap();
    array.replace(0, rams[0].clone()).unwrap();
    wait_for_tasks(&array);
    assert_eq!(
        (doubtful(&array), array.status().unwrap().condition),
        (0, Condition::Whole)
    );
    array.stop().unwrap();
    rest.insert(0, rams[0].clone());
    assert_consistent(&assemble(&rest));
}

/// Returns the members of an array without member 0 that was killed after a durable write to block 1.
fn killed_without_member_0(level: Level, count: usize) -> Vec<Arc<Ram>> {
    let rams = created(level, count);
    let array = assemble(&rams);
    let size = array.bytes() / 4096;
    array
        .write(0, (0..size).map(|block| page(1, block)).collect(), false)
        .unwrap();
    array.stop().unwrap();
    let array = assemble(&rams);
    array.fail(0).unwrap();
    array.write(1, vec![page(1, 1)], true).unwrap();
    array.halt();
    rams
}

#[test]
fn a_rebuild_includes_doubtful_stripes_after_they_are_written_whole() {
    let rams = killed_without_member_0(Level::Raid5, 4);
    let array = assemble(&rams[1..]);
    wait_for_tasks(&array);
    array.replace(0, Arc::new(Ram::new(MEMBER))).unwrap();
    wait_for_tasks(&array);
    let status = array.status().unwrap();
    assert!(status.doubtful_stripes > 0, "{status:?}");
    assert_eq!(status.condition, Condition::Degraded(1));
    // Writes one stripe at a time. The rebuild skips doubtful stripes repeatedly until none are left.
    let (size, data) = (array.bytes() / 4096, array.stripe_bytes() / 4096);
    for start in (0..size).step_by(data as usize) {
        let blocks = (start..start + data).map(|block| page(5, block)).collect();
        array.write(start, blocks, false).unwrap();
    }
    eventually("the member is filled", || {
        array.status().unwrap().condition == Condition::Whole
    });
    assert_eq!(array.status().unwrap().doubtful_stripes, 0);
    array.fail(1).unwrap();
    assert!(array.read(0, size).unwrap()[7].same(&page(5, 7)));
}

#[test]
fn raid_6_without_a_member_doubts_only_stripes_with_inconsistent_rows() {
    let rams = killed_without_member_0(Level::Raid6, 5);
    let array = assemble(&rams[1..]);
    wait_for_tasks(&array);
    assert_eq!(
        array.status().unwrap().doubtful_stripes,
        0,
        "no write was in progress"
    );
    let size = array.bytes() / 4096;
    let all = array.read(0, size).unwrap();
    assert!(
        (0..)
            .zip(&all)
            .all(|(block, found)| found.same(&page(1, block)))
    );
    array.stop().unwrap();
    let array = assemble(&rams[1..]);
    let data = array.stripe_bytes() / 4096;
    for stripe in 0..5 {
        let block = stripe * data;
        array.write(block, vec![page(1, block)], false).unwrap();
    }
    array.halt();
    // Simulates a write that reached one member and not the others, in each of the first stripes.
    let (offset, rows) = (1 << 20, STRIP / 4096);
    for stripe in 0..5 {
        let place = offset + stripe * rows * 4096;
        rams[3].write(place, &[page(9, stripe)], true).unwrap();
    }
    let array = assemble(&rams[1..]);
    wait_for_tasks(&array);
    // In five stripes, member 0 has data of three and a syndrome of the other two.
    assert_eq!(array.status().unwrap().doubtful_stripes, 3);
    let unread = (0..size).filter(|&block| array.read(block, 1).is_err());
    let unread: Vec<u64> = unread.map(|block| block / data).collect();
    assert!(
        !unread.is_empty() && unread.iter().all(|&stripe| stripe < 5),
        "{unread:?}"
    );
}

#[test]
fn a_crash_after_durable_writes_without_members_leaves_one_doubtful_stripe_per_shard() {
    for (level, count, missing) in [
        (Level::Raid5, 4, 1),
        (Level::Raid6, 6, 1),
        (Level::Raid6, 6, 2),
    ] {
        let rams = created(level, count);
        let array = assemble(&rams);
        let (size, data) = (array.bytes() / 4096, array.stripe_bytes() / 4096);
        let mut plain = Plain::new(&array);
        plain.load(&array, 3, 50);
        (0..missing).for_each(|member| array.fail(member).unwrap());
        array.stop().unwrap();
        let array = assemble(&rams[missing..]);
        let mut rng = Rng::new(7);
        for tag in 0..30 {
            let block = rng.below(size);
            plain.write(&array, block, page(8, tag));
        }
        array.halt();
        let array = assemble(&rams[missing..]);
        wait_for_tasks(&array);
        let doubtful = array.status().unwrap().doubtful_stripes;
        let shards = settings().shards as u64;
        assert!(
            doubtful <= shards,
            "{level:?} without {missing}: {doubtful}"
        );
        let unread = (0..size).filter(|&block| match array.read(block, 1) {
            Ok(found) => {
                assert!(found[0].same(plain.page(block)), "block {block}");
                false
            }
            Err(_) => true,
        });
        let unread = unread.count() as u64;
        assert!(
            unread <= data,
            "{level:?} without {missing}: {unread} blocks"
        );
    }
}
