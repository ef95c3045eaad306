//! Retention: live and expired data, and its disk space.
#![allow(clippy::unwrap_used)]

mod clocks;
mod space;

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

    /// Appends a value that does not compress to each source, one second after the previous values.
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

    /// Returns the used bytes in whole blocks, as `du` counts.
    fn used(&self) -> u64 {
        let names = self.disk.list().unwrap();
        let len = |name: &String| self.disk.open(name).unwrap().len().unwrap();
        names
            .iter()
            .map(|name| len(name).next_multiple_of(4096))
            .sum()
    }

    /// Returns the query for all samples of a source.
    fn query(&self, source: SourceId) -> Query {
        let key = self.engine.source_key(source).unwrap().unwrap();
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
    // A clock that is set back restores no rows.
    let store = store.reopen(options(classes()));
    store.clock.set_wall(0);
    assert_eq!(store.times(store.ids[0]).len(), 0);
    assert_eq!(store.times(store.ids[10]).len(), 20_000);
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
    // The other sources keep their rows.
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
fn deleted_samples_stay_deleted_and_new_samples_stay() {
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
fn changed_rules_apply_at_a_start_and_restore_no_expired_rows() {
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

/// Sends the same times again, with other values.
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
        // A start may tidy what the run before did not.
        extra_writes: 0.0,
        ..options(Classes::default())
    };
    let store = Store::new(options.clone());
    for turn in 0..30 {
        // Each turn divides the rows into other blocks.
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
    // The values do not compress, and part of the previous turn is overwritten.
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
fn live_and_dead_bytes_are_the_same_after_a_restart() {
    let keep = Keep {
        rows: Some(400),
        ..Keep::default()
    };
    let options = Options {
        // A start may tidy what the run before did not.
        extra_writes: 0.0,
        ..options(Classes::new(vec![class("ring", "other", keep)]).unwrap())
    };
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

/// Creates a store that needs merges: half of the blocks in its segments are deleted.
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
fn an_interrupted_merge_loses_nothing_when_it_continues() {
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

/// Seed 8423 of the simulator: a sealed block counted fewer rows than its buffer, because two rows
/// had the same time. So a block that had expired from the ring was visible again.
#[test]
fn rows_replaced_in_a_block_restore_no_rows_that_a_ring_expired() {
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

/// A power cut undoes a removal that was not synced. The ledger states that the file is not needed.
#[test]
fn rows_expired_by_a_ring_stay_hidden_if_a_journal_file_returns() {
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
