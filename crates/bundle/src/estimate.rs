//! Estimate of the size of a bundle that is being filled.

use seiner_codec::Real;
use seiner_codec::bits::width;
use seiner_codec::decimals::{mantissa_at, scale_of};
use seiner_codec::varint::zigzag;
use seiner_model::{Column, Columns};

/// One source in this many is measured.
const STRIDE: u64 = 64;
/// Values of a column that are measured.
const PROBES: usize = 16;
/// Approximate bytes of a directory.
const DIRECTORY: u64 = 256;

/// Bits of a sample of the sources.
#[derive(Default)]
pub(crate) struct Estimate {
    sources: u64,
    values: u64,
    sampled_values: u64,
    sampled_bits: u64,
    /// Times of the last measured source.
    times: Vec<i64>,
}

impl Estimate {
    /// Counts a source, and measures it if it belongs to the sample.
    pub(crate) fn add(&mut self, rows: &Columns) {
        let cells = |columns: &Columns| {
            let values = columns.fields.iter().map(|field| field.values.len() as u64);
            values.sum::<u64>().max(1)
        };
        self.values += cells(rows);
        self.sources += 1;
        if self.sources % STRIDE != 1 {
            return;
        }
        self.sampled_values += cells(rows);
        self.sampled_bits += self.time_bits(&rows.times) + 2;
        for field in &rows.fields {
            self.sampled_bits += column_bits(&field.values);
        }
    }

    fn time_bits(&mut self, times: &[i64]) -> u64 {
        if self.times == times {
            return 0;
        }
        self.times.clear();
        self.times.extend_from_slice(times);
        let steps = times.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
        let mut before = steps.clone().next().unwrap_or(0);
        let bits = steps.map(|step| {
            let change = zigzag(step.wrapping_sub(before));
            before = step;
            // Changes of a regular clock are whole milliseconds or finer.
            u64::from(width(change / 1_000_000).max(width(change % 1_000_000)))
        });
        bits.sum::<u64>() + 16
    }

    /// Returns the estimated bytes.
    pub(crate) fn bytes(&self) -> usize {
        let bits = u128::from(self.sampled_bits) * u128::from(self.values)
            / u128::from(self.sampled_values.max(1));
        (bits / 8) as usize + DIRECTORY as usize
    }
}

/// Returns the approximate bits of the values of a source.
fn column_bits(values: &Column) -> u64 {
    match values {
        Column::F64(values) => float_bits(values),
        Column::F32(values) => float_bits(values),
        Column::I64(values) => integer_bits(values.iter().copied(), values.len()),
        Column::U64(values) => integer_bits(values.iter().map(|&value| value as i64), values.len()),
        Column::Bool(values) => values.len() as u64 / 2 + 1,
        Column::Str(texts) => texts.bytes.len() as u64 * 2 + texts.len() as u64,
    }
}

fn float_bits<T: Real>(values: &[T]) -> u64 {
    let probes = &values[..values.len().min(PROBES)];
    let scale = probes
        .iter()
        .try_fold(0, |scale, &value| scale_of(value, scale));
    let Some(scale) = scale else {
        return (values.len() * (T::BYTES * 8 - 14)) as u64;
    };
    let mantissas = probes
        .iter()
        .map(|&value| mantissa_at(value, scale).unwrap_or(0));
    integer_bits(mantissas, values.len())
}

/// Returns the approximate bits of `count` integers that begin like these.
fn integer_bits(values: impl Iterator<Item = i64>, count: usize) -> u64 {
    let mut last = 0i64;
    let (mut first, mut rest, mut probes) = (0, 0, 0u64);
    for (index, value) in values.take(PROBES).enumerate() {
        let bits = u64::from(width(zigzag(value.wrapping_sub(last))));
        last = value;
        if index == 0 {
            first = bits;
        } else {
            rest += bits;
            probes += 1;
        }
    }
    first + rest * (count as u64).saturating_sub(1) / probes.max(1)
}
