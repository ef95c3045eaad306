//! Sizes of bundles of known data. Bounds are 1 to 3 % above the size when they were written, for gauges and clocks; small
//! sizes of other types have more room.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::*;
use seiner_bundle::{Layout, Options, SourceRows};
use seiner_model::{Column, Columns, FieldType, Strings};

/// Returns the bytes per sample of a bundle of the benchmarks' gauges with an exact clock.
fn gauges(rows: usize, samples: usize) -> f64 {
    let layout = one_field(FieldType::F64);
    let sources: Vec<SourceRows> = (0..samples / rows)
        .map(|id| SourceRows {
            id: id as u64,
            layout: layout.clone(),
            rows: gauge_rows(id as u32, rows),
        })
        .collect();
    let bundle = round_trip(&sources, Options::default());
    bytes(&bundle) as f64 / (sources.len() * rows) as f64
}

#[test]
fn gauges_take_about_a_byte() {
    // Demanded: 1.75 for 1 row, 1.3 for 2, 0.90 for 10, 0.78 for 100.
    let bounds = [
        (1, 1.50),
        (2, 1.13),
        (3, 1.01),
        (5, 0.91),
        (10, 0.83),
        (30, 0.77),
        (100, 0.75),
        (2_500, 0.74),
    ];
    for (rows, most) in bounds {
        for samples in [64 << 10, 512 << 10] {
            let found = gauges(rows, samples);
            assert!(found <= most, "{rows} rows, {samples} samples: {found}");
        }
    }
}

/// Returns the bytes per row of sources with a clock and without fields.
fn clock(rows: usize, mut time: impl FnMut(u32, i64) -> i64) -> f64 {
    let bare = Arc::new(Layout::new::<&str>([]));
    let sources: Vec<SourceRows> = (0..40_000 / rows as u32)
        .map(|id| {
            let mut times: Vec<i64> = (0..rows as i64).map(|row| time(id, row)).collect();
            times.sort_unstable();
            SourceRows {
                id: u64::from(id),
                layout: bare.clone(),
                rows: Columns {
                    times,
                    fields: Vec::new(),
                },
            }
        })
        .collect();
    let bundle = round_trip(&sources, Options::default());
    bytes(&bundle) as f64 / (sources.len() * rows) as f64
}

/// Returns a number below `most`, the same for equal arguments.
fn random(seed: u32, index: i64, most: u32) -> i64 {
    i64::from(mix(mix(seed ^ 0x5eed) ^ index as u32) % most)
}

#[test]
fn times_take_the_entropy_of_their_jitter() {
    const MS: i64 = 1_000_000;
    let tick = |row: i64| START + row * PERIOD;
    for (rows, most) in [(1, 0.012), (10, 0.005), (100, 0.004)] {
        let found = clock(rows, |_, row| tick(row));
        assert!(found <= most, "same ticks, {rows} rows: {found}");
    }
    for (rows, most) in [(1, 0.46), (10, 0.055), (100, 0.010)] {
        let found = clock(rows, |id, row| tick(row) + random(id, -1, 10) * 1000 * MS);
        assert!(
            found <= most,
            "own phase in whole seconds, {rows} rows: {found}"
        );
    }
    for (rows, most) in [(1, 1.72), (2, 1.13), (10, 0.63), (100, 0.52)] {
        let found = clock(rows, |id, row| {
            let jitter = (random(id, row, 16) + random(id, !row, 16)) / 2;
            tick(row) + (random(id, -1, 10_000) + jitter) * MS
        });
        assert!(
            found <= most,
            "own phase, jitter 5 ms, {rows} rows: {found}"
        );
    }
    for (rows, most) in [(1, 1.30), (10, 1.28), (100, 1.28)] {
        let found = clock(rows, |id, row| tick(row) + random(id, row, 1000) * MS);
        assert!(found <= most, "jitter 500 ms, {rows} rows: {found}");
    }
    for (rows, most) in [(1, 0.22), (10, 0.15), (100, 0.14)] {
        let found = clock(rows, |id, row| tick(row) + random(id / 10, row, 1000) * MS);
        assert!(
            found <= most,
            "jitter of hosts of ten sources, {rows} rows: {found}"
        );
    }
}

/// Returns the bytes per value of sources with one field and an exact clock.
fn values(rows: usize, mut column: impl FnMut(u32) -> Column) -> f64 {
    let times: Vec<i64> = (0..rows as i64).map(|row| START + row * PERIOD).collect();
    let sources: Vec<SourceRows> = (0..40_000 / rows as u32)
        .map(|id| source(u64::from(id), times.clone(), column(id)))
        .collect();
    let bundle = round_trip(&sources, Options::default());
    bytes(&bundle) as f64 / (sources.len() * rows) as f64
}

#[test]
fn other_types_take_their_entropy() {
    let all = [1usize, 10, 100];
    for (rows, most) in all.into_iter().zip([1.78, 0.20, 0.030]) {
        let found = values(rows, |id| {
            Column::F64(vec![random(id, -1, 10_000) as f64 / 10.0; rows])
        });
        assert!(found <= most, "constant in a source, {rows} rows: {found}");
    }
    for (rows, most) in all.into_iter().zip([0.155, 0.050, 0.040]) {
        let found = values(rows, |id| {
            let mut state = random(id, -1, 2) == 1;
            let states = (0..rows as i64).map(|row| {
                state ^= random(id, row, 50) == 0;
                state
            });
            Column::Bool(states.collect())
        });
        assert!(found <= most, "booleans, {rows} rows: {found}");
    }
    for (rows, most) in all.into_iter().zip([0.41, 0.085, 0.050]) {
        let found = values(rows, |id| {
            let (mut texts, mut state) = (Strings::default(), random(id, -1, 8));
            for row in 0..rows as i64 {
                if random(id, row, 50) == 0 {
                    state = random(id, !row, 8);
                }
                texts.push(&format!("state {state}"));
            }
            Column::Str(texts)
        });
        assert!(found <= most, "texts of eight states, {rows} rows: {found}");
    }
    for (rows, most) in all.into_iter().zip([6.6, 6.2, 5.9]) {
        let found = values(rows, |id| {
            let level = random(id, -1, 1000) as f64;
            let wide = |row| {
                random(id, row, 1 << 20) as f64 + random(id, !row, 1 << 20) as f64 / 1048576.0
            };
            Column::F64(
                (0..rows as i64)
                    .map(|row| level + wide(row) / 1048576.0)
                    .collect(),
            )
        });
        assert!(found <= most, "full mantissas, {rows} rows: {found}");
    }
    for (rows, most) in all.into_iter().zip([4.1, 1.9, 1.6]) {
        let found = values(rows, |id| {
            let rate = 10i64.pow(random(id, -1, 7) as u32);
            let mut count = random(id, -2, 1000) * rate * 100;
            let counts = (0..rows as i64).map(|row| {
                count += 10 * rate + random(id, row, rate as u32 + 1);
                count as u64
            });
            Column::U64(counts.collect())
        });
        assert!(found <= most, "counters, {rows} rows: {found}");
    }
}

#[test]
fn sparse_ids_take_the_entropy_of_their_gaps() {
    for (every, most) in [(1u32, 0.10), (2, 2.2), (10, 5.0), (100, 8.5)] {
        let bare = Arc::new(Layout::new::<&str>([]));
        let mut sources = Vec::new();
        let mut id = 0;
        while sources.len() < 40_000 {
            id += 1;
            if random(id, 0, every) == 0 {
                sources.push(SourceRows {
                    id: u64::from(id),
                    layout: bare.clone(),
                    rows: Columns {
                        times: vec![START],
                        fields: Vec::new(),
                    },
                });
            }
        }
        let bits = bytes(&round_trip(&sources, Options::default())) as f64 * 8.0 / 40_000.0;
        assert!(bits <= most + 0.05, "one id in {every}: {bits} bits");
    }
}
