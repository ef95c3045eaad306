//! Replay of the journal after segments were sealed in between.
#![allow(clippy::unwrap_used)]

use seiner_engine::{Bundling, Durability, Engine, Options, Query};
use seiner_model::{Column, Interval, Selector, SourceId, SourceKey};
use seiner_platform::sim::{Rng, SimClock, SimDisk};
use std::collections::BTreeMap;
use std::sync::Arc;

const SOURCES: usize = 20;

struct Store {
    disk: SimDisk,
    engine: Engine,
    rng: Rng,
    /// Sent values by time, the same for every source.
    sent: BTreeMap<i64, f64>,
}

impl Store {
    fn new() -> Store {
        let disk = SimDisk::new(3);
        Store {
            engine: open(&disk),
            disk,
            rng: Rng::new(5),
            sent: BTreeMap::new(),
        }
    }

    fn ids(&self) -> Vec<SourceId> {
        let id = |n: usize| {
            let key = SourceKey::new("m", [("n", n.to_string())]).unwrap();
            self.engine.register(&key).unwrap()
        };
        (0..SOURCES).map(id).collect()
    }

    /// Commits rows of every source whose values do not compress.
    fn write(&mut self, rows: usize) {
        let ids = self.ids();
        for _ in 0..rows {
            let time = self.sent.len() as i64 * 1_000_000_000;
            let value = f64::from_bits(self.rng.next_u64() >> 2);
            self.sent.insert(time, value);
            let receipt =
                self.engine
                    .append_samples("value", &ids, &[time; SOURCES], &[value; SOURCES]);
            assert_eq!(receipt.unwrap().rows, SOURCES);
        }
        self.engine.commit().unwrap();
    }

    fn steps(&self) {
        while self.engine.step().unwrap() {}
    }

    /// Cuts the power and opens the store again.
    fn cut(mut self) -> Store {
        self.disk = self.disk.crash();
        self.engine = open(&self.disk);
        self
    }

    fn assert_answers(&self) {
        let query = Query {
            selector: Selector::all(),
            fields: None,
            interval: Interval::ALL,
        };
        let mut series = 0;
        for found in self.engine.select(&query).unwrap() {
            let found = found.unwrap();
            let Column::F64(values) = found.values else {
                panic!("floats")
            };
            let found: BTreeMap<i64, f64> = found.times.into_iter().zip(values).collect();
            assert_eq!(found, self.sent);
            series += 1;
        }
        assert_eq!(series, SOURCES);
    }
}

fn open(disk: &SimDisk) -> Engine {
    let options = Options {
        durability: Durability::Sync,
        memory: 8 << 20,
        block_bytes: 256,
        segment_bytes: 64 << 10,
        journal_bytes: 1 << 20,
        // In bundles, the rows would not fill a segment.
        bundles: Bundling::Never,
        ..Options::default()
    };
    let clock = Arc::new(SimClock::new(0));
    Engine::open(Arc::new(disk.clone()), clock, options).unwrap()
}

/// Regression: the segment stored the first sequence of the journal, as if the segment were older than
/// the replayed files. A later start replayed the blocks of the segment again, and added new rows to
/// blocks with the same numbers.
#[test]
fn a_segment_closed_during_a_replay_has_the_replayed_rows() {
    let mut store = Store::new();
    store.write(1);
    // The journal continues after its first records.
    store.engine.flush().unwrap();
    let in_segments: u64 = store.engine.segments().iter().map(|one| one.rows).sum();
    assert_eq!(in_segments, SOURCES as u64);
    // More than a segment of rows, which only the journal contains.
    store.write(600);
    let mut store = store.cut();
    assert!(store.engine.recovery().rows_replayed > 0);
    store.steps();
    let sealed: u64 = store.engine.segments().iter().map(|one| one.rows).sum();
    let total = (store.sent.len() * SOURCES) as u64;
    assert!(
        in_segments < sealed && sealed < total,
        "{sealed} of {total}"
    );

    store = store.cut();
    let recovery = store.engine.recovery();
    assert_eq!(sealed + recovery.rows_replayed, total, "{recovery}");
    assert_eq!(in_segments + recovery.rows_skipped, sealed, "{recovery}");
    store.write(50);
    store.assert_answers();
    store = store.cut();
    store.assert_answers();
    store.engine.flush().unwrap();
    store.cut().assert_answers();
}

/// Regression: fast writers write records without a sync. If a power cut removed the first of two
/// records and left the second, the file was reported as damaged.
#[test]
fn a_power_cut_between_records_that_were_not_synced_damages_nothing() {
    const ROWS: usize = 1024;
    let options = Options {
        durability: Durability::Interval(std::time::Duration::from_millis(100)),
        // No checkpoint is written, because a checkpoint would sync the journal.
        memory: 96 << 20,
        journal_bytes: 256 << 20,
        ..Options::default()
    };
    let open = |disk: &SimDisk| {
        let clock = Arc::new(SimClock::new(0));
        Engine::open(Arc::new(disk.clone()), clock, options.clone()).unwrap()
    };
    let disk = SimDisk::new(1);
    let engine = open(&disk);
    let key = SourceKey::new("m", [("n", "1")]).unwrap();
    let ids = [engine.register(&key).unwrap(); ROWS];
    engine.commit().unwrap();
    let mut rng = Rng::new(2);
    let mut sent = 0;
    while engine.status().journal_written < 12 << 20 {
        let times: [i64; ROWS] = std::array::from_fn(|row| sent + row as i64);
        let values: [f64; ROWS] = std::array::from_fn(|_| f64::from_bits(rng.next_u64() >> 2));
        sent += ROWS as i64;
        engine
            .append_samples("value", &ids, &times, &values)
            .unwrap();
    }
    let mut gaps = 0;
    for seed in 0..24 {
        let disk = disk.fork(seed).crash();
        let engine = open(&disk);
        let recovery = engine.recovery();
        assert!(recovery.set_aside.is_empty(), "{seed}: {recovery}");
        // More rows than fit into one record.
        gaps += u32::from(recovery.torn_bytes > 3 << 20);
        assert!(engine.status().poisoned.is_none());
    }
    assert!(
        gaps > 0,
        "no power cut kept a record behind a record that was lost"
    );
}
