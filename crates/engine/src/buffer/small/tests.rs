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
