//! Long answers: their memory is limited, and they have the same contents as short answers.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(unsafe_code, reason = "an allocator that counts")]

use seiner_engine::{Durability, Engine, Options, Query};
use seiner_model::{
    Batch, Bitmap, Cell, Column, Columns, FieldColumn, Interval, Notation, Selector, SourceId,
    SourceKey, Value,
};
use seiner_server::query::{Parameters, QueryPlan, write_answer};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Bytes that are allocated at present.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// Lock that permits one test at a time, because the counters cover the whole process.
static ALONE: Mutex<()> = Mutex::new(());

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all calls go to the system's allocator with unchanged layouts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

const FIELDS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// Writer that only counts bytes.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open(path: &Path, memory: u64) -> Arc<Engine> {
    let options = Options {
        durability: Durability::Memory,
        memory,
        ..Options::default()
    };
    Engine::open_directory(path, options).unwrap()
}

fn register(engine: &Engine, name: &str) -> SourceId {
    let key = SourceKey::new(name, [("id", "1")]).unwrap();
    engine.register(&key).unwrap()
}

fn plan(select: &str, to: i64, format: &str) -> QueryPlan {
    let parameters = Parameters {
        select: Some(select.to_string()),
        from: Some("0".to_string()),
        to: Some(to.to_string()),
        format: Some(format.to_string()),
        ..Parameters::default()
    };
    QueryPlan::read(&parameters, i64::MAX).unwrap()
}

/// Appends rows of ten fields at the given times.
fn append_wide(engine: &Engine, source: SourceId, times: &[i64]) {
    for times in times.chunks(10_000) {
        let value = |field: usize, time: i64| {
            let mixed = (time as u64 + field as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> 48) as f64 / 16.0
        };
        let column = |field: usize| FieldColumn {
            present: None,
            values: Column::F64(times.iter().map(|&time| value(field, time)).collect()),
        };
        let columns = Columns {
            times: times.to_vec(),
            fields: (0..FIELDS.len()).map(column).collect(),
        };
        engine.append_columns(source, &FIELDS, &columns).unwrap();
    }
}

/// A query of ten fields takes the same memory for any interval, even if one late block covers the whole interval.
#[test]
fn long_answers_take_bounded_memory() {
    const ROWS: i64 = 400_000;
    const SECOND: i64 = 1_000_000_000;
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), 64 << 20);
    let source = register(&engine, "machine");
    append_wide(
        &engine,
        source,
        &(0..ROWS).map(|row| row * SECOND).collect::<Vec<_>>(),
    );
    engine.flush().unwrap();
    let late = (0..50).map(|row| row * (ROWS / 50) * SECOND + 1);
    append_wide(&engine, source, &late.collect::<Vec<_>>());
    engine.flush().unwrap();
    for format in ["json", "csv", "arrow"] {
        let mut peaks = Vec::new();
        for rows in [ROWS / 2, ROWS] {
            let plan = plan("machine", rows * SECOND, format);
            let before = LIVE.load(Relaxed);
            PEAK.store(before, Relaxed);
            let mut out = Counter(0);
            write_answer(&*engine, &plan, &mut out, Arc::new(|| false)).unwrap();
            assert!(out.0 > rows as u64 * 50, "{} bytes of {format}", out.0);
            peaks.push((PEAK.load(Relaxed) - before) >> 10);
        }
        println!("{format}: {peaks:?} KiB");
        // As series in memory, all samples of the longer interval would take 64 MB.
        assert!(peaks[1] < 16 << 10, "{format}: {peaks:?} KiB");
        assert!(peaks[1] < peaks[0] + (2 << 10), "{format}: {peaks:?} KiB");
    }
    engine.close().unwrap();
}

/// Appends a row of a source with some fields.
fn append_cells(engine: &Engine, name: &str, time: i64, cells: &[(&str, Value<'_>)]) {
    let cells = cells.iter().map(|&(field, value)| Cell {
        field: field.as_bytes(),
        value,
    });
    let mut batch = Batch::new();
    batch.push(name.as_bytes(), time, cells);
    let receipt = engine.append(&Plain, &batch).unwrap();
    assert_eq!(receipt.rejected, []);
}

struct Plain;

impl Notation for Plain {
    fn id(&self) -> u32 {
        77
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, seiner_model::KeyError> {
        SourceKey::new(std::str::from_utf8(name).unwrap(), [("id", "1")])
    }
}

/// Returns the series of a JSON answer: field, type, times and values.
fn series_of(answer: &serde_json::Value) -> Vec<(String, Vec<i64>, Vec<serde_json::Value>)> {
    let list = |value: &serde_json::Value| value.as_array().unwrap().clone();
    let series = list(&answer["series"]).into_iter();
    let series = series.map(|one| {
        let times = list(&one["times"]);
        let times = times.iter().map(|time| match time {
            serde_json::Value::String(text) => text.parse().unwrap(),
            number => number.as_i64().unwrap(),
        });
        let name = format!("{} {}", one["measurement"], one["field"]);
        (name, times.collect(), list(&one["values"]))
    });
    series.collect()
}

fn json(engine: &Engine, select: &str) -> serde_json::Value {
    let mut bytes = Vec::new();
    let plan = plan(select, i64::MAX - 1, "json");
    write_answer(engine, &plan, &mut bytes, Arc::new(|| false)).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// The answer for sources that do not fit into memory equals that of `select`: gaps, texts, integers, late and deleted
/// rows.
#[test]
fn long_series_are_written_as_select_returns_them() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), 4 << 20);
    let source = register(&engine, "long");
    for start in (0..60_000_i64).step_by(5_000) {
        let times: Vec<i64> = (start..start + 5_000).collect();
        let present: Bitmap = times.iter().map(|time| time % 7 != 0).collect();
        let sparse = times.iter().filter(|time| *time % 7 != 0);
        let columns = Columns {
            fields: vec![
                FieldColumn {
                    present: None,
                    values: Column::F64(
                        times.iter().map(|&t| (t * t % 9973) as f64 / 8.0).collect(),
                    ),
                },
                FieldColumn {
                    present: Some(present),
                    values: Column::I64(sparse.map(|&t| t * 31 % 4099).collect()),
                },
            ],
            times,
        };
        engine
            .append_columns(source, &["x", "n"], &columns)
            .unwrap();
    }
    append_cells(
        &engine,
        "short",
        5,
        &[("x", Value::F64(0.5)), ("s", Value::Str("one"))],
    );
    append_cells(
        &engine,
        "long",
        30_001,
        &[("s", Value::Str("two")), ("x", Value::F64(-1.0))],
    );
    let selector = Selector::parse("long").unwrap();
    engine.delete(&selector, Interval::new(100, 5_200)).unwrap();
    engine.flush().unwrap();
    append_cells(&engine, "long", 2, &[("x", Value::F64(-2.0))]);

    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::new(0, i64::MAX - 1),
    };
    let expected = engine.select(&query).unwrap().map(|series| {
        let series = series.unwrap();
        let values = (0..series.times.len()).map(|at| match series.values.get(at) {
            Value::F64(value) => serde_json::json!(value),
            Value::I64(value) => serde_json::json!(value),
            Value::Str(text) => serde_json::json!(text),
            other => panic!("{other:?}"),
        });
        let name = format!("{:?} {:?}", series.key.measurement(), &*series.field);
        let values: Vec<f64> = values.map(|value| value.as_f64().unwrap_or(-7.0)).collect();
        (name, series.times, values)
    });
    let expected: Vec<(String, Vec<i64>, Vec<f64>)> = expected.collect();
    assert_eq!(expected.len(), 5);
    let answer = json(&engine, "{}");
    let found = series_of(&answer).into_iter().map(|(name, times, values)| {
        let values = values.iter().map(|value| value.as_f64().unwrap_or(-7.0));
        (name, times, values.collect::<Vec<f64>>())
    });
    let found: Vec<(String, Vec<i64>, Vec<f64>)> = found.collect();
    assert!(
        found == expected,
        "the answer differs from what select returns"
    );
    engine.close().unwrap();
}

/// Damage within a long series causes one warning, and every value keeps its time.
#[test]
fn damage_within_a_long_series_is_one_warning() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path(), 4 << 20);
    let source = register(&engine, "long");
    append_wide(&engine, source, &(0..20_000).collect::<Vec<_>>());
    engine.flush().unwrap();
    let mut segments: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "log"))
        .collect();
    segments.sort();
    let path = &segments[0];
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 0x55;
    std::fs::write(path, &bytes).unwrap();
    let answer = json(&engine, "long");
    let warnings = answer["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let series = series_of(&answer);
    assert_eq!(series.len(), FIELDS.len());
    for (name, times, values) in series {
        assert_eq!(times.len(), values.len(), "{name}");
        assert!(
            (10_000..20_000).contains(&times.len()),
            "{name}: {}",
            times.len()
        );
    }
    engine.close().unwrap();
}
