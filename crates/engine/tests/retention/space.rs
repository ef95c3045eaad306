//! Disk space: quotas, budgets, shedding and full stores.

use super::*;

#[test]
fn a_full_store_rejects_or_sheds_by_its_classes() {
    let full = |classes, ticks| {
        let store = Store::new(Options {
            disk: Some(2 << 20),
            ..options(classes)
        });
        let ended = (0..ticks).try_for_each(|tick| {
            if tick % 64 == 0 {
                store.flush_steps();
            }
            store.tick(&store.ids)
        });
        assert!(store.used() <= 2 << 20, "{} bytes", store.used());
        (store, ended)
    };
    let (store, rejected) = full(Classes::default(), 40_000);
    let never = |rejected: &Result<(), Error>| match rejected {
        Err(Error::Full { relief, .. }) => *relief == Relief::None,
        _ => false,
    };
    assert!(never(&rejected), "{rejected:?}");
    let selector = Selector::parse("m").unwrap();
    store
        .engine
        .delete(&selector, Interval::new(i64::MIN, i64::MAX))
        .unwrap();
    store.clock.advance(2 * SECOND as u64);
    store.tick(&store.ids).unwrap();

    let shed = Class {
        priority: 1,
        when_full: WhenFull::Shed,
        ..class("shed", "m", Keep::default())
    };
    let (store, written) = full(Classes::new(vec![shed]).unwrap(), 12_000);
    written.unwrap();
    let status = store.engine.status();
    assert!(status.shed_bytes > 0);
    // Blocks that die together share segments, and fully live segments are not merged repeatedly.
    let merged = status.merge_written - status.extra_written;
    let sealed = status.block_bytes_sealed;
    assert!(merged * 10 < sealed, "{merged} again of {sealed} bytes");
    assert_eq!(
        store
            .times(store.ids[0])
            .first()
            .map(|time| *time > 1000 * SECOND),
        Some(true)
    );
    assert_eq!(store.times(store.ids[10]).first(), Some(&SECOND));
}

#[test]
fn a_full_store_reports_when_space_returns() {
    let keep = Keep {
        age: Some(Duration::from_secs(50_000)),
        ..Keep::default()
    };
    let store = Store::new(Options {
        disk: Some(2 << 20),
        ..options(Classes::new(vec![class("day", "", keep)]).unwrap())
    });
    let rejected = (0..40_000).find_map(|tick| {
        if tick % 64 == 0 {
            store.flush_steps();
        }
        store.tick(&store.ids).err()
    });
    let Some(Error::Full { relief, .. }) = rejected else {
        panic!("{rejected:?}");
    };
    let wait = relief.wait().unwrap();
    assert!(wait.as_secs() > 40_000, "{wait:?}");
    store
        .clock
        .advance(wait.as_nanos() as u64 + 2 * SECOND as u64);
    store.flush_steps();
    store.tick(&store.ids).unwrap();
}

/// Regression: the space reserved for the future blocks of many short buffers rejected writes, although
/// the blocks were shorter and their rows would have replaced older rows of the rings.
#[test]
fn buffers_are_sealed_before_a_write_is_rejected() {
    let budget = 3300 << 10;
    let store = Store::new(Options {
        memory: 8 << 20,
        disk: Some(budget),
        ..options(ring(50))
    });
    let sources: Vec<SourceId> = (0..3000)
        .map(|n| {
            let key = SourceKey::new("m", [("of", n.to_string())]).unwrap();
            store.engine.register(&key).unwrap()
        })
        .collect();
    for tick in 0..400 {
        store
            .tick(&sources)
            .unwrap_or_else(|error| panic!("tick {tick}: {error}"));
        assert!(store.used() <= budget, "{} bytes", store.used());
    }
    // The query of a source without the tag `n` finds all of them.
    let rows = store.times(sources[7]).len();
    let rings = 50 * sources.len();
    assert!((rings..2 * rings).contains(&rows), "{rows} rows");
}

/// Regression: every checkpoint of every lane has an index and a half-empty page. With all configured
/// lanes, these used a quarter of a small store. The store was full while a third of its data was
/// dead.
#[test]
fn a_small_journal_does_not_fill_a_store_with_indexes() {
    let budget = 6 << 20;
    let store = Store::new(Options {
        durability: Durability::Interval(Duration::from_millis(100)),
        disk: Some(budget),
        journal_bytes: 256 << 10,
        lanes: 32,
        ..options(ring(36_000))
    });
    let mut written = 0;
    for tick in 0..400_000 {
        let rate = |at: &usize| tick % (at + 1) == 0;
        let due: Vec<SourceId> = (0..10).filter(rate).map(|at| store.ids[at]).collect();
        store.tick(&due).unwrap();
        written += due.len();
        if tick % 64 == 0 {
            store.engine.commit().unwrap();
            store.flush_steps();
        }
    }
    assert!(store.used() <= budget, "{}", store.used());
    assert!(written > 1_000_000, "{written}");
    let v = store.engine.log().fill.v();
    assert!(v > 0.5, "{v}");
}

#[test]
fn files_set_aside_count_in_the_budget() {
    let store = Store::new(options(ring(100)));
    store.tick(&store.ids).unwrap();
    let before = store.engine.status().disk_used;
    let aside = store.disk.create("segment-00000063.damaged").unwrap();
    aside.write_at(0, &[7; 10_000]).unwrap();
    aside.sync().unwrap();
    let store = store.reopen(options(ring(100)));
    let used = store.engine.status().disk_used;
    assert!(
        (before + 12_288..before + 40_000).contains(&used),
        "{before} before, {used} now"
    );
}

#[test]
fn a_quota_keeps_the_latest_bytes() {
    let keep = Keep {
        bytes: Some(256 << 10),
        ..Keep::default()
    };
    let store = Store::new(options(
        Classes::new(vec![class("some", "m", keep)]).unwrap(),
    ));
    for tick in 0..20_000 {
        store.tick(&store.ids).unwrap();
        if tick % 64 == 0 {
            store.flush_steps();
        }
    }
    let classes = store.engine.log().classes;
    // The blocks of 16 KiB of rows come at once, with those of other classes.
    assert!(classes[0].live < 320 << 10, "{} bytes", classes[0].live);
    assert_eq!(store.times(store.ids[0]).last(), Some(&store.now()));
    assert_eq!(store.times(store.ids[10]).len(), 20_000);
}

/// Regression: blocks of slow sources were begun long before the floor of the quota. These blocks
/// expired with new rows in them, and accepted more rows until they were full.
#[test]
fn a_quota_keeps_the_latest_rows_of_slow_sources() {
    let keep = Keep {
        bytes: Some(256 << 10),
        ..Keep::default()
    };
    let classes = Classes::new(vec![class("some", "m", keep)]).unwrap();
    let store = Store::new(Options {
        block_bytes: 4096,
        ..options(classes)
    });
    let all = store.query(store.ids[0]);
    for tick in 0..20_000 {
        store.tick(&store.ids[1..10]).unwrap();
        if tick % 50 == 0 {
            store.tick(&store.ids[..1]).unwrap();
            let figures = store.engine.aggregate(&all, Step::Whole).unwrap();
            let counts: Vec<u64> = figures.map(|one| one.unwrap().buckets[0].count).collect();
            assert!(counts.len() == 1 && counts[0] > 0, "{tick}: {counts:?}");
            assert_eq!(store.times(store.ids[0]).last(), Some(&store.now()));
        }
        if tick % 64 == 0 {
            store.flush_steps();
        }
    }
    // Blocks in open segments count for the quota when these segments are sealed.
    let open = store.engine.status().open_segment_bytes;
    let live = store.engine.log().classes[0].live - open;
    assert!(live < 300 << 10, "{live} bytes");
}

#[test]
fn a_budget_that_is_too_small_is_rejected_with_a_sufficient_one() {
    let options = Options {
        disk: Some(512 << 10),
        ..options(Classes::default())
    };
    let disk = Arc::new(SimDisk::new(1));
    let rejected = Engine::open(disk, Arc::new(SimClock::new(0)), options).err();
    let text = rejected.unwrap().to_string();
    assert!(text.contains("a store needs 8"), "{text}");
}

#[test]
fn nothing_is_shed_if_other_files_fill_the_disk() {
    let shed = Class {
        when_full: WhenFull::Shed,
        ..class("shed", "m", Keep::default())
    };
    let store = Store::new(options(Classes::new(vec![shed]).unwrap()));
    (0..1500).for_each(|_| store.tick(&store.ids).unwrap());
    store.engine.flush().unwrap();
    store.disk.set_capacity(Some(store.used() + (64 << 10)));
    store.clock.advance(2 * SECOND as u64);
    store.flush_steps();
    let rejected = store.tick(&store.ids);
    assert!(matches!(rejected, Err(Error::Full { .. })), "{rejected:?}");
    assert_eq!(store.times(store.ids[0]).len(), 1500);
    store.disk.set_capacity(None);
    store.clock.advance(2 * SECOND as u64);
    store.tick(&store.ids).unwrap();
}
