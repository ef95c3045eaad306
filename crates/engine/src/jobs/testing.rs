//! Small store for the tests of jobs: one call appends rows, and tests run jobs directly.

use crate::answer::Query;
use crate::closing::flush;
use crate::core::Core;
use crate::error::Error;
use crate::intake::{append, append_columns, register};
use crate::jobs::step;
use crate::jobs::writing::{Writing, WritingGuard};
use crate::opening::open;
use crate::options::{Durability, Options};
use crate::query::scan;
use crate::query::scan::Piece;
use crate::retention::class::{Class, Classes};
use seiner_model::{
    Batch, Cell, Column, Columns, FieldColumn, Interval, KeyError, Notation, Selector, SourceId,
    SourceKey, Value,
};
use seiner_platform::sim::{SimClock, SimDisk};
use std::ops::Range;
use std::sync::Arc;

pub const SECOND: i64 = 1_000_000_000;

/// A store on a simulated disk, without threads. Blocks have 256 bytes, segments 64 KiB.
pub struct World {
    pub core: Core,
    pub disk: Arc<SimDisk>,
    clock: Arc<SimClock>,
}

/// Returns options for small blocks and segments.
pub fn options() -> Options {
    Options {
        durability: Durability::Memory,
        block_bytes: 256,
        segment_bytes: 64 << 10,
        journal_bytes: 64 << 10,
        memory: 2 << 20,
        ..Options::default()
    }
}

/// Canonical names without escapes.
struct Plain;

impl Notation for Plain {
    fn id(&self) -> u32 {
        SourceKey::NOTATION
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        let name = std::str::from_utf8(name).expect("names in tests are text");
        let mut parts = name.split(',');
        let measurement = parts.next().unwrap_or_default();
        SourceKey::new(measurement, parts.filter_map(|tag| tag.split_once('=')))
    }
}

impl World {
    /// Opens an empty store at the time 0.
    pub fn new(options: Options) -> World {
        let clock = Arc::new(SimClock::new(0));
        let disk = Arc::new(SimDisk::new(1));
        let core = open(disk.clone(), clock.clone(), options).unwrap();
        World { core, disk, clock }
    }

    /// Opens the store again, as it is on the disk.
    pub fn reopen(self, options: Options) -> World {
        let World { core, disk, clock } = self;
        drop(core);
        let core = open(disk.clone(), clock.clone(), options).unwrap();
        World { core, disk, clock }
    }

    /// Opens the store on a copy of its disk, which may be damaged.
    pub fn on(&self, disk: SimDisk, options: Options) -> World {
        let (disk, clock) = (Arc::new(disk), self.clock.clone());
        let core = open(disk.clone(), clock.clone(), options).unwrap();
        World { core, disk, clock }
    }

    /// Opens an empty store with one class.
    pub fn of_class(change: impl FnOnce(&mut Class)) -> World {
        let mut class = Class::forever();
        change(&mut class);
        World::new(Options {
            classes: Classes::new(vec![class]).unwrap(),
            ..options()
        })
    }

    /// Appends rows of one field at these times, in seconds. The values do not compress.
    pub fn append(&self, name: &str, times: Range<i64>) -> SourceId {
        let key = SourceKey::new(name, [("a", "b")]).unwrap();
        let source = register(&self.core, &key).unwrap();
        let value = |time: i64| (time as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as f64;
        let columns = Columns {
            times: times.clone().map(|time| time * SECOND).collect(),
            fields: vec![FieldColumn {
                present: None,
                values: Column::F64(times.map(value).collect()),
            }],
        };
        append_columns(&self.core, source, &["v"], &columns).unwrap();
        source
    }

    /// Appends a row to each of some sources by their names, at a time in seconds.
    pub fn append_named(&self, names: &[String], time: i64) {
        self.append_field(names, "v", time);
    }

    /// Appends a row with a field to each of some sources by their names, at a time in seconds.
    pub fn append_field(&self, names: &[String], field: &str, time: i64) {
        let mut batch = Batch::new();
        for name in names {
            let cell = Cell {
                field: field.as_bytes(),
                value: Value::F64(1.5),
            };
            batch.push(name.as_bytes(), time * SECOND, [cell]);
        }
        let receipt = append(&self.core, &Plain, &batch).unwrap();
        assert_eq!(receipt.rejected, []);
    }

    /// Seals everything into segments.
    pub fn flush(&self) {
        flush(&self.core).unwrap();
    }

    /// Seals everything, and runs all jobs until they have nothing to do.
    pub fn run_all(&self) {
        self.flush();
        while step(&self.core).unwrap() {}
    }

    /// Advances the clock by this many seconds.
    pub fn wait(&self, seconds: i64) {
        self.clock.advance((seconds * SECOND) as u64);
    }

    /// Returns the memory of the jobs.
    pub fn writing(&self) -> WritingGuard<'_> {
        self.core.writing()
    }

    /// Runs a job until it has nothing to do. Returns the number of runs that did something.
    pub fn run(&self, job: fn(&Core, &mut Writing) -> Result<bool, Error>) -> usize {
        let mut writing = self.core.writing();
        let runs = (0..1000).take_while(|_| job(&self.core, &mut writing).unwrap());
        runs.count()
    }

    /// Returns the number of rows that a query of everything finds.
    pub fn rows(&self) -> usize {
        let query = Query {
            selector: Selector::all(),
            fields: None,
            interval: Interval::new(i64::MIN, i64::MAX),
        };
        let rows = |piece: Result<Piece, Error>| piece.unwrap().times.len();
        scan(&self.core, &query).map(rows).sum()
    }

    /// Returns the number of sealed segments and of blocks in them.
    pub fn sealed(&self) -> (usize, u64) {
        let log = self.core.log();
        let blocks = log.sealed().values().map(|segment| segment.trailer.blocks);
        (log.sealed().len(), blocks.sum())
    }
}
