//! Bundles: blocks of many sources with few rows each.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use seiner_engine::inspect::{self, BlockView};
use seiner_engine::{
    Bundling, Class, Classes, Durability, Engine, Error, Given, Interval, Options, Query, Selector,
    SourceId, Step, check,
};
use seiner_model::{Column, SourceKey};
use seiner_platform::Disk;
use seiner_platform::sim::{SimClock, SimDisk};
use std::collections::BTreeMap;
use std::sync::Arc;

const SOURCES: u32 = 3000;
const SECOND: i64 = 1_000_000_000;

fn options(bundles: Bundling) -> Options {
    Options {
        durability: Durability::Memory,
        memory: 64 << 20,
        segment_bytes: 1 << 20,
        extra_writes: 0.0,
        given: Given::All,
        bundles,
        ..Options::default()
    }
}

fn open(disk: &SimDisk, options: Options) -> Engine {
    Engine::open(Arc::new(disk.clone()), Arc::new(SimClock::new(5)), options).unwrap()
}

fn register(engine: &Engine) -> Vec<SourceId> {
    let key = |source: u32| SourceKey::new("m", [("n", source.to_string())]).unwrap();
    (0..SOURCES)
        .map(|source| engine.register(&key(source)).unwrap())
        .collect()
}

fn value(source: usize, row: i64) -> f64 {
    let mixed = ((source as u64) << 20 | row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 54) as f64 / 10.0
}

/// Appends rows to all sources and flushes.
fn write(engine: &Engine, ids: &[SourceId], rows: std::ops::Range<i64>) {
    for row in rows {
        let values: Vec<f64> = (0..ids.len()).map(|source| value(source, row)).collect();
        engine
            .append_samples("v", ids, &vec![row * SECOND; ids.len()], &values)
            .unwrap();
    }
    engine.flush().unwrap();
}

fn query(selector: &str) -> Query {
    Query {
        selector: Selector::parse(selector).unwrap(),
        fields: None,
        interval: Interval::ALL,
    }
}

/// Returns the rows of all readable sources, and the number of errors.
fn read(engine: &Engine) -> (BTreeMap<SourceId, Vec<(i64, f64)>>, usize) {
    let (mut found, mut errors) = (BTreeMap::new(), 0);
    for series in engine.select(&query("m")).unwrap() {
        match series {
            Ok(series) => {
                let Column::F64(values) = series.values else {
                    panic!("floats")
                };
                found.insert(
                    series.source,
                    series.times.into_iter().zip(values).collect(),
                );
            }
            Err(Error::Damage { .. }) => errors += 1,
            Err(error) => panic!("{error}"),
        }
    }
    (found, errors)
}

fn expected(rows: std::ops::Range<i64>, source: usize) -> Vec<(i64, f64)> {
    rows.map(|row| (row * SECOND, value(source, row))).collect()
}

fn assert_rows(engine: &Engine, ids: &[SourceId], rows: std::ops::Range<i64>) {
    let (found, errors) = read(engine);
    assert_eq!(errors, 0);
    for (source, id) in ids.iter().enumerate() {
        assert_eq!(
            found.get(id),
            Some(&expected(rows.clone(), source)),
            "source {source}"
        );
    }
}

fn blocks(disk: &SimDisk) -> Vec<BlockView> {
    let mut all = Vec::new();
    for segment in inspect::segments(disk).unwrap() {
        if segment.trailer.is_some() {
            inspect::blocks::<Error>(disk, segment.number, &Selector::all(), &mut |block| {
                all.push(block);
                Ok(())
            })
            .unwrap();
        }
    }
    all
}

fn bytes(disk: &SimDisk) -> u64 {
    blocks(disk).iter().map(|block| block.bytes).sum()
}

#[test]
fn sources_with_few_rows_share_bundles_and_take_a_fraction_of_the_bytes() {
    let mut sizes = Vec::new();
    for bundling in [Bundling::Never, Bundling::Smaller] {
        let disk = SimDisk::new(1);
        let engine = open(&disk, options(bundling));
        let ids = register(&engine);
        write(&engine, &ids, 0..5);
        write(&engine, &ids, 5..10);
        assert_rows(&engine, &ids, 0..10);
        let latest = engine
            .latest_samples(&query("m"))
            .map(|found| found.unwrap().time);
        assert!(latest.eq(std::iter::repeat_n(9 * SECOND, SOURCES as usize)));
        let means = engine
            .aggregate(&query("m{n=~\"1.*\"}"), Step::Whole)
            .unwrap();
        for series in means {
            assert_eq!(series.unwrap().buckets[0].count, 10);
        }
        let blocks = blocks(&disk);
        assert_eq!(blocks.len(), 2 * SOURCES as usize);
        let is_bundled = |block: &BlockView| block.bundle.is_some();
        assert!(
            blocks
                .iter()
                .all(|block| is_bundled(block) == (bundling == Bundling::Smaller))
        );
        assert!(
            blocks
                .iter()
                .all(|block| block.damage.is_none() && block.rows == 5)
        );
        engine.close().unwrap();
        let report = check(&disk, &mut |_, _| {}).unwrap();
        assert!(report.is_sound(), "{:?}", report.damage);
        assert_eq!(report.samples, 10 * u64::from(SOURCES));
        assert_rows(&open(&disk, options(bundling)), &ids, 0..10);
        sizes.push(bytes(&disk));
    }
    assert!(sizes[1] * 3 < sizes[0], "{sizes:?}");
}

#[test]
fn rows_are_read_before_and_after_their_bundle_is_written() {
    let disk = SimDisk::new(2);
    let engine = open(
        &disk,
        Options {
            memory: 8 << 20,
            ..options(Bundling::Smaller)
        },
    );
    let ids = register(&engine);
    // Rows leave the buffers when memory is short, and stay in open segments.
    for row in 0..40 {
        let values: Vec<f64> = (0..ids.len()).map(|source| value(source, row)).collect();
        engine
            .append_samples("v", &ids, &vec![row * SECOND; ids.len()], &values)
            .unwrap();
        let (found, _) = read(&engine);
        assert_eq!(found[&ids[1234]], expected(0..row + 1, 1234));
    }
    assert_rows(&engine, &ids, 0..40);
}

#[test]
fn a_merge_keeps_the_living_blocks_of_a_bundle_in_bundles() {
    let disk = SimDisk::new(3);
    let mut class = Class::forever();
    class.keep.rows = Some(8);
    let mut options = Options {
        segment_bytes: 64 << 10,
        journal_bytes: 64 << 10,
        classes: Classes::new(vec![class]).unwrap(),
        apply_retention: true,
        ..options(Bundling::Smaller)
    };
    options.disk = Some(options.least_disk());
    let engine = open(&disk, options);
    let ids = register(&engine);
    for round in 0..300 {
        // A third of the sources sends rarely, so that bundles die in parts.
        let some: Vec<SourceId> = (ids.iter().enumerate())
            .filter(|(source, _)| source % 3 > 0 || round % 30 == 0)
            .map(|(_, id)| *id)
            .collect();
        let mixed = |at: usize| ((at << 20 | round) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let noise = |at: usize| f64::from_bits(mixed(at) >> 12 | 0x3FF0_0000_0000_0000);
        let values: Vec<f64> = (0..some.len()).map(noise).collect();
        let times = vec![round as i64 * SECOND; some.len()];
        engine.append_samples("v", &some, &times, &values).unwrap();
        if round % 3 == 2 {
            engine.flush().unwrap();
        }
    }
    let status = engine.status();
    assert!(status.segments_merged > 3, "{}", status.segments_merged);
    let (found, errors) = read(&engine);
    assert_eq!(errors, 0);
    for (source, id) in ids.iter().enumerate() {
        // A ring keeps more rows until their blocks are past its end on the disk.
        assert!(found[id].len() >= 8, "source {source}");
    }
    engine.close().unwrap();
    assert!(check(&disk, &mut |_, _| {}).unwrap().is_sound());
    // A lane with only a dozen blocks writes them alone, because this takes fewer bytes than a bundle.
    let blocks = blocks(&disk);
    let alone = blocks.iter().filter(|block| block.bundle.is_none());
    let alone = alone.count();
    assert!(1000 * alone <= blocks.len(), "{alone} of {}", blocks.len());
}

/// The parts of a bundle are checked apart: damage in a chunk costs the blocks of the chunk.
#[test]
fn damage_in_a_chunk_costs_the_blocks_of_the_chunk() {
    let disk = SimDisk::new(4);
    let engine = open(&disk, options(Bundling::Smaller));
    let ids = register(&engine);
    write(&engine, &ids, 0..10);
    engine.close().unwrap();
    let block = &blocks(&disk)[0];
    let name = inspect::segments(&disk).unwrap()[0].file.clone();
    let file = disk.open(&name).unwrap();
    // The last bytes of the bundle are those of its last chunk.
    let at = block.offset + block.bundle.unwrap() - 20;
    let mut byte = [0];
    file.read_at(at, &mut byte).unwrap();
    file.write_at(at, &[byte[0] ^ 1]).unwrap();
    let engine = open(&disk, options(Bundling::Smaller));
    let (found, errors) = read(&engine);
    assert!(errors > 0 && errors < 600, "{errors}");
    assert_eq!(found.len() + errors, SOURCES as usize);
    for (id, rows) in &found {
        assert_eq!(*rows, expected(0..10, id.0 as usize));
    }
    let lost: u64 = engine.losses().iter().filter_map(|loss| loss.rows).sum();
    assert_eq!(lost, 10 * errors as u64);
    let report = check(&disk, &mut |_, _| {}).unwrap();
    assert_eq!(report.damage.len(), 1, "{:?}", report.damage);
}

#[test]
fn latest_samples_of_bundles_are_the_last_of_their_series() {
    let disk = SimDisk::new(9);
    let engine = open(&disk, options(Bundling::Smaller));
    let ids = register(&engine);
    for row in 0..6 {
        // The other field has gaps, in some sources also in the last row.
        let others = ids.iter().enumerate();
        let others: Vec<SourceId> = others
            .filter(|(source, _)| !(source / 7 + row).is_multiple_of(3))
            .map(|(_, id)| *id)
            .collect();
        for (field, ids) in [("v", &ids), ("w", &others)] {
            let times = vec![row as i64 * SECOND; ids.len()];
            let values: Vec<f64> = ids
                .iter()
                .map(|id| value(id.0 as usize, row as i64))
                .collect();
            engine.append_samples(field, ids, &times, &values).unwrap();
        }
    }
    engine.flush().unwrap();
    write(&engine, &ids[..1000], 6..8);
    let deleted = Selector::parse("m{n=~\"1.*\"}").unwrap();
    let interval = Interval::new(5 * SECOND, 6 * SECOND);
    engine.delete(&deleted, interval).unwrap();
    assert!(blocks(&disk).iter().any(|block| block.bundle.is_some()));
    let last = |values: &Column| {
        let Column::F64(values) = values else {
            panic!("floats")
        };
        values.last().unwrap().to_bits()
    };
    for (start, end) in [(0, 9), (0, 4), (3, 5), (5, 6), (7, 7), (20, 30)] {
        let query = Query {
            interval: Interval::new(start * SECOND, end * SECOND),
            ..query("m")
        };
        let mut expected = BTreeMap::new();
        for series in engine.select(&query).unwrap() {
            let series = series.unwrap();
            let sample = (*series.times.last().unwrap(), last(&series.values));
            expected.insert((series.source, series.field.to_string()), sample);
        }
        assert_eq!(expected.is_empty(), start > 9);
        for threads in [1, 3] {
            let found = engine.latest_samples(&query).threads(threads);
            let found: BTreeMap<_, _> = found
                .map(|found| found.unwrap())
                .map(|one| {
                    (
                        (one.source, one.field.to_string()),
                        (one.time, last(&one.value)),
                    )
                })
                .collect();
            assert_eq!(found, expected, "{start} to {end} by {threads} threads");
        }
    }
}
