//! Bitmaps: all bits equal, run lengths, or raw bits.

use seiner_model::Bitmap;

use crate::reader::{Reader, consume};
use crate::varint::put_u64;
use crate::{DecodeError, Effort, integers};

/// All bits are zero.
const ZEROS: u8 = 0;
/// All bits are one.
const ONES: u8 = 1;
/// Raw bits, eight per byte, lowest first.
const RAW: u8 = 2;
/// Run lengths, starting with zeros; the last run is implied.
const RUNS_FROM_ZERO: u8 = 3;
/// Run lengths, starting with ones; the last run is implied.
const RUNS_FROM_ONE: u8 = 4;

/// Appends a bitmap.
pub fn encode_bitmap(bits: &Bitmap, out: &mut Vec<u8>) {
    encode(bits, out);
}

/// Reads a bitmap of `count` bits.
///
/// # Errors
/// The bytes are not the encoding of a bitmap of `count` bits.
pub fn decode_bitmap(bytes: &mut &[u8], count: usize) -> Result<Bitmap, DecodeError> {
    consume(bytes, count, |reader| decode(reader, count))
}

pub(crate) fn encode(bits: &Bitmap, out: &mut Vec<u8>) {
    let ones = bits.count_ones();
    if ones == 0 {
        return out.push(ZEROS);
    }
    if ones == bits.len() {
        return out.push(ONES);
    }
    let start = out.len();
    let raw = bits.len().div_ceil(8);
    if changes(bits) < raw {
        let runs = runs(bits);
        out.push(if bits.get(0) {
            RUNS_FROM_ONE
        } else {
            RUNS_FROM_ZERO
        });
        put_u64(runs.len() as u64, out);
        integers::encode(&runs, Effort::Fast, out);
        if out.len() - start <= raw {
            return;
        }
        out.truncate(start);
    }
    out.push(RAW);
    bits.words()
        .iter()
        .for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    out.truncate(start + 1 + raw);
}

/// Returns the number of bits that differ from the one before.
fn changes(bits: &Bitmap) -> usize {
    let mut before = u64::from(bits.get(0));
    let mut changes = 0;
    for &word in bits.words() {
        changes += (word ^ (word << 1 | before)).count_ones() as usize;
        before = word >> 63;
    }
    changes
}

/// Returns the lengths of the runs of equal bits, without the last run.
fn runs(bits: &Bitmap) -> Vec<i64> {
    let (mut runs, mut length, mut last) = (Vec::new(), 0, bits.get(0));
    for bit in bits.iter() {
        if bit != last {
            runs.push(length);
            (length, last) = (0, bit);
        }
        length += 1;
    }
    runs
}

pub(crate) fn decode(reader: &mut Reader<'_>, count: usize) -> Result<Bitmap, DecodeError> {
    match reader.byte("a bitmap's tag")? {
        ZEROS => Ok((0..count).map(|_| false).collect()),
        ONES => Ok((0..count).map(|_| true).collect()),
        RAW => {
            let bytes = reader.take(count.div_ceil(8), "a bitmap")?;
            Ok((0..count)
                .map(|index| bytes[index / 8] >> (index % 8) & 1 == 1)
                .collect())
        }
        RUNS_FROM_ZERO => decode_runs(reader, count, false),
        RUNS_FROM_ONE => decode_runs(reader, count, true),
        found => Err(reader.unknown("a bitmap", found)),
    }
}

fn decode_runs(
    reader: &mut Reader<'_>,
    count: usize,
    mut bit: bool,
) -> Result<Bitmap, DecodeError> {
    let runs = reader.length(count, "a bitmap has more runs than bits")?;
    let bits = integers::decode_with(reader, runs, |runs| {
        let mut bits = Bitmap::new();
        for &run in runs {
            let left = count - bits.len();
            let run = usize::try_from(run).ok().filter(|&run| run <= left)?;
            (0..run).for_each(|_| bits.push(bit));
            bit = !bit;
        }
        (bits.len()..count).for_each(|_| bits.push(bit));
        Some(bits)
    })?;
    bits.ok_or_else(|| reader.invalid("a bitmap's runs exceed it"))
}
