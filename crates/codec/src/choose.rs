//! Columns of any type. Each goes to the codecs of its type, which choose the smallest form.

use std::cell::RefCell;

use seiner_model::{Column, FieldType, Strings};

use crate::reader::{Reader, consume};
use crate::{DecodeError, booleans, dictionary, floats, integers, texts};

/// Effort spent on a smaller encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effort {
    /// For the write path: a few nanoseconds per value for decimals and integers.
    Fast,
    /// For rewriting: also tries the forms that rarely pay, and the highest level of each.
    Best,
}

/// Integers as differences.
const INTEGERS: u8 = 0;
/// Dictionary of integers.
const DICTIONARY: u8 = 1;

/// Appends the values of a column. The caller stores their type and count.
pub fn encode_column(values: &Column, effort: Effort, out: &mut Vec<u8>) {
    match values {
        Column::F64(values) => floats::encode_f64(values, effort, out),
        Column::F32(values) => floats::encode_f32(values, effort, out),
        Column::I64(values) => encode_integers(values, effort, out),
        Column::U64(values) => encode_unsigned(values, effort, out),
        Column::Bool(values) => booleans::encode(values, out),
        Column::Str(values) => texts::encode(values, effort, out),
    }
}

/// Appends the doubles `mantissas[i] / 10^scale`. The bytes equal those of [`encode_column`] at
/// [`Effort::Fast`] but take less time.
///
/// Mantissas are below 2^53 by magnitude, `scale` is at most 22.
pub fn encode_decimals(mantissas: &[i64], scale: u8, out: &mut Vec<u8>) {
    floats::encode_decimals(mantissas, scale, out);
}

/// Reads a column of `count` values.
///
/// # Errors
/// The bytes are not the encoding of a column of that type and count.
pub fn decode_column(
    bytes: &mut &[u8],
    field_type: FieldType,
    count: usize,
) -> Result<Column, DecodeError> {
    consume(bytes, count, |reader| {
        Ok(match field_type {
            FieldType::F64 => Column::F64(floats::decode_f64(reader, count)?),
            FieldType::F32 => Column::F32(floats::decode_f32(reader, count)?),
            FieldType::I64 => Column::I64(decode_integers(reader, count, |value| value)?),
            FieldType::U64 => Column::U64(decode_integers(reader, count, |value| value as u64)?),
            FieldType::Bool => Column::Bool(booleans::decode(reader, count)?),
            FieldType::Str => Column::Str(texts::decode(reader, count, u32::MAX)?),
        })
    })
}

/// Reads `count` texts of at most `most` bytes together, as encoded by [`encode_column`].
///
/// # Errors
/// The bytes are not the encoding of a column of texts with that count, or the texts have more bytes.
pub fn decode_texts(bytes: &mut &[u8], count: usize, most: u32) -> Result<Strings, DecodeError> {
    consume(bytes, count, |reader| texts::decode(reader, count, most))
}

/// Appends unsigned integers as the signed integers with the same bits. Differences wrap, so this is
/// lossless.
fn encode_unsigned(values: &[u64], effort: Effort, out: &mut Vec<u8>) {
    thread_local! {
        static SIGNED: RefCell<Vec<i64>> = const { RefCell::new(Vec::new()) };
    }
    SIGNED.with_borrow_mut(|signed| {
        signed.clear();
        signed.extend(values.iter().map(|&value| value as i64));
        encode_integers(signed, effort, out);
    });
}

fn encode_integers(values: &[i64], effort: Effort, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(INTEGERS);
    integers::encode(values, effort, out);
    // With at most two bytes a value, the entries of a dictionary leave little to gain.
    if out.len() - start > values.len() * 2 || effort == Effort::Best {
        let mut dictionary = dictionary::Dictionary::default();
        if dictionary.collect(values.len(), values.iter().map(|&value| value as u64)) {
            let mut candidate = vec![DICTIONARY];
            dictionary.encode(effort, &mut candidate, |entries, out| {
                let entries: Vec<i64> = entries.iter().map(|&bits| bits as i64).collect();
                integers::encode(&entries, effort, out);
            });
            if candidate.len() < out.len() - start {
                out.truncate(start);
                out.extend_from_slice(&candidate);
            }
        }
    }
}

fn decode_integers<T: Copy>(
    reader: &mut Reader<'_>,
    count: usize,
    convert: impl Fn(i64) -> T,
) -> Result<Vec<T>, DecodeError> {
    match reader.byte("a codec tag")? {
        INTEGERS => integers::decode_with(reader, count, |values| {
            values.iter().map(|&value| convert(value)).collect()
        }),
        DICTIONARY => dictionary::decode(reader, count, |reader, count| {
            integers::decode_with(reader, count, |values| {
                values.iter().map(|&value| convert(value)).collect()
            })
        }),
        found => Err(reader.unknown("integers", found)),
    }
}
