//! Lists of integers in the directory.
//!
//! A list of equal entries takes a few bytes per group. A list of times has the codec's form, in which
//! equal steps take a few bytes, whatever its length; so its number of entries is bounded by its bytes.

use seiner_codec::bits::{BitReader, BitWriter, bytes_for, width};
use seiner_codec::reader::Reader;
use seiner_codec::varint::{put_i64, put_u64};
use seiner_codec::{DecodeError, decode_times, encode_times};

/// Number of integers of a group.
const GROUP: usize = 64;
/// Largest number of distinct times of a list.
pub(crate) const MAX_LIST: usize = 1 << 16;
/// Entries of a list of times that need no bytes, and entries per byte beyond.
const FREE_ENTRIES: usize = 256;
const ENTRIES_PER_BYTE: usize = 8;

/// Appends integers, without their number: groups of 64, each with its smallest entry and the distances
/// from it in as many bits as the largest needs.
pub(crate) fn put_integers(values: &[i64], out: &mut Vec<u8>) {
    for group in values.chunks(GROUP) {
        let least = group.iter().copied().min().unwrap_or(0);
        let distances = || group.iter().map(|value| value.wrapping_sub(least) as u64);
        let bits = width(distances().fold(0, |all, distance| all | distance));
        put_i64(least, out);
        out.push(bits as u8);
        let mut writer = BitWriter::new(out);
        distances().for_each(|distance| writer.put(distance, bits));
        writer.finish();
    }
}

/// Reads `count` integers.
pub(crate) fn take_integers(
    reader: &mut Reader<'_>,
    count: usize,
) -> Result<Vec<i64>, DecodeError> {
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let group = (count - values.len()).min(GROUP);
        let least = reader.signed("the smallest integer of a list")?;
        let bits = reader.byte("the width of a list")?;
        if bits > 64 {
            return Err(reader.invalid("a list is wider than 64 bits"));
        }
        if bits == 0 {
            values.extend(std::iter::repeat_n(least, group));
            continue;
        }
        let packed = reader.take(bytes_for(group * usize::from(bits)), "a list")?;
        let mut packed = BitReader::new(packed);
        let entries = (0..group).map(|_| packed.get(u32::from(bits)) as i64);
        values.extend(entries.map(|distance| least.wrapping_add(distance)));
    }
    Ok(values)
}

/// Reads `count` integers in the codec's form.
fn take_encoded(reader: &mut Reader<'_>, count: usize) -> Result<Vec<i64>, DecodeError> {
    let (mut rest, mut values) = (reader.rest(), Vec::new());
    decode_times(&mut rest, count, &mut values).map_err(|error| at(error, reader.offset()))?;
    reader.take(reader.rest().len() - rest.len(), "a list of times")?;
    Ok(values)
}

/// Returns an error with its offset moved by `by` bytes.
pub(crate) fn at(error: DecodeError, by: usize) -> DecodeError {
    match error {
        DecodeError::Truncated {
            what,
            offset,
            needed,
            left,
        } => DecodeError::Truncated {
            what,
            offset: offset + by,
            needed,
            left,
        },
        DecodeError::UnknownCodec {
            what,
            offset,
            found,
        } => DecodeError::UnknownCodec {
            what,
            offset: offset + by,
            found,
        },
        DecodeError::Invalid { what, offset } => DecodeError::Invalid {
            what,
            offset: offset + by,
        },
        other => other,
    }
}

/// Returns whether a list of times has few enough entries for its bytes.
pub(crate) fn is_permitted(list: &[u64]) -> bool {
    list.len() <= FREE_ENTRIES || {
        let mut bytes = Vec::new();
        encode_times(&signed(list), &mut bytes);
        fits(list.len(), bytes.len())
    }
}

fn fits(entries: usize, bytes: usize) -> bool {
    entries <= MAX_LIST && entries <= FREE_ENTRIES + ENTRIES_PER_BYTE * bytes
}

fn signed(list: &[u64]) -> Vec<i64> {
    list.iter().map(|&entry| entry as i64).collect()
}

/// Appends a list of times with its number of entries and bytes.
pub(crate) fn put_list(list: &[u64], out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    encode_times(&signed(list), &mut bytes);
    put_u64(list.len() as u64, out);
    put_u64(bytes.len() as u64, out);
    out.extend_from_slice(&bytes);
}

/// Reads a list of times.
pub(crate) fn take_list(reader: &mut Reader<'_>) -> Result<Vec<u64>, DecodeError> {
    let count = reader.length(MAX_LIST, "a list of times is too long")?;
    let length = reader.length(reader.rest().len(), "a list of times exceeds the directory")?;
    if !fits(count, length) {
        return Err(reader.invalid("a list of times has too few bytes"));
    }
    let start = reader.offset();
    let list = take_encoded(reader, count)?;
    if reader.offset() - start != length {
        return Err(reader.invalid("a list of times has another length"));
    }
    Ok(list.into_iter().map(|entry| entry as u64).collect())
}
