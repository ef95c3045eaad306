//! Effect of the setting `extra_writes` on the blocks that a read needs, the bytes stored, and the
//! bytes written.
//!
//! `cargo run --release -p seiner-engine --example extra_writes` appends rows of many sources to a
//! store on a simulated disk. The memory of the store is too small for these sources, so blocks are
//! small. The program prints a line per setting. Only the times depend on the machine.
#![allow(clippy::unwrap_used, reason = "an example may panic")]

use seiner_engine::sim::{Rng, SimClock, SimDisk};
use seiner_engine::{Durability, Engine, Options, Query};
use seiner_model::{Interval, Selector, SourceId, SourceKey};
use std::sync::Arc;
use std::time::Instant;

const SOURCES: u64 = 2000;
const ROWS: u64 = 1500;

fn main() {
    println!("extra_writes  written/stored  blocks coalesced  disk MiB  reads of a source  s");
    for extra_writes in [0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0] {
        run(extra_writes);
    }
}

fn run(extra_writes: f64) {
    let began = Instant::now();
    let (disk, clock) = (Arc::new(SimDisk::new(1)), SimClock::new(0));
    let options = Options {
        durability: Durability::Memory,
        memory: 1 << 20,
        segment_bytes: 1 << 20,
        lanes: 2,
        extra_writes,
        ..Options::default()
    };
    let engine = Engine::open(disk.clone(), Arc::new(clock.clone()), options).unwrap();
    let key = |n: u64| SourceKey::new("m", [("n", n.to_string())]).unwrap();
    let register = |n: u64| engine.register(&key(n)).unwrap();
    let sources: Vec<SourceId> = (0..SOURCES).map(register).collect();
    let mut rng = Rng::new(1);
    let mut walks = vec![0i64; SOURCES as usize];
    for row in 0..ROWS {
        clock.advance(1_000_000_000);
        let mut step = |walk: &mut i64| {
            *walk += rng.below(41) as i64 - 20;
            *walk as f64 / 10.0
        };
        let values: Vec<f64> = walks.iter_mut().map(&mut step).collect();
        let times = vec![row as i64 * 1_000_000_000; values.len()];
        engine
            .append_samples("value", &sources, &times, &values)
            .unwrap();
        while engine.step().unwrap() {}
    }
    engine.flush().unwrap();
    while engine.step().unwrap() {}
    let status = engine.status();
    let (mut blocks, mut bytes) = (0, 0);
    for segment in engine.segments() {
        (blocks, bytes) = (blocks + segment.blocks, bytes + segment.bytes);
    }
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let found: usize = engine
        .select(&query)
        .unwrap()
        .map(|series| series.unwrap().times.len())
        .sum();
    assert_eq!(found as u64, SOURCES * ROWS);
    println!(
        "{extra_writes:>12}  {:>14.2}  {:>15}  {:>8.2}  {:>17.1}  {:.0}",
        (status.block_bytes_sealed + status.merge_written) as f64
            / status.block_bytes_sealed as f64,
        status.coalesced_blocks,
        bytes as f64 / f64::from(1 << 20),
        blocks as f64 / SOURCES as f64,
        began.elapsed().as_secs_f64()
    );
}
