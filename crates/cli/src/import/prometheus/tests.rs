//! Tests of blocks that are built here, whole and damaged.

use super::block::{Block, Damages, shown};
use super::merge::{Merge, Parts};
use proptest::prelude::*;
use seiner_codec::checksum;
use seiner_codec::varint::{put_i64, put_u64};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Samples of a block by series, as PromQL writes its name: time in ms and bits of the value.
type Samples = BTreeMap<String, Vec<(i64, u64)>>;

/// Samples of a series, one chunk for each: labels, times and values.
type Given<'a> = (&'a [(&'a str, &'a str)], &'a [(i64, f64)]);

fn put_checksum(bytes: &mut Vec<u8>, from: usize) {
    let sum = checksum(&bytes[from..]);
    bytes.extend(sum.to_be_bytes());
}

/// Writes a block. The chunks of series `n` have the encoding `encodings[n]`, or are floats.
fn write(folder: &Path, series: &[Given<'_>], encodings: &[u8], deleted: &[(u64, i64, i64)]) {
    fs::create_dir_all(folder.join("chunks")).unwrap();
    let mut chunks = b"\x85\xbd\x40\xdd\x01\0\0\0".to_vec();
    let mut index = b"\xba\xaa\xd7\0\x02".to_vec();
    let texts = series
        .iter()
        .flat_map(|one| one.0)
        .flat_map(|label| [label.0, label.1]);
    let mut symbols: Vec<&str> = texts.collect();
    symbols.sort_unstable();
    symbols.dedup();
    let mut section = u32::try_from(symbols.len()).unwrap().to_be_bytes().to_vec();
    for symbol in &symbols {
        put_u64(symbol.len() as u64, &mut section);
        section.extend(symbol.as_bytes());
    }
    index.extend(u32::try_from(section.len()).unwrap().to_be_bytes());
    let from = index.len();
    index.extend(section);
    put_checksum(&mut index, from);
    let begin = index.len() as u64;
    for (number, (labels, samples)) in series.iter().enumerate() {
        index.resize(index.len().next_multiple_of(16), 0);
        let mut entry = Vec::new();
        put_u64(labels.len() as u64, &mut entry);
        for text in labels.iter().flat_map(|label| [label.0, label.1]) {
            put_u64(symbols.binary_search(&text).unwrap() as u64, &mut entry);
        }
        put_u64(samples.len() as u64, &mut entry);
        let mut before = (0, 0);
        for (n, &(time, value)) in samples.iter().enumerate() {
            let at = chunks.len() as i64;
            match n {
                0 => put_i64(time, &mut entry),
                _ => put_u64((time - before.0) as u64, &mut entry),
            }
            put_u64(0, &mut entry);
            match n {
                0 => put_u64(at as u64, &mut entry),
                _ => put_i64(at - before.1, &mut entry),
            }
            before = (time, at);
            let mut data = vec![0, 1];
            put_i64(time, &mut data);
            data.extend(value.to_bits().to_be_bytes());
            put_u64(data.len() as u64, &mut chunks);
            let from = chunks.len();
            chunks.push(*encodings.get(number).unwrap_or(&1));
            chunks.extend(data);
            put_checksum(&mut chunks, from);
        }
        put_u64(entry.len() as u64, &mut index);
        let from = index.len();
        index.extend(entry);
        put_checksum(&mut index, from);
    }
    let end = index.len() as u64;
    for place in [5, begin, end, 0, end, end] {
        index.extend(place.to_be_bytes());
    }
    let from = index.len() - 48;
    put_checksum(&mut index, from);
    let mut tombstones = b"\x01\x30\xba\x30\x01".to_vec();
    for &(number, first, last) in deleted {
        put_u64(number, &mut tombstones);
        put_i64(first, &mut tombstones);
        put_i64(last, &mut tombstones);
    }
    put_checksum(&mut tombstones, 5);
    fs::write(folder.join("index"), index).unwrap();
    fs::write(folder.join("chunks/000001"), chunks).unwrap();
    fs::write(folder.join("tombstones"), tombstones).unwrap();
}

/// Reads blocks together. Returns the samples, the counts of all series, and the damage.
fn read(blocks: Vec<Block>) -> (Samples, Parts, Vec<String>) {
    let mut damages = Damages::new();
    let mut merge = Merge::new(blocks, &mut damages);
    let (mut all, mut total) = (Samples::new(), Parts::default());
    while let Some(series) = merge.next(&mut damages) {
        let found = all.entry(shown(&series.labels)).or_default();
        let mut take = |samples: &[(i64, f64)]| {
            found.extend(samples.iter().map(|(time, value)| (*time, value.to_bits())));
            Ok(())
        };
        let parts = merge.read(&series, &mut take, &mut damages).unwrap();
        total.unsupported.extend(parts.unsupported);
        total.damaged += parts.damaged;
        total.duplicates += parts.duplicates;
        total.deleted += parts.deleted;
    }
    let damages = damages.into_iter();
    let damages = damages.map(|(path, error)| format!("{}: {error:#}", path.display()));
    (all, total, damages.collect())
}

const UP: &[(&str, &str)] = &[("__name__", "up"), ("job", "a")];
const TEMP: &[(&str, &str)] = &[("A", "ü"), ("__name__", "temp"), ("room", "\"hall\"")];
const LOAD: &[(&str, &str)] = &[("__name__", "load")];

const SERIES: &[Given<'_>] = &[
    (TEMP, &[(-5, 20.5), (10, -0.0), (20, f64::INFINITY)]),
    (LOAD, &[(10, 0.25), (20, 0.5)]),
    (UP, &[(10, 1.0), (20, 0.0), (30, 1.0)]),
];

fn wanted(series: &[Given<'_>]) -> Samples {
    let bits =
        |samples: &[(i64, f64)]| samples.iter().map(|one| (one.0, one.1.to_bits())).collect();
    let named = series.iter().map(|(labels, samples)| {
        let labels = labels.iter().map(|label| (label.0.into(), label.1.into()));
        (shown(&labels.collect()), bits(samples))
    });
    named.collect()
}

#[test]
fn a_block_is_read_in_the_order_of_its_series() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), SERIES, &[], &[]);
    let (found, parts, damages) = read(vec![Block::open(folder.path()).unwrap()]);
    assert_eq!(found, wanted(SERIES));
    assert!(found.contains_key(r#"temp{A="ü",room="\"hall\""}"#));
    assert_eq!((parts, damages), (Parts::default(), vec![]));
}

#[test]
fn overlapping_blocks_have_one_sample_per_time() {
    let (old, new) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    write(old.path(), SERIES, &[], &[]);
    let newer: &[Given<'_>] = &[
        (LOAD, &[(5, 7.0), (20, 9.0), (25, 8.0)]),
        (&[("__name__", "z")], &[(1, 1.0)]),
    ];
    write(new.path(), newer, &[], &[]);
    let blocks = [&old, &new].map(|folder| Block::open(folder.path()).unwrap());
    let (found, parts, damages) = read(blocks.into());
    let mut all = wanted(SERIES);
    all.extend(wanted(&[
        (LOAD, &[(5, 7.0), (10, 0.25), (20, 9.0), (25, 8.0)]),
        newer[1],
    ]));
    assert_eq!(found, all);
    assert_eq!((parts.duplicates, damages), (1, vec![]));
}

#[test]
fn deleted_samples_and_other_encodings_are_left_out() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), SERIES, &[1, 2, 1], &[]);
    // References are positions in units of 16 bytes, as in the file.
    let index = fs::read(folder.path().join("index")).unwrap();
    let start = index.len() - 52 + 8;
    let begin = u64::from_be_bytes(index[start..start + 8].try_into().unwrap());
    write(
        folder.path(),
        SERIES,
        &[1, 2, 1],
        &[(begin.div_ceil(16), 10, 15), (begin.div_ceil(16), 20, 20)],
    );
    let (found, parts, damages) = read(vec![Block::open(folder.path()).unwrap()]);
    let mut all = wanted(&[(TEMP, &[(-5, 20.5)]), SERIES[2]]);
    all.insert("load".to_string(), vec![]);
    assert_eq!(found, all);
    assert_eq!(
        parts.unsupported,
        [(seiner_wire::tsdb::chunk::Encoding::Histogram, 2)]
    );
    assert_eq!((parts.deleted, damages), (2, vec![]));
}

#[test]
fn a_damaged_chunk_loses_only_its_samples() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), SERIES, &[], &[]);
    let path = folder.path().join("chunks/000001");
    let whole = fs::read(&path).unwrap();
    for at in 8..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        let (found, parts, damages) = read(vec![Block::open(folder.path()).unwrap()]);
        let lost = lost(&found);
        assert_eq!((lost, parts.damaged, damages.len()), (1, 1, 1), "{at}");
        assert!(
            damages[0].contains("000001: the chunk at byte "),
            "{}",
            damages[0]
        );
    }
}

#[test]
fn a_damaged_series_loses_only_its_samples() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), SERIES, &[], &[]);
    let path = folder.path().join("index");
    let whole = fs::read(&path).unwrap();
    let at = whole.len() - 52 - 16;
    let mut bytes = whole.clone();
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (found, _, damages) = read(vec![Block::open(folder.path()).unwrap()]);
    assert_eq!((lost(&found), damages.len()), (3, 1));
    assert!(
        damages[0].contains("index: the series at byte "),
        "{}",
        damages[0]
    );
    bytes[6] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert!(Block::open(folder.path()).is_err());
    fs::write(&path, &whole).unwrap();
    fs::write(
        folder.path().join("tombstones"),
        b"\x01\x30\xba\x30\x01\0\0\0\0\0\0\0",
    )
    .unwrap();
    let error = Block::open(folder.path()).err().unwrap();
    assert!(
        format!("{error:#}").contains("deleted samples would return"),
        "{error:#}"
    );
}

/// Returns the number of samples of [`SERIES`] that were not found. All that were found are right.
fn lost(found: &Samples) -> usize {
    let all = wanted(SERIES);
    for (name, samples) in found {
        assert!(
            samples.iter().all(|sample| all[name].contains(sample)),
            "{name}: {samples:?}"
        );
    }
    let count = |samples: &Samples| samples.values().map(Vec::len).sum::<usize>();
    count(&all) - count(found)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_damage_causes_a_panic_or_a_wrong_sample(
        file in 0..3usize,
        places in prop::collection::vec((any::<prop::sample::Index>(), 1..=255u8), 0..4),
        end in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let folder = TempDir::new().unwrap();
        write(folder.path(), SERIES, &[], &[(1000, 0, 1)]);
        let path = folder.path().join(["index", "chunks/000001", "tombstones"][file]);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        for (place, mask) in places {
            let at = place.index(bytes.len());
            bytes[at] ^= mask;
        }
        if let Some(end) = end {
            bytes.truncate(end.index(bytes.len()));
        }
        fs::write(&path, &bytes).unwrap();
        if let Ok(block) = Block::open(folder.path()) {
            let (found, _, damages) = read(vec![block]);
            // Between series are zeros that no checksum covers.
            prop_assert!(lost(&found) == 0 || !damages.is_empty());
            prop_assert!(bytes != whole || damages.is_empty());
        } else {
            prop_assert!(bytes != whole);
        }
    }

    #[test]
    fn no_bytes_with_right_checksums_cause_a_panic(
        series in prop::collection::vec(any::<u8>(), 0..60),
        chunk in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let folder = TempDir::new().unwrap();
        write(folder.path(), &[(UP, &[(1, 1.0)])], &[], &[]);
        let path = folder.path().join("index");
        let mut index = fs::read(&path).unwrap();
        let contents = index.len() - 52;
        let begin = u64::from_be_bytes(index[contents + 8..contents + 16].try_into().unwrap()) as usize;
        let mut end = index.split_off(begin);
        index.resize(begin.next_multiple_of(16), 0);
        put_u64(series.len() as u64, &mut index);
        let from = index.len();
        index.extend(&series);
        put_checksum(&mut index, from);
        let series_end = index.len() as u64;
        let mut end = end.split_off(end.len() - 52);
        end.truncate(16);
        index.extend(end);
        for place in [series_end, 0, series_end, series_end] {
            index.extend(place.to_be_bytes());
        }
        let from = index.len() - 48;
        put_checksum(&mut index, from);
        fs::write(&path, &index).unwrap();
        let _ = read(vec![Block::open(folder.path()).unwrap()]);

        write(folder.path(), &[(UP, &[(1, 1.0)])], &[], &[]);
        let mut bytes = b"\x85\xbd\x40\xdd\x01\0\0\0".to_vec();
        put_u64(chunk.len() as u64, &mut bytes);
        let from = bytes.len();
        bytes.push(1);
        bytes.extend(&chunk);
        put_checksum(&mut bytes, from);
        fs::write(folder.path().join("chunks/000001"), &bytes).unwrap();
        let _ = read(vec![Block::open(folder.path()).unwrap()]);
    }
}
