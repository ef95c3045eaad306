//! Handover of rows to another store, over restarts.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use seiner_engine::{
    Column, Columns, Durability, Engine, FieldColumn, Interval, Options, Query, Selector, SourceKey,
};
use seiner_platform::sim::{SimClock, SimDisk};
use std::ops::Range;
use std::sync::Arc;

fn open(disk: &SimDisk) -> Engine {
    let options = Options {
        durability: Durability::Sync,
        block_bytes: 256,
        segment_bytes: 64 << 10,
        journal_bytes: 64 << 10,
        memory: 2 << 20,
        ..Options::default()
    };
    Engine::open(Arc::new(disk.clone()), Arc::new(SimClock::new(0)), options).unwrap()
}

fn append(engine: &Engine, times: Range<i64>) {
    let key = SourceKey::new("m", [("a", "b")]).unwrap();
    let source = engine.register(&key).unwrap();
    let columns = Columns {
        fields: vec![FieldColumn {
            present: None,
            values: Column::I64(times.clone().collect()),
        }],
        times: times.collect(),
    };
    engine.append_columns(source, &["v"], &columns).unwrap();
    engine.commit().unwrap();
}

fn times(engine: &Engine) -> Vec<i64> {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let pieces = engine.scan(&query);
    pieces.flat_map(|piece| piece.unwrap().times).collect()
}

#[test]
fn released_rows_do_not_return_after_a_power_cut() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let engine = open(&disk);
        append(&engine, 0..100);
        let cut = engine.cut().unwrap();
        append(&engine, 100..150);
        engine.release(cut).unwrap();
        if seed % 2 == 0 {
            while engine.step().unwrap() {}
        }
        append(&engine, 150..200);
        drop(engine);
        let engine = open(&disk.crash());
        assert_eq!(times(&engine), (100..200).collect::<Vec<i64>>());
    }
}

/// A start replays the blocks of released rows as open blocks. A later row in such a block would be
/// hidden with it.
#[test]
fn rows_after_a_power_cut_do_not_join_released_blocks() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let engine = open(&disk);
        append(&engine, 0..5);
        let cut = engine.cut().unwrap();
        engine.release(cut).unwrap();
        drop(engine);
        let engine = open(&disk.crash());
        assert_eq!(times(&engine), [] as [i64; 0]);
        append(&engine, 5..8);
        assert_eq!(times(&engine), [5, 6, 7]);
        if seed % 2 == 0 {
            engine.flush().unwrap();
        }
        drop(engine);
        let engine = open(&disk.crash());
        assert_eq!(times(&engine), [5, 6, 7]);
    }
}
