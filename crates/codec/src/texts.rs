//! Text columns: a dictionary of the distinct texts and indices, or all texts end to end.
//!
//! Lengths and characters are stored apart. The characters go through zstd if that is smaller.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use seiner_model::Strings;

use crate::reader::Reader;
use crate::varint::put_u64;
use crate::{DecodeError, Effort, entropy, integers};

/// All texts, end to end.
const PLAIN: u8 = 0;
/// Distinct texts in the order of their first occurrence, and indices.
const DICTIONARY: u8 = 1;
/// Bit of the tag: the characters are compressed with zstd.
const COMPRESSED: u8 = 2;

/// Longest text of a dictionary in bytes. Limits the expansion of a short section.
const MAX_ENTRY: usize = 65_535;
/// Largest ratio of text to compressed section, beyond [`ALLOWANCE`] bytes. Limits the expansion.
const MAX_RATIO: usize = 256;
const ALLOWANCE: usize = 1 << 20;

/// Appends texts.
pub(crate) fn encode(texts: &Strings, effort: Effort, out: &mut Vec<u8>) {
    match distinct(texts) {
        Some((entries, indices)) => {
            let tag = out.len();
            out.push(DICTIONARY);
            put_u64(entries.len() as u64, out);
            out[tag] |= encode_all(&entries, effort, out);
            integers::encode(&indices, effort, out);
        }
        None => {
            let tag = out.len();
            out.push(PLAIN);
            out[tag] |= encode_all(texts, effort, out);
        }
    }
}

/// Returns the distinct texts and each text's index; `None` if more than half are distinct or a text is
/// too long.
fn distinct(texts: &Strings) -> Option<(Strings, Vec<i64>)> {
    let most = texts.len() / 2;
    let mut places = HashMap::with_hasher(RandomState::default());
    let mut entries: Vec<&str> = Vec::new();
    let mut indices = Vec::with_capacity(texts.len());
    for index in 0..texts.len() {
        let text = texts.get(index);
        let next = entries.len();
        let place = *places.entry(text).or_insert(next);
        if place == next {
            if next == most || text.len() > MAX_ENTRY {
                return None;
            }
            entries.push(text);
        }
        indices.push(place as i64);
    }
    if texts.is_empty() {
        return None;
    }
    let mut found = Strings::default();
    entries.into_iter().for_each(|text| found.push(text));
    Some((found, indices))
}

/// Appends lengths and characters; returns the bits to add to the tag.
fn encode_all(texts: &Strings, effort: Effort, out: &mut Vec<u8>) -> u8 {
    let starts = std::iter::once(&0).chain(&texts.ends);
    let lengths: Vec<i64> = texts
        .ends
        .iter()
        .zip(starts)
        .map(|(end, start)| i64::from(end - start))
        .collect();
    integers::encode(&lengths, effort, out);
    let start = out.len();
    if entropy::encode(&texts.bytes, effort, texts.bytes.len(), out) {
        if texts.bytes.len() <= ALLOWANCE + MAX_RATIO * (out.len() - start) {
            return COMPRESSED;
        }
        out.truncate(start);
    }
    out.extend_from_slice(&texts.bytes);
    0
}

/// Reads `count` texts of at most `most` bytes together.
pub(crate) fn decode(
    reader: &mut Reader<'_>,
    count: usize,
    most: u32,
) -> Result<Strings, DecodeError> {
    let tag = reader.byte("a codec tag")?;
    let compressed = tag & COMPRESSED != 0;
    match tag & !COMPRESSED {
        PLAIN => decode_all(reader, count, compressed, most),
        DICTIONARY => {
            let entries =
                reader.length(count, "a dictionary has more entries than the column texts")?;
            let entries = decode_all(reader, entries, compressed, most)?;
            integers::decode_with(reader, count, |indices| expand(&entries, indices, most))?
                .ok_or_else(|| reader.invalid("an index or a text exceeds the dictionary's bounds"))
        }
        _ => Err(reader.unknown("texts", tag)),
    }
}

/// Returns the texts that the indices refer to; `None` if a bound is exceeded.
fn expand(entries: &Strings, indices: &[i64], most: u32) -> Option<Strings> {
    let mut total = 0u64;
    for &index in indices {
        let length = entries
            .get(
                usize::try_from(index)
                    .ok()
                    .filter(|&index| index < entries.len())?,
            )
            .len();
        total += length as u64;
        if length > MAX_ENTRY || total > u64::from(most) {
            return None;
        }
    }
    let mut texts = Strings {
        ends: Vec::with_capacity(indices.len()),
        bytes: Vec::with_capacity(total as usize),
    };
    indices
        .iter()
        .for_each(|&index| texts.push(entries.get(index as usize)));
    Some(texts)
}

fn decode_all(
    reader: &mut Reader<'_>,
    count: usize,
    compressed: bool,
    most: u32,
) -> Result<Strings, DecodeError> {
    let ends = integers::decode_with(reader, count, sums)?
        .filter(|ends| ends.last().is_none_or(|&end| end <= most))
        .ok_or_else(|| reader.invalid("texts' lengths are negative or exceed the limit"))?;
    let total = ends.last().map_or(0, |&end| end as usize);
    let mut bytes = Vec::new();
    if compressed {
        if total > ALLOWANCE.saturating_add(reader.rest().len().saturating_mul(MAX_RATIO)) {
            return Err(reader.invalid("texts are too long for their compressed section"));
        }
        entropy::decode(reader, &mut bytes, total)?;
    } else {
        bytes.extend_from_slice(reader.take(total, "texts")?);
    }
    let text = str::from_utf8(&bytes).map_err(|_| reader.invalid("a text is not UTF-8"))?;
    if !ends.iter().all(|&end| text.is_char_boundary(end as usize)) {
        return Err(reader.invalid("a text ends within a character"));
    }
    Ok(Strings { ends, bytes })
}

/// Returns the ends of texts with these lengths; `None` if a length is negative or the sum too large.
fn sums(lengths: &[i64]) -> Option<Vec<u32>> {
    let mut end = 0u32;
    lengths
        .iter()
        .map(|&length| {
            end = end.checked_add(u32::try_from(length).ok()?)?;
            Some(end)
        })
        .collect()
}
