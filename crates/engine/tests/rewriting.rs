//! Comparison of merges with a plain model. Covers late corrections, deletes and crashes.
#![allow(clippy::unwrap_used)]

use seiner_engine::{Durability, Engine, MergePolicy, Options, Query, Step};
use seiner_model::{Batch, Cell, Column, Interval, KeyError, Notation, Selector, SourceKey, Value};
use seiner_platform::sim::{Rng, SimClock, SimDisk};
use std::collections::BTreeMap;
use std::sync::Arc;

const SECOND: i64 = 1_000_000_000;
const FIELDS: [&str; 3] = ["a", "b", "c"];

struct Plain;

impl Notation for Plain {
    fn id(&self) -> u32 {
        77
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        let (measurement, n) = std::str::from_utf8(name).unwrap().split_once(' ').unwrap();
        SourceKey::new(measurement, [("n", n)])
    }
}

/// Values by source, field and time.
type Samples = BTreeMap<(usize, usize, i64), f64>;

struct Store {
    rng: Rng,
    disk: Arc<SimDisk>,
    clock: SimClock,
    engine: Engine,
    options: Options,
    model: Samples,
    /// Latest time of each source.
    came: Vec<i64>,
}

fn options() -> Options {
    let options = Options {
        durability: Durability::Interval(std::time::Duration::from_millis(5)),
        memory: 1 << 20,
        block_bytes: 512,
        segment_bytes: 64 << 10,
        journal_bytes: 64 << 10,
        lanes: 2,
        merge_from: 0.1,
        policy: MergePolicy::Greedy,
        ..Options::default()
    };
    Options {
        disk: Some(options.least_disk() + (256 << 10)),
        ..options
    }
}

fn open(disk: &Arc<SimDisk>, clock: &SimClock, options: &Options) -> Engine {
    Engine::open(disk.clone(), Arc::new(clock.clone()), options.clone()).unwrap()
}

impl Store {
    fn new(seed: u64, sources: usize, options: Options) -> Store {
        let (disk, clock) = (Arc::new(SimDisk::new(seed)), SimClock::new(0));
        Store {
            rng: Rng::new(seed),
            engine: open(&disk, &clock, &options),
            disk,
            clock,
            options,
            model: Samples::new(),
            came: vec![0; sources],
        }
    }

    /// Appends rows of a source, one second apart from a start time, with some of the fields.
    fn append(&mut self, source: usize, from: i64, rows: i64, fields: &[usize]) {
        let name = format!("m {source}");
        let mut batch = Batch::new();
        for row in 0..rows {
            let time = from + row * SECOND;
            let cells: Vec<(usize, f64)> = fields
                .iter()
                .map(|&field| (field, self.rng.below(1 << 20) as f64 / 8.0))
                .collect();
            for &(field, value) in &cells {
                self.model.insert((source, field, time), value);
            }
            let cell = |&(field, value): &(usize, f64)| Cell {
                field: FIELDS[field].as_bytes(),
                value: Value::F64(value),
            };
            batch.push(name.as_bytes(), time, cells.iter().map(cell));
        }
        let receipt = self.engine.append(&Plain, &batch).unwrap();
        assert_eq!(receipt.rejected_total, 0, "{:?}", receipt.rejected);
        self.came[source] = self.came[source].max(from + rows * SECOND);
    }

    /// Appends rows that die at once, so that merges are needed.
    fn fill(&mut self) {
        let mut batch = Batch::new();
        for time in 0..3000 {
            let value = f64::from_bits(self.rng.next_u64() >> 2);
            batch.push(
                b"filler 0",
                time,
                [Cell {
                    field: b"v",
                    value: Value::F64(value),
                }],
            );
        }
        self.engine.append(&Plain, &batch).unwrap();
        self.engine
            .delete(&Selector::parse("filler").unwrap(), Interval::ALL)
            .unwrap();
    }

    fn act(&mut self) {
        self.clock.advance(SECOND as u64);
        let source = self.rng.below(self.came.len() as u64) as usize;
        let fields: &[usize] = match self.rng.below(4) {
            0 => &[0],
            1 => &[1, 2],
            _ => &[0, 1, 2],
        };
        let came = self.came[source];
        match self.rng.below(20) {
            0..8 => {
                let rows = 1 + self.rng.below(40) as i64;
                self.append(source, came, rows, fields);
            }
            // Sends all or some of the rows again.
            8..12 => {
                let from = self.rng.below(1 + (came / SECOND) as u64) as i64;
                let rows = 1 + self.rng.below(60) as i64;
                self.append(source, from * SECOND, rows, fields);
            }
            12 => self.engine.flush().unwrap(),
            13 => {
                let start = self.rng.below(1 + (came / SECOND) as u64) as i64 * SECOND;
                let end = start + self.rng.below(20) as i64 * SECOND;
                let selector = Selector::parse(&format!("m{{n=\"{source}\"}}")).unwrap();
                self.engine
                    .delete(&selector, Interval::new(start, end))
                    .unwrap();
                self.model
                    .retain(|&(of, _, time), _| of != source || time < start || time > end);
            }
            14..16 => self.fill(),
            16..19 => while self.engine.step().unwrap() {},
            _ => self.crash(),
        }
    }

    /// Cuts the power while segments are merged.
    fn crash(&mut self) {
        self.engine.commit().unwrap();
        self.disk.crash_after(Some(self.rng.below(60)));
        while let Ok(true) = self.engine.step() {}
        self.disk = Arc::new(self.disk.crash());
        self.disk.crash_after(None);
        self.engine = open(&self.disk, &self.clock, &self.options);
        let set_aside = &self.engine.recovery().set_aside;
        assert!(set_aside.is_empty(), "{set_aside:?}");
    }

    fn query(&self) -> Query {
        Query {
            selector: Selector::parse("m").unwrap(),
            fields: None,
            interval: Interval::ALL,
        }
    }

    fn check(&self) {
        let mut found = Samples::new();
        for series in self.engine.select(&self.query()).unwrap() {
            let series = series.unwrap();
            let source = series.key.tag("n").parse().unwrap();
            let field = FIELDS.iter().position(|field| **field == *series.field);
            let Column::F64(values) = series.values else {
                panic!("floats")
            };
            let samples = series.times.into_iter().zip(values);
            found.extend(samples.map(|(time, value)| ((source, field.unwrap(), time), value)));
        }
        let differs = |at: &(usize, usize, i64)| self.model.get(at) != found.get(at);
        let wrong = self.model.keys().chain(found.keys()).find(|at| differs(at));
        if let Some(at) = wrong {
            panic!(
                "{at:?}: {:?}, not {:?}; {} of {} samples",
                found.get(at),
                self.model.get(at),
                found.len(),
                self.model.len()
            );
        }
        let counted: u64 = self
            .engine
            .aggregate(&self.query(), Step::Whole)
            .unwrap()
            .flat_map(|series| series.unwrap().buckets)
            .map(|bucket| bucket.count)
            .sum();
        assert_eq!(counted, self.model.len() as u64);
    }
}

#[test]
fn samples_match_the_model_after_merges_corrections_deletes_and_crashes() {
    let (mut merged, mut coalesced, mut overwritten) = (0, 0, 0);
    for seed in 0..12 {
        let mut store = Store::new(seed, 1 + seed as usize % 7, options());
        for _ in 0..400 {
            store.act();
            let status = store.engine.status();
            merged = status.segments_merged.max(merged);
            coalesced = status.coalesced_blocks.max(coalesced);
            overwritten = status.overwritten_rows.max(overwritten);
            if store.rng.chance(1, 10) {
                store.check();
            }
        }
        store.check();
        store.engine.flush().unwrap();
        store.check();
    }
    // The test has merged, coalesced and overwritten rows.
    assert!(
        merged > 2 && coalesced > 20 && overwritten > 20,
        "{merged} {coalesced} {overwritten}"
    );
}
