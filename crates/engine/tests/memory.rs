//! Memory. The allocations of a store stay within its setting and match the figure that it reports.
//!
//! The tests of this binary run one at a time, because they count every byte that the process allocates.
//! `e2e/test_limits.py` checks the resident memory of a server.
#![allow(clippy::unwrap_used)]
#![allow(
    unsafe_code,
    reason = "a counting allocator; nothing but numbers is added to the system's"
)]

mod tiny;

use seiner_engine::{Class, Classes, Engine, Options, Query, Reason};
use seiner_model::{Batch, Cell, Interval, KeyError, Notation, Row, Selector, SourceKey, Value};
use seiner_platform::Disk;
use seiner_platform::sim::SimClock;
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use tiny::Plain;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::new(());

struct Counting;

fn grow(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: all calls go to the system allocator. In addition, two counters change.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Large allocations are remapped instead of copied.
        match layout.size() < MIB {
            true => grow(size),
            false => grow(size.saturating_sub(layout.size())),
        }
        let freed = match layout.size() < MIB {
            true => layout.size(),
            false => layout.size().saturating_sub(size),
        };
        LIVE.fetch_sub(freed, Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Notation with canonical names, like most names in line protocol.
struct Canonical;

impl Notation for Canonical {
    fn id(&self) -> u32 {
        SourceKey::NOTATION
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        Plain.source_key(name)
    }
}

const MIB: usize = 1 << 20;
const START: i64 = 1_700_000_000_000_000_000;

/// Returns the bytes that the store has allocated: the present value, and the maximum since the last call.
fn allocated(before: usize) -> (usize, usize) {
    let live = LIVE.load(Relaxed);
    let peak = PEAK.swap(live, Relaxed);
    (live.saturating_sub(before), peak.saturating_sub(before))
}

fn open(path: &Path, memory: usize) -> Engine {
    let options = Options {
        memory: memory as u64,
        ..Options::default()
    };
    open_with(path, options)
}

fn open_with(path: &Path, options: Options) -> Engine {
    open_at(path, options, Arc::new(SimClock::new(0)))
}

fn open_at(path: &Path, options: Options, clock: Arc<SimClock>) -> Engine {
    let disk: Arc<dyn Disk> = Arc::new(seiner_platform::Directory::open(path).unwrap());
    Engine::open(disk, clock, options).unwrap()
}

/// Returns the memory of the store in a test. `SEINER_TEST_MIB` sets it for larger runs.
fn memory() -> usize {
    std::env::var("SEINER_TEST_MIB").map_or(32, |mib| mib.parse().unwrap()) * MIB
}

/// Returns the number of all samples.
fn samples(engine: &Engine) -> usize {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let found = engine.select(&query).unwrap();
    found.map(|series| series.unwrap().times.len()).sum()
}

/// Appends a row of each of a thousand sources. Returns the number of rejected rows.
fn new_sources(engine: &Engine, first: usize, time: i64) -> usize {
    rows_of(engine, first..first + 1000, time, |n| n as f64 / 8.0)
}

/// Appends a row of each source, with the value of its index. Returns the number of rejected rows.
fn rows_of(
    engine: &Engine,
    sources: impl Iterator<Item = usize>,
    time: i64,
    value: impl Fn(usize) -> f64,
) -> usize {
    let names: Vec<String> = sources
        .map(|n| {
            format!(
                "m,host=h{n:07x},id={:08x},region=r{}",
                n * 2_654_435_761 % (1 << 32),
                n % 7
            )
        })
        .collect();
    let cell = |n: usize| Cell {
        field: b"v",
        value: Value::F64(value(n)),
    };
    let cells: Vec<Cell<'_>> = (0..names.len()).map(cell).collect();
    let rows = names.iter().enumerate().map(|(n, name)| Row {
        name: name.as_bytes(),
        time,
        first_cell: n as u32,
        cells: 1,
    });
    let batch = Batch {
        rows: rows.collect(),
        cells,
    };
    let receipt = engine.append(&Canonical, &batch).unwrap();
    let full = |(_, reason): &(usize, Reason)| *reason == Reason::TooManySources;
    assert!(receipt.rejected.iter().all(full), "{:?}", receipt.rejected);
    receipt.rejected_total
}

/// Checks the peak and the present memory of a phase, and the store's own figure for it.
fn check(phase: &str, engine: &Engine, before: usize, limit: usize) {
    let (live, peak) = allocated(before);
    let used = engine.status().memory_used as usize;
    let mib = |bytes: usize| bytes as f64 / MIB as f64;
    println!(
        "{phase}: {:.1} MiB, at most {:.1} of {:.1}; accounted for {:.1}",
        mib(live),
        mib(peak),
        mib(limit),
        mib(used)
    );
    assert!(peak <= limit, "{phase}: {peak} bytes are more than {limit}");
    let fair = live / 20 + MIB / 2;
    assert!(
        live.abs_diff(used) <= fair,
        "{phase}: {used} are accounted for of {live}"
    );
}

/// The engine registers new sources until it rejects them. Rows of existing sources are still
/// accepted, also after a crash.
#[test]
fn the_memory_of_ever_new_sources_stays_within_its_setting() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = memory();
    let folder = tempfile::tempdir().unwrap();
    let before = LIVE.load(Relaxed);
    let engine = open(folder.path(), memory);
    let mut sources = 0;
    loop {
        let rejected = new_sources(&engine, sources, START);
        if sources % 16_000 == 0 {
            engine.commit().unwrap();
            while engine.step().unwrap() {}
        }
        sources += 1000 - rejected;
        if rejected > 0 {
            break;
        }
    }
    // The rest of the memory is for rows.
    assert!(sources > memory / 512, "{sources} sources fill the memory");
    check("new sources", &engine, before, memory / 4 * 5);
    let known: Vec<usize> = (0..sources / 1000 * 1000).step_by(1000).collect();
    for round in 1..5 {
        for &first in &known {
            let rejected = new_sources(&engine, first, START + round);
            assert_eq!(rejected, 0, "a known source is rejected");
        }
    }
    check("known sources", &engine, before, memory / 4 * 5);
    engine.commit().unwrap();
    drop(engine);
    allocated(before);
    let engine = open(folder.path(), memory);
    check("start after a crash", &engine, before, memory);
    engine.flush().unwrap();
    check("flush", &engine, before, memory);
    assert_eq!(samples(&engine), sources + 4 * known.len() * 1000);
    check("a query of everything", &engine, before, memory);
    drop(engine);
    allocated(before);
    let engine = open(folder.path(), memory);
    check("start", &engine, before, memory);
}

/// Sources come one after the other and are silent from then on, until no more have space. All send again afterwards.
#[test]
fn the_memory_of_silent_sources_stays_within_its_setting() {
    const BATCHES: usize = 4;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = memory() / 2;
    let folder = tempfile::tempdir().unwrap();
    let before = LIVE.load(Relaxed);
    let clock = Arc::new(SimClock::new(0));
    let open = |clock: &Arc<SimClock>| {
        let options = Options {
            memory: memory as u64,
            ..Options::default()
        };
        open_at(folder.path(), options, clock.clone())
    };
    let engine = open(&clock);
    let mut sources = 0;
    let work = |engine: &Engine, sources: usize| {
        if sources.is_multiple_of(BATCHES * 1000) {
            clock.advance(200_000_000_000);
            engine.commit().unwrap();
            while engine.step().unwrap() {}
        }
    };
    loop {
        let rejected = new_sources(&engine, sources, START);
        sources += 1000;
        if rejected > 0 {
            break;
        }
        work(&engine, sources);
    }
    let sources = sources - 1000;
    let status = engine.status();
    println!("{sources} sources, {} dormant", status.sources_dormant);
    assert!(sources > memory / 80, "{sources} sources fill the memory");
    assert!(status.sources_dormant > status.sources / 4 * 3);
    check("silent sources", &engine, before, memory / 4 * 5);
    for first in (0..sources).step_by(1000) {
        let rejected = new_sources(&engine, first, START + 1);
        assert_eq!(rejected, 0, "a dormant source is rejected");
        work(&engine, first);
    }
    assert!(engine.status().sources_recalled > sources as u64 / 2);
    check("sources that send again", &engine, before, memory / 4 * 5);
    engine.commit().unwrap();
    drop(engine);
    allocated(before);
    let engine = open(&clock);
    check("start after a crash", &engine, before, memory);
    engine.flush().unwrap();
    check("flush", &engine, before, memory);
    assert!(samples(&engine) >= 2 * sources);
    check("a query of everything", &engine, before, memory);
}

/// Regression: before a write was rejected, a liveness scan listed the blocks of all segments.
#[test]
fn the_memory_of_merging_short_blocks_stays_within_its_setting() {
    const SOURCES: usize = 15_000;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (memory, disk) = (8 * MIB, SOURCES as u64 * 260);
    let folder = tempfile::tempdir().unwrap();
    let before = LIVE.load(Relaxed);
    let mut ring = Class::forever();
    ring.keep.rows = Some(16);
    let options = Options {
        memory: memory as u64,
        disk: Some(disk),
        segment_bytes: 64 << 10,
        journal_bytes: disk / 16,
        classes: Classes::new(vec![ring]).unwrap(),
        ..Options::default()
    };
    let engine = open_with(folder.path(), options);
    allocated(before);
    for round in 0..70 {
        // Sources have six rates, so that segments die in parts. The values do not compress.
        let due = (0..SOURCES).filter(|source| round % (1 + source % 6) == 0);
        let mut due = due.peekable();
        let mixed = |n: usize| ((n << 20 | round) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let value = |n: usize| f64::from_bits(mixed(n) >> 12 | 0x3ff0_0000_0000_0000);
        while due.peek().is_some() {
            let some = due.by_ref().take(1000);
            let rejected = rows_of(&engine, some, START + round as i64, value);
            assert_eq!(rejected, 0, "round {round}");
        }
        engine.commit().unwrap();
    }
    let status = engine.status();
    assert!(status.segments_merged > 20, "{}", status.segments_merged);
    check("merging", &engine, before, memory / 2 * 3);
}
