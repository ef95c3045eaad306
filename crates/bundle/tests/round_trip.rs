//! Round trips of random rows, layouts and types.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::*;
use proptest::prelude::*;
use seiner_bundle::{BundleWriter, Layout, Options, PushError, SourceRows};
use seiner_model::{Bitmap, Column, Columns, FieldColumn, FieldType, Strings, Value};

const SMALL: Options = Options { chunk_samples: 0 };

/// Returns values of one type, of several natures.
fn floats() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (-2000i32..2000).prop_map(|mantissa| f64::from(mantissa) / 10.0),
        4 => (-2000i32..2000).prop_map(|mantissa| f64::from(mantissa) / 1000.0),
        2 => any::<u64>().prop_map(f64::from_bits),
        1 => any::<f32>().prop_map(f64::from),
        1 => prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), Just(f64::INFINITY)],
        1 => Just(f64::from_bits(0x7ff0_0000_0000_0001)),
    ]
}

/// Returns a column of `count` values of a type; `wild` chooses their nature.
fn column(field_type: FieldType, count: usize) -> BoxedStrategy<Column> {
    let numbers = || prop::collection::vec(prop_oneof![any::<u64>(), 0u64..5], count);
    match field_type {
        FieldType::F64 => prop_oneof![
            prop::collection::vec(floats(), count).prop_map(Column::F64),
            prop::collection::vec(
                (-500i32..500).prop_map(|value| f64::from(value) / 10.0),
                count
            )
            .prop_map(Column::F64),
            prop::collection::vec(any::<u64>().prop_map(f64::from_bits), count)
                .prop_map(Column::F64),
        ]
        .boxed(),
        FieldType::F32 => prop::collection::vec(floats().prop_map(|value| value as f32), count)
            .prop_map(Column::F32)
            .boxed(),
        FieldType::I64 => numbers()
            .prop_map(|values| Column::I64(values.into_iter().map(|value| value as i64).collect()))
            .boxed(),
        FieldType::U64 => numbers().prop_map(Column::U64).boxed(),
        FieldType::Bool => prop::collection::vec(any::<bool>(), count)
            .prop_map(Column::Bool)
            .boxed(),
        FieldType::Str => prop_oneof![
            prop::collection::vec("[a-c]{0,2}", count),
            prop::collection::vec(".{0,9}", count),
        ]
        .prop_map(|texts| {
            let mut column = Strings::default();
            texts.iter().for_each(|text| column.push(text));
            Column::Str(column)
        })
        .boxed(),
    }
}

/// Returns a field in `rows` rows, of which some, all or no rows have values.
fn field(field_type: FieldType, rows: usize) -> impl Strategy<Value = FieldColumn> {
    let present = prop_oneof![
        4 => Just(None),
        1 => Just(Some(vec![false; rows])),
        2 => prop::collection::vec(any::<bool>(), rows).prop_map(Some),
    ];
    present.prop_flat_map(move |present| {
        let count = present
            .as_ref()
            .map_or(rows, |bits| bits.iter().filter(|bit| **bit).count());
        column(field_type, count).prop_map(move |values| FieldColumn {
            present: present
                .as_ref()
                .map(|bits| bits.iter().copied().collect::<Bitmap>()),
            values,
        })
    })
}

fn times(rows: usize) -> impl Strategy<Value = Vec<i64>> {
    let steady = (0..rows as i64)
        .map(|row| START + row * PERIOD)
        .collect::<Vec<_>>();
    let jittered = prop::collection::vec(-500i64..500, rows).prop_map(move |jitter| {
        let ticks = (0i64..).zip(jitter);
        ticks
            .map(|(row, late)| START + row * PERIOD + late * 1_000_000)
            .collect()
    });
    let seconds = prop::collection::vec(0i64..100, rows).prop_map(|seconds| {
        seconds
            .into_iter()
            .map(|second| second * 1_000_000_000)
            .collect()
    });
    prop_oneof![
        3 => Just(steady),
        2 => jittered,
        1 => seconds,
        1 => prop::collection::vec(any::<i64>(), rows),
    ]
    .prop_map(|mut times: Vec<i64>| {
        times.sort_unstable();
        times
    })
}

fn layouts() -> impl Strategy<Value = Vec<Arc<Layout>>> {
    let field_type = prop::sample::select(FieldType::ALL.to_vec());
    let layout = prop::collection::vec(("[a-z]{1,3}", field_type), 0..4);
    prop::collection::vec(
        layout.prop_map(|fields| Arc::new(Layout::new(fields))),
        1..3,
    )
}

/// Returns the rows of a source of a layout.
fn rows(layout: &Layout) -> impl Strategy<Value = Columns> + use<> {
    let types: Vec<FieldType> = layout.fields().iter().map(|(_, one)| *one).collect();
    prop_oneof![4 => 1usize..6, 1 => 1usize..80].prop_flat_map(move |rows| {
        let fields: Vec<_> = types.iter().map(|one| field(*one, rows).boxed()).collect();
        (times(rows), fields).prop_map(|(times, fields)| Columns { times, fields })
    })
}

fn sources() -> impl Strategy<Value = Vec<SourceRows>> {
    let gap = prop_oneof![4 => Just(1u64), 1 => 1u64..50, 1 => 1u64 << 40..1 << 50];
    layouts().prop_flat_map(move |layouts| {
        let source = (gap.clone(), prop::sample::select(layouts)).prop_flat_map(|(gap, layout)| {
            rows(&layout).prop_map(move |rows| (gap, layout.clone(), rows))
        });
        prop::collection::vec(source, 0..40).prop_map(|sources| {
            let mut id = 0;
            let numbered = sources.into_iter().map(|(gap, layout, rows)| {
                id += gap;
                SourceRows { id, layout, rows }
            });
            numbered.collect()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn random_rows_return_bit_for_bit(sources in sources()) {
        round_trip(&sources, SMALL);
    }
}

#[test]
fn extremes_return() {
    let all = [i64::MIN, -1, 0, 1, i64::MAX];
    let mut sources = vec![
        source(0, all.to_vec(), Column::I64(all.to_vec())),
        source(7, all.to_vec(), Column::I64(vec![5; 5])),
        source(u64::MAX, vec![i64::MAX], Column::I64(vec![i64::MIN])),
    ];
    round_trip(&sources, SMALL);
    sources.remove(0);
    round_trip(&sources, SMALL);
    round_trip(&[], SMALL);
}

#[test]
fn strays_among_decimals_return() {
    let with_strays = |id: u64| {
        let mut values = vec![21.5, 21.6, 21.7, 21.9, 22.0, 22.1, 22.3, 22.4];
        values[(id % 8) as usize] = [f64::NAN, -0.0, 1.0 / 3.0][(id % 3) as usize];
        source(id, (0..8).collect(), Column::F64(values))
    };
    let sources: Vec<SourceRows> = (0..1000).map(with_strays).collect();
    let bundle = round_trip(&sources, Options::default());
    // The kind of a source is that of its other values.
    assert!(bytes(&bundle) < 8000 * 2, "{} bytes", bytes(&bundle));
}

/// Returns the times of 300 sources for each of seven clocks: of source 0 by each clock, then of source 1.
fn clocks(rows: i64) -> Vec<Vec<i64>> {
    let mut seed = 1u32;
    let mut random = |most: u32| {
        seed = mix(seed);
        i64::from(seed % most)
    };
    let tick = |row: i64| START + row * PERIOD;
    let mut clocks: Vec<Vec<i64>> = Vec::new();
    for id in 0..300i64 {
        let phase = random(10_000) * 1_000_000;
        let host = id / 10 * 77_000_000;
        let pause = random(rows as u32);
        let times = |time: &mut dyn FnMut(i64) -> i64| (0..rows).map(time).collect();
        clocks.push(times(&mut |row| tick(row)));
        clocks.push(times(&mut |row| tick(row) + phase));
        clocks.push(times(&mut |row| tick(row) + random(1000) * 1_000_000));
        clocks.push(times(&mut |row| tick(row) + phase + random(9)));
        clocks.push(times(&mut |row| tick(row) + host + row % 5));
        // Exact clocks that paused once, for some ticks or for part of one.
        clocks.push(times(&mut |row| tick(row + i64::from(row > pause) * 3)));
        clocks.push(times(&mut |row| {
            tick(row) + phase + i64::from(row > pause) * 77
        }));
    }
    clocks
}

#[test]
fn times_of_all_forms_return() {
    let bare = Arc::new(Layout::new::<&str>([]));
    for (rows, form) in [12, 300]
        .into_iter()
        .flat_map(|rows| (0..7).map(move |form| (rows, form)))
    {
        let clocks = clocks(rows);
        let times = clocks.iter().skip(form).step_by(7);
        let sources: Vec<SourceRows> = (0u64..)
            .zip(times)
            .map(|(id, times)| SourceRows {
                id,
                layout: bare.clone(),
                rows: Columns {
                    times: times.clone(),
                    fields: Vec::new(),
                },
            })
            .collect();
        round_trip(&sources, Options::default());
    }
}

#[test]
fn chunks_hold_neighbours_and_are_found_by_their_sources() {
    let sources: Vec<SourceRows> = (0..2000)
        .map(|id| SourceRows {
            id: id * 3,
            layout: one_field(FieldType::F64),
            rows: gauge_rows(id as u32, 10),
        })
        .collect();
    let bundle = encode(&sources, Options::default());
    let directory = seiner_bundle::Directory::parse(&bundle.directory).unwrap();
    assert_eq!(directory.chunks().len(), 8);
    for source in &sources {
        let found: Vec<_> = directory.find(source.id).collect();
        assert_eq!(found.len(), 1);
        let bytes = &bundle.data[found[0].start..found[0].end];
        let decoded = directory.decode_source(found[0].index, bytes, source.id);
        assert_eq!(decoded.unwrap().unwrap(), *source);
        let absent = directory.decode_source(found[0].index, bytes, source.id + 1);
        assert_eq!(absent.unwrap(), None);
    }
    assert_eq!(directory.find(6000).count(), 0);
}

#[test]
fn small_chunks_occur_only_in_small_groups() {
    for rows in [1usize, 7, 120, 499, 501, 3000] {
        for count in [1usize, 2, 5, 23] {
            let layout = one_field(FieldType::F64);
            let mut writer = BundleWriter::new(SMALL);
            for id in 0..count {
                writer
                    .push(id as u64, &layout, &gauge_rows(id as u32, rows))
                    .unwrap();
            }
            let bundle = writer.finish();
            let directory = seiner_bundle::Directory::parse(&bundle.directory).unwrap();
            let least = directory.chunks().map(|chunk| chunk.samples).min().unwrap();
            assert!(
                least >= 500.min((rows * count) as u64),
                "{rows} rows, {count} sources: {least}"
            );
        }
    }
}

#[test]
fn rows_that_do_not_fit_are_rejected() {
    let layout = one_field(FieldType::F64);
    let rows = gauge_rows(1, 3);
    let mut writer = BundleWriter::new(SMALL);
    writer.push(5, &layout, &rows).unwrap();
    let order = PushError::Order { id: 5, before: 5 };
    assert_eq!(writer.push(5, &layout, &rows), Err(order));
    let order = PushError::Order { id: 4, before: 5 };
    assert_eq!(writer.push(4, &layout, &rows), Err(order));
    let mut late = rows.clone();
    late.times.swap(0, 2);
    assert_eq!(
        writer.push(6, &layout, &late),
        Err(PushError::Times { id: 6, row: 1 })
    );
    let none = Columns::default();
    assert_eq!(
        writer.push(6, &layout, &none),
        Err(PushError::NoRows { id: 6 })
    );
    let integers = one_field(FieldType::I64);
    assert!(matches!(
        writer.push(6, &integers, &rows),
        Err(PushError::Shape { .. })
    ));
    let mut short = rows.clone();
    short.fields[0].values = Column::F64(vec![1.0]);
    assert!(matches!(
        writer.push(6, &layout, &short),
        Err(PushError::Shape { .. })
    ));
    let mut gaps = rows.clone();
    gaps.fields[0].present = Some([true].into_iter().collect());
    assert!(matches!(
        writer.push(6, &layout, &gaps),
        Err(PushError::Shape { .. })
    ));
    let many = gauge_rows(1, (1 << 20) + 1);
    assert!(matches!(
        writer.push(6, &layout, &many),
        Err(PushError::TooLarge { .. })
    ));
    // The same source may follow with another layout, and rejected rows leave nothing.
    let more = source(5, vec![1, 2], Column::I64(vec![3, 4]));
    writer.push(more.id, &more.layout, &more.rows).unwrap();
    let decoded = decode(&writer.finish());
    assert_eq!(decoded.len(), 2);
    assert_eq!(decoded[0].rows, rows);
    assert_eq!(decoded[1].rows.fields[0].values.get(1), Value::I64(4));
}

#[test]
fn long_texts_do_not_share_a_chunk() {
    let text = "x".repeat(100_000);
    let sources: Vec<SourceRows> = (0..40)
        .map(|id| {
            let mut texts = Strings::default();
            (0..4).for_each(|row| texts.push(&text[..text.len() - row - id % 2]));
            source(id as u64, (0..4).collect(), Column::Str(texts))
        })
        .collect();
    let bundle = round_trip(&sources, Options::default());
    let directory = seiner_bundle::Directory::parse(&bundle.directory).unwrap();
    assert_eq!(directory.chunks().len(), 40);
}

#[test]
fn estimates_are_near_the_size() {
    for rows in [1, 10, 100] {
        let layout = one_field(FieldType::F64);
        let mut writer = BundleWriter::new(Options::default());
        for id in 0..40_000 / rows {
            writer
                .push(u64::from(id), &layout, &gauge_rows(id, rows as usize))
                .unwrap();
        }
        assert_eq!(writer.samples(), 40_000);
        let estimated = writer.estimated_bytes() as f64;
        let found = bytes(&writer.finish()) as f64;
        let ratio = estimated / found;
        assert!((0.6..1.5).contains(&ratio), "{rows} rows: {ratio}");
    }
}

#[test]
fn a_writer_is_empty_after_a_bundle() {
    let mut writer = BundleWriter::new(SMALL);
    let of = |id: u64| source(id, vec![1, 2], Column::I64(vec![3, id as i64]));
    let texts = {
        let mut texts = Strings::default();
        ["a", "b"].iter().for_each(|text| texts.push(text));
        source(9, vec![1, 2], Column::Str(texts))
    };
    for sources in [
        vec![of(7), texts.clone()],
        vec![texts.clone()],
        vec![of(1), of(2)],
        vec![],
    ] {
        for source in &sources {
            writer
                .push(source.id, &source.layout, &source.rows)
                .unwrap();
        }
        assert_eq!(writer.is_empty(), sources.is_empty());
        let bundle = writer.finish();
        assert_eq!(bundle, encode(&sources, SMALL));
        assert_eq!((writer.samples(), writer.is_empty()), (0, true));
    }
}
