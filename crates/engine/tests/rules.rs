//! Tests of the rules that are stored with the data, through the public interface.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use seiner_engine::{
    Class, Classes, Durability, Engine, Error, Given, Keep, Options, Query, WhenFull, check,
    stored_rules,
};
use seiner_model::{Interval, Selector, SourceKey};
use seiner_platform::sim::{SimClock, SimDisk};
use seiner_platform::{Clock, Disk};
use std::sync::Arc;
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
const NOW: i64 = 1_700_000_000 * SECOND;

fn class(name: &str, sources: &str, hours: Option<u64>) -> Class {
    Class {
        name: name.to_string(),
        sources: sources.to_string(),
        keep: Keep {
            age: hours.map(|hours| Duration::from_secs(3600 * hours)),
            ..Keep::default()
        },
        ..Class::forever()
    }
}

fn aged(hours: u64) -> Options {
    options(vec![class("aged", "t", Some(hours))])
}

fn options(classes: Vec<Class>) -> Options {
    Options {
        durability: Durability::Interval(Duration::from_millis(100)),
        memory: 4 << 20,
        block_bytes: 512,
        segment_bytes: 64 << 10,
        journal_bytes: 256 << 10,
        classes: Classes::new(classes).unwrap(),
        ..Options::default()
    }
}

/// Returns the settings of a program without any rules of the store.
fn bare() -> Options {
    Options {
        memory: 4 << 20,
        ..Options::default()
    }
}

fn confirmed(options: Options) -> Options {
    Options {
        apply_retention: true,
        ..options
    }
}

#[derive(Clone)]
struct Host {
    disk: SimDisk,
    clock: SimClock,
}

impl Host {
    fn new() -> Host {
        Host {
            disk: SimDisk::new(1),
            clock: SimClock::new(NOW),
        }
    }

    fn open(&self, options: Options) -> Result<Engine, Error> {
        let disk = Arc::new(self.disk.clone());
        Engine::open(disk, Arc::new(self.clock.clone()), options)
    }

    /// Appends a row for each of the last 20 hours and one present row, in two measurements.
    fn fill(&self, options: Options) {
        let engine = self.open(options).unwrap();
        for name in ["t", "u"] {
            let key = SourceKey::new(name, [("n", "1")]).unwrap();
            let id = engine.register(&key).unwrap();
            for hour in (0..=20).rev() {
                let time = self.clock.now() - hour * HOUR;
                engine.append_samples("v", &[id], &[time], &[1.0]).unwrap();
            }
        }
        engine.close().unwrap();
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let read = |name: String| {
            let file = self.disk.open(&name).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_at(0, &mut bytes).unwrap();
            (name, bytes)
        };
        let mut names = self.disk.list().unwrap();
        names.sort();
        names.into_iter().map(read).collect()
    }
}

fn rows(engine: &Engine, select: &str) -> usize {
    let query = Query {
        selector: Selector::parse(select).unwrap(),
        fields: None,
        interval: Interval::ALL,
    };
    let series = engine.select(&query).unwrap();
    series.map(|series| series.unwrap().times.len()).sum()
}

fn names(engine: &Engine) -> Vec<String> {
    let classes = engine.classes().into_iter();
    classes.map(|class| class.class.name).collect()
}

#[test]
fn omitted_settings_are_taken_from_the_stored_rules() {
    let host = Host::new();
    let rules = Options {
        disk: Some(20 << 20),
        lanes: 5,
        ..aged(30)
    };
    host.fill(rules);
    let engine = host.open(bare()).unwrap();
    assert_eq!(names(&engine), ["aged", "default"]);
    let held = engine.options();
    assert_eq!(
        (held.disk, held.lanes, held.block_bytes),
        (Some(20 << 20), 5, 512)
    );
    assert_eq!(
        (held.segment_bytes, held.journal_bytes),
        (64 << 10, 256 << 10)
    );
    assert_eq!(rows(&engine, "t"), 21);
    engine.close().unwrap();
    assert!(engine.rules_changed().is_empty());
}

#[test]
fn rules_that_keep_more_are_applied_and_stored() {
    let host = Host::new();
    host.fill(aged(30));
    let engine = host.open(aged(40)).unwrap();
    assert_eq!(engine.rules_changed().len(), 1);
    engine.close().unwrap();
    let stored = stored_rules(&host.disk).unwrap().unwrap();
    let age = stored.classes.named()[0].keep.age;
    assert_eq!(age, Some(Duration::from_secs(40 * 3600)));
}

#[test]
fn rules_that_keep_less_are_rejected_and_nothing_changes() {
    let host = Host::new();
    host.fill(aged(30));
    let before = host.files();
    let Err(error @ Error::Retention(_)) = host.open(aged(10)) else {
        panic!("rules that keep less were applied");
    };
    let text = error.to_string();
    // Rows of up to 10 hours are kept: 11 of the 21 rows. The block contains rows that stay.
    assert!(
        text.contains("samples are kept for 10h instead of 1d6h"),
        "{text}"
    );
    assert!(text.contains("--apply-retention"), "{text}");
    assert!(
        text.contains("of class \"aged\": 0 rows, and a part of 21 rows more"),
        "{text}"
    );
    assert_eq!(host.files(), before, "a rejected start changes nothing");

    let engine = host.open(confirmed(aged(10))).unwrap();
    assert_eq!((rows(&engine, "t"), rows(&engine, "u")), (11, 21));
    engine.close().unwrap();
    let engine = host.open(bare()).unwrap();
    assert_eq!(rows(&engine, "t"), 11);
}

#[test]
fn the_report_lists_rows_and_times_of_blocks_that_would_expire() {
    let host = Host::new();
    host.fill(options(Vec::new()));
    host.clock.advance(100 * HOUR as u64);
    host.fill(bare());
    let Err(Error::Retention(outlook)) = host.open(aged(50)) else {
        panic!("the start was not rejected");
    };
    let [class] = outlook.classes.as_slice() else {
        panic!("{outlook}");
    };
    assert_eq!(
        (class.class.as_str(), class.rows, class.partly),
        ("default", 21, 0)
    );
    assert_eq!((class.first, class.last), (NOW - 20 * HOUR, NOW));
    assert!(class.bytes > 0);
    let ring = Class {
        keep: Keep {
            rows: Some(21),
            ..Keep::default()
        },
        ..class_of("t")
    };
    let Err(Error::Retention(outlook)) = host.open(options(vec![ring])) else {
        panic!("the start was not rejected");
    };
    assert_eq!(outlook.classes[0].rows, 21, "{outlook}");
}

fn class_of(sources: &str) -> Class {
    class("aged", sources, None)
}

#[test]
fn a_removed_class_or_a_smaller_budget_is_rejected() {
    let host = Host::new();
    let shed = Class {
        when_full: WhenFull::Shed,
        ..class("shed", "", None)
    };
    let with = |disk: u64| Options {
        disk: Some(disk),
        ..options(vec![shed.clone()])
    };
    host.fill(with(40 << 20));
    assert!(matches!(
        host.open(with(30 << 20)),
        Err(Error::Retention(_))
    ));
    host.open(with(50 << 20)).unwrap().close().unwrap();
    // In the other direction, an earlier class takes some of the sources.
    let shorter = vec![class("t", "t", Some(5)), shed.clone()];
    let Err(error) = host.open(options(shorter)) else {
        panic!("the start was not rejected");
    };
    assert!(
        error
            .to_string()
            .contains("its sources come under class \"t\""),
        "{error}"
    );
    // With only the default class, given explicitly, everything is kept.
    let none = Options {
        given: Given::All,
        ..options(Vec::new())
    };
    let none = Options {
        disk: Some(50 << 20),
        ..none
    };
    host.open(none).unwrap().close().unwrap();
}

#[test]
fn the_rules_of_an_older_store_come_from_its_catalog() {
    let host = Host::new();
    host.fill(aged(30));
    host.disk.remove("rules").unwrap();
    // Rules that keep less than the rules in the catalog are rejected.
    assert!(matches!(host.open(aged(10)), Err(Error::Retention(_))));
    assert!(!host.disk.list().unwrap().contains(&"rules".to_string()));
    // Without given rules, the rules of the catalog stay.
    let engine = host.open(bare()).unwrap();
    assert_eq!(names(&engine), ["aged", "default"]);
    engine.close().unwrap();
    assert!(stored_rules(&host.disk).unwrap().is_some());
    // A store that never had rules keeps everything until new rules are confirmed.
    let host = Host::new();
    host.fill(options(Vec::new()));
    host.disk.remove("rules").unwrap();
    assert!(matches!(host.open(aged(10)), Err(Error::Retention(_))));
    let engine = host.open(aged(10_000)).err();
    assert!(matches!(engine, Some(Error::Retention(_))));
    host.open(confirmed(aged(10))).unwrap().close().unwrap();
}

#[test]
fn a_damaged_rules_file_is_set_aside_and_the_catalog_replaces_it() {
    let host = Host::new();
    host.fill(aged(30));
    assert!(host.disk.flip_bit("rules", 400));
    let report = check(&host.disk, &mut |_, _| {}).unwrap();
    assert_eq!(
        (report.damaged, report.damage[0].file.as_str()),
        (1, "rules")
    );
    assert!(matches!(host.open(aged(10)), Err(Error::Retention(_))));
    let engine = host.open(bare()).unwrap();
    let [(file, _)] = engine.recovery().set_aside.as_slice() else {
        panic!("{:?}", engine.recovery());
    };
    assert_eq!(file, "rules");
    assert_eq!(names(&engine), ["aged", "default"]);
    assert!(
        host.disk
            .list()
            .unwrap()
            .contains(&"rules.damaged".to_string())
    );
}

#[test]
fn a_crash_at_any_moment_leaves_the_old_rules_or_the_new_ones() {
    for cut in 1..80 {
        let host = Host::new();
        host.fill(aged(30));
        host.disk.crash_after(Some(cut));
        let opened = host.open(confirmed(aged(10)));
        let ended = opened.is_ok() && !host.disk.is_off();
        drop(opened);
        let host = Host {
            disk: host.disk.crash(),
            clock: host.clock,
        };
        let engine = host.open(bare()).unwrap();
        let age = engine.options().classes.named()[0].keep.age.unwrap();
        let hours = age.as_secs() / 3600;
        assert!(
            hours == 10 || hours == 30 && !ended,
            "{hours} h, cut at {cut}"
        );
        assert_eq!(rows(&engine, "t"), if hours == 10 { 11 } else { 21 });
        if ended {
            return;
        }
    }
    panic!("the start does not end");
}
