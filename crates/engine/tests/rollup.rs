//! Roll-up of old samples, and queries of levels.
#![allow(clippy::unwrap_used)]

use seiner_engine::{
    Bucket, Class, Classes, Durability, Engine, Given, Keep, LevelSpan, Options, Query, Reason,
    Step, parse_levels,
};
use seiner_model::{Column, FieldType, Interval, Selector, SourceId, SourceKey, Value};
use seiner_model::{Columns, FieldColumn};
use seiner_platform::Clock;
use seiner_platform::sim::{Rng, SimClock, SimDisk};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
/// Bases of the integers of the sources. f64 represents all, none or some of their last digits.
const BASES: [i64; 3] = [0, 1 << 60, (1 << 48) - 50];
const FIELDS: [&str; 4] = ["temp", "count", "ok", "state"];

/// Levels: 1 s for 10 min, 10 s for an hour, 1 min for two hours.
const LEVELS: &str = "10s for 1h then 1m for 2h";

fn rules(levels: &str) -> Classes {
    Classes::new(vec![Class {
        name: "raw".to_string(),
        sources: "m".to_string(),
        keep: Keep {
            age: Some(Duration::from_secs(600)),
            ..Keep::default()
        },
        rollup: parse_levels(levels).unwrap(),
        ..Class::forever()
    }])
    .unwrap()
}

fn options(durability: Durability, classes: Classes) -> Options {
    Options {
        durability,
        memory: 1 << 20,
        block_bytes: 512,
        segment_bytes: 64 << 10,
        journal_bytes: 64 << 10,
        idle_seal: Duration::from_secs(60),
        lanes: 4,
        classes,
        given: Given::All,
        apply_retention: true,
        ..Options::default()
    }
}

/// Sample of each field, as it was sent.
#[derive(Clone, Debug)]
struct Sample {
    time: i64,
    temp: f64,
    count: i64,
    ok: bool,
    state: String,
}

struct Store {
    disk: Arc<SimDisk>,
    clock: SimClock,
    rng: Rng,
    options: Options,
    engine: Engine,
    /// All sent rows, by source.
    sent: Vec<Vec<Sample>>,
}

impl Store {
    fn new(durability: Durability, classes: Classes) -> Store {
        // Start at a minute that is not the first of an hour.
        let clock = SimClock::new(1_700_000_000 * SECOND);
        let disk = Arc::new(SimDisk::new(1));
        let options = options(durability, classes);
        let engine = Engine::open(disk.clone(), Arc::new(clock.clone()), options.clone());
        Store {
            engine: engine.unwrap(),
            disk,
            clock,
            rng: Rng::new(7),
            options,
            sent: vec![Vec::new(); 3],
        }
    }

    fn now(&self) -> i64 {
        self.clock.now()
    }

    fn source(&self, n: usize) -> SourceId {
        let key = SourceKey::new("m", [("n", n.to_string())]).unwrap();
        self.engine.register(&key).unwrap()
    }

    /// Appends a row of each source about every second. Some rows are late, some are sent twice. The
    /// last row of a time counts.
    fn run(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.clock.advance(SECOND as u64);
            for n in 0..self.sent.len() {
                let late = i64::from(self.rng.chance(1, 50)) * self.rng.below(5) as i64 * SECOND;
                let time = self.now() - late - self.rng.below(1000) as i64 * 1_000_000;
                self.send(n, time);
                if self.rng.chance(1, 100) {
                    self.send(n, time);
                }
            }
            self.engine.commit().unwrap();
            while self.engine.step().unwrap() {}
        }
    }

    fn send(&mut self, n: usize, time: i64) {
        let sample = Sample {
            time,
            temp: self.rng.below(1000) as f64 / 8.0,
            count: self.rng.below(100) as i64 + BASES[n],
            ok: self.rng.chance(1, 2),
            state: format!("s{}", self.rng.below(5)),
        };
        let values = [
            Value::F64(sample.temp),
            Value::I64(sample.count),
            Value::Bool(sample.ok),
            Value::Str(&sample.state),
        ];
        let fields = values.map(|value| {
            let mut values = Column::new(value.field_type());
            values.push(value);
            FieldColumn {
                present: None,
                values,
            }
        });
        let columns = Columns {
            times: vec![time],
            fields: fields.to_vec(),
        };
        let receipt = self
            .engine
            .append_columns(self.source(n), &FIELDS, &columns)
            .unwrap();
        assert_eq!(receipt.rows, 1);
        self.sent[n].retain(|other| other.time != time);
        self.sent[n].push(sample);
        self.sent[n].sort_by_key(|sample| sample.time);
    }

    fn reopen(mut self, classes: Option<Classes>) -> Store {
        self.engine.close().unwrap();
        if let Some(classes) = classes {
            self.options.classes = classes;
        }
        let clock = Arc::new(self.clock.clone());
        self.engine = Engine::open(self.disk.clone(), clock, self.options.clone()).unwrap();
        self
    }

    /// Cuts the power after this many disk operations of background work, and opens the store
    /// again.
    fn cut(mut self, operations: u64) -> Store {
        self.disk.crash_after(Some(operations));
        while self.engine.step().unwrap_or(false) {}
        let disk = Arc::new(self.disk.crash());
        disk.crash_after(None);
        let clock = Arc::new(self.clock.clone());
        self.engine = Engine::open(disk.clone(), clock, self.options.clone()).unwrap();
        self.disk = disk;
        self
    }

    fn buckets(&self, n: usize, field: &str, step: i64, interval: Interval) -> Vec<Bucket> {
        let found = self
            .engine
            .aggregate(&query(n, field, interval), Step::Every(step));
        let mut found: Vec<_> = found.unwrap().map(Result::unwrap).collect();
        assert!(found.len() <= 1);
        found.pop().map_or_else(Vec::new, |summary| summary.buckets)
    }

    /// Returns the buckets of a store that never expired a sample.
    fn expected(&self, n: usize, field: &str, step: i64, interval: Interval) -> Vec<Bucket> {
        let mut buckets: BTreeMap<i64, Bucket> = BTreeMap::new();
        let sent = self.sent[n].iter();
        for sample in sent.filter(|sample| interval.contains(sample.time)) {
            let value = match field {
                "temp" => sample.temp,
                "count" => sample.count as f64,
                "ok" => f64::from(u8::from(sample.ok)),
                _ => f64::NAN,
            };
            let start = sample.time - sample.time.rem_euclid(step);
            let bucket = match field {
                "count" => Bucket::of_integer(start, sample.time, i128::from(sample.count)),
                _ => Bucket::of(start, sample.time, value),
            };
            buckets
                .entry(start)
                .and_modify(|known| known.absorb(&bucket))
                .or_insert(bucket);
        }
        buckets.into_values().collect()
    }

    /// Queries everything since a time, in steps that are multiples of the steps of all levels.
    fn assert_answers(&self, from: i64) {
        let interval = Interval::new(from - from.rem_euclid(MINUTE), i64::MAX);
        for n in 0..self.sent.len() {
            for field in FIELDS {
                for step in [MINUTE, 10 * MINUTE] {
                    let found = self.buckets(n, field, step, interval);
                    let expected = self.expected(n, field, step, interval);
                    same(&found, &expected, &format!("source {n}, {field}"));
                }
            }
        }
    }

    /// Deletes an interval of a source. Where only levels remain, deletes whole steps.
    fn delete_some(&mut self) {
        let n = self.rng.below(3) as usize;
        let start = self.now() - self.rng.below(4000) as i64 * SECOND;
        let interval = Interval::new(start, start + self.rng.below(500) as i64 * SECOND);
        let all = query(n, "temp", Interval::new(i64::MIN, i64::MAX));
        let levels = self.engine.levels(&all);
        self.engine.delete(&all.selector, interval).unwrap();
        let gone = |sample: &Sample| {
            let level = levels
                .iter()
                .find(|level| (level.from..=level.to).contains(&sample.time));
            let Some(level) = level else {
                return interval.contains(sample.time);
            };
            let step = level.step_ns as i64;
            let start = sample.time - sample.time.rem_euclid(step);
            interval.overlaps(&Interval::new(start, start + step - 1))
        };
        self.sent[n].retain(|sample| !gone(sample));
    }

    /// Checks that no data is older than the longest lifetime.
    fn oldest(&self) -> i64 {
        self.now() - 2 * 3600 * SECOND + MINUTE
    }
}

fn query(n: usize, field: &str, interval: Interval) -> Query {
    Query {
        selector: Selector::parse(&format!("m{{n=\"{n}\"}}")).unwrap(),
        fields: Some(vec![field.to_string()]),
        interval,
    }
}

fn same(found: &[Bucket], expected: &[Bucket], what: &str) {
    let starts = |buckets: &[Bucket]| buckets.iter().map(|b| b.start).collect::<Vec<_>>();
    assert_eq!(starts(found), starts(expected), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.exact, expected.exact, "{what}");
        // Sums of eighths are exact in any order.
        let figures = |b: &Bucket| {
            let sum = b.exact.map_or(b.sum, |exact| exact.sum as f64);
            [b.count as f64, sum, b.min, b.max, b.first.1, b.last.1].map(f64::to_bits)
        };
        assert_eq!(
            figures(found),
            figures(expected),
            "{what}: {found:?} {expected:?}"
        );
    }
}

#[test]
fn answers_from_levels_equal_answers_from_samples() {
    for durability in [
        Durability::Interval(Duration::from_millis(100)),
        Durability::Memory,
    ] {
        let mut store = Store::new(durability, rules(LEVELS));
        for _ in 0..9 {
            store.run(1000);
            store.assert_answers(store.oldest());
        }
        let status = store.engine.status();
        assert_eq!((status.sources, status.series), (3, 12));
        assert!(
            status.levels == 6 && status.aged_samples > 90_000,
            "{status:?}"
        );
        // There are fewer rows than samples, and the samples have expired.
        assert!(status.segments_dropped > 0);
        let all = Interval::new(i64::MIN, i64::MAX);
        let series = store.engine.select(&query(0, "temp", all)).unwrap();
        let series: Vec<_> = series.map(Result::unwrap).collect();
        assert_eq!(series.len(), 1);
        assert!(series[0].times.is_sorted_by(|a, b| a < b));
        let rows = series[0].times.len();
        assert!((900..2000).contains(&rows), "{rows}");
        // Some rows of every class and level remain.
        let log = store.engine.log();
        let names: Vec<&str> = log.classes.iter().map(|class| &*class.class.name).collect();
        assert_eq!(names, ["raw", "default", "raw/10s", "raw/1m"]);
        let store = store.reopen(None);
        store.assert_answers(store.oldest());
        assert_eq!(store.engine.status().levels, 6);
    }
}

#[test]
fn answers_list_the_intervals_of_levels() {
    let mut store = Store::new(Durability::Memory, rules(LEVELS));
    store.run(5000);
    let now = store.now();
    let all = Interval::new(i64::MIN, i64::MAX);
    let levels = store.engine.levels(&query(0, "temp", all));
    let [fine, coarse]: [LevelSpan; 2] = levels.try_into().unwrap();
    assert_eq!(
        (fine.step_ns, coarse.step_ns),
        (10_000_000_000, 60_000_000_000)
    );
    assert_eq!(coarse.to + 1, fine.from);
    // A pass covers a 32nd of the age, in whole steps.
    let samples_from = fine.to + 1;
    assert_eq!(samples_from % (10 * SECOND), 0);
    assert!((600..=632).contains(&((now - samples_from) / SECOND)));
    let recent = query(0, "temp", Interval::new(samples_from, now));
    assert_eq!(store.engine.levels(&recent), []);
    let series = store.engine.select(&query(0, "temp", all)).unwrap();
    let series: Vec<_> = series.map(Result::unwrap).collect();
    let Column::F64(values) = &series[0].values else {
        panic!("the type changed");
    };
    for (time, value) in series[0].times.iter().zip(values) {
        let step = match *time {
            time if time <= coarse.to => MINUTE,
            time if time <= fine.to => 10 * SECOND,
            _ => continue,
        };
        assert_eq!(time % step, 0);
        let part = store.expected(0, "temp", step, Interval::new(*time, time + step - 1));
        assert_eq!((part.len(), *value), (1, part[0].mean()));
    }
    // Types do not change.
    for (field, expected) in [
        ("count", FieldType::I64),
        ("ok", FieldType::Bool),
        ("state", FieldType::Str),
    ] {
        let series = store.engine.select(&query(0, field, all)).unwrap();
        let series: Vec<_> = series.map(Result::unwrap).collect();
        assert_eq!(series[0].values.field_type(), expected);
        let last = store.sent[0]
            .iter()
            .rfind(|sample| sample.time < series[0].times[1])
            .unwrap();
        match series[0].values.get(0) {
            Value::Bool(ok) => assert_eq!(ok, last.ok),
            Value::Str(state) => assert_eq!(state, last.state),
            _ => {}
        }
    }
    // The sources of levels are not visible.
    assert_eq!(store.engine.tag_names(&Selector::all()).unwrap(), ["n"]);
    assert_eq!(store.engine.sources(&Selector::all()).unwrap().len(), 3);
    assert_eq!(store.engine.fields(&Selector::all()).unwrap().len(), 4);
}

#[test]
fn a_pass_interrupted_by_a_power_cut_loses_nothing() {
    let mut store = Store::new(Durability::Sync, rules(LEVELS));
    store.run(700);
    let mut cuts = 0;
    for turn in 0..60 {
        store.run(60);
        // A pass is due about every third time.
        store.clock.advance(21 * SECOND as u64);
        store = store.cut(turn % 12);
        cuts += 1;
        store.assert_answers(store.oldest());
    }
    assert_eq!(cuts, 60);
    assert!(store.engine.status().levels > 0);
}

#[test]
fn deleted_samples_are_in_no_level_and_the_rest_of_a_pass_is_repeated() {
    let mut store = Store::new(Durability::Memory, rules(LEVELS));
    store.run(3000);
    let now = store.now();
    // The interval covers a step of the level, and some of the samples.
    let deep = Interval::new(now - 1000 * SECOND + 1, now - 900 * SECOND);
    let shallow = Interval::new(now - 300 * SECOND, now - 200 * SECOND);
    let selector = Selector::parse("m{n=\"1\"}").unwrap();
    for interval in [deep, shallow] {
        assert_eq!(store.engine.delete(&selector, interval).unwrap(), 1);
    }
    // Overlapped steps are deleted as a whole.
    let start = deep.start - deep.start.rem_euclid(10 * SECOND);
    let end = deep.end - deep.end.rem_euclid(10 * SECOND) + 10 * SECOND - 1;
    store.sent[1]
        .retain(|sample| !(start..=end).contains(&sample.time) && !shallow.contains(sample.time));
    store.assert_answers(now - 3000 * SECOND);
    let mut store = store.reopen(None);
    store.assert_answers(now - 3000 * SECOND);
    store.run(2000);
    store.assert_answers(now - 3000 * SECOND);
}

/// Runs rows, pauses, deletes, power cuts and starts in a random order. The model contains the
/// samples, and the steps that a delete removed as a whole.
fn live_through(seed: u64) {
    let mut store = Store::new(Durability::Sync, rules(LEVELS));
    store.rng = Rng::new(seed);
    store.run(700);
    for _ in 0..30 {
        match store.rng.below(6) {
            0 => store.clock.advance(store.rng.below(300) * SECOND as u64),
            1 => {
                let operations = store.rng.below(40);
                store.clock.advance(store.rng.below(60) * SECOND as u64);
                store = store.cut(operations);
            }
            2 => store.delete_some(),
            3 => store = store.reopen(None),
            _ => {}
        }
        let seconds = store.rng.between(1, 150) as i64;
        store.run(seconds);
        store.assert_answers(store.oldest());
    }
}

#[test]
fn answers_equal_the_samples_after_any_events() {
    for seed in 0..12 {
        live_through(seed);
    }
}

#[test]
fn changed_rules_keep_existing_rows() {
    let mut store = Store::new(Durability::Memory, rules(LEVELS));
    store.run(3000);
    let start = store.now() - 2900 * SECOND;
    // Rules without levels, with longer levels, with shorter levels, and with a longer age.
    for levels in ["1m for 3h", "5s for 1h then 1m for 2h", LEVELS] {
        store = store.reopen(Some(rules(levels)));
        store.assert_answers(start);
        store.run(100);
        store.assert_answers(start);
    }
    let longer = Class {
        keep: Keep {
            age: Some(Duration::from_secs(1800)),
            ..Keep::default()
        },
        ..rules(LEVELS).list()[0].clone()
    };
    store = store.reopen(Some(Classes::new(vec![longer]).unwrap()));
    store.run(100);
    store.assert_answers(start);
    store = store.reopen(Some(Classes::default()));
    store.run(10);
    store.assert_answers(start);
}

/// Regression: after a change to a longer age, a late sample was accepted. Queries returned this sample
/// instead of the roll-up of its whole step, and the next pass replaced the step by the sample.
#[test]
fn a_late_sample_hides_no_step_that_earlier_rules_made() {
    let mut store = Store::new(Durability::Sync, rules(LEVELS));
    store.run(1500);
    let start = store.now() - 1400 * SECOND;
    let longer = Class {
        keep: Keep {
            age: Some(Duration::from_secs(1800)),
            ..Keep::default()
        },
        ..rules(LEVELS).list()[0].clone()
    };
    let longer = Classes::new(vec![longer]).unwrap();
    let late = store.now() - 1200 * SECOND + 1;
    for round in 0..2 {
        store = store.reopen(Some(longer.clone()));
        let fields = vec![FieldColumn {
            present: None,
            values: Column::F64(vec![0.5]),
        }];
        let times = vec![late + round];
        let columns = Columns { times, fields };
        let source = store.source(0);
        let receipt = store.engine.append_columns(source, &["temp"], &columns);
        let rejected = receipt.unwrap().rejected;
        assert_eq!(rejected, [(0, Reason::RolledUp)]);
        store.assert_answers(start);
    }
    // Samples are accepted where samples remain, even if they are older than the previous age.
    let left = store.now() - 600 * SECOND;
    store.run(150);
    store.send(0, left + 100 * SECOND);
    store.assert_answers(start);
    store.run(1300);
    store.assert_answers(start);
}

/// Regression: the remaining rows of a finer level counted only the first part of a minute, and the
/// row of the minute counted the whole minute. A pass under changed rules replaced that row by the
/// remaining rows.
#[test]
fn a_row_is_not_replaced_by_incomplete_finer_levels_of_earlier_rules() {
    let mut store = Store::new(Durability::Sync, rules("10s for 30m then 1m for 3h"));
    let start = store.now();
    let all = query(0, "temp", Interval::new(i64::MIN, i64::MAX));
    let within_a_minute = |store: &Store| {
        let made = store.engine.levels(&all)[0].to + 1;
        made % MINUTE != 0
    };
    store.run(800);
    while !within_a_minute(&store) {
        store.run(10);
    }
    store = store.reopen(Some(rules("1m for 3h")));
    store.run(700);
    store.assert_answers(start);
    store = store.reopen(Some(rules("10s for 30m then 1m for 3h")));
    store.run(1800);
    store.assert_answers(start);
}

#[test]
fn a_source_with_very_many_fields_is_rolled_up() {
    let mut store = Store::new(Durability::Memory, rules("10s for 1h"));
    // Their long names alone use more memory than all other sources.
    store.options.memory = 64 << 20;
    let store = store.reopen(None);
    let source = store.source(0);
    let names: Vec<String> = (0..300).map(|n| format!("{n:0>1024}")).collect();
    let fields: Vec<&str> = names.iter().map(|name| &**name).collect();
    for second in 0..700 {
        store.clock.advance(SECOND as u64);
        let field = |n: usize| FieldColumn {
            present: None,
            values: Column::F64(vec![(n + second) as f64]),
        };
        let columns = Columns {
            times: vec![store.now()],
            fields: (0..300).map(field).collect(),
        };
        let receipt = store.engine.append_columns(source, &fields, &columns);
        assert_eq!(receipt.unwrap().rows, 1);
        while store.engine.step().unwrap() {}
    }
    let before = Interval::new(i64::MIN, store.now() - 630 * SECOND);
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: before,
    };
    let series = store.engine.select(&query).unwrap();
    let series: Vec<_> = series.map(Result::unwrap).collect();
    assert_eq!(series.len(), 300);
    assert!(series.iter().all(|one| one.times == series[0].times));
    assert_eq!(store.engine.status().levels, 3);
}
