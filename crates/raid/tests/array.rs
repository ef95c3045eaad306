//! Tests of the state machine with members in memory: costs, contents and answers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use seiner_platform::sim::Rng;
use seiner_raid::{
    Action, BLOCK_BYTES, Block, Failure, Geometry, Level, Merging, Nanos, Operation, Outcome, Page,
    Reply, Request, Shard, ShardSettings,
};

const HOLD: Nanos = 300_000;

/// An array and its members, which execute operations on request.
struct Array {
    shard: Shard<Page>,
    members: Vec<Vec<Page>>,
    operations: Vec<Operation<Page>>,
    replies: Vec<Reply<Page>>,
    token: u64,
    now: Nanos,
}

impl Array {
    fn new(level: Level, members: usize, strip: u64, merging: Merging) -> Array {
        let geometry = Geometry::new(level, members, strip, 32 * strip).unwrap();
        let settings = ShardSettings {
            merging,
            longest_hold: HOLD,
            ..ShardSettings::default()
        };
        let blocks = (32 * strip) as usize / BLOCK_BYTES;
        Array {
            shard: Shard::new(geometry, settings),
            members: vec![vec![Page::zero(); blocks]; members],
            operations: Vec::new(),
            replies: Vec::new(),
            token: 0,
            now: 0,
        }
    }

    fn ask(&mut self, request: Request<Page>) -> u64 {
        self.token += 1;
        self.shard.request(self.now, self.token, request);
        self.collect();
        self.token
    }

    fn write(&mut self, start: u64, blocks: u64, fill: u8) -> u64 {
        let data = (0..blocks).map(|at| page(fill, start + at)).collect();
        self.ask(Request::Write {
            start,
            data,
            durable: false,
        })
    }

    fn collect(&mut self) {
        let output = std::mem::take(self.shard.output());
        self.operations.extend(output.operations);
        self.replies.extend(output.replies);
    }

    /// Completes all operations in the order of their start.
    fn run(&mut self) {
        self.run_without(|_| false);
    }

    /// Completes all operations, with some unreadable blocks of members.
    fn run_without(&mut self, unreadable: impl Fn(u64) -> bool) {
        while !self.operations.is_empty() {
            let operation = self.operations.remove(0);
            let member = &mut self.members[operation.member];
            let outcome = match operation.action {
                Action::Read { start, blocks } | Action::Adopt { start, blocks }
                    if (start..start + u64::from(blocks)).any(&unreadable) =>
                {
                    Outcome::Unreadable
                }
                Action::Read { start, blocks } | Action::Adopt { start, blocks } => {
                    Outcome::Read(member[start as usize..][..blocks as usize].to_vec())
                }
                Action::Write { start, data, .. } => {
                    member[start as usize..][..data.len()].clone_from_slice(&data);
                    Outcome::Done
                }
                Action::Discard { start, blocks } => {
                    member[start as usize..][..blocks as usize].fill(Page::zero());
                    Outcome::Done
                }
                Action::Flush => Outcome::Done,
            };
            self.shard.completed(self.now, operation.id, outcome);
            self.collect();
        }
    }

    fn pass(&mut self, time: Nanos) {
        self.now += time;
        self.shard.tick(self.now);
        self.collect();
    }

    fn answered(&self, token: u64) -> bool {
        self.replies.iter().any(|reply| reply.token == token)
    }

    fn read(&mut self, start: u64, blocks: u64) -> Result<Vec<Page>, Failure> {
        let token = self.ask(Request::Read { start, blocks });
        self.run();
        self.replies
            .iter()
            .find(|reply| reply.token == token)
            .unwrap()
            .result
            .clone()
    }
}

fn page(fill: u8, block: u64) -> Page {
    let mut page = Page::zero();
    page.bytes_mut().fill(fill);
    page.bytes_mut()[..8].copy_from_slice(&block.to_le_bytes());
    page
}

fn operations(array: &Array) -> (u64, u64) {
    let counters = array.shard.counters();
    (counters.reads, counters.writes)
}

#[test]
fn a_single_block_and_a_whole_stripe_of_raid_6_cost_six_operations_each() {
    let mut array = Array::new(Level::Raid6, 6, 16 << 10, Merging::Never);
    array.write(5, 1, 1);
    array.run();
    assert_eq!(operations(&array), (3, 3));
    array.write(16, 16, 2);
    array.run();
    assert_eq!(operations(&array), (3, 3 + 6));
    assert_eq!(array.replies.len(), 2);
}

#[test]
fn the_cheaper_method_for_new_syndromes_is_used() {
    // Writes three of four strips: one strip is read, not five.
    let mut array = Array::new(Level::Raid6, 6, 4 << 10, Merging::Never);
    array.write(0, 3, 1);
    array.run();
    assert_eq!(operations(&array), (1, 5));
    // Writes one of eight strips: reads that strip and both syndromes, not seven strips.
    let mut array = Array::new(Level::Raid6, 10, 4 << 10, Merging::Never);
    array.write(0, 1, 1);
    array.run();
    assert_eq!(operations(&array), (3, 3));
    // Writes a whole row of a larger strip: no reads.
    let mut array = Array::new(Level::Raid5, 3, 8 << 10, Merging::Batch);
    array.write(0, 1, 1);
    array.write(1, 1, 1);
    array.write(3, 1, 1);
    array.run();
    let (reads, _) = operations(&array);
    assert!(reads <= 3, "{reads}");
}

#[test]
fn writes_to_mirrors_and_plain_stripes_read_nothing() {
    for (level, members, writes) in [(Level::Raid0, 3, 1), (Level::Raid1, 3, 3)] {
        let mut array = Array::new(level, members, 16 << 10, Merging::Batch);
        array.write(1, 1, 1);
        array.run();
        assert_eq!(operations(&array), (0, writes), "{level:?}");
    }
}

#[test]
fn held_writes_can_be_read_and_start_after_the_maximum_time() {
    let mut array = Array::new(Level::Raid6, 6, 16 << 10, Merging::Always);
    let write = array.write(3, 2, 7);
    array.run();
    assert!(!array.answered(write), "the write is held");
    let read = array.read(2, 3).unwrap();
    assert!(read[0].same(&Page::zero()) && read[1].same(&page(7, 3)) && read[2].same(&page(7, 4)));
    array.pass(HOLD - 1);
    array.run();
    assert!(!array.answered(write));
    array.pass(1);
    array.run();
    assert!(array.answered(write));
    assert!(array.read(4, 1).unwrap()[0].same(&page(7, 4)));
    assert_eq!(array.shard.counters().expired, 1);
}

#[test]
fn a_full_stripe_starts_at_once_as_a_whole() {
    let mut array = Array::new(Level::Raid6, 6, 16 << 10, Merging::Always);
    for block in 0..16 {
        array.write(block, 1, 9);
    }
    array.run();
    assert_eq!(array.replies.len(), 16);
    assert_eq!(operations(&array), (0, 6));
}

#[test]
fn a_flush_and_a_durable_write_start_held_writes() {
    let mut array = Array::new(Level::Raid6, 6, 16 << 10, Merging::Always);
    let (one, other) = (array.write(0, 1, 1), array.write(100, 1, 1));
    let flush = array.ask(Request::Flush);
    assert!(!array.answered(flush), "the flush waits for the writes");
    array.run();
    assert!(
        [one, other, flush]
            .into_iter()
            .all(|token| array.answered(token))
    );
    let flushed = array
        .replies
        .iter()
        .position(|reply| reply.token == flush)
        .unwrap();
    assert_eq!(flushed, 2, "writes first");

    array.write(200, 1, 1);
    let data = vec![page(1, 201)];
    array.ask(Request::Write {
        start: 201,
        data,
        durable: true,
    });
    let durable = |operation: &Operation<Page>| {
        matches!(
            operation.action,
            Action::Read { .. } | Action::Write { durable: true, .. }
        )
    };
    assert!(!array.operations.is_empty() && array.operations.iter().all(durable));
    array.run();
    assert_eq!(array.replies.len(), 5);
    assert_eq!(array.now, 0, "no time passed");
}

#[test]
fn every_level_keeps_its_data_with_and_without_redundant_members() {
    for (level, members) in [
        (Level::Raid0, 3),
        (Level::Raid1, 3),
        (Level::Raid5, 4),
        (Level::Raid6, 5),
    ] {
        for merging in Merging::ALL {
            let mut array = Array::new(level, members, 8 << 10, merging);
            let size = array.shard.geometry().blocks();
            let mut plain: Vec<Page> = vec![Page::zero(); size as usize];
            let mut rng = Rng::new(5);
            for round in 0..200u64 {
                let blocks = rng.between(1, 9);
                let start = rng.between(0, size - blocks);
                array.write(start, blocks, round as u8);
                (start..start + blocks)
                    .for_each(|block| plain[block as usize] = page(round as u8, block));
                if rng.chance(1, 3) {
                    array.run();
                    array.pass(HOLD);
                }
            }
            array.ask(Request::Flush);
            array.run();
            let spare = array.shard.geometry().syndromes();
            for lost in 0..=spare {
                if lost > 0 {
                    array.shard.lose_member(lost - 1);
                }
                let read = array.read(0, size).unwrap();
                let wrong = read
                    .iter()
                    .zip(&plain)
                    .position(|(read, plain)| !read.same(plain));
                assert_eq!(
                    wrong,
                    None,
                    "{level:?}, {}, {lost} members lost",
                    merging.name()
                );
            }
            array.shard.lose_member(spare);
            assert!(
                matches!(array.read(0, size), Err(Failure::Lost { .. })),
                "{level:?}"
            );
        }
    }
}

#[test]
fn a_replaced_member_is_rebuilt_and_read_again() {
    let mut array = Array::new(Level::Raid5, 4, 8 << 10, Merging::Batch);
    let size = array.shard.geometry().blocks();
    array.write(0, size, 3);
    array.run();
    array.shard.lose_member(2);
    array.members[2].fill(page(0xee, 0));
    array.shard.replace_member(2);
    for stripe in 0..array.shard.geometry().stripes() {
        array.shard.rebuild(0, 1000 + stripe, 2, stripe);
    }
    array.collect();
    array.run();
    array.shard.lose_member(0);
    let read = array.read(0, size).unwrap();
    assert!(
        read.iter()
            .enumerate()
            .all(|(block, read)| read.same(&page(3, block as u64)))
    );
}

#[test]
fn a_mirror_is_read_after_its_copies_are_equal() {
    let mut array = Array::new(Level::Raid1, 3, 8 << 10, Merging::Batch);
    for (copy, member) in array.members.iter_mut().enumerate() {
        member[2] = page(copy as u8, 0);
    }
    array.shard.resync(0, 900, 1);
    let tokens: Vec<u64> = (0..6)
        .map(|_| {
            array.ask(Request::Read {
                start: 2,
                blocks: 1,
            })
        })
        .collect();
    array.run();
    let reads = array
        .replies
        .iter()
        .filter(|reply| tokens.contains(&reply.token));
    let mut reads: Vec<Page> = reads
        .map(|reply| reply.result.as_ref().unwrap()[0].clone())
        .collect();
    assert_eq!(reads.len(), 6);
    (0..3).for_each(|_| reads.push(array.read(2, 1).unwrap().remove(0)));
    assert!(reads.iter().all(|read| read.same(&reads[0])));
}

#[test]
fn a_flush_without_any_member_fails() {
    let mut array = Array::new(Level::Raid5, 4, 8 << 10, Merging::Batch);
    (0..4).for_each(|member| array.shard.lose_member(member));
    let token = array.ask(Request::Flush);
    array.run();
    let reply = array.replies.iter().find(|reply| reply.token == token);
    assert_eq!(
        reply.unwrap().result.as_ref().unwrap_err(),
        &Failure::Broken
    );
}

#[test]
fn a_rebuild_of_a_failed_member_does_not_count_for_its_replacement() {
    let mut array = Array::new(Level::Raid6, 5, 4 << 10, Merging::Batch);
    let size = array.shard.geometry().blocks();
    array.write(0, size, 3);
    array.run();
    array.shard.lose_member(2);
    array.shard.replace_member(2);
    array.shard.rebuild(0, 900, 2, 0);
    array.collect();
    array.shard.lose_member(2);
    // A sector of member 0 is unreadable too, so that something is written, and the rebuild has not ended yet.
    while let Some(at) = array
        .operations
        .iter()
        .position(|operation| matches!(operation.action, Action::Read { .. }))
    {
        let operation = array.operations.remove(at);
        let Action::Read { start, blocks } = operation.action else {
            unreachable!("only reads were searched for");
        };
        let outcome = if operation.member == 0 {
            Outcome::Unreadable
        } else {
            Outcome::Read(
                array.members[operation.member][start as usize..][..blocks as usize].to_vec(),
            )
        };
        array.shard.completed(0, operation.id, outcome);
        array.collect();
    }
    assert!(!array.operations.is_empty() && !array.answered(900));
    array.members[2].fill(page(0xee, 0));
    array.shard.replace_member(2);
    array.run();
    assert!(array.answered(900));
    let read = array.read(0, size).unwrap();
    let sound = |(block, read): (usize, &Page)| read.same(&page(3, block as u64));
    assert!(read.iter().enumerate().all(sound));
}

#[test]
fn copies_of_a_mirror_are_made_equal_beside_a_lost_block() {
    let mut array = Array::new(Level::Raid1, 2, 8 << 10, Merging::Batch);
    array.members[0][1] = page(1, 1);
    array.members[1][1] = page(2, 1);
    array.shard.resync(0, 900, 0);
    array.collect();
    array.run_without(|block| block == 0);
    let reply = array.replies.iter().find(|reply| reply.token == 900);
    let expected = Failure::Lost { stripe: 0 };
    assert_eq!(reply.unwrap().result.as_ref().unwrap_err(), &expected);
    assert!(array.members[0][1].same(&array.members[1][1]));
}

#[test]
fn requests_beyond_the_end_are_rejected() {
    let mut array = Array::new(Level::Raid5, 3, 4 << 10, Merging::Batch);
    let size = array.shard.geometry().blocks();
    assert!(matches!(
        array.read(size, 1),
        Err(Failure::OutOfRange { .. })
    ));
    assert!(matches!(
        array.read(u64::MAX, 2),
        Err(Failure::OutOfRange { .. })
    ));
    let token = array.write(size - 1, 2, 1);
    assert!(array.answered(token));
    assert!(
        array.read(size - 1, 1).unwrap()[0].same(&Page::zero()),
        "a rejected write changed a block"
    );
}

#[test]
fn a_scrub_repairs_wrong_blocks_that_two_syndromes_identify() {
    for wrong in 0..6 {
        let mut array = Array::new(Level::Raid6, 6, 8 << 10, Merging::Batch);
        let size = array.shard.geometry().blocks();
        array.write(0, size, 3);
        array.run();
        array.members[wrong][3] = page(0x55, 77);
        array.shard.scrub(0, 900, 1);
        array.collect();
        array.run();
        let reply = array.replies.iter().find(|reply| reply.token == 900);
        assert!(reply.unwrap().result.is_ok());
        assert_eq!(array.shard.counters().repaired, 1, "member {wrong}");
        let read = array.read(0, size).unwrap();
        let sound = |(block, read): (usize, &Page)| read.same(&page(3, block as u64));
        assert!(read.iter().enumerate().all(sound), "member {wrong}");
        array.shard.scrub(0, 901, 1);
        array.collect();
        array.run();
        assert_eq!(array.shard.counters().repaired, 1, "no damage is left");
    }
    let mut array = Array::new(Level::Raid5, 4, 8 << 10, Merging::Batch);
    array.members[1][3] = page(0x55, 77);
    array.shard.scrub(0, 900, 1);
    array.collect();
    array.run();
    let reply = array.replies.iter().find(|reply| reply.token == 900);
    let expected = Failure::Inconsistent { stripe: 1 };
    assert_eq!(reply.unwrap().result.as_ref().unwrap_err(), &expected);
    assert!(
        array.members[1][3].same(&page(0x55, 77)),
        "nothing is written"
    );
}
