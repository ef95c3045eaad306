//! Tests of the disk budget.

use super::*;
use proptest::prelude::*;
use seiner_merge::{Death, MergePolicy, SegmentStat, View};

const MIB: u64 = 1 << 20;

fn needs(budget: Option<u64>) -> Needs {
    Needs {
        budget,
        unit: 4096,
        segment_bytes: MIB,
        lanes: 32,
        journal: Some(JournalSize {
            bytes: 8 * MIB,
            file: MIB / 2,
        }),
        ledger: 32 << 10,
        has_levels: false,
        merge_from: 0.95,
    }
}

/// Creates the counts of a store with 64 MiB.
fn space() -> Space {
    Space::new(needs(Some(64 * MIB)))
}

fn rows(rows: u64) -> Load {
    Load {
        rows,
        ..Load::default()
    }
}

#[test]
fn the_least_budget_is_accepted_and_one_byte_less_is_not() {
    // 128 KiB sundry, 8 + 4·0.5 MiB journal, 32 KiB ledger, 2 MiB, two maps and 16 lanes for merging, 8 segments.
    let least = (128 << 10) + 10 * MIB + (32 << 10) + 2 * (MIB + 4096) + 16 * 8192 + 8 * MIB;
    assert_eq!(needs(None).least_budget(), least);
    // Space for eight segments is left.
    let space = Space::new(needs(Some(least)));
    let left = space.headroom(&Load::default());
    assert_eq!(left, 8 * MIB + (32 << 10));
    let less = std::panic::catch_unwind(|| Space::new(needs(Some(least - 1))));
    assert!(less.is_err());
}

#[test]
fn lanes_follow_the_journal_within_bounds() {
    let with = |journal: Option<u64>, lanes| {
        let journal = journal.map(|bytes| JournalSize { bytes, file: 4096 });
        let needs = Needs {
            journal,
            lanes,
            ..needs(None)
        };
        needs.lanes()
    };
    assert_eq!(with(Some(64 << 10), 32), 4, "a small journal has four");
    assert_eq!(with(Some(64 << 10), 2), 2, "no more than the setting");
    assert_eq!(with(Some(8 * MIB), 32), 16, "one for each 512 KiB");
    assert_eq!(
        with(None, 200),
        200,
        "without a journal, as many as are set"
    );
}

#[test]
fn reserves_follow_the_settings() {
    let plain = needs(Some(640 * MIB));
    assert_eq!(plain.merge_reserve(), 2 * (MIB + 4096) + 16 * 8192);
    assert_eq!(plain.rollup_reserve(), 0);
    let levels = Needs {
        has_levels: true,
        ..plain
    };
    assert_eq!(levels.rollup_reserve(), 10 * MIB, "a 64th of the budget");
    let small = Needs {
        budget: None,
        ..levels
    };
    assert_eq!(small.rollup_reserve(), MIB, "at least one segment");
    let memory = Needs {
        journal: None,
        ..plain
    };
    assert_eq!(memory.journal_space(), 0);
    let coarse = Needs {
        unit: 65536,
        ..plain
    };
    let more = coarse.least_budget() - plain.least_budget();
    assert_eq!(more, 26 * (65536 - 4096), "ends of files in larger units");
    assert_eq!(needs(None).thrifty_segment(), 0);
    // √(2 · 1.5 · 4096 · 640 MiB / 16) / 2
    assert_eq!(plain.thrifty_segment(), 358_955);
}

#[test]
fn rows_in_memory_and_their_heads_are_reserved_to_the_last_byte() {
    let space = space();
    let headroom = space.headroom(&Load::default());
    let mut load = Load {
        blocks: 10,
        ..rows(headroom - 961)
    };
    assert_eq!(space.headroom(&load), 1);
    load.rows += 1;
    assert_eq!(space.headroom(&load), 0);
    // A merge still has its reserve. A store beyond its budget has no reserve.
    assert_eq!(space.free_space(&load), 64 * MIB - space.used(&load));
    load.rows += 100 * MIB;
    assert_eq!((space.headroom(&load), space.limit(&load)), (0, 1));
}

#[test]
fn segments_keep_their_bytes_until_they_are_deleted() {
    let mut space = space();
    let used = |space: &Space| space.used(&Load::default());
    let empty = used(&space);
    space.seal(3 * MIB);
    space.seal(MIB);
    space.retire(3 * MIB);
    assert_eq!((used(&space) - empty, space.retired()), (4 * MIB, 3 * MIB));
    space.set_aside(MIB);
    assert_eq!(used(&space) - empty, 4 * MIB, "a damaged file stays");
    space.delete(2 * MIB);
    assert_eq!((used(&space) - empty, space.retired()), (2 * MIB, 0));
    space.note_aside(0);
    space.note_catalog(8192);
    space.note_ledger(4096);
    assert_eq!(used(&space) - empty, MIB + 8192 + 4096);
}

#[test]
fn the_journal_counts_with_its_limit_and_any_excess() {
    let space = space();
    let of = |journal, journal_files| Load {
        journal,
        journal_files,
        ..Load::default()
    };
    let empty = space.used(&of(0, 0));
    assert_eq!(space.used(&of(8 * MIB, 16)), empty);
    assert_eq!(space.used(&of(9 * MIB, 18)), empty + MIB);
    // Rows on their way to a full journal count before they are written.
    let staged = Load {
        staged: MIB,
        ..of(8 * MIB, 16)
    };
    assert_eq!(space.used(&staged), empty + MIB);
    // In files, the journal is counted with its present length, and a begun file with all reserved
    // bytes.
    assert_eq!(space.used_by_files(&of(1, 1)), MIB / 2);
    assert_eq!(space.used_by_files(&of(MIB, 1)), MIB);
    assert_eq!(
        space.used_by_files(&of(9 * MIB, 100)),
        11 * MIB,
        "at most the charge"
    );
}

#[test]
fn other_files_on_the_disk_lower_the_budget() {
    let mut space = space();
    space.seal(10 * MIB);
    let load = Load {
        journal: MIB,
        journal_files: 2,
        ..Load::default()
    };
    assert!(!space.is_crowded());
    space.note_free(Some(1000 * MIB), 0, &load);
    assert_eq!((space.budget(), space.is_crowded()), (64 * MIB, false));
    // 128 KiB, 10 MiB sealed, 1 MiB of journal are there, 20 − 5 MiB are free for it.
    space.note_free(Some(20 * MIB), 5 * MIB, &load);
    assert_eq!(space.budget(), 26 * MIB + (128 << 10));
    assert!(space.is_crowded());
    space.note_free(Some(0), 100 * MIB, &load);
    assert_eq!((space.budget(), space.free_space(&load)), (0, 0));
    space.note_free(None, 0, &load);
    assert!(!space.is_crowded());
    // Without a setting, other programs must leave the minimum budget.
    let mut free = Space::new(needs(None));
    let least = needs(None).least_budget() - (128 << 10);
    free.note_free(Some(least), 0, &Load::default());
    assert!(!free.is_crowded());
    free.note_free(Some(least - 1), 0, &Load::default());
    assert!(free.is_crowded());
}

#[test]
fn merging_begins_before_writers_are_slowed() {
    let large = Space::new(needs(Some(100_000 * MIB)));
    assert_eq!(
        large.fill(&Load::default(), 7).um,
        0.95,
        "the configured limit"
    );
    let small = Space::new(needs(Some(needs(None).least_budget())));
    let fill = small.fill(&Load::default(), 7);
    assert_eq!(fill.live, 7);
    let limit = small.limit(&Load::default()) as f64 / fill.budget as f64;
    assert!(fill.um < 0.98 * limit, "{} {limit}", fill.um);
    let load = rows(1000 * MIB);
    assert_eq!(small.fill(&load, 0).um, LEAST_UM, "never below a tenth");
}

#[test]
fn the_rollup_uses_its_reserve_when_writers_have_no_headroom() {
    let space = Space::new(Needs {
        has_levels: true,
        ..needs(Some(64 * MIB))
    });
    let full = rows(space.headroom(&Load::default()));
    assert_eq!(space.headroom(&full), 0);
    assert!(space.has_space_for_rollup(&full));
    let over = rows(full.rows + MIB);
    assert!(!space.has_space_for_rollup(&over));
}

#[test]
fn the_default_policy_merges_before_writers_are_slowed() {
    let mut space = Space::new(needs(Some(1024 * MIB)));
    let none = Load::default();
    let delay = |space: &Space| delay_s(space.used_after_merges(&none), space.limit(&none));
    let mut segments = Vec::new();
    let is_hungry = |space: &Space, segments: &[SegmentStat]| {
        let view = View {
            now: 0,
            fill: space.fill(&none, segments.iter().map(|segment| segment.live).sum()),
            output_limit: MIB,
            least_dead_share: seiner_merge::least_dead_share(false),
            segments,
        };
        let decision = MergePolicy::default().policy().choose(&view);
        !decision.merge.is_empty()
    };
    while !is_hungry(&space, &segments) {
        segments.push(SegmentStat {
            number: segments.len() as u64,
            lane: 0,
            bytes: MIB,
            live: MIB - MIB / 20,
            dead: MIB / 20,
            born: 0,
            dies: Death::At(1000),
        });
        space.seal(MIB);
    }
    // Writers may still store three segments until the merge takes effect.
    space.seal(3 * MIB);
    assert_eq!(delay(&space), 0.0, "{} segments", segments.len());
}

#[test]
fn segments_that_a_merge_has_rewritten_do_not_slow_writers() {
    let mut space = space();
    let none = Load::default();
    space.seal(space.headroom(&none) / 4096 * 4096);
    let delay = |space: &Space| delay_s(space.used_after_merges(&none), space.limit(&none));
    assert!(delay(&space) > 0.9);
    space.note_merged(MIB);
    assert_eq!(space.used_after_merges(&none), space.used(&none) - MIB);
    assert_eq!(delay(&space), 0.0);
    // They still take their space.
    assert!(space.headroom(&none) < 4096);
}

#[test]
fn writers_pay_for_the_bytes_since_the_last_charge() {
    let mut debt = Debt::default();
    assert_eq!(debt.charge(10 * MIB, delay_s(98, 100)), Duration::ZERO);
    let half = delay_s(199, 200);
    assert!((half - 0.5).abs() < 1e-9);
    assert_eq!(debt.charge(11 * MIB, 0.5).as_millis(), 500);
    assert_eq!(
        debt.charge(11 * MIB, 0.5).as_millis(),
        500,
        "no bytes since the last charge"
    );
    assert_eq!(
        debt.charge(99 * MIB, 0.5).as_millis(),
        1000,
        "a second at most"
    );
    debt.clear();
    assert_eq!(debt.charge(99 * MIB, 0.5), Duration::ZERO);
    assert_eq!(debt.charge(100 * MIB, 1.0).as_millis(), 1000);
    assert_eq!(
        debt.charge(101 * MIB, 0.0),
        Duration::ZERO,
        "there is space"
    );
}

#[test]
#[should_panic(expected = "4097 bytes are taken from 4096 bytes of sealed segments")]
fn more_bytes_than_sealed_cannot_be_retired() {
    let mut space = space();
    space.seal(4096);
    space.retire(4097);
}

#[test]
#[should_panic(expected = "1 bytes are taken from 0 bytes of retired segments")]
fn a_segment_in_service_cannot_be_deleted() {
    let mut space = space();
    space.seal(4096);
    space.delete(1);
}

#[test]
#[should_panic(expected = "overflows")]
fn sums_never_wrap() {
    let mut space = space();
    space.seal(u64::MAX);
    space.seal(1);
}

proptest! {
    /// After any bookings, the sums equal those of a plain list of segments, and the parts add up
    /// to the budget unless it is exceeded.
    #[test]
    fn space_accounting_agrees_with_a_list(
        steps in prop::collection::vec((0..4u8, 1..3 * MIB), 0..200),
        rows in 0..8 * MIB,
        journal in 0..12 * MIB,
    ) {
        let mut space = space();
        let load = Load { open: 3 * 4096, journal, journal_files: journal.div_ceil(MIB / 2), staged: 0, rows, blocks: rows / 4096 };
        let empty = space.used(&load);
        let (mut sealed, mut retired, mut aside) = (Vec::new(), Vec::new(), 0);
        for (step, bytes) in steps {
            let bytes = on_disk(bytes, 4096);
            match step {
                0 => {
                    space.seal(bytes);
                    sealed.push(bytes);
                }
                1 => if let Some(bytes) = sealed.pop() {
                    space.retire(bytes);
                    retired.push(bytes);
                }
                2 => if let Some(bytes) = retired.pop() {
                    space.delete(bytes);
                }
                _ => if let Some(bytes) = retired.pop() {
                    space.set_aside(bytes);
                    aside += bytes;
                }
            }
            let listed = sealed.iter().chain(&retired).sum::<u64>() + aside;
            let (used, reserved) = (space.used(&load), space.reserved(&load));
            prop_assert_eq!(used - empty, listed);
            prop_assert_eq!(space.retired(), retired.iter().sum::<u64>());
            let headroom = space.headroom(&load);
            if used + reserved <= space.budget() {
                prop_assert_eq!(used + reserved + headroom, space.budget());
            } else {
                prop_assert_eq!(headroom, 0);
            }
            prop_assert_eq!(space.fill(&load, 0).headroom(), headroom);
            prop_assert!(space.used_by_files(&load) <= used);
            prop_assert!(space.free_space(&load) >= headroom);
        }
    }
}
