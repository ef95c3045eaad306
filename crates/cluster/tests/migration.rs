//! Import of a data directory, and export to one: interrupted at every point, and repeated.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod killed;
mod samples;
mod world;

use killed::Killed;
use samples::{SECOND, START};
use seiner_cluster::{
    ClusterStore, Export, ImportOptions, ImportReport, Progress, Rows, check, import,
};
use seiner_engine::{Classes, Engine, Given, Options, Rule};
use seiner_model::{Column, Columns, FieldColumn, Interval, Selector, SourceKey, Strings};
use seiner_platform::sim::{SimClock, SimDisk};
use seiner_platform::{Clock, Disk};
use seiner_store::{Class, Error, Keep, Query, Store};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use world::World;

/// Rows of a source: five hours, with a gap of some days before the last ones.
const ROWS: i64 = 300;

/// Samples by source and field: times and values.
type Samples = BTreeMap<(String, String), Vec<(i64, String)>>;

/// Clock whose monotonic time advances by two seconds at each look, so that every step is recorded.
struct Ticking(SimClock);

impl Clock for Ticking {
    fn now(&self) -> i64 {
        self.0.now()
    }

    fn monotonic(&self) -> u64 {
        self.0.advance(2_000_000_000);
        self.0.monotonic()
    }

    fn sleep(&self, duration: Duration) {
        self.0.sleep(duration);
    }
}

fn key(name: &str, host: usize) -> SourceKey {
    SourceKey::new(name, [("host", &*format!("h{host}"))]).unwrap()
}

fn time(row: i64) -> i64 {
    let gap = if row < ROWS - 20 { 0 } else { 5 * 86_400 };
    START + (row * 60 + gap) * SECOND
}

fn columns(rows: std::ops::Range<i64>, offset: i64) -> Columns {
    let mut texts = Strings::default();
    rows.clone()
        .for_each(|row| texts.push(&format!("state {}", row % 3)));
    Columns {
        times: rows.clone().map(time).collect(),
        fields: vec![
            FieldColumn {
                present: None,
                values: Column::I64(rows.map(|row| row + offset).collect()),
            },
            FieldColumn {
                present: None,
                values: Column::Str(texts),
            },
        ],
    }
}

/// Writes the rows of a single server to a disk.
fn fill(disk: &SimDisk, options: Options) {
    let clock = Arc::new(SimClock::new(time(ROWS)));
    let engine = Engine::open(Arc::new(disk.clone()), clock, options).unwrap();
    for host in 0..7 {
        let source = engine.register(&key("m", host)).unwrap();
        engine
            .append_columns(source, &["v", "state"], &columns(0..ROWS, host as i64))
            .unwrap();
    }
    engine
        .delete(
            &Selector::parse("m{host=\"h3\"}").unwrap(),
            Interval::new(time(10), time(19)),
        )
        .unwrap();
    engine.close().unwrap();
}

fn directory() -> SimDisk {
    let disk = SimDisk::new(3);
    fill(&disk, engine_options());
    disk
}

fn engine_options() -> Options {
    Options {
        memory: 8 << 20,
        block_bytes: 512,
        segment_bytes: 256 << 10,
        journal_bytes: 1 << 20,
        ..Options::default()
    }
}

fn reader(disk: &SimDisk) -> Engine {
    Engine::read_disk(Arc::new(disk.clone()), engine_options()).unwrap()
}

fn attempt(
    rows: Arc<dyn Rows>,
    engine: &Engine,
    world: &World,
    again: bool,
) -> Result<ImportReport, Error> {
    let options = ImportOptions {
        grid: world.options("a").grid,
        again,
    };
    let clock = Ticking(SimClock::new(time(ROWS)));
    import(&rows, &clock, engine, &options, &mut |event| {
        assert!(matches!(event, Progress::Moved { .. }), "{event:?}");
    })
}

fn samples(store: &dyn Store) -> Samples {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let series = store.select(&query, None).unwrap().map(|series| {
        let series = series.unwrap();
        let times = series.times.iter().enumerate();
        let values = times.map(|(at, time)| (*time, format!("{:?}", series.values.get(at))));
        let name = (series.key.to_string(), series.field.to_string());
        (name, values.collect::<Vec<_>>())
    });
    series.collect()
}

/// Returns the samples that are stored, with those that others replace.
fn stored(rows: &Arc<dyn Rows>) -> u64 {
    let found = check(rows, &mut |line| panic!("{line}")).unwrap();
    assert_eq!(found.damages, 0);
    found.samples
}

#[test]
fn an_import_that_is_killed_at_any_point_and_repeated_stores_each_sample_once() {
    let disk = directory();
    let engine = reader(&disk);
    let expected = samples(&engine);
    let count: u64 = expected.values().map(|samples| samples.len() as u64).sum();
    assert_eq!(count, (7 * ROWS as u64 - 10) * 2);
    let world = World::new(1);
    let whole = Killed::after(world.rows.clone(), u64::MAX);
    let report = attempt(whole.clone(), &engine, &world, false).unwrap();
    assert_eq!((report.samples, report.damages), (count, 0));
    assert_eq!(samples(&*world.port("a")), expected);
    let most_at_once = whole.writes() / 4;
    for killed_after in 1..whole.writes() {
        let world = World::new(1);
        let first = Killed::after(world.rows.clone(), killed_after);
        attempt(first.clone(), &engine, &world, false).unwrap_err();
        let second = Killed::after(world.rows.clone(), u64::MAX);
        let report = attempt(second.clone(), &engine, &world, false).unwrap();
        assert!(!report.was_complete);
        assert_eq!(
            stored(&world.rows),
            count,
            "killed after {killed_after} writes"
        );
        // A part is repeated, and the names and settings are not.
        let repeated = (killed_after + second.writes()).saturating_sub(whole.writes());
        assert!(
            repeated < most_at_once,
            "{repeated} of {} writes are repeated",
            whole.writes()
        );
        if killed_after % 10 == 0 {
            assert_eq!(
                samples(&*world.port("a")),
                expected,
                "killed after {killed_after}"
            );
        }
        let third = Killed::after(world.rows.clone(), u64::MAX);
        assert!(attempt(third, &engine, &world, false).unwrap().was_complete);
        assert_eq!(stored(&world.rows), count);
    }
}

#[test]
fn a_directory_that_has_changed_is_imported_again_in_place_of_its_samples() {
    let world = World::new(2);
    let disk = directory();
    attempt(world.rows.clone(), &reader(&disk), &world, false).unwrap();
    let clock = Arc::new(SimClock::new(time(ROWS)));
    let engine = Engine::open(Arc::new(disk.clone()), clock, engine_options()).unwrap();
    let source = engine.register(&key("m", 9)).unwrap();
    engine
        .append_columns(source, &["v", "state"], &columns(0..10, 5))
        .unwrap();
    engine.close().unwrap();
    let changed = reader(&disk);
    let error = attempt(world.rows.clone(), &changed, &world, false).unwrap_err();
    assert!(error.to_string().contains("--again"), "{error}");
    let report = attempt(world.rows.clone(), &changed, &world, true).unwrap();
    assert_eq!(stored(&world.rows), report.samples);
    assert_eq!(samples(&*world.port("a")), samples(&changed));
}

#[test]
fn samples_of_ports_replace_imported_ones_and_deletes_hide_them() {
    let world = World::new(3);
    let engine = reader(&directory());
    let a = world.port("a");
    let first = Selector::parse("m{host=\"h0\"}").unwrap();
    a.delete(&first, Interval::ALL).unwrap();
    let source = a.register(&key("m", 1)).unwrap();
    a.append_columns(source, &["v", "state"], &columns(0..1, 1000))
        .unwrap();
    a.hand_over().unwrap();
    attempt(world.rows.clone(), &engine, &world, false).unwrap();
    let found = samples(&*a);
    let v = |host: usize| (key("m", host).to_string(), "v".to_string());
    assert_eq!(
        found[&v(0)].len(),
        ROWS as usize,
        "the delete is older than the import"
    );
    assert!(found[&v(1)][0].1.contains("1000"), "{:?}", found[&v(1)][0]);
    a.delete(&first, Interval::new(time(0), time(4))).unwrap();
    assert_eq!(samples(&*a)[&v(0)].len(), ROWS as usize - 5);
}

#[test]
fn classes_are_imported_unless_the_cluster_has_some_and_rings_are_rejected() {
    let class = |keep: Keep| Class {
        name: "raw".to_string(),
        sources: "m".to_string(),
        keep,
        ..Class::forever()
    };
    let with = |class: Class| {
        let disk = SimDisk::new(4);
        let classes = Classes::new(vec![class]).unwrap();
        fill(
            &disk,
            Options {
                classes,
                ..engine_options()
            },
        );
        reader(&disk)
    };
    let age = Keep {
        age: Some(Duration::from_secs(100 * 365 * 86_400)),
        ..Keep::default()
    };
    let world = World::new(4);
    let report = attempt(world.rows.clone(), &with(class(age)), &world, false).unwrap();
    assert_eq!(
        report.classes,
        [("raw".to_string(), 7), ("default".to_string(), 0)]
    );
    let kept = World::new(5);
    kept.port("a");
    let report = attempt(kept.rows.clone(), &with(class(age)), &kept, false).unwrap();
    assert_eq!(report.classes, [("default".to_string(), 7)]);
    let ring = Keep {
        rows: Some(1_000_000),
        ..Keep::default()
    };
    let error = attempt(world.rows.clone(), &with(class(ring)), &world, false).unwrap_err();
    assert!(error.to_string().contains("by age only"), "{error}");
}

/// Exports to a disk. Fails if the disk does.
fn export_to(disk: &SimDisk, store: &ClusterStore) -> Result<Export, Error> {
    let mut export = Export::open(disk, "sensors")?;
    let options = Options {
        classes: Classes::new(store.retention())?,
        given: Given::these([Rule::Classes]),
        ..engine_options()
    };
    let clock = Arc::new(SimClock::new(time(ROWS)));
    let engine = Engine::open(Arc::new(disk.clone()), clock, options)?;
    export.run(store, &engine, disk, &mut |_| ())?;
    engine.close()?;
    Ok(export)
}

#[test]
fn an_export_that_is_killed_at_any_point_and_repeated_has_each_sample_once() {
    let world = World::new(6);
    attempt(world.rows.clone(), &reader(&directory()), &world, false).unwrap();
    let a = world.port("a");
    // Rows that are not handed over.
    let source = a.register(&key("fresh", 0)).unwrap();
    a.append_columns(source, &["v", "state"], &columns(0..50, 7))
        .unwrap();
    let reader_port = world.port("export");
    let expected = samples(&*reader_port);
    let count: u64 = expected.values().map(|samples| samples.len() as u64).sum();
    let mut interrupted = 0;
    for operations in (20..).step_by(30) {
        let disk = SimDisk::new(operations);
        disk.crash_after(Some(operations));
        let first = export_to(&disk, &reader_port);
        let disk = disk.restart();
        disk.crash_after(None);
        let export = export_to(&disk, &reader_port).unwrap();
        assert!(export.is_complete);
        assert_eq!(
            (export.samples, export.rejected, export.damages),
            (count, 0, 0)
        );
        assert_eq!(
            samples(&reader(&disk)),
            expected,
            "killed after {operations} operations"
        );
        match first {
            Ok(_) => break,
            Err(_) => interrupted += 1,
        }
    }
    assert!(interrupted > 3, "{interrupted} exports were interrupted");
    let other = SimDisk::new(1);
    other.create("something").unwrap();
    assert!(
        export_to(&other, &reader_port).is_err(),
        "a directory with other files"
    );
}
