//! Retention: live and expired data, and its disk space.
#![allow(clippy::unwrap_used)]

use seiner_engine::{
    Class, Classes, Durability, Engine, Error, Given, Keep, MergePolicy, Options, Query, Relief,
    Step, WhenFull, check,
};
use seiner_model::{Interval, Selector, SourceId, SourceKey};
use seiner_platform::Disk;
use seiner_platform::sim::{SimClock, SimDisk};
use std::sync::Arc;
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;

fn class(name: &str, sources: &str, keep: Keep) -> Class {
    Class {
        name: name.to_string(),
        sources: sources.to_string(),
        keep,
        ..Class::forever()
    }
}

fn ring(rows: u64) -> Classes {
    let keep = Keep {
        rows: Some(rows),
        ..Keep::default()
    };
    Classes::new(vec![class("ring", "m", keep)]).unwrap()
}

fn options(classes: Classes) -> Options {
    Options {
        durability: Durability::Memory,
        memory: 1 << 20,
        block_bytes: 256,
        segment_bytes: 64 << 10,
        journal_bytes: 64 << 10,
        lanes: 8,
        classes,
        given: Given::All,
        apply_retention: true,
        ..Options::default()
    }
}

struct Store {
    disk: Arc<SimDisk>,
    clock: SimClock,
    engine: Engine,
    ids: Vec<SourceId>,
}

impl Store {
    fn new(options: Options) -> Store {
        Store::on(Arc::new(SimDisk::new(1)), SimClock::new(0), options)
    }

    fn on(disk: Arc<SimDisk>, clock: SimClock, options: Options) -> Store {
        let engine = Engine::open(disk.clone(), Arc::new(clock.clone()), options).unwrap();
        let ids = (0..20)
            .map(|n| {
                let measurement = if n < 10 { "m" } else { "other" };
                let key = SourceKey::new(measurement, [("n", n.to_string())]).unwrap();
                engine.register(&key).unwrap()
            })
            .collect();
        Store {
            disk,
            clock,
            engine,
            ids,
        }
    }

    fn reopen(self, options: Options) -> Store {
        self.engine.close().unwrap();
        drop(self.engine);
        Store::on(self.disk, self.clock, options)
    }

    /// A value that does not compress, a second later than the one before.
    fn tick(&self, sources: &[SourceId]) -> Result<(), Error> {
        self.clock.advance(SECOND as u64);
        let now = self.now();
        let times = vec![now; sources.len()];
        let values: Vec<f64> = sources
            .iter()
            .map(|source| {
                let mixed = (now as u64 ^ u64::from(source.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                f64::from_bits((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 2)
            })
            .collect();
        self.engine
            .append_samples("value", sources, &times, &values)
            .map(|_| ())
    }

    fn now(&self) -> i64 {
        use seiner_platform::Clock;
        self.clock.now()
    }

    fn flush_steps(&self) {
        while self.engine.step().unwrap() {}
    }

    /// In whole blocks, as `du` counts.
    fn used(&self) -> u64 {
        let names = self.disk.list().unwrap();
        let len = |name: &String| self.disk.open(name).unwrap().len().unwrap();
        names
            .iter()
            .map(|name| len(name).next_multiple_of(4096))
            .sum()
    }

    /// All of a source.
    fn query(&self, source: SourceId) -> Query {
        let key = self.engine.source_key(source).unwrap();
        let selector = format!("{}{{n=\"{}\"}}", key.measurement(), key.tag("n"));
        Query {
            selector: Selector::parse(&selector).unwrap(),
            fields: None,
            interval: Interval::new(i64::MIN, i64::MAX),
        }
    }

    fn times(&self, source: SourceId) -> Vec<i64> {
        let found = self.engine.select(&self.query(source)).unwrap();
        found.flat_map(|series| series.unwrap().times).collect()
    }
}

#[test]
fn a_ring_keeps_its_rows_within_the_budget_however_much_is_written() {
    for policy in MergePolicy::ALL {
        let budget = 2 << 20;
        let store = Store::new(Options {
            disk: Some(budget),
            policy,
            ..options(ring(5000))
        });
        let ring = &store.ids[..10];
        for tick in 0..100_000 {
            store.tick(ring).unwrap();
            if tick % 64 == 0 {
                store.flush_steps();
                assert!(store.used() <= budget, "{policy}: {} bytes", store.used());
            }
        }
        let times = store.times(ring[3]);
        assert!(
            (5000..5100).contains(&times.len()),
            "{policy}: {}",
            times.len()
        );
        let last = store.now();
        assert_eq!(times.last(), Some(&last));
        assert!(times.windows(2).all(|pair| pair[1] == pair[0] + SECOND));
        let status = store.engine.status();
        assert!(status.segments_dropped > 10, "{policy}: {status:?}");
    }
}

#[test]
fn rows_that_are_too_old_are_hidden_at_once_and_their_space_is_freed() {
    let keep = Keep {
        age: Some(Duration::from_secs(1000)),
        ..Keep::default()
    };
    let classes = || Classes::new(vec![class("short", "m", keep)]).unwrap();
    let store = Store::new(options(classes()));
    for _ in 0..20_000 {
        store.tick(&store.ids).unwrap();
    }
    store.engine.flush().unwrap();
    store.flush_steps();
    let before = store.used();
    assert_eq!(store.times(store.ids[0]).len(), 1001);
    assert_eq!(store.times(store.ids[10]).len(), 20_000);
    store.clock.advance(2000 * SECOND as u64);
    assert_eq!(store.times(store.ids[0]).len(), 0);
    store.flush_steps();
    assert!(store.used() <= before);
    // A clock that was set back brings nothing back.
    let store = store.reopen(options(classes()));
    store.clock.set_wall(0);
    assert_eq!(store.times(store.ids[0]).len(), 0);
    assert_eq!(store.times(store.ids[10]).len(), 20_000);
}

/// Nothing but the clock said that they were too old, and the clock is wrong now.
#[test]
fn a_clock_set_back_after_a_power_cut_brings_nothing_back() {
    let keep = Keep {
        age: Some(Duration::from_secs(1000)),
        ..Keep::default()
    };
    let classes = Classes::new(vec![class("short", "m", keep)]).unwrap();
    let options = Options {
        durability: Durability::Sync,
        ..options(classes)
    };
    let store = Store::new(options.clone());
    for _ in 0..500 {
        store.tick(&store.ids).unwrap();
    }
    store.engine.commit().unwrap();
    let late = store.now() + 800 * SECOND;
    store.clock.set_wall(late);
    // Hidden by an answer, and then by a step of the background.
    assert_eq!(store.times(store.ids[0]).len(), 201);
    let cut = |store: Store, late: i64, shown: std::ops::RangeInclusive<usize>| {
        let disk = Arc::new(store.disk.crash());
        store.clock.set_wall(0);
        let store = Store::on(disk, store.clock, options.clone());
        let found = store.times(store.ids[0]);
        assert!(found.iter().all(|time| *time >= late - 1000 * SECOND));
        // As late as it was said to be for a while to come.
        assert!(shown.contains(&found.len()), "{} shown", found.len());
        assert_eq!(store.times(store.ids[10]).len(), 500);
        store
    };
    let store = cut(store, late, 184..=201);
    let late = late + 100 * SECOND;
    store.clock.set_wall(late);
    store.flush_steps();
    let store = cut(store, late, 84..=101);
    // A store that is closed leaves the time that it is.
    let late = late + 50 * SECOND;
    store.clock.set_wall(late);
    assert_eq!(store.times(store.ids[0]).len(), 51);
    let store = store.reopen(options.clone());
    store.clock.set_wall(0);
    assert_eq!(store.times(store.ids[0]).len(), 51);
}

#[test]
fn rows_that_come_too_late_are_rejected_and_counted() {
    let keep = Keep {
        age: Some(Duration::from_secs(100)),
        ..Keep::default()
    };
    let classes = Classes::new(vec![class("short", "m", keep)]).unwrap();
    let store = Store::new(options(classes));
    store.clock.advance(1000 * SECOND as u64);
    store.flush_steps();
    let now = store.now();
    let times = [
        now,
        now - 50 * SECOND,
        now - 101 * SECOND,
        now - 100 * SECOND,
    ];
    let sources = [store.ids[0]; 4];
    let receipt = store
        .engine
        .append_samples("value", &sources, &times, &[1.0; 4])
        .unwrap();
    assert_eq!((receipt.rows, receipt.rejected_total), (3, 1));
    let (row, reason) = &receipt.rejected[0];
    assert_eq!(*row, 2);
    let text = reason.to_string();
    assert!(text.contains("\"short\" keeps (1"), "{text}");
    assert_eq!(store.times(store.ids[0]).len(), 3);
    // Others keep them.
    let others = [store.ids[10]; 4];
    let receipt = store
        .engine
        .append_samples("value", &others, &times, &[1.0; 4])
        .unwrap();
    assert_eq!((receipt.rows, receipt.rejected_total), (4, 0));
    let status = store.engine.status();
    assert_eq!((status.rows_too_old, status.rows_rejected), (1, 1));
}

#[test]
fn deleted_samples_are_gone_for_good_and_new_ones_stay() {
    let store = Store::new(options(Classes::default()));
    for _ in 0..3000 {
        store.tick(&store.ids).unwrap();
    }
    let (first, last) = (500 * SECOND, 1500 * SECOND);
    let selector = Selector::parse("m{n=\"1\"}").unwrap();
    let deleted = store.engine.delete(&selector, Interval::new(first, last));
    assert_eq!(deleted.unwrap(), 1);
    let gone = |times: &[i64]| times.iter().all(|time| !(first..=last).contains(time));
    let times = store.times(store.ids[1]);
    assert_eq!((times.len(), gone(&times)), (3000 - 1001, true));
    assert_eq!(store.times(store.ids[2]).len(), 3000);
    let all = Interval::new(i64::MIN, i64::MAX);
    let selector = Selector::parse("m{n=\"2\"}").unwrap();
    store.engine.delete(&selector, all).unwrap();
    let again = [store.ids[1], store.ids[2]];
    store
        .engine
        .append_samples("value", &again, &[600 * SECOND; 2], &[1.0; 2])
        .unwrap();
    let store = store.reopen(options(Classes::default()));
    assert_eq!(store.times(store.ids[1]).len(), 3000 - 1001 + 1);
    assert_eq!(store.times(store.ids[2]), [600 * SECOND]);
}

#[test]
fn rules_change_without_rewriting_and_bring_nothing_back() {
    let store = Store::new(options(ring(500)));
    for _ in 0..4000 {
        store.tick(&store.ids).unwrap();
    }
    let kept = store.times(store.ids[0]).len();
    assert!((500..600).contains(&kept), "{kept}");
    let store = store.reopen(options(Classes::default()));
    assert_eq!(store.times(store.ids[0]).len(), kept);
    assert_eq!(store.times(store.ids[10]).len(), 4000);
    for _ in 0..1000 {
        store.tick(&store.ids).unwrap();
    }
    assert_eq!(store.times(store.ids[0]).len(), kept + 1000);
    let store = store.reopen(options(ring(100)));
    let kept = store.times(store.ids[0]).len();
    assert!((100..200).contains(&kept), "{kept}");
}

#[test]
fn a_full_store_rejects_or_sheds_by_its_classes() {
    let full = |classes, ticks| {
        let store = Store::new(Options {
            disk: Some(2 << 20),
            ..options(classes)
        });
        let ended = (0..ticks).try_for_each(|tick| {
            if tick % 64 == 0 {
                store.flush_steps();
            }
            store.tick(&store.ids)
        });
        assert!(store.used() <= 2 << 20, "{} bytes", store.used());
        (store, ended)
    };
    let (store, rejected) = full(Classes::default(), 40_000);
    let never = |rejected: &Result<(), Error>| match rejected {
        Err(Error::Full { relief, .. }) => *relief == Relief::None,
        _ => false,
    };
    assert!(never(&rejected), "{rejected:?}");
    let selector = Selector::parse("m").unwrap();
    store
        .engine
        .delete(&selector, Interval::new(i64::MIN, i64::MAX))
        .unwrap();
    store.clock.advance(2 * SECOND as u64);
    store.tick(&store.ids).unwrap();

    let shed = Class {
        priority: 1,
        when_full: WhenFull::Shed,
        ..class("shed", "m", Keep::default())
    };
    let (store, written) = full(Classes::new(vec![shed]).unwrap(), 12_000);
    written.unwrap();
    let status = store.engine.status();
    assert!(status.shed_bytes > 0);
    // What dies together lies together, and what is all live is not merged in circles.
    let merged = status.merge_written - status.extra_written;
    let sealed = status.block_bytes_sealed;
    assert!(merged * 10 < sealed, "{merged} again of {sealed} bytes");
    assert_eq!(
        store
            .times(store.ids[0])
            .first()
            .map(|time| *time > 1000 * SECOND),
        Some(true)
    );
    assert_eq!(store.times(store.ids[10]).first(), Some(&SECOND));
}

/// Sends the same times once more, with other values.
fn send_again(store: &Store, rows: i64, turn: i64) -> Result<(), Error> {
    for row in 0..rows {
        let mixed = (row as u64 ^ (turn as u64) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let value = f64::from_bits((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 2);
        let times = vec![row * SECOND; store.ids.len()];
        let values = vec![value; store.ids.len()];
        store
            .engine
            .append_samples("value", &store.ids, &times, &values)?;
        if row % 50 == turn % 50 {
            store.flush_steps();
        }
    }
    Ok(())
}

#[test]
fn overwritten_blocks_are_dead_and_their_space_is_freed() {
    let options = Options {
        disk: Some(2 << 20),
        ..options(Classes::default())
    };
    let store = Store::new(options.clone());
    for turn in 0..30 {
        // No two turns divide the rows into the same blocks.
        send_again(&store, 1000 + turn % 3, turn).unwrap();
    }
    store.engine.flush().unwrap();
    store.flush_steps();
    assert_eq!(store.times(store.ids[3]).len(), 1002);
    let figures = |store: &Store| {
        let segments = store.engine.log().segments.into_iter();
        let stats = segments.map(|segment| segment.stat);
        stats.fold((0, 0), |sum, stat| (sum.0 + stat.live, sum.1 + stat.dead))
    };
    let (live, dead) = figures(&store);
    // Rows of two fields' worth of bits each, and the turn before in part.
    let once = 20 * 1000 * 10;
    assert!(
        live < once * 3,
        "{live} live, {dead} dead, {once} sent at once"
    );
    let store = store.reopen(options);
    store.flush_steps();
    assert_eq!(figures(&store), (live, dead));
    assert_eq!(store.times(store.ids[3]).len(), 1002);
}

#[test]
fn after_a_restart_as_much_is_live_and_dead_as_before() {
    let keep = Keep {
        rows: Some(400),
        ..Keep::default()
    };
    let options = options(Classes::new(vec![class("ring", "other", keep)]).unwrap());
    let store = Store::new(options.clone());
    for _ in 0..2000 {
        store.tick(&store.ids).unwrap();
    }
    store.engine.flush().unwrap();
    send_again(&store, 700, 1).unwrap();
    store.engine.flush().unwrap();
    let some = Selector::parse("m{n=\"1\"}").unwrap();
    let interval = Interval::new(900 * SECOND, 1500 * SECOND);
    store.engine.delete(&some, interval).unwrap();
    store.flush_steps();
    let figures = |store: &Store| -> Vec<(u64, u64, u64)> {
        let segments = store.engine.log().segments.into_iter();
        let stats = segments.map(|segment| segment.stat);
        stats
            .map(|stat| (stat.number, stat.live, stat.dead))
            .collect()
    };
    let before = figures(&store);
    let dead: u64 = before.iter().map(|(_, _, dead)| dead).sum();
    assert!(before.len() > 3 && dead > 50_000, "{before:?}");
    let store = store.reopen(options);
    store.flush_steps();
    assert_eq!(figures(&store), before);
}

#[test]
fn a_full_store_reports_when_space_returns() {
    let keep = Keep {
        age: Some(Duration::from_secs(50_000)),
        ..Keep::default()
    };
    let store = Store::new(Options {
        disk: Some(2 << 20),
        ..options(Classes::new(vec![class("day", "", keep)]).unwrap())
    });
    let rejected = (0..40_000).find_map(|tick| {
        if tick % 64 == 0 {
            store.flush_steps();
        }
        store.tick(&store.ids).err()
    });
    let Some(Error::Full { relief, .. }) = rejected else {
        panic!("{rejected:?}");
    };
    let wait = relief.wait().unwrap();
    assert!(wait.as_secs() > 40_000, "{wait:?}");
    store
        .clock
        .advance(wait.as_nanos() as u64 + 2 * SECOND as u64);
    store.flush_steps();
    store.tick(&store.ids).unwrap();
}

/// Every checkpoint of every lane has an index and a page that is half empty. With as many lanes as were
/// asked for, they took a quarter of a small store, which was full with a third of it dead.
#[test]
fn a_small_journal_does_not_fill_a_store_with_indexes() {
    let budget = 6 << 20;
    let store = Store::new(Options {
        durability: Durability::Interval(Duration::from_millis(100)),
        disk: Some(budget),
        journal_bytes: 256 << 10,
        lanes: 32,
        ..options(ring(36_000))
    });
    let mut written = 0;
    for tick in 0..400_000 {
        let rate = |at: &usize| tick % (at + 1) == 0;
        let due: Vec<SourceId> = (0..10).filter(rate).map(|at| store.ids[at]).collect();
        store.tick(&due).unwrap();
        written += due.len();
        if tick % 64 == 0 {
            store.engine.commit().unwrap();
            store.flush_steps();
        }
    }
    assert!(store.used() <= budget, "{}", store.used());
    assert!(written > 1_000_000, "{written}");
    let v = store.engine.log().fill.v();
    assert!(v > 0.5, "{v}");
}

#[test]
fn what_was_set_aside_counts_in_the_budget() {
    let store = Store::new(options(ring(100)));
    store.tick(&store.ids).unwrap();
    let before = store.engine.status().disk_used;
    let aside = store.disk.create("segment-00000063.damaged").unwrap();
    aside.write_at(0, &[7; 10_000]).unwrap();
    aside.sync().unwrap();
    let store = store.reopen(options(ring(100)));
    let used = store.engine.status().disk_used;
    assert!(
        (before + 12_288..before + 40_000).contains(&used),
        "{before} before, {used} now"
    );
}

#[test]
fn a_sealed_segment_with_checkpoints_is_found_sound() {
    let quick = || Options {
        idle_seal: Duration::from_secs(10),
        durability: Durability::Sync,
        lanes: 2,
        ..options(Classes::default())
    };
    let store = Store::new(quick());
    for _ in 0..4 {
        for _ in 0..50 {
            store.tick(&store.ids).unwrap();
        }
        // All sources fall silent, and a checkpoint is written.
        for _ in 0..20 {
            store.clock.advance(SECOND as u64);
            store.flush_steps();
        }
    }
    let checkpoints = |name: &String| name.ends_with(".open") && name.matches('.').count() == 2;
    let names = store.disk.list().unwrap();
    assert!(names.iter().any(checkpoints), "{names:?}");
    let store = store.reopen(quick());
    store.engine.close().unwrap();
    let report = seiner_engine::check(&*store.disk, &mut |_, _| {}).unwrap();
    assert!(report.is_sound() && report.blocks > 20, "{report:?}");
    let sealed = store.disk.list().unwrap();
    let sealed = sealed.iter().find(|name| name.ends_with(".log")).unwrap();
    let len = store.disk.open(sealed).unwrap().len().unwrap();
    for at in (0..len).step_by(61) {
        let disk = store.disk.fork(at);
        assert!(disk.flip_bit(sealed, at * 8 + at % 8));
        let report = seiner_engine::check(&disk, &mut |_, _| {}).unwrap();
        assert!(!report.is_sound(), "byte {at} of {len}");
    }
}

#[test]
fn a_quota_keeps_the_latest_bytes() {
    let keep = Keep {
        bytes: Some(256 << 10),
        ..Keep::default()
    };
    let store = Store::new(options(
        Classes::new(vec![class("some", "m", keep)]).unwrap(),
    ));
    for tick in 0..20_000 {
        store.tick(&store.ids).unwrap();
        if tick % 64 == 0 {
            store.flush_steps();
        }
    }
    let classes = store.engine.log().classes;
    assert!(classes[0].live < 300 << 10, "{} bytes", classes[0].live);
    assert_eq!(store.times(store.ids[0]).last(), Some(&store.now()));
    assert_eq!(store.times(store.ids[10]).len(), 20_000);
}

/// Their blocks were begun long before the quota's floor, and died with rows that had just come; and all
/// that came later, until they were full.
#[test]
fn a_quota_keeps_the_latest_rows_of_slow_sources() {
    let keep = Keep {
        bytes: Some(256 << 10),
        ..Keep::default()
    };
    let classes = Classes::new(vec![class("some", "m", keep)]).unwrap();
    let store = Store::new(Options {
        block_bytes: 4096,
        ..options(classes)
    });
    let all = store.query(store.ids[0]);
    for tick in 0..20_000 {
        store.tick(&store.ids[1..10]).unwrap();
        if tick % 50 == 0 {
            store.tick(&store.ids[..1]).unwrap();
            let figures = store.engine.aggregate(&all, Step::Whole).unwrap();
            let counts: Vec<u64> = figures.map(|one| one.unwrap().buckets[0].count).collect();
            assert!(counts.len() == 1 && counts[0] > 0, "{tick}: {counts:?}");
            assert_eq!(store.times(store.ids[0]).last(), Some(&store.now()));
        }
        if tick % 64 == 0 {
            store.flush_steps();
        }
    }
    // What is in open segments counts for the quota when they are sealed.
    let open = store.engine.status().open_segment_bytes;
    let live = store.engine.log().classes[0].live - open;
    assert!(live < 300 << 10, "{live} bytes");
}

#[test]
fn a_budget_that_is_too_small_is_rejected_with_a_sufficient_one() {
    let options = Options {
        disk: Some(512 << 10),
        ..options(Classes::default())
    };
    let disk = Arc::new(SimDisk::new(1));
    let rejected = Engine::open(disk, Arc::new(SimClock::new(0)), options).err();
    let text = rejected.unwrap().to_string();
    assert!(text.contains("a store needs 8"), "{text}");
}

/// Segments half of whose blocks are deleted, so that merging has something to do.
fn half_deleted() -> (Store, Options) {
    let options = Options {
        disk: Some(2 << 20),
        merge_from: 0.1,
        policy: MergePolicy::Greedy,
        ..options(Classes::default())
    };
    let store = Store::new(options.clone());
    for _ in 0..1600 {
        store.tick(&store.ids).unwrap();
    }
    store.engine.flush().unwrap();
    let all = Interval::new(i64::MIN, i64::MAX);
    let selector = Selector::parse("m").unwrap();
    store.engine.delete(&selector, all).unwrap();
    (store, options)
}

#[test]
fn a_merge_that_was_cut_off_loses_nothing_when_it_is_taken_up_again() {
    let mut merged = 0;
    for cut in (1..150).step_by(2) {
        let (store, options) = half_deleted();
        store.disk.crash_after(Some(cut));
        store.clock.advance(2 * SECOND as u64);
        while store.engine.step().unwrap_or(false) {}
        merged += store.engine.status().segments_merged;
        drop(store.engine);
        let disk = Arc::new(store.disk.crash());
        let store = Store::on(disk, store.clock, options);
        for _ in 0..100 {
            store.tick(&store.ids[..10]).unwrap();
            store.flush_steps();
        }
        for &source in &store.ids[10..] {
            assert_eq!(store.times(source).len(), 1600, "cut {cut}, {source:?}");
        }
    }
    assert!(merged > 0, "nothing was merged");
}

fn aged() -> Options {
    let age = Keep {
        age: Some(Duration::from_secs(1000)),
        ..Keep::default()
    };
    Options {
        durability: Durability::Sync,
        ..options(Classes::new(vec![class("aged", "", age)]).unwrap())
    }
}

/// A lost clock went unnoticed: after it, a clock that was set back brings back what was hidden.
#[test]
fn a_missing_clock_is_reported_by_a_check_and_by_a_start() {
    for blank in [false, true] {
        let store = Store::new(aged());
        store.tick(&store.ids).unwrap();
        let sound = |store: &Store| {
            let report = check(&*store.disk, &mut |_, _| {}).unwrap();
            report.is_sound()
        };
        let store = store.reopen(aged());
        assert!(store.engine.recovery().set_aside.is_empty());
        assert!(sound(&store));
        store.engine.close().unwrap();
        match blank {
            true => store.disk.open("clock").unwrap().set_len(0).unwrap(),
            false => store.disk.remove("clock").unwrap(),
        }
        assert!(!sound(&store));
        let store = store.reopen(aged());
        let aside = &store.engine.recovery().set_aside;
        assert_eq!(aside.len(), 1, "{aside:?}");
        assert_eq!(aside[0].0, "clock");
        store.tick(&store.ids).unwrap();
        let store = store.reopen(aged());
        assert!(store.engine.recovery().set_aside.is_empty(), "once");
        assert!(sound(&store));
    }
}

/// The rules of a store come after its clock: otherwise a power cut between them looks like a lost clock.
#[test]
fn a_power_cut_while_an_age_is_introduced_loses_no_clock() {
    let whole = {
        let store = Store::new(Options {
            durability: Durability::Sync,
            ..options(ring(500))
        });
        store.tick(&store.ids).unwrap();
        store.engine.close().unwrap();
        store.disk
    };
    let open = |disk: &SimDisk| {
        let (disk, clock) = (Arc::new(disk.clone()), Arc::new(SimClock::new(SECOND)));
        Engine::open(disk, clock, aged())
    };
    let mut cuts = 0;
    for operation in 1.. {
        let disk = whole.fork(operation);
        disk.crash_after(Some(operation));
        let done = open(&disk).is_ok();
        for outcome in 0..4 {
            let disk = disk.fork(outcome).crash();
            let engine = open(&disk).unwrap();
            let aside = &engine.recovery().set_aside;
            assert!(aside.is_empty(), "operation {operation}: {aside:?}");
            let report = check(&disk, &mut |_, _| {}).unwrap();
            assert!(report.is_sound(), "operation {operation}: {report:?}");
        }
        if done {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 20, "{cuts} power cuts");
}

/// Seed 8423 of the simulator: a block that was sealed counted fewer rows than it had had in its buffer, because
/// two had the same time, and a block that the ring had expired was shown again.
#[test]
fn rows_replaced_in_a_block_bring_back_nothing_that_a_ring_expired() {
    let options = Options {
        durability: Durability::Sync,
        block_bytes: 4096,
        ..options(ring(20))
    };
    let store = Store::new(options.clone());
    let source = store.ids[0];
    let append = |time: i64| {
        let appended = store
            .engine
            .append_samples("value", &[source], &[time], &[time as f64]);
        appended.unwrap();
    };
    (0..30).for_each(append);
    store.engine.flush().unwrap();
    (30..49).for_each(append);
    assert_eq!(store.times(source).len(), 49, "19 rows behind the block");
    append(40);
    let shown: Vec<i64> = (30..49).collect();
    assert_eq!(store.times(source), shown, "20 rows behind the block");
    store.engine.flush().unwrap();
    assert_eq!(store.times(source), shown, "sealed");
    let store = store.reopen(options);
    assert_eq!(store.times(source), shown, "after a start");
}

/// A removal that was not synced is undone by a power cut: the ledger says that the file is not needed.
#[test]
fn what_a_ring_let_go_of_stays_gone_when_a_journal_file_comes_back() {
    let options = Options {
        durability: Durability::Sync,
        ..options(ring(20))
    };
    let store = Store::new(options.clone());
    let source = store.ids[0];
    let write = |rows: usize| (0..rows).for_each(|_| store.tick(&[source]).unwrap());
    write(10);
    store.engine.commit().unwrap();
    let journal = "journal-00000001";
    let file = store.disk.open(journal).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    store.engine.flush().unwrap();
    write(100);
    store.engine.flush().unwrap();
    store.flush_steps();
    let names = store.disk.list().unwrap();
    assert!(
        !names.contains(&"segment-00000001.log".to_string()),
        "{names:?}"
    );
    let shown = store.times(source);

    store.engine.close().unwrap();
    assert!(!store.disk.list().unwrap().contains(&journal.to_string()));
    let file = store.disk.create(journal).unwrap();
    file.write_at(0, &bytes).unwrap();
    file.sync().unwrap();
    let store = store.reopen(options);
    assert_eq!(store.engine.recovery().rows_replayed, 0);
    assert!(!store.disk.list().unwrap().contains(&journal.to_string()));
    assert_eq!(store.times(source), shown);
    store.tick(&[source]).unwrap();
    let shown = [&shown[..], &[store.now()]].concat();
    assert!(shown.ends_with(&store.times(source)));
    assert!(store.times(source).len() >= 20);
}

#[test]
fn nothing_is_shed_in_vain_where_others_filled_the_disk() {
    let shed = Class {
        when_full: WhenFull::Shed,
        ..class("shed", "m", Keep::default())
    };
    let store = Store::new(options(Classes::new(vec![shed]).unwrap()));
    (0..1500).for_each(|_| store.tick(&store.ids).unwrap());
    store.engine.flush().unwrap();
    store.disk.set_capacity(Some(store.used() + (64 << 10)));
    store.clock.advance(2 * SECOND as u64);
    store.flush_steps();
    let rejected = store.tick(&store.ids);
    assert!(matches!(rejected, Err(Error::Full { .. })), "{rejected:?}");
    assert_eq!(store.times(store.ids[0]).len(), 1500);
    store.disk.set_capacity(None);
    store.clock.advance(2 * SECOND as u64);
    store.tick(&store.ids).unwrap();
}

// ---- a clock that jumps

const DAY: u64 = 86_400;

/// A store whose rows of now and of five days ago are kept for ten days.
fn ten_days() -> (Store, Options) {
    let keep = Keep {
        age: Some(Duration::from_secs(10 * DAY)),
        ..Keep::default()
    };
    let rules = options(Classes::new(vec![class("days", "m", keep)]).unwrap());
    let clock = SimClock::new(1_700_000_000 * SECOND);
    let store = Store::on(Arc::new(SimDisk::new(1)), clock, rules.clone());
    let id = store.ids[0];
    let old = store.now() - 5 * DAY as i64 * SECOND;
    store
        .engine
        .append_samples("value", &[id], &[old], &[1.0])
        .unwrap();
    store.tick(&[id]).unwrap();
    (store, rules)
}

fn rows_of(store: &Store) -> usize {
    let series = store.engine.select(&store.query(store.ids[0])).unwrap();
    series.map(|series| series.unwrap().times.len()).sum()
}

fn jump(store: &Store, days: i64) {
    store
        .clock
        .set_wall(store.now() + days * DAY as i64 * SECOND);
}

#[test]
fn one_start_with_a_clock_far_ahead_lets_nothing_go() {
    let (store, rules) = ten_days();
    let clock = store.clock.clone();
    jump(&store, 400);
    let store = store.reopen(rules.clone());
    assert_eq!(
        rows_of(&store),
        2,
        "a clock that is a year ahead empties the class"
    );
    let held = store.engine.status().clock_held_ns;
    assert_eq!(held / DAY / SECOND as u64, 400);
    store.flush_steps();
    clock.advance(60 * SECOND as u64);
    store.flush_steps();
    // A time server mends it while the store runs, or before the next start.
    jump(&store, -400);
    assert_eq!(rows_of(&store), 2);
    assert_eq!(store.engine.status().clock_held_ns, 0);
    let store = store.reopen(rules);
    store.tick(&[store.ids[0]]).unwrap();
    assert_eq!(
        (rows_of(&store), store.engine.status().clock_behind_ns),
        (3, 0)
    );
}

#[test]
fn a_clock_that_jumps_while_the_store_runs_is_not_trusted_either() {
    let (store, _) = ten_days();
    jump(&store, 11);
    assert_eq!(rows_of(&store), 2);
    assert!(store.engine.status().clock_held_ns > 0);
    store.engine.accept_clock().unwrap();
    assert_eq!(
        (rows_of(&store), store.engine.status().clock_held_ns),
        (0, 0)
    );
}

#[test]
fn a_host_that_was_off_for_a_year_lets_go_after_a_lifetime_or_at_once_if_confirmed() {
    let (store, rules) = ten_days();
    jump(&store, 365);
    let store = store.reopen(rules);
    let id = store.ids[0];
    store.tick(&[id]).unwrap();
    assert_eq!(rows_of(&store), 3);
    // Five days later the older row has had its ten days.
    store.clock.advance(5 * DAY * SECOND as u64);
    assert_eq!(rows_of(&store), 2);
    store.clock.advance(5 * DAY * SECOND as u64 - SECOND as u64);
    assert_eq!(
        (rows_of(&store), store.engine.status().clock_held_ns),
        (1, 0)
    );
    // By now the clock is trusted, and what came after the jump goes in its time.
    store.clock.advance(5 * DAY * SECOND as u64);
    assert_eq!(rows_of(&store), 0);
}

#[test]
fn the_hold_of_a_clock_begins_anew_at_a_restart() {
    let (store, rules) = ten_days();
    jump(&store, 365);
    let store = store.reopen(rules.clone());
    let is_held = |store: &Store| {
        // An answer judges the clock.
        rows_of(store);
        store.engine.status().clock_held_ns > 0
    };
    store.clock.advance(9 * DAY * SECOND as u64);
    assert!(is_held(&store));
    let store = store.reopen(rules);
    // Eleven days after the first start, two after the second.
    store.clock.advance(2 * DAY * SECOND as u64);
    assert!(is_held(&store));
    store.clock.advance(8 * DAY * SECOND as u64);
    assert!(!is_held(&store));
}

#[test]
fn an_operator_sets_the_stored_time_back() {
    let (store, rules) = ten_days();
    jump(&store, 400);
    store.engine.accept_clock().unwrap();
    store.tick(&[store.ids[0]]).unwrap();
    jump(&store, -400);
    let Store {
        disk,
        clock,
        engine,
        ..
    } = store.reopen(rules.clone());
    let (behind, now) = (engine.status().clock_behind_ns, clock.clone());
    assert_eq!(behind / DAY / SECOND as u64, 400);
    engine.close().unwrap();
    drop(engine);
    use seiner_platform::Clock;
    let stored = seiner_engine::stored_time(&*disk).unwrap().unwrap();
    assert!(stored > now.now());
    seiner_engine::set_stored_time(disk.clone(), now.now()).unwrap();
    let store = Store::on(disk, clock, rules);
    assert_eq!(store.engine.status().clock_behind_ns, 0);
    store.tick(&[store.ids[0]]).unwrap();
    // Rows of now are taken, and nothing that was not dropped is hidden.
    assert!(rows_of(&store) >= 2);
}
