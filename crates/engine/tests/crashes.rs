//! Regression tests of defects that random crashes found. Each test interrupts a short sequence of
//! operations at each of its disk operations in turn. Acknowledged samples must exist after every
//! outcome of the power cut that follows.
#![allow(clippy::unwrap_used)]

use seiner_engine::{Durability, Engine, Error, Options, Query, Step};
use seiner_model::{Column, Interval, Selector, SourceId, SourceKey};
use seiner_platform::sim::{Rng, SimClock, SimDisk};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SOURCES: usize = 3;
/// Number of outcomes that are tried for each power cut.
const OUTCOMES: u64 = 6;
const SECOND: i64 = 1_000_000_000;

/// Source, field and time.
type SampleKey = (usize, String, i64);
type Samples = BTreeMap<SampleKey, f64>;

/// Store, with the samples that it must contain.
struct Store {
    disk: SimDisk,
    engine: Engine,
    rng: Rng,
    time: i64,
    /// Samples that a commit covers.
    acknowledged: Samples,
    /// Samples that were accepted since the last commit.
    accepted: Samples,
}

impl Store {
    fn open(disk: SimDisk) -> Result<Store, Error> {
        Ok(Store {
            engine: open(&disk)?,
            disk,
            rng: Rng::new(7),
            time: 0,
            acknowledged: Samples::new(),
            accepted: Samples::new(),
        })
    }

    fn source(&self, n: usize) -> Result<SourceId, Error> {
        let key = SourceKey::new("m", [("n", n.to_string())]).unwrap();
        self.engine.register(&key)
    }

    /// Appends a sample of a field to each source, one second after the previous samples.
    fn append(&mut self, field: &str) -> Result<(), Error> {
        self.time += SECOND;
        self.append_at(field, self.time)
    }

    fn append_at(&mut self, field: &str, time: i64) -> Result<(), Error> {
        let ids: Vec<SourceId> = (0..SOURCES)
            .map(|n| self.source(n))
            .collect::<Result<_, _>>()?;
        // Values that do not compress.
        let value = f64::from_bits(self.rng.next_u64() >> 2);
        // A failed call may have accepted some of the rows.
        for n in 0..SOURCES {
            self.accepted.insert((n, field.to_string(), time), value);
        }
        self.engine
            .append_samples(field, &ids, &[time; SOURCES], &[value; SOURCES])?;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.engine.commit()?;
        self.acknowledged.append(&mut self.accepted);
        Ok(())
    }

    fn steps(&self) -> Result<(), Error> {
        while self.engine.step()? {}
        Ok(())
    }

    /// Checks that the answers contain all acknowledged samples, and only samples that were sent.
    fn assert_answers(&self, engine: &Engine, what: &str) {
        let found = answers(engine);
        for (place, value) in &self.acknowledged {
            assert_eq!(found.get(place), Some(value), "{place:?} after {what}");
        }
        for (place, value) in &found {
            let sent = self.acknowledged.get(place).or(self.accepted.get(place));
            assert_eq!(sent, Some(value), "{place:?} was never sent; after {what}");
        }
        let losses = engine.losses();
        assert!(losses.is_empty(), "{losses:?} after {what}");
    }

    /// Checks the store after several outcomes of a power cut at this moment.
    fn assert_outlasts_power_cuts(&self, what: &str) {
        for outcome in 0..OUTCOMES {
            let disk = self.disk.fork(outcome).crash();
            disk.crash_after(None);
            disk.set_capacity(None);
            let engine = open(&disk).unwrap();
            let what = format!("{what}, outcome {outcome}");
            self.assert_answers(&engine, &what);
            // A power cut after a start that changes files is also safe.
            engine.flush().unwrap();
            self.assert_answers(&engine, &format!("{what}, flushed"));
        }
    }
}

fn open(disk: &SimDisk) -> Result<Engine, Error> {
    let options = Options {
        durability: Durability::Sync,
        memory: 8 << 20,
        block_bytes: 256,
        segment_bytes: 64 << 10,
        journal_bytes: 64 << 10,
        idle_seal: Duration::from_secs(600),
        ..Options::default()
    };
    Engine::open(
        Arc::new(disk.clone()),
        Arc::new(SimClock::new(1_000 * SECOND)),
        options,
    )
}

fn answers(engine: &Engine) -> Samples {
    let (samples, errors) = readable(engine);
    assert!(errors.is_empty(), "{errors:?}");
    samples
}

/// Returns the readable samples, and the errors of unreadable sources.
fn readable(engine: &Engine) -> (Samples, Vec<Error>) {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let (mut samples, mut errors) = (Samples::new(), Vec::new());
    for series in engine.select(&query).unwrap() {
        let series = match series {
            Ok(series) => series,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        let Column::F64(values) = series.values else {
            panic!("all fields are floats");
        };
        let n: usize = series.key.tags().next().unwrap().1.parse().unwrap();
        for (time, value) in series.times.into_iter().zip(values) {
            let double = samples.insert((n, series.field.to_string(), time), value);
            assert_eq!(double, None, "a sample is returned once");
        }
    }
    (samples, errors)
}

/// Runs a sequence of operations repeatedly, each time interrupted at another disk operation.
/// `end` is a kill or a power cut. Checks that the store then opens, contains all acknowledged
/// samples, accepts more samples, and survives another power cut.
fn interrupt(story: fn(&mut Store) -> Result<(), Error>, end: fn(&SimDisk) -> SimDisk) {
    let mut whole = Store::open(SimDisk::new(1)).unwrap();
    story(&mut whole).unwrap();
    whole.assert_outlasts_power_cuts("the whole story");
    let operations = whole.disk.operations();
    assert!(operations > 50, "only {operations} operations");
    for at in 1..=operations {
        let disk = SimDisk::new(1);
        disk.crash_after(Some(at));
        let Ok(mut store) = Store::open(disk.clone()) else {
            // The store did not exist yet.
            let disk = end(&disk);
            disk.crash_after(None);
            open(&disk).unwrap();
            continue;
        };
        let result = story(&mut store);
        let what = format!("operation {at} of {operations}");
        store.disk = end(&disk);
        store.disk.crash_after(None);
        store.engine = open(&store.disk).unwrap();
        store.assert_answers(&store.engine, &what);
        assert!(
            result.is_err() || at >= operations,
            "{what} stopped no operation"
        );
        // Samples that are visible after the start are durable after a commit.
        let seen = answers(&store.engine);
        store.acknowledged.extend(seen);
        store.accepted.clear();
        store.append("a").unwrap();
        store.commit().unwrap();
        store.assert_outlasts_power_cuts(&what);
    }
}

/// Runs commits with new names and layouts, begins and releases journal files, and seals blocks and
/// segments.
fn a_little_of_everything(store: &mut Store) -> Result<(), Error> {
    for round in 0..6 {
        for _ in 0..10 {
            store.append("a")?;
        }
        store.commit()?;
        // Another field changes the layout of every source.
        store.append(&format!("f{round}"))?;
        store.append("b")?;
        store.commit()?;
        if round % 2 == 1 {
            store.steps()?;
        }
        if round == 3 {
            store.engine.flush()?;
        }
    }
    Ok(())
}

/// Regression: a killed program leaves readable bytes in the journal and the catalog that are not
/// synced. A start treated them as durable, and a later power cut removed rows, names and layouts
/// of blocks.
#[test]
fn rows_read_by_a_start_after_a_kill_survive_a_power_cut() {
    interrupt(a_little_of_everything, SimDisk::restart);
}

/// Regression: a removed journal file returned alone after a power cut and restored old layouts, so
/// that later fields were hidden.
#[test]
fn a_start_interrupted_by_a_power_cut_survives_the_next_power_cut() {
    interrupt(a_little_of_everything, SimDisk::crash);
}

/// Regression: the name of a journal file that was begun on a full disk was not synced. After a
/// power cut, the gap made the start remove the earlier files.
#[test]
fn journal_files_begun_on_a_full_disk_leave_no_gap() {
    let mut whole = Store::open(SimDisk::new(1)).unwrap();
    a_little_of_everything(&mut whole).unwrap();
    let mut full = 0;
    for capacity in (0..whole.disk.most_used()).step_by(4096) {
        let disk = SimDisk::new(1);
        disk.set_capacity(Some(capacity));
        let Ok(mut store) = Store::open(disk) else {
            continue;
        };
        full += u64::from(a_little_of_everything(&mut store).is_err());
        store.assert_outlasts_power_cuts(&format!("a disk of {capacity} bytes"));
    }
    assert!(full >= 5, "the disk was full {full} times");
}

/// Regression: an open buffer was assumed to begin after all blocks because it began after the
/// youngest block.
#[test]
fn aggregates_hold_when_blocks_and_the_open_buffer_overlap() {
    // Times of two sealed blocks and of the open buffer, in seconds. If two samples have the same
    // time, the later sample counts.
    let cases: [[std::ops::Range<i64>; 3]; 4] = [
        [0..40, 20..30, 25..60],
        [50..90, 0..20, 10..70],
        [0..90, 30..40, 35..38],
        [30..60, 0..10, 0..90],
    ];
    for times in cases {
        let mut store = Store::open(SimDisk::new(1)).unwrap();
        let [first, second, open] = times.clone();
        for (times, is_sealed) in [(first, true), (second, true), (open, false)] {
            for time in times {
                store.append_at("a", time * SECOND).unwrap();
            }
            store.commit().unwrap();
            if is_sealed {
                store.engine.flush().unwrap();
            }
        }
        store.assert_answers(&store.engine, "appending");
        for step in [7, 30, 1000] {
            assert_aggregates(&store, step * SECOND, &format!("{times:?}, step {step} s"));
        }
    }
}

/// Compares the aggregates of every bucket with those of the samples.
fn assert_aggregates(store: &Store, step: i64, what: &str) {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let mut series = 0;
    for summary in store.engine.aggregate(&query, Step::Every(step)).unwrap() {
        let summary = summary.unwrap();
        let n: usize = summary.key.tags().next().unwrap().1.parse().unwrap();
        let mut expected: BTreeMap<i64, (u64, f64, f64)> = BTreeMap::new();
        for ((source, _, time), value) in &store.acknowledged {
            if *source == n {
                let start = time.div_euclid(step) * step;
                let bucket = expected.entry(start).or_insert((0, *value, *value));
                *bucket = (bucket.0 + 1, bucket.1.min(*value), bucket.2.max(*value));
            }
        }
        let found: BTreeMap<i64, (u64, f64, f64)> = summary
            .buckets
            .iter()
            .map(|bucket| (bucket.start, (bucket.count, bucket.min, bucket.max)))
            .collect();
        assert_eq!(found, expected, "{what}");
        series += 1;
    }
    assert_eq!(series, SOURCES, "{what}");
}

/// Regression: a piece of a segment ended within a block, and a query between two writes read half
/// of the block.
#[test]
fn a_block_that_is_written_in_two_pieces_is_read_whole() {
    let mut store = Store::open(SimDisk::new(1)).unwrap();
    for _ in 0..100 {
        for _ in 0..16 {
            store.append("a").unwrap();
        }
        store.commit().unwrap();
        store.assert_answers(&store.engine, "a commit");
        while store.engine.step().unwrap() {
            store.assert_answers(&store.engine, "a step");
        }
    }
    let status = store.engine.status();
    let (written, sealed) = (status.segment_written, status.block_bytes_sealed);
    assert!(
        0 < written && written < sealed,
        "{written} of {sealed} bytes"
    );
}

/// Regression: an unreadable catalog frame shifted the numbers of later layouts, so that blocks
/// were decoded with wrong columns. Rows of a lost layout also made later rows unreadable.
#[test]
fn a_lost_frame_of_the_catalog_shifts_no_schema() {
    let mut store = Store::open(SimDisk::new(1)).unwrap();
    a_little_of_everything(&mut store).unwrap();
    let len = |name: &str| {
        let files = store.disk.files();
        files.iter().find(|(file, _)| file == name).unwrap().1
    };
    let places: Vec<u64> = (0..len("catalog")).step_by(11).collect();
    assert!(places.len() > 20);
    let mut losses = 0;
    for at in places {
        let disk = store.disk.fork(1).restart();
        // Damages both copies, so that the frame is lost.
        disk.flip_bit("catalog", 8 * at + 3);
        disk.flip_bit("catalog.copy", 8 * at + 3);
        let Ok(engine) = open(&disk) else {
            // Without a header, the start fails.
            continue;
        };
        let (found, errors) = readable(&engine);
        for (place, value) in found {
            let sent = store.acknowledged.get(&place);
            assert_eq!(sent, Some(&value), "{place:?}, catalog damaged at {at}");
        }
        let all = answers(&store.engine).len();
        let lost = all - readable(&engine).0.len();
        let is_reported = !errors.is_empty() || !engine.losses().is_empty();
        assert!(
            lost == 0 || is_reported,
            "{lost} samples lost without a report, damage at {at}"
        );
        losses += usize::from(lost > 0);
    }
    assert!(losses > 0, "no damage had an effect");
}
