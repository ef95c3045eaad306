//! Decimal buffers: decodes a buffer of mantissas straight into the columns of a block.
//!
//! Buffers and blocks both store mantissas. This path keeps them, so the codec need not search for
//! the decimals of floats again. Rows that are not decimals or not in ascending time are decoded by
//! [`decode`](super::columns::decode). Both paths produce the same bytes.

use super::row::{self, ColumnState, POWERS, Reader, TimeState};
use seiner_model::FieldType;

/// Bytes of a row of one number, read in a single window.
const WINDOW: usize = 17;
/// Limit of mantissas: every integer below it is a double.
const MANTISSA_LIMIT: u64 = 1 << 53;
/// Masks of the lowest bytes, indexed by the number of bytes, which a code states in four bits.
const MASKS: [u64; 16] = {
    let mut masks = [u64::MAX; 16];
    let mut bytes = 0;
    while bytes < 8 {
        masks[bytes] = (1 << (8 * bytes)) - 1;
        bytes += 1;
    }
    masks
};

/// Rows of a buffer: times in strictly ascending order, and values that are mantissas over one
/// power of ten. The memory is reused for the next buffer.
#[derive(Default)]
pub struct Decimals {
    /// Times of the rows.
    pub times: Vec<i64>,
    /// Mantissas of the rows, one for each time.
    pub mantissas: Vec<i64>,
    /// Exponent of the power of ten.
    pub scale: u8,
    /// Sum of the values, added in the order of the rows.
    pub sum: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    padded: Vec<u8>,
}

impl Decimals {
    /// Reads a buffer of one column of doubles. Returns false if the rows are not in ascending
    /// time, are not all decimals, or are malformed. The contents of `self` are then meaningless.
    pub fn read(&mut self, bytes: &[u8], rows: usize) -> bool {
        self.padded.clear();
        self.padded.extend_from_slice(bytes);
        self.padded.extend_from_slice(&[0; WINDOW]);
        self.times.resize(rows, 0);
        self.mantissas.resize(rows, 0);
        self.read_rows(rows) == Some(bytes.len())
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        let words = self.times.capacity() + self.mantissas.capacity();
        words * size_of::<i64>() + self.padded.capacity()
    }

    /// Returns the value of a row.
    pub fn value(&self, row: usize) -> f64 {
        self.mantissas[row] as f64 / POWERS[usize::from(self.scale)]
    }

    /// Reads the rows and returns the offset of their end.
    fn read_rows(&mut self, rows: usize) -> Option<usize> {
        let (padded, times) = (self.padded.as_slice(), &mut self.times[..rows]);
        let mantissas = &mut self.mantissas[..rows];
        let (mut time, mut state, mut power) = (TimeState::default(), ColumnState::default(), 1.0);
        let (mut sum, mut min, mut max) = (0.0, f64::INFINITY, f64::NEG_INFINITY);
        let (mut at, mut ascending) = (0, true);
        for row in 0..rows {
            let window: &[u8; WINDOW] = padded.get(at..)?.first_chunk()?;
            let (time_code, value_code) = (window[0] & 15, window[0] >> 4);
            let before = time.last;
            if time_code <= 8 && value_code <= 8 {
                if time_code != 0 {
                    let change = word(window, 1) & MASKS[usize::from(time_code)];
                    time.delta = time.delta.wrapping_add(row::unzigzag(change));
                }
                time.last = time.last.wrapping_add(time.delta);
                let step =
                    word(window, 1 + usize::from(time_code)) & MASKS[usize::from(value_code)];
                state.previous = state.previous.wrapping_add(row::unzigzag(step) as u64);
                at += usize::from(1 + time_code + value_code);
            } else {
                let scale = state.scale;
                at = unusual(padded, at, &mut time, &mut state)?;
                rescale(&mut mantissas[..row], scale, state.scale)?;
                power = POWERS[usize::from(state.scale)];
            }
            ascending &= time.last > before || row == 0;
            let value = state.previous as i64 as f64 / power;
            sum += value;
            min = if value < min { value } else { min };
            max = if value > max { value } else { max };
            times[row] = time.last;
            mantissas[row] = state.previous as i64;
        }
        (self.scale, self.sum, self.min, self.max) = (state.scale, sum, min, max);
        ascending.then_some(at)
    }
}

#[inline(always)]
fn word(window: &[u8; WINDOW], at: usize) -> u64 {
    u64::from_le_bytes(window[at..at + 8].try_into().expect("eight bytes"))
}

/// Reads a row that begins the block or changes the scale. Returns the offset of its end.
#[cold]
fn unusual(
    padded: &[u8],
    at: usize,
    time: &mut TimeState,
    state: &mut ColumnState,
) -> Option<usize> {
    let codes = padded[at];
    if codes >> 4 == row::RAW {
        return None;
    }
    let mut reader = Reader {
        bytes: padded,
        at: at + 1,
    };
    reader.time(codes & 15, time).ok()?;
    reader.value(codes >> 4, FieldType::F64, state).ok()??;
    Some(reader.at)
}

/// Rescales mantissas to a larger scale. Their values stay the same to the bit: a quotient of two
/// doubles is rounded once, and both quotients have the same ratio.
fn rescale(mantissas: &mut [i64], from: u8, to: u8) -> Option<()> {
    if from == to || mantissas.is_empty() {
        return Some(());
    }
    let power = 10i64.checked_pow(u32::from(to.checked_sub(from)?))?;
    for mantissa in mantissas {
        *mantissa = mantissa.checked_mul(power)?;
        if mantissa.unsigned_abs() >= MANTISSA_LIMIT {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{self, BlockHead};
    use crate::buffer::number::{Limit, Number};
    use crate::buffer::run::{Encoded, Floats};
    use crate::buffer::{Buffers, columns};
    use crate::dictionary::layouts::Layouts;
    use proptest::prelude::*;
    use seiner_codec::Effort;
    use seiner_model::{Column, SourceId};

    const LIMIT: Limit = Limit {
        bytes: 1 << 20,
        first_block: 0,
    };
    const HEAD: BlockHead = BlockHead {
        source: 3,
        number: 70,
        layout: 1,
    };

    /// Fills a buffer of one source with these rows, in runs or row by row.
    fn filled(times: &[i64], values: &[f64], runs: bool) -> (Buffers, Vec<u8>) {
        let mut layouts = Layouts::new();
        let (layout, _) = layouts.extend(0, "value", FieldType::F64);
        let mut buffers = Buffers::default();
        buffers.add_source();
        buffers.set_layout(0, layout);
        let sources = vec![SourceId(0); times.len()];
        let floats = Floats {
            sources: &sources,
            times,
            values,
        };
        let (mut encoded, mut staged, mut row) = (Encoded::default(), Vec::new(), 0);
        while row < times.len() {
            if runs {
                row += buffers.append_floats(layout, 1, LIMIT, floats.from(row), &mut encoded);
                staged.extend_from_slice(encoded.payload());
                if row == times.len() {
                    break;
                }
            }
            let layout = layouts.get(layout).unwrap();
            let number = Number::F64(values[row]);
            let coded = buffers.append_number(0, 1, LIMIT, times[row], number);
            let slowly = || buffers.append_number_slowly(0, layout, 1, times[row], number);
            let (time, value) = coded.unwrap_or_else(slowly);
            row::put_word(time, &mut staged);
            row::put_word(value, &mut staged);
            row += 1;
        }
        (buffers, staged)
    }

    fn read(bytes: &[u8], rows: usize) -> Option<Decimals> {
        let mut decimals = Decimals::default();
        decimals.read(bytes, rows).then_some(decimals)
    }

    fn values() -> impl Strategy<Value = Vec<f64>> {
        let decimal = |scales: std::ops::Range<i32>| {
            (-3_000i64..3_000, scales)
                .prop_map(|(mantissa, scale)| mantissa as f64 / 10f64.powi(scale))
        };
        let special = any::<u64>().prop_map(f64::from_bits);
        let large =
            (0u32..54, any::<i64>()).prop_map(|(bits, low)| (low % (1 << bits)) as f64 / 100.0);
        prop_oneof![
            prop::collection::vec(decimal(2..3), 1..600),
            prop::collection::vec(decimal(0..4), 1..600),
            prop::collection::vec(large.clone(), 1..300),
            prop::collection::vec(prop_oneof![decimal(0..20), special, large], 1..100),
        ]
    }

    fn times(rows: usize) -> impl Strategy<Value = Vec<i64>> {
        let steps = prop_oneof![
            Just(vec![10_000_000_000; rows]).boxed(),
            prop::collection::vec(1i64..40_000_000_000, rows).boxed(),
            prop::collection::vec(-1i64..100, rows).boxed(),
            prop::collection::vec(any::<i64>(), rows).boxed(),
        ];
        (any::<i64>(), steps).prop_map(|(start, steps)| {
            let mut time = start;
            let next = steps.iter().map(|step| {
                time = time.wrapping_add(*step);
                time
            });
            next.collect()
        })
    }

    fn rows() -> impl Strategy<Value = (Vec<i64>, Vec<f64>)> {
        values().prop_flat_map(|values| (times(values.len()), Just(values)))
    }

    proptest! {
        #[test]
        fn any_double_is_restored_and_runs_are_encoded_like_single_rows((times, values) in rows()) {
            let (single, run) = (filled(&times, &values, false), filled(&times, &values, true));
            prop_assert_eq!(single.1, run.1);
            let (single, run) = (single.0.open_block(0).unwrap(), run.0.open_block(0).unwrap());
            prop_assert_eq!(&single.bytes, &run.bytes);
            prop_assert_eq!(single.rows, run.rows);
            let columns = columns::decode(&run.bytes, run.rows, &[FieldType::F64]).unwrap();
            prop_assert_eq!(columns.times, times);
            let Column::F64(decoded) = &columns.fields[0].values else { unreachable!() };
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(decoded), bits(&values));
        }

        #[test]
        fn decimals_and_floats_produce_the_same_block((times, values) in rows()) {
            let open = filled(&times, &values, true).0.open_block(0).unwrap();
            if let Some(decimals) = read(&open.bytes, open.rows) {
                let columns = columns::decode(&open.bytes, open.rows, &[FieldType::F64]).unwrap();
                let (mut bytes, mut expected) = (Vec::new(), Vec::new());
                block::encode_decimals(HEAD, &decimals, &mut bytes);
                block::encode(HEAD, &block::sorted(columns), Effort::Fast, &mut expected);
                prop_assert_eq!(bytes, expected);
            }
        }

        #[test]
        fn ordered_rows_of_short_decimals_are_read(
            mantissas in prop::collection::vec(-90_000i64..90_000, 1..500),
            scale in 0i32..7,
            step in 1i64..1 << 40,
        ) {
            let values: Vec<f64> =
                mantissas.iter().map(|&mantissa| mantissa as f64 / 10f64.powi(scale)).collect();
            let times: Vec<i64> = (0..values.len() as i64).map(|row| row * step).collect();
            let open = filled(&times, &values, true).0.open_block(0).unwrap();
            let decimals = read(&open.bytes, open.rows).unwrap();
            prop_assert_eq!(&decimals.times, &times);
            for (row, value) in values.iter().enumerate() {
                prop_assert_eq!(decimals.value(row).to_bits(), value.to_bits());
            }
            let columns = columns::decode(&open.bytes, open.rows, &[FieldType::F64]).unwrap();
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            block::encode_decimals(HEAD, &decimals, &mut bytes);
            block::encode(HEAD, &block::sorted(columns), Effort::Fast, &mut expected);
            prop_assert_eq!(bytes, expected);
        }

        #[test]
        fn arbitrary_bytes_cause_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), rows in 1usize..9) {
            read(&bytes, rows);
        }
    }

    #[test]
    fn unordered_rows_and_unusual_values_take_the_general_path() {
        for (times, values) in [
            ([1, 2, 2], [1.5; 3]),
            ([1, 3, 2], [1.5; 3]),
            ([i64::MAX - 1, i64::MAX, i64::MIN], [1.5; 3]),
            ([1, 2, 3], [1.5, f64::NAN, 1.5]),
            ([1, 2, 3], [1.5, -0.0, 1.5]),
            ([1, 2, 3], [0.1 + 0.2; 3]),
        ] {
            let (mut buffers, _) = filled(&times, &values, true);
            let mut decimals = Decimals::default();
            let (rows, bytes) = (buffers.state(0).rows.into(), buffers.state(0).bytes);
            let slot = buffers.detach(0);
            let raw = buffers.detached(slot, bytes);
            assert!(!decimals.read(raw, 3), "{times:?} {values:?}");
            let columns = columns::decode(raw, 3, &[FieldType::F64]).unwrap();
            assert_eq!(columns.times, times);
            assert!(buffers.open_block(0).is_none());
            assert_eq!((buffers.rows(), buffers.open_blocks()), (3, 1));
            buffers.free(slot, rows, bytes);
            assert_eq!(
                (buffers.rows(), buffers.row_bytes(), buffers.open_blocks()),
                (0, 0, 0)
            );
        }
    }
}
