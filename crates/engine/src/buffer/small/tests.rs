use super::*;
use std::collections::HashMap;

fn small(number: u64, rows: u16, bytes: usize) -> Small {
    let state = OpenState {
        block: number,
        journal_file: number as u32 ^ 7,
        bytes: 0,
        rows,
        touched: number as u16,
    };
    let mut row = vec![number as u8; bytes];
    if bytes > 0 {
        row[0] = START | 0x10;
        row[1..FIRST].copy_from_slice(&number.wrapping_mul(u64::MAX / 7).to_le_bytes());
    }
    Small::new(state, number.is_multiple_of(2), &row)
}

/// Blocks are stored, grow and are removed in a random order; each keeps its contents.
#[test]
fn blocks_keep_their_contents_while_others_change() {
    let mut blocks = SmallBlocks::default();
    let mut known: HashMap<u32, (u64, usize)> = HashMap::new();
    let mut random = 1u64;
    (0..2000).for_each(|source| blocks.add_source(source));
    for step in 0..60_000u64 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let source = (random >> 33) as u32 % 2000;
        // A block that was only begun, or one with a first row.
        let bytes = match (random >> 50) as usize % 88 {
            0 => 0,
            more => FIRST - 1 + more,
        };
        if random >> 62 == 0 {
            known.remove(&source);
            blocks.remove(source);
        } else {
            known.insert(source, (step, bytes));
            blocks.put(
                source,
                &small(step, if bytes == 0 { 0 } else { 200 }, bytes),
            );
        }
    }
    for source in 0..2000 {
        let Some(&(number, bytes)) = known.get(&source) else {
            assert!(blocks.state(source).is_none() && blocks.get(source).is_none());
            continue;
        };
        let found = blocks.get(source).expect("the block was added");
        let expected = small(number, if bytes == 0 { 0 } else { 200 }, bytes);
        assert_eq!(blocks.state(source), Some(expected.state));
        assert_eq!(
            (found.state, found.hopeless),
            (expected.state, expected.hopeless)
        );
        assert_eq!(found.rows(), expected.rows());
    }
    known.keys().for_each(|&source| blocks.remove(source));
    blocks.release_idle();
    assert_eq!(blocks.page_bytes(), 0);
}

#[test]
fn rows_are_appended_in_place() {
    let mut blocks = SmallBlocks::default();
    (0..40).for_each(|source| blocks.add_source(source));
    let any = Limit {
        bytes: u32::MAX,
        first_block: 0,
    };
    let (mut random, mut appended, mut full) = (1u64, 0, 0);
    for step in 0..40_000u32 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (source, tick) = ((random >> 33) as u32 % 40, step as u16);
        let time = i64::from(step) * 997;
        let value = match random >> 60 {
            0 => f64::from_bits(random),
            _ => f64::from((random >> 40) as u32 % 500) / 10.0,
        };
        let row = (time, Number::F64(value));
        if random >> 50 & 31 == 0 {
            blocks.remove(source);
        }
        let Some(mut expected) = blocks.get(source) else {
            let state = OpenState {
                block: u64::from(step),
                ..OpenState::default()
            };
            blocks.put(source, &Small::new(state, false, &[]));
            assert!(blocks.append(source, FieldType::F64, 7, any, row).is_none());
            assert!(!blocks.append_encoded(source, &[0]));
            let (coded, bytes) = blocks.append_first(source, 7, row).unwrap();
            assert_eq!(bytes, 1 + coded.0.bytes + coded.1.bytes);
            assert!(blocks.append_first(source, 7, row).is_none());
            continue;
        };
        let (mut times, mut column) = expected.column_states(FieldType::F64);
        let coded = (
            row::code_time(time, &mut times, false),
            row.1.code(&mut column),
        );
        let mut bytes = [0; NUMBER_BYTES];
        let len = run::put_number(coded.0, coded.1, &mut bytes);
        // A row in its journal encoding does not change the flag, which a later row of a number sets.
        let is_appended = match random >> 45 & 3 == 0 && !column.hopeless {
            true => blocks.append_encoded(source, &bytes[..len]),
            false => {
                let found = blocks.append(source, FieldType::F64, tick, any, row);
                (expected.state.touched, expected.hopeless) = (tick, column.hopeless);
                found.is_some()
            }
        };
        if !is_appended {
            full += 1;
            assert!(!has_space(expected.state, NUMBER_BYTES));
            blocks.remove(source);
            continue;
        }
        appended += 1;
        expected.push(&bytes[..len]);
        let found = blocks.get(source).unwrap();
        assert_eq!(found.rows(), expected.rows());
        let figures = |small: &Small| (small.state.rows, small.state.block);
        assert_eq!(figures(&found), figures(&expected));
    }
    assert!(appended > 30_000 && full > 500, "{appended}, {full}");
}

#[test]
fn neighbours_with_a_row_each_take_few_bytes() {
    let mut blocks = SmallBlocks::default();
    for source in 0..16_000 {
        blocks.add_source(source);
        let state = OpenState {
            block: u64::from(source),
            rows: 1,
            ..OpenState::default()
        };
        let mut row = [0; 12];
        row[0] = START | 0x30;
        row[1..FIRST].copy_from_slice(&1_700_000_000_000_000_000i64.to_le_bytes());
        blocks.put(source, &Small::new(state, false, &row));
    }
    blocks.release_idle();
    let each = blocks.page_bytes() as f64 / 16_000.0;
    assert!(each < 17.0, "{each} bytes");
}

/// Returns blocks of 16,000 sources, each with a row at each of these times.
fn with_rows_at(times: impl Fn(u32) -> Vec<i64>) -> SmallBlocks {
    let any = Limit {
        bytes: u32::MAX,
        first_block: 0,
    };
    let mut blocks = SmallBlocks::default();
    for source in 0..16_000 {
        blocks.add_source(source);
        blocks.put(source, &Small::new(OpenState::default(), false, &[]));
        for (row, time) in times(source).into_iter().enumerate() {
            let row = (time, Number::F64(row as f64));
            let first = blocks.append_first(source, 7, row);
            first.or_else(|| blocks.append(source, FieldType::F64, 7, any, row));
        }
    }
    blocks.release_idle();
    blocks
}

fn times_of(small: &Small) -> Vec<i64> {
    let (mut time, mut column) = (TimeState::default(), ColumnState::default());
    let mut reader = Reader {
        bytes: small.rows(),
        at: 0,
    };
    let mut times = Vec::new();
    while reader.at < reader.bytes.len() {
        let codes = reader.bytes[reader.at];
        reader.at += 1;
        reader.time(codes & 15, &mut time).unwrap();
        let read = reader.value(codes >> 4, FieldType::F64, &mut column);
        read.unwrap();
        times.push(time.last);
    }
    times
}

#[test]
fn neighbours_on_one_beat_take_few_bytes() {
    const SECOND: i64 = 1_000_000_000;
    let each = |times: &dyn Fn(u32) -> Vec<i64>| {
        let blocks = with_rows_at(times);
        for source in [0, 1, 17, 15_999] {
            assert_eq!(times_of(&blocks.get(source).unwrap()), times(source));
        }
        blocks.page_bytes() as f64 / 16_000.0
    };
    let start = 1_700_000_000 * SECOND;
    let on_beat = each(&|_| vec![start, start + 10 * SECOND]);
    // Every second source has an interval of its own.
    let off_beat = each(&|source| {
        let beat = match source % 2 {
            0 => 10 * SECOND,
            _ => (20 + i64::from(source)) * SECOND,
        };
        vec![start, start + beat, start + 3 * beat]
    });
    assert!(on_beat < 18.0, "{on_beat} bytes");
    assert!(off_beat > on_beat + 2.5, "{off_beat} and {on_beat} bytes");
}

/// A distance that takes more bytes than a beat, none at all, or that goes back in time.
#[test]
fn any_distance_of_rows_is_kept() {
    const DAY: i64 = 86_400_000_000_000;
    for distance in [
        0,
        1,
        -1,
        127,
        128,
        -DAY,
        2 * DAY,
        400 * DAY,
        i64::MAX,
        i64::MIN,
    ] {
        for other in [distance, DAY] {
            let times = |source: u32| {
                let distance = [other, distance][source as usize % 2];
                vec![5, 5i64.wrapping_add(distance), 7]
            };
            let blocks = with_rows_at(times);
            for source in 0..32 {
                let found = blocks.get(source).unwrap();
                assert_eq!(times_of(&found), times(source), "{distance} and {other}");
                let state = blocks.state(source).unwrap();
                assert_eq!(state.bytes as usize, found.rows().len());
            }
        }
    }
}

#[test]
fn a_group_takes_the_beat_of_a_block_that_is_put() {
    let from = with_rows_at(|_| vec![0, 1_000_000_000]);
    let mut blocks = SmallBlocks::default();
    (0..32).for_each(|source| blocks.add_source(source));
    for source in 0..32 {
        blocks.put(source, &Small::new(OpenState::default(), false, &[]));
    }
    for source in 0..32 {
        blocks.put(source, &from.get(source).unwrap());
    }
    for source in 0..32 {
        assert_eq!(times_of(&blocks.get(source).unwrap()), [0, 1_000_000_000]);
    }
    let bytes = |blocks: &SmallBlocks| blocks.buffers.get(0).len();
    assert_eq!(bytes(&blocks), bytes(&from));
}
