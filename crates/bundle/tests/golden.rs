//! Compatibility with the bundles that released versions wrote.
//!
//! `golden/bundle/v1/` holds one bundle per pair of files. Files are added and never edited. Each must
//! decode to the rows made here. Where no column has the codec's form, today's bundle must also have the
//! same bytes. `SEINER_BLESS=1` writes missing files.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use common::*;
use seiner_bundle::{Bundle, Layout, Options, SourceRows};
use seiner_model::{Column, Columns, FieldColumn, FieldType, Strings};

/// Returns the contents of the named file; writes the file first if blessing is on.
fn golden(name: &str, encoded: &[u8]) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../golden/bundle/v1")
        .join(name);
    if !path.exists() && std::env::var_os("SEINER_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, encoded).unwrap();
    }
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{name}: {error}; SEINER_BLESS=1 writes missing files"))
}

fn check(name: &str, sources: &[SourceRows], same_bytes: bool) {
    let encoded = encode(sources, Options::default());
    let kept = Bundle {
        directory: golden(&format!("{name}.directory"), &encoded.directory),
        data: golden(&format!("{name}.data"), &encoded.data),
    };
    let expected = sources.iter().map(|source| SourceRows {
        rows: canonical(&source.rows),
        ..source.clone()
    });
    let mut expected: Vec<SourceRows> = expected.collect();
    expected.sort_by(|a, b| (a.id, &a.layout).cmp(&(b.id, &b.layout)));
    assert_eq!(decode(&kept), expected, "{name}");
    assert!(
        !same_bytes || kept == encoded,
        "{name}: the encoder writes other bytes"
    );
}

/// Returns a number below `most`, the same for equal arguments.
fn random(seed: u64, index: u64, most: u32) -> i64 {
    i64::from(mix(mix(seed as u32 ^ 0x5eed) ^ index as u32) % most)
}

#[test]
fn gauges_of_version_1() {
    let layout = one_field(FieldType::F64);
    let sources: Vec<SourceRows> = (0..600u64)
        .map(|id| SourceRows {
            id: 1000 + id,
            layout: layout.clone(),
            rows: gauge_rows(id as u32, 10),
        })
        .collect();
    check("gauges", &sources, true);
}

#[test]
fn clocks_of_version_1() {
    const MS: i64 = 1_000_000;
    let bare = Arc::new(Layout::new::<&str>([]));
    let clock = |name: &str, time: &dyn Fn(u64, u64) -> i64| {
        let sources: Vec<SourceRows> = (0..120u64)
            .map(|id| {
                let mut times: Vec<i64> = (0..1 + id % 12).map(|row| time(id, row)).collect();
                times.sort_unstable();
                SourceRows {
                    id: id * 3 + random(id, 77, 3) as u64,
                    layout: bare.clone(),
                    rows: Columns {
                        times,
                        fields: Vec::new(),
                    },
                }
            })
            .collect();
        check(name, &sources, true);
    };
    let tick = |row: u64| START + row as i64 * PERIOD;
    clock("clock-same", &|_, row| tick(row));
    clock("clock-grid", &|id, row| {
        tick(row) + random(id, row, 500) * MS
    });
    clock("clock-phase", &|id, row| {
        tick(row) + random(id, 99, 10_000) * MS + random(id, row, 7) * MS
    });
    clock("clock-list", &|id, row| {
        let drawn = random(id, row, 40) as u64;
        START + random(drawn, 3, 1_000_000) * 1_000
    });
    clock("clock-before", &|id, row| {
        START + random(row, 5, 1 << 30) * (row + 1) as i64 + random(id, row, 9) * id as i64
    });
    let extremes = [i64::MIN, -1, 0, i64::MAX];
    clock("clock-any", &|id, row| match random(id, row, 3) {
        0 => extremes[(row % 4) as usize],
        1 => random(id, row, u32::MAX).wrapping_mul(4_000_000_007),
        _ => -random(id, row, u32::MAX),
    });
}

/// Returns a column of `count` values of a source.
fn column(name: &str, id: u64, count: u64) -> Column {
    let rows = 0..count;
    let at = |row: u64| random(id, row, 1000);
    match name {
        "decimals" => Column::F64(
            rows.map(|row| (20_000 + at(row) % 50) as f64 / 100.0)
                .collect(),
        ),
        "scales" => Column::F64(
            rows.map(|row| at(row) as f64 / 10f64.powi((id % 4) as i32))
                .collect(),
        ),
        "strays" => Column::F64(
            rows.map(|row| match row {
                3 => [f64::NAN, -0.0, f64::INFINITY][(id / 30) as usize],
                row => at(row) as f64 / 10.0,
            })
            .collect(),
        ),
        "narrow" => Column::F64(
            rows.map(|row| f64::from(700.0 + (at(row) % 5) as f32 / 7.0))
                .collect(),
        ),
        "f32" => Column::F32(rows.map(|row| at(row) as f32 / 10.0).collect()),
        "i64" => Column::I64(
            rows.map(|row| at(row) * [1, -1000][(id % 2) as usize])
                .collect(),
        ),
        "counter" => Column::U64(
            rows.map(|row| id * 1_000_000 + row * 977 + row * row)
                .collect(),
        ),
        "bool" => Column::Bool(rows.map(|row| at(row) < 900).collect()),
        "texts" => {
            let mut texts = Strings::default();
            rows.for_each(|row| texts.push(["on", "off", "", "état"][(at(row) / 400) as usize]));
            Column::Str(texts)
        }
        "names" => {
            let mut texts = Strings::default();
            rows.for_each(|row| texts.push(&format!("message {} of {id}", at(row))));
            Column::Str(texts)
        }
        "floats" => Column::F64(
            rows.map(|row| {
                f64::from_bits(0x4030_0000_0000_0000 + (at(row) as u64) * 0x0123_4567_89ab)
            })
            .collect(),
        ),
        name => panic!("no column {name}"),
    }
}

#[test]
fn columns_of_version_1() {
    for name in [
        "decimals", "scales", "strays", "narrow", "f32", "i64", "counter", "bool", "texts",
        "names", "floats",
    ] {
        let sources: Vec<SourceRows> = (0..90u64)
            .map(|id| {
                let count = 4 + id % 9;
                let times = (0..count as i64).map(|row| START + row * PERIOD).collect();
                source(id, times, column(name, id, count))
            })
            .collect();
        check(name, &sources, name != "names" && name != "floats");
    }
}

#[test]
fn layouts_of_version_1() {
    let names = ["decimals", "i64", "texts", "bool"];
    let types = names.map(|name| (name, column(name, 0, 1).field_type()));
    let wide = Arc::new(Layout::new(types));
    let narrow = one_field(FieldType::F32);
    let mut sources = Vec::new();
    for id in 0..80u64 {
        let count = 1 + id % 7;
        let times: Vec<i64> = (0..count as i64).map(|row| START + row * PERIOD).collect();
        let fields = (0u64..).zip(names).map(|(field, name)| {
            let whole = whole(column(name, id, count));
            let kept: Vec<usize> = (0..count as usize)
                .filter(|row| random(id * 4 + field, *row as u64, 5) > 0 && (id + field) % 6 > 0)
                .collect();
            let present = (0..count as usize).map(|row| kept.contains(&row)).collect();
            match whole.pick(&kept) {
                Some(picked) if picked.values.len() == count as usize => picked,
                Some(picked) => FieldColumn {
                    present: Some(present),
                    values: picked.values,
                },
                None => FieldColumn {
                    present: Some(present),
                    values: Column::new(whole.values.field_type()),
                },
            }
        });
        sources.push(SourceRows {
            id: id * id,
            layout: wide.clone(),
            rows: Columns {
                times: times.clone(),
                fields: fields.collect(),
            },
        });
        if id % 3 == 0 {
            sources.push(SourceRows {
                id: id * id,
                layout: narrow.clone(),
                rows: Columns {
                    times,
                    fields: vec![whole(column("f32", id, count))],
                },
            });
        }
    }
    check("layouts", &sources, true);
    check("empty", &[], true);
}
