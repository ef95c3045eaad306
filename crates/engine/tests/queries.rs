//! Comparison of queries with a plain model. Covers late, repeated and deleted rows, several layouts,
//! and any limits of memory and threads.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use seiner_engine::{Bucket, Durability, Engine, Options, Query, Step};
use seiner_model::{
    Bitmap, Column, Columns, FieldColumn, Interval, Selector, SourceId, SourceKey, Strings,
};
use seiner_platform::sim::{Rng, SimClock, SimDisk};
use std::collections::BTreeMap;
use std::sync::Arc;

const FIELDS: [&str; 4] = ["a", "b", "c", "d"];
const SPAN: u64 = 20_000;

/// Values by source, field and time.
type Model = BTreeMap<(u32, &'static str), BTreeMap<i64, i64>>;

struct Store {
    engine: Engine,
    sources: Vec<SourceId>,
    model: Model,
}

impl Store {
    fn new() -> Store {
        let options = Options {
            durability: Durability::Memory,
            memory: 8 << 20,
            block_bytes: 512,
            segment_bytes: 64 << 10,
            journal_bytes: 256 << 10,
            ..Options::default()
        };
        let disk = Arc::new(SimDisk::new(1));
        let clock = Arc::new(SimClock::new(1_000_000_000));
        let engine = Engine::open(disk, clock, options).unwrap();
        let key = |n: u32| SourceKey::new("m", [("n", n.to_string())]).unwrap();
        let sources = (0..3).map(|n| engine.register(&key(n)).unwrap());
        Store {
            sources: sources.collect(),
            model: Model::new(),
            engine,
        }
    }

    /// Appends rows of some fields. Some rows have gaps.
    fn append(&mut self, rng: &mut Rng, source: SourceId, times: &[i64], fields: &[&'static str]) {
        let mut columns = Vec::new();
        for field in fields {
            let gaps = rng.chance(1, 3);
            let cells: Vec<Option<i64>> = times
                .iter()
                .map(|_| (!gaps || rng.chance(2, 3)).then(|| rng.below(1000) as i64))
                .collect();
            let known = self.model.entry((source.0, field)).or_default();
            for (time, cell) in times.iter().zip(&cells) {
                known.extend(cell.map(|value| (*time, value)));
            }
            let present: Bitmap = cells.iter().map(Option::is_some).collect();
            columns.push(FieldColumn {
                present: gaps.then_some(present),
                values: Column::I64(cells.into_iter().flatten().collect()),
            });
        }
        let columns = Columns {
            times: times.to_vec(),
            fields: columns,
        };
        // A row without any value is rejected and is in no answer.
        self.engine
            .append_columns(source, fields, &columns)
            .unwrap();
    }

    /// Appends rows of two fields with values that do not compress.
    fn append_wide(&mut self, rng: &mut Rng, source: SourceId, times: &[i64]) {
        let mut column = |field| {
            let values: Vec<i64> = times.iter().map(|_| rng.below(1 << 50) as i64).collect();
            let known = self.model.entry((source.0, field)).or_default();
            known.extend(times.iter().copied().zip(values.iter().copied()));
            FieldColumn {
                present: None,
                values: Column::I64(values),
            }
        };
        let columns = Columns {
            times: times.to_vec(),
            fields: vec![column("a"), column("b")],
        };
        self.engine
            .append_columns(source, &["a", "b"], &columns)
            .unwrap();
    }

    fn delete(&mut self, source: SourceId, interval: Interval) {
        let selector = Selector::parse(&format!("m{{n=\"{}\"}}", source.0)).unwrap();
        self.engine.delete(&selector, interval).unwrap();
        for ((known, _), samples) in &mut self.model {
            if *known == source.0 {
                samples.retain(|time, _| !interval.contains(*time));
            }
        }
    }

    fn expected(&self, fields: Option<&[String]>, interval: Interval) -> Model {
        let wanted =
            |field: &str| fields.is_none_or(|fields| fields.iter().any(|name| name == field));
        let mut found = Model::new();
        for ((source, field), samples) in &self.model {
            let inside = samples.iter().filter(|(time, _)| interval.contains(**time));
            let inside: BTreeMap<i64, i64> = inside.map(|(time, value)| (*time, *value)).collect();
            if wanted(field) && !inside.is_empty() {
                found.insert((*source, field), inside);
            }
        }
        found
    }

    fn check(&self, rng: &mut Rng) {
        let (a, b) = (rng.below(SPAN) as i64, rng.below(SPAN) as i64);
        let interval = match rng.below(3) {
            0 => Interval::ALL,
            _ => Interval::new(a.min(b), a.max(b)),
        };
        let fields: Option<Vec<String>> = rng.chance(1, 3).then(|| {
            let some = FIELDS.iter().filter(|_| rng.chance(1, 2));
            some.map(|field| field.to_string()).collect()
        });
        let query = Query {
            selector: Selector::all(),
            fields: fields.clone(),
            interval,
        };
        let expected = self.expected(fields.as_deref(), interval);
        let threads = 1 + rng.below(3) as usize;
        let memory = 1 << (11 + rng.below(10));

        let mut selected = Model::new();
        for series in self.engine.select(&query).unwrap().threads(threads) {
            let series = series.unwrap();
            let Column::I64(values) = series.values else {
                panic!("integers")
            };
            let samples = series.times.iter().copied().zip(values).collect();
            let twice = selected.insert((series.source.0, name(&series.field)), samples);
            assert_eq!(twice, None);
        }
        assert_eq!(selected, expected, "select {interval:?} {fields:?}");

        let mut scanned = Model::new();
        let mut last: Option<(SourceId, i64)> = None;
        for piece in self.engine.scan(&query).threads(threads).memory(memory) {
            let piece = piece.unwrap();
            for &time in &piece.times {
                let now = Some((piece.source, time));
                assert!(last < now, "{last:?} before {now:?}");
                last = now;
            }
            for field in &piece.fields {
                let samples = scanned
                    .entry((piece.source.0, name(&field.name)))
                    .or_default();
                samples.extend(samples_of(&piece.times, field.column.as_ref()));
            }
        }
        scanned.retain(|_, samples| !samples.is_empty());
        assert_eq!(
            scanned, expected,
            "scan {interval:?} {fields:?} {threads} {memory}"
        );

        let mut divided = Model::new();
        let parts = self.engine.parts(&query, threads).unwrap();
        let scans = (0..parts.sources()).map(|source| parts.scan(source..source + 1));
        for piece in scans.flatten() {
            let piece = piece.unwrap();
            for field in &piece.fields {
                let samples = divided
                    .entry((piece.source.0, name(&field.name)))
                    .or_default();
                samples.extend(samples_of(&piece.times, field.column.as_ref()));
            }
        }
        divided.retain(|_, samples| !samples.is_empty());
        assert_eq!(divided, expected, "parts {interval:?} {fields:?}");

        let latest = self
            .engine
            .latest_samples(&query)
            .threads(threads)
            .map(|latest| {
                let latest = latest.unwrap();
                let Column::I64(values) = latest.value else {
                    panic!("integers")
                };
                let series = (latest.source.0, name(&latest.field));
                (series, (latest.time, values[0]))
            });
        let last = expected.iter().map(|(series, samples)| {
            let (time, value) = samples.last_key_value().unwrap();
            (*series, (*time, *value))
        });
        assert_eq!(
            latest.collect::<BTreeMap<_, _>>(),
            last.collect::<BTreeMap<_, _>>(),
            "latest {interval:?} {fields:?}"
        );

        // Field by field, with repeated reads of each source.
        let mut by_field = Model::new();
        let mut scan = self.engine.scan(&query).threads(threads).memory(memory);
        while let Some(source) = scan.next_source() {
            let source = source.unwrap();
            for (field, _) in source.fields() {
                for piece in source.pieces_of(&field) {
                    let piece = piece.unwrap();
                    assert_eq!(piece.fields.len(), 1);
                    let samples = by_field.entry((piece.source.0, name(&field))).or_default();
                    samples.extend(samples_of(&piece.times, piece.fields[0].column.as_ref()));
                }
            }
        }
        assert_eq!(by_field, expected, "by field {interval:?} {fields:?}");

        let every = 1 + rng.below(3000) as i64;
        let mut buckets: BTreeMap<(u32, &str), Vec<Bucket>> = BTreeMap::new();
        let found = self.engine.aggregate(&query, Step::Every(every)).unwrap();
        for summary in found.threads(threads) {
            let summary = summary.unwrap();
            buckets.insert((summary.source.0, name(&summary.field)), summary.buckets);
        }
        assert!(buckets.keys().eq(expected.keys()));
        for (series, samples) in &expected {
            let mut steps: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
            for (time, value) in samples {
                let start = time - time.rem_euclid(every);
                steps.entry(start).or_default().push((*time, *value));
            }
            let of = |(start, samples): (&i64, &Vec<(i64, i64)>)| {
                let sum: i64 = samples.iter().map(|(_, value)| value).sum();
                let (first, last) = (samples[0], samples[samples.len() - 1]);
                (*start, samples.len() as u64, i128::from(sum), first, last)
            };
            let expected: Vec<_> = steps.iter().map(of).collect();
            let found = buckets[series].iter().map(|bucket| {
                let exact = bucket.exact.unwrap();
                let first = (bucket.first.0, exact.first as i64);
                let last = (bucket.last.0, exact.last as i64);
                (bucket.start, bucket.count, exact.sum, first, last)
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{series:?} by {every}");
        }
    }
}

fn name(field: &str) -> &'static str {
    FIELDS.iter().find(|known| **known == field).unwrap()
}

fn samples_of(times: &[i64], column: Option<&FieldColumn>) -> Vec<(i64, i64)> {
    let Some(FieldColumn { present, values }) = column else {
        return Vec::new();
    };
    let Column::I64(values) = values else {
        panic!("integers")
    };
    let rows = (0..times.len()).filter(|row| present.as_ref().is_none_or(|bits| bits.get(*row)));
    rows.map(|row| times[row])
        .zip(values.iter().copied())
        .collect()
}

#[test]
fn scan_select_and_aggregate_agree_with_a_plain_model() {
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let mut store = Store::new();
        let mut now = 0;
        for round in 0..60 {
            let source = *rng.pick(&store.sources);
            // Later rounds have more fields, and the fields differ between rounds.
            let most = 1 + (round as u64 / 15).min(3);
            let mut fields: Vec<&str> = FIELDS[..most as usize].to_vec();
            if rng.chance(1, 4) {
                fields.remove(rng.below(fields.len() as u64) as usize);
            }
            let count = 1 + rng.below(400) as i64;
            let times: Vec<i64> = match rng.below(5) {
                // Late rows in any order, some of them twice.
                0 => (0..count).map(|_| rng.below(SPAN) as i64).collect(),
                1 => {
                    let start = rng.below(SPAN) as i64;
                    (start..start + count).collect()
                }
                _ => {
                    now += count * 2;
                    (now - count * 2..now).step_by(2).collect()
                }
            };
            if !fields.is_empty() {
                store.append(&mut rng, source, &times, &fields);
            }
            if rng.chance(1, 12) {
                let start = rng.below(SPAN) as i64;
                let end = start + rng.below(3000) as i64;
                store.delete(source, Interval::new(start, end));
            }
            if rng.chance(1, 6) {
                store.engine.step().unwrap();
            }
            if rng.chance(1, 20) {
                store.engine.flush().unwrap();
            }
            if round % 6 == 5 {
                store.check(&mut rng);
            }
        }
        store.engine.flush().unwrap();
        store.check(&mut rng);
    }
}

/// Helper threads join the rows of consecutive blocks. Late blocks overlap these blocks or are among them.
#[test]
fn a_heavy_source_is_the_same_for_any_number_of_threads() {
    const ROWS: i64 = 60_000;
    let mut rng = Rng::new(5);
    let mut store = Store::new();
    let source = store.sources[0];
    let all: Vec<i64> = (0..ROWS).collect();
    store.append_wide(&mut rng, source, &all);
    // A few late rows at one time, rows of all times in one block, and rows across some blocks.
    let near: Vec<i64> = (0..20).map(|row| 5_000 + row).collect();
    let far: Vec<i64> = (0..60).map(|row| row * ROWS / 60 + 7).collect();
    let stretch: Vec<i64> = (0..3_000).map(|row| 40_000 + row).collect();
    for late in [near, far, stretch] {
        store.engine.flush().unwrap();
        store.append_wide(&mut rng, source, &late);
    }
    store.delete(source, Interval::new(20_000, 20_500));
    store.engine.flush().unwrap();
    for interval in [Interval::ALL, Interval::new(4_321, 54_321)] {
        let expected = store.expected(None, interval);
        let query = Query {
            selector: Selector::all(),
            fields: None,
            interval,
        };
        for (threads, memory) in [(1, 1 << 20), (2, 64 << 10), (2, 1 << 20), (4, 8 << 20)] {
            let mut found = Model::new();
            for piece in store.engine.scan(&query).threads(threads).memory(memory) {
                let piece = piece.unwrap();
                for field in &piece.fields {
                    let known = found
                        .entry((piece.source.0, name(&field.name)))
                        .or_default();
                    known.extend(samples_of(&piece.times, field.column.as_ref()));
                }
            }
            assert!(found == expected, "{threads} threads, {memory} bytes");
        }
    }
}

/// Blocks whose rows have times of the whole interval, in a segment and in a buffer.
#[test]
fn aggregates_include_late_rows_of_all_times_once() {
    let mut rng = Rng::new(9);
    let mut store = Store::new();
    let source = store.sources[0];
    let all: Vec<i64> = (0..SPAN as i64).filter(|time| time % 5 != 0).collect();
    for times in all.chunks(1000) {
        store.append(&mut rng, source, times, &["a", "b"]);
    }
    store.engine.flush().unwrap();
    // Rows between other rows, rows that replace other rows, and rows at both ends.
    for apart in [605, 998, 401] {
        let late: Vec<i64> = (0..SPAN as i64).step_by(apart).collect();
        store.append(&mut rng, source, &late, &["a", "b"]);
        for _ in 0..4 {
            store.check(&mut rng);
        }
        store.engine.flush().unwrap();
    }
    store.delete(source, Interval::new(7_000, 7_700));
    for _ in 0..20 {
        store.check(&mut rng);
    }
}

#[test]
fn the_latest_of_many_sources_are_the_last_of_their_aggregates() {
    let store = Store::new();
    let many = 5_000_u32;
    let register = |n: u32| {
        let key = SourceKey::new("many", [("n", n.to_string())]).unwrap();
        store.engine.register(&key).unwrap()
    };
    let sources: Vec<SourceId> = (0..many).map(register).collect();
    for round in 0..3_i64 {
        for (nth, source) in sources.iter().enumerate() {
            // In the last round, some sources get earlier rows, some later ones, and some none.
            let time = match (round, nth % 5) {
                (2, 0) => continue,
                (2, 1) => -10,
                _ => 10 * round + nth as i64 % 3,
            };
            let columns = Columns {
                times: vec![time, time + 1],
                fields: vec![FieldColumn {
                    present: None,
                    values: Column::F64(vec![nth as f64 / 3.0, round as f64 - 0.1]),
                }],
            };
            store
                .engine
                .append_columns(*source, &["x"], &columns)
                .unwrap();
        }
        if round < 2 {
            store.engine.flush().unwrap();
        }
    }
    let query = Query {
        selector: Selector::parse("many").unwrap(),
        fields: None,
        interval: Interval::ALL,
    };
    let old = store.engine.aggregate(&query, Step::Whole).unwrap();
    let old: Vec<_> = old
        .map(|summary| {
            let summary = summary.unwrap();
            let (time, value) = summary.buckets.last().unwrap().last;
            (summary.source, summary.key, time, value.to_bits())
        })
        .collect();
    assert_eq!(old.len(), many as usize);
    for threads in [1, 2, 5] {
        let found = store
            .engine
            .latest_samples(&query)
            .threads(threads)
            .map(|latest| {
                let latest = latest.unwrap();
                let Column::F64(values) = latest.value else {
                    panic!("floats")
                };
                (latest.source, latest.key, latest.time, values[0].to_bits())
            });
        assert!(found.eq(old.iter().cloned()), "{threads} threads");
    }
}

/// Texts that compress well are much larger than their blocks. The rows of many blocks do not fit into the memory of a
/// query then.
#[test]
fn texts_larger_than_the_memory_of_a_query_are_complete() {
    let store = Store::new();
    let rows = 12_000;
    let text = "x".repeat(2000);
    let times: Vec<i64> = (0..rows).map(|row| 2_000_000_000 + row).collect();
    for times in times.chunks(1000) {
        let mut texts = Strings::default();
        times.iter().for_each(|_| texts.push(&text));
        let columns = Columns {
            times: times.to_vec(),
            fields: vec![FieldColumn {
                present: None,
                values: Column::Str(texts),
            }],
        };
        let receipt = store
            .engine
            .append_columns(store.sources[0], &["s"], &columns)
            .unwrap();
        assert_eq!(receipt.rows, times.len());
    }
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    for (threads, memory) in [(1, 1 << 20), (2, 256 << 10), (2, 1 << 20), (4, 8 << 20)] {
        let pieces = store.engine.scan(&query).threads(threads).memory(memory);
        let found: Vec<i64> = pieces.flat_map(|piece| piece.unwrap().times).collect();
        assert!(found == times, "{} rows, {threads} {memory}", found.len());
    }
}
