//! Tiny store with all kinds of data, and the samples that it must return.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test may panic, and not every test needs all of it"
)]

use seiner_engine::{Durability, Engine, Error, Options, Query};
use seiner_model::{Batch, Cell, Interval, KeyError, Notation, Selector, SourceKey, Value};
use seiner_platform::Disk;
use seiner_platform::sim::{SimClock, SimDisk};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// Notation of the tests: `measurement,tag=value,…`.
pub struct Plain;

impl Notation for Plain {
    fn id(&self) -> u32 {
        1
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        let name = std::str::from_utf8(name).unwrap();
        let (measurement, tags) = name.split_once(',').unwrap_or((name, ""));
        SourceKey::new(
            measurement,
            tags.split_terminator(',')
                .filter_map(|tag| tag.split_once('=')),
        )
    }
}

/// Row of a source: time, and fields with values.
pub struct Row(pub String, pub i64, pub Vec<(&'static str, Value<'static>)>);

/// Rows to write: a list of stages, each a list of commits. At the end of each stage everything is
/// sealed. Only the last stage stays in the journal.
pub type Story = Vec<Vec<Vec<Row>>>;

pub fn options() -> Options {
    Options {
        durability: Durability::Sync,
        memory: 8 << 20,
        block_bytes: 512,
        segment_bytes: 64 << 10,
        journal_bytes: 64 << 10,
        idle_seal: Duration::from_secs(600),
        ..Options::default()
    }
}

/// All samples by series and time, as text that preserves every bit.
#[derive(Default, Debug, PartialEq, Eq, Clone)]
pub struct Samples(pub BTreeMap<(String, String), BTreeMap<i64, String>>);

pub fn in_words(value: Value<'_>) -> String {
    match value {
        Value::F64(value) => format!("f64 {:016x}", value.to_bits()),
        Value::F32(value) => format!("f32 {:08x}", value.to_bits()),
        Value::I64(value) => format!("i64 {value}"),
        Value::U64(value) => format!("u64 {value}"),
        Value::Bool(value) => format!("bool {value}"),
        Value::Str(value) => format!("string {value:?}"),
    }
}

impl Samples {
    /// Returns one line per series with source and field, followed by one line per sample with
    /// time, type and value.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for ((source, field), samples) in &self.0 {
            writeln!(text, "{source} {field}").unwrap();
            for (time, value) in samples {
                writeln!(text, " {time} {value}").unwrap();
            }
        }
        text
    }

    /// Returns the samples of a story.
    pub fn of(story: &Story) -> Samples {
        let mut samples = Samples::default();
        for Row(name, time, cells) in story.iter().flatten().flatten() {
            let key = Plain.source_key(name.as_bytes()).unwrap().to_string();
            for (field, value) in cells {
                samples
                    .0
                    .entry((key.clone(), field.to_string()))
                    .or_default()
                    .insert(*time, in_words(*value));
            }
        }
        samples
    }

    /// Reads all samples of a store. Errors of unreadable sources are returned separately.
    pub fn read(engine: &Engine) -> (Samples, Vec<Error>) {
        let query = Query {
            selector: Selector::all(),
            fields: None,
            interval: Interval::ALL,
        };
        let (mut samples, mut errors) = (Samples::default(), Vec::new());
        for series in engine.select(&query).unwrap() {
            match series {
                Ok(series) => {
                    let values = (0..series.times.len()).map(|at| in_words(series.values.get(at)));
                    let found = series.times.iter().copied().zip(values).collect();
                    samples
                        .0
                        .insert((series.key.to_string(), series.field.to_string()), found);
                }
                Err(error) => errors.push(error),
            }
        }
        (samples, errors)
    }
}

/// Every value that was written for a series at a time.
pub fn ever(story: &Story) -> BTreeSet<(String, String, i64, String)> {
    let mut all = BTreeSet::new();
    for Row(name, time, cells) in story.iter().flatten().flatten() {
        let key = Plain.source_key(name.as_bytes()).unwrap().to_string();
        for (field, value) in cells {
            all.insert((key.clone(), field.to_string(), *time, in_words(*value)));
        }
    }
    all
}

/// Writes a story to a disk until the disk fails. The store is opened again before the last commit,
/// so that the journal has two files. The store is not closed, so that the journal files stay.
pub fn write(story: &Story, disk: &SimDisk) -> Result<(), Error> {
    // 2026-01-01T00:00:00Z.
    let clock = SimClock::new(1_767_225_600_000_000_000);
    let begin = || Engine::open(Arc::new(disk.clone()), Arc::new(clock.clone()), options());
    let mut engine = begin()?;
    for (index, stage) in story.iter().enumerate() {
        for (commit, rows) in stage.iter().enumerate() {
            if (index + 1, commit + 1) == (story.len(), stage.len()) && commit > 0 {
                drop(engine);
                engine = begin()?;
            }
            let mut batch = Batch::new();
            for Row(name, time, cells) in rows {
                batch.push(
                    name.as_bytes(),
                    *time,
                    cells.iter().map(|(field, value)| Cell {
                        field: field.as_bytes(),
                        value: *value,
                    }),
                );
            }
            let receipt = engine.append(&Plain, &batch)?;
            assert_eq!(receipt.rejected_total, 0, "{:?}", receipt.rejected);
            engine.commit()?;
            clock.advance(1_000_000_000);
        }
        if index + 1 < story.len() {
            engine.flush()?;
        }
    }
    Ok(())
}

/// Appends a row with one field to each of some sources. The value is the time.
pub fn append_rows(engine: &Engine, names: &[String], time: i64) {
    let mut batch = Batch::new();
    for name in names {
        let cell = Cell {
            field: b"v",
            value: Value::F64(time as f64),
        };
        batch.push(name.as_bytes(), time, [cell]);
    }
    let receipt = engine.append(&Plain, &batch).unwrap();
    assert!(receipt.rejected.is_empty(), "{:?}", receipt.rejected);
}

/// Returns the files of a disk.
pub fn files(disk: &dyn Disk) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let file = disk.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    disk.list().unwrap().into_iter().map(read).collect()
}

/// Creates a disk with files.
pub fn disk_with(files: &BTreeMap<String, Vec<u8>>) -> SimDisk {
    let disk = SimDisk::new(1);
    for (name, bytes) in files {
        let file = disk.create(name).unwrap();
        file.write_at(0, bytes).unwrap();
        file.sync().unwrap();
    }
    disk.sync_names().unwrap();
    disk
}

/// Opens the store on a disk.
pub fn open(disk: &SimDisk) -> Result<Engine, Error> {
    Engine::open(
        Arc::new(disk.clone()),
        Arc::new(SimClock::new(0)),
        options(),
    )
}

/// Returns pseudo-random numbers that are the same on every machine.
fn numbers() -> impl FnMut() -> u64 {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

const SECOND: i64 = 1_000_000_000;

/// Story of many sources with few rows each, which are sealed into a bundle: sources of two layouts, with
/// gaps, texts and rows of their own times.
pub fn many() -> Story {
    let mut next = numbers();
    let mut row = |source: i64, n: i64| {
        let noise = next();
        let time = (10 * n + source % 3) * SECOND;
        let name = format!("sensor,n={source}");
        match source % 4 {
            0 => Row(
                name,
                time,
                vec![("level", Value::F64((noise % 500) as f64 / 10.0))],
            ),
            _ => {
                let mut cells = vec![("count", Value::U64(noise % 1000))];
                if !noise.is_multiple_of(5) {
                    cells.push(("state", Value::Str(["idle", "busy"][(noise % 2) as usize])));
                }
                Row(name, time, cells)
            }
        }
    };
    let mut ticks = |ticks: std::ops::Range<i64>, sources: i64| -> Vec<Row> {
        let all = ticks.flat_map(|n| (0..sources).map(move |source| (source, n)));
        all.map(|(source, n)| row(source, n)).collect()
    };
    vec![
        vec![ticks(0..2, 200), ticks(2..3, 200)],
        vec![ticks(3..4, 20), ticks(4..5, 20)],
    ]
}

/// Story of two sealed segments and a journal of two files: all types, gaps, growing layouts, late
/// rows, replaced values, times before 1970, and values that differ only in their bits.
pub fn story() -> Story {
    let mut next = numbers();
    let mut level = 2000_i64;
    let mut walk = move || {
        level += (next() % 21) as i64 - 10;
        level as f64 / 100.0
    };
    let gauge =
        |host: &str, times: std::ops::Range<i64>, value: &mut dyn FnMut() -> f64| -> Vec<Row> {
            times
                .map(|n| {
                    Row(
                        format!("cpu,host={host}"),
                        n * 10 * SECOND,
                        vec![("usage", Value::F64(value()))],
                    )
                })
                .collect()
        };
    let constant = |from: i64| -> Vec<Row> {
        (from..from + 300)
            .map(|n| {
                Row(
                    "flat,host=a".to_string(),
                    n * SECOND,
                    vec![("on", Value::Bool(true))],
                )
            })
            .collect()
    };
    let mut next = numbers();
    let mut all_types = move |from: i64| -> Vec<Row> {
        (from..from + 60)
            .map(|n| {
                let noise = next();
                let mut cells = vec![
                    ("wide", Value::F64(f64::from_bits(noise))),
                    ("narrow", Value::F32((n % 7) as f32 * 0.5)),
                    (
                        "signed",
                        Value::I64([i64::MIN, i64::MAX, n, -n][(n % 4) as usize]),
                    ),
                    (
                        "unsigned",
                        Value::U64([u64::MAX, 0, n as u64][(n % 3) as usize]),
                    ),
                    ("switch", Value::Bool(noise.is_multiple_of(3))),
                    (
                        "state",
                        Value::Str(["idle", "läuft", "", "broken\nin two"][(n / 5 % 4) as usize]),
                    ),
                ];
                // Gaps: alternately, one of the fields is missing.
                cells.remove((noise % 6) as usize);
                Row(
                    "machine,line=3,site=north".to_string(),
                    n * SECOND / 3 - 20 * SECOND,
                    cells,
                )
            })
            .collect()
    };
    let odd = vec![
        f64::NAN,
        -f64::NAN,
        f64::from_bits(0x7FF0_0000_0000_0001),
        -0.0,
        0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE,
        5e-324,
        0.1,
    ];
    let odd = odd
        .into_iter()
        .zip([i64::MIN, -1, 0, 1, 2, 3, 4, 5, i64::MAX - 1, i64::MAX]);
    let odd: Vec<Row> = odd
        .map(|(value, time)| Row("odd".to_string(), time, vec![("x", Value::F64(value))]))
        .collect();
    let mut next = numbers();
    let mut noise = move || f64::from_bits(next() >> 2 | 1 << 61);

    let first = vec![
        gauge("a", 0..300, &mut walk),
        constant(0),
        all_types(0),
        odd,
    ];
    let second = vec![
        gauge("a", 300..500, &mut walk),
        gauge("b", 0..40, &mut walk),
        // Late rows, and rows that replace earlier rows.
        gauge("a", 100..110, &mut || -1.5),
        // A second field for a source with one field.
        (0..30)
            .map(|n| {
                Row(
                    "cpu,host=b".to_string(),
                    (40 + n) * 10 * SECOND,
                    vec![("usage", Value::F64(1.0)), ("load", Value::I64(n))],
                )
            })
            .collect(),
    ];
    let third = vec![
        gauge("a", 500..540, &mut walk),
        all_types(60),
        (0..80)
            .map(|n| {
                Row(
                    "noise,n=1".to_string(),
                    n * SECOND,
                    vec![("x", Value::F64(noise()))],
                )
            })
            .collect(),
        gauge("a", 50..52, &mut || 7.0),
        gauge("c", 0..5, &mut walk),
    ];
    vec![first, second, third]
}

/// Minimal story: a block, a footer, a frame of the catalog, and a record. Its bytes do not depend
/// on the time of sealing.
pub fn morsel() -> Story {
    let row = |n: i64| {
        Row(
            "cpu,host=a".to_string(),
            n * 10 * SECOND,
            vec![
                ("usage", Value::F64(20.5 + n as f64 / 10.0)),
                ("on", Value::Bool(n % 2 == 0)),
            ],
        )
    };
    vec![
        vec![(0..4).map(row).collect()],
        vec![(4..6).map(row).collect()],
    ]
}
