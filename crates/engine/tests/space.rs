//! Disk without space. Writers get an error, the store reports it, and the store continues when space is free.
#![allow(clippy::unwrap_used)]

use seiner_engine::{Durability, Engine, Error, Options, Query};
use seiner_model::{Interval, Selector, SourceId, SourceKey};
use seiner_platform::sim::{Chance, Faults, Rng, SimClock, SimDisk};
use std::sync::Arc;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

struct Store {
    disk: Arc<SimDisk>,
    clock: SimClock,
    engine: Engine,
    source: SourceId,
    rows: usize,
}

impl Store {
    fn new() -> Store {
        let (disk, clock) = (Arc::new(SimDisk::new(1)), SimClock::new(0));
        let options = Options {
            durability: Durability::Interval(Duration::from_millis(100)),
            memory: 2 << 20,
            block_bytes: 256,
            segment_bytes: 64 << 10,
            journal_bytes: 64 << 10,
            ..Options::default()
        };
        let engine = Engine::open(disk.clone(), Arc::new(clock.clone()), options).unwrap();
        let key = SourceKey::new("m", [("a", "b")]).unwrap();
        let source = engine.register(&key).unwrap();
        Store {
            disk,
            clock,
            engine,
            source,
            rows: 0,
        }
    }

    /// Appends a row and makes it durable.
    fn write(&mut self) -> Result<(), Error> {
        let time = self.rows as i64;
        let value = (time * 7919 % 10_007) as f64 / 3.0;
        self.engine
            .append_samples("v", &[self.source], &[time], &[value])?;
        self.rows += 1;
        self.engine.commit()
    }

    fn samples(&self) -> usize {
        let query = Query {
            selector: Selector::all(),
            fields: None,
            interval: Interval::ALL,
        };
        let series = self.engine.select(&query).unwrap();
        series.map(|series| series.unwrap().times.len()).sum()
    }
}

#[test]
fn a_full_disk_is_reported_until_there_is_space() {
    let mut store = Store::new();
    for _ in 0..2000 {
        store.write().unwrap();
    }
    assert_eq!(store.engine.status().trouble, Default::default());
    store.disk.set_capacity(Some(store.disk.used() + 8192));
    let mut rejected = 0;
    for _ in 0..4000 {
        if let Err(error) = store.write() {
            assert!(error.is_out_of_space(), "{error}");
            rejected += 1;
        }
        // Errors of background work are reported as well, and do not end it.
        if let Err(error) = store.engine.step() {
            assert!(error.is_out_of_space(), "{error}");
        }
    }
    assert!(rejected > 0);
    for result in [store.engine.flush(), store.engine.commit()] {
        if let Err(error) = result {
            assert!(error.is_out_of_space(), "{error}");
        }
    }
    let status = store.engine.status();
    assert_eq!(status.poisoned, None);
    let trouble = status.trouble;
    let troubles = [&trouble.full, &trouble.journal, &trouble.segments];
    assert!(troubles.iter().any(|why| why.is_some()), "{trouble:?}");

    store.disk.set_capacity(None);
    store.clock.advance(2 * SECOND);
    while store.engine.step().unwrap() {}
    for _ in 0..100 {
        store.write().unwrap();
    }
    store.engine.flush().unwrap();
    assert_eq!(store.engine.status().trouble, Default::default());
    assert_eq!(store.samples(), store.rows);
}

#[test]
fn a_failed_write_is_in_the_status_until_the_store_is_opened_again() {
    let mut store = Store::new();
    store.write().unwrap();
    store.disk.set_faults(Faults {
        write_error: Chance::ALWAYS,
        ..Faults::default()
    });
    store.write().unwrap_err();
    assert!(store.engine.status().poisoned.is_some());
    store.disk.set_faults(Faults::default());
    assert!(matches!(store.write(), Err(Error::Poisoned(_))));
}

/// Seed 1550 of the simulator: merges continued while up to eight merged segments waited to be
/// removed, which is more space than writers leave for merging.
#[test]
fn merges_that_follow_each_other_stay_within_a_small_budget() {
    const BUDGET: u64 = 1_200_000;
    const SOURCES: usize = 20;
    let (disk, clock) = (Arc::new(SimDisk::new(1)), SimClock::new(0));
    let options = Options {
        durability: Durability::Sync,
        memory: 8 << 20,
        block_bytes: 256,
        segment_bytes: 64 << 10,
        journal_bytes: 64 << 10,
        disk: Some(BUDGET),
        merge_from: 0.8,
        ..Options::default()
    };
    let engine = Engine::open(disk.clone(), Arc::new(clock.clone()), options).unwrap();
    let key = |n: usize| SourceKey::new("m", [("n", n.to_string())]).unwrap();
    let ids: Vec<SourceId> = (0..SOURCES)
        .map(|n| engine.register(&key(n)).unwrap())
        .collect();
    let mut rng = Rng::new(3);
    // Until the store rejects rows.
    for time in 0.. {
        let values = ids.iter().map(|_| f64::from_bits(rng.next_u64() >> 2));
        let values: Vec<f64> = values.collect();
        let result = engine.append_samples("v", &ids, &[time; SOURCES], &values);
        if result.and_then(|_| engine.commit()).is_err() {
            break;
        }
        engine.step().unwrap();
    }
    // A small part of every segment is now dead.
    engine
        .delete(&Selector::parse("m{n=\"3\"}").unwrap(), Interval::ALL)
        .unwrap();
    clock.advance(4000 * SECOND);
    while engine.step().unwrap() {
        let used = engine.status().disk_used;
        assert!(used <= BUDGET, "{used} bytes are used of {BUDGET}");
    }
    let merged = engine.status().segments_merged;
    assert!(merged > 8, "{merged} segments were merged");
    assert!(disk.most_used() <= BUDGET);
}
