//! Float columns as decimals, a dictionary, pco or raw bits, whichever is smallest.

use std::cell::RefCell;

use crate::decimals::{self, Decimals, SCALES};
use crate::dictionary::{self, Dictionary};
use crate::reader::Reader;
use crate::real::Real;
use crate::{DecodeError, Effort, binned, integers};

/// Raw bits.
const RAW: u8 = 0;
/// A pco section.
const BINNED: u8 = 1;
/// A dictionary whose entries have one of the other forms.
const DICTIONARY: u8 = 2;
/// Doubles that are exact as 32-bit floats; a column of 32-bit floats follows.
const NARROW: u8 = 3;
/// Decimals without strays; the tag is this plus the scale.
const DECIMALS: u8 = 32;
/// Decimals with strays; the tag is this plus the scale.
const STRAYS: u8 = 64;

/// Largest scale of decimals for which the encoder skips the 32-bit form.
const TIDY: u8 = 4;
/// Bytes per value up to which no other form is tried on the write path.
const ROOMY: usize = 2;

/// Shortest column for which pco is tried; in shorter ones its description of the bins costs too much.
const WORTH_BINS: usize = 16;

/// Buffers that are reused between calls.
#[derive(Default)]
struct Scratch {
    decimals: Decimals,
    dictionary: Dictionary,
    narrow: Vec<f32>,
    candidate: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Appends doubles.
pub(crate) fn encode_f64(values: &[f64], effort: Effort, out: &mut Vec<u8>) {
    SCRATCH.with_borrow_mut(|scratch| {
        let mut narrow = std::mem::take(&mut scratch.narrow);
        let tidy = scratch.decimals.find(values) && scratch.decimals.scale <= TIDY;
        if !tidy && !values.is_empty() && narrowed(values, &mut narrow) {
            out.push(NARROW);
            let found = scratch.decimals.find(&narrow);
            scratch.encode(&narrow, found, effort, out);
        } else {
            let found = tidy || scratch.decimals.find(values);
            scratch.encode(values, found, effort, out);
        }
        scratch.narrow = narrow;
    });
}

/// Appends doubles given as mantissas and scale, with the same bytes as [`encode_f64`]. Columns that
/// are certain to become plain decimals skip the search.
pub(crate) fn encode_decimals(mantissas: &[i64], scale: u8, out: &mut Vec<u8>) {
    let start = out.len();
    if scale <= TIDY && decimals::are_found(mantissas, scale) {
        out.push(DECIMALS + scale);
        integers::encode(mantissas, Effort::Fast, out);
        if out.len() - start <= mantissas.len() * ROOMY {
            return;
        }
        out.truncate(start);
    }
    let values: Vec<f64> = mantissas
        .iter()
        .map(|&mantissa| decimals::value(mantissa, scale))
        .collect();
    encode_f64(&values, Effort::Fast, out);
}

/// Appends floats of 32 bits.
pub(crate) fn encode_f32(values: &[f32], effort: Effort, out: &mut Vec<u8>) {
    SCRATCH.with_borrow_mut(|scratch| {
        let found = scratch.decimals.find(values);
        scratch.encode(values, found, effort, out);
    });
}

/// Returns whether all doubles are exact as 32-bit floats, which are then in `narrow`.
fn narrowed(values: &[f64], narrow: &mut Vec<f32>) -> bool {
    narrow.clear();
    narrow.extend(values.iter().map_while(|&value| {
        let short = value as f32;
        f64::from(short).same(value).then_some(short)
    }));
    narrow.len() == values.len()
}

impl Scratch {
    /// Appends values in the smallest form. `found` is the result of [`Decimals::find`] for them.
    fn encode<T: Real>(&mut self, values: &[T], found: bool, effort: Effort, out: &mut Vec<u8>) {
        let start = out.len();
        let Scratch {
            decimals,
            dictionary,
            candidate,
            ..
        } = self;
        encode_plain(values, found.then_some(&*decimals), effort, out);
        let roomy = out.len() - start > values.len() * ROOMY || effort == Effort::Best;
        if roomy && dictionary.collect(values.len(), values.iter().map(|value| value.bits())) {
            candidate.clear();
            candidate.push(DICTIONARY);
            dictionary.encode(effort, candidate, |entries, out| {
                let entries: Vec<T> = entries.iter().map(|&bits| T::from_bits(bits)).collect();
                let found = decimals.find(&entries);
                encode_plain(&entries, found.then_some(&*decimals), effort, out);
            });
            keep_smaller(out, start, candidate);
        }
        // On the write path, decimals of few digits are left to the integer codecs.
        let bytes = out.len() - start;
        let binned = effort == Effort::Best || bytes > values.len() * T::BYTES / 2;
        if binned && values.len() >= WORTH_BINS {
            candidate.clear();
            candidate.push(BINNED);
            if binned::encode(values, effort, candidate) {
                keep_smaller(out, start, candidate);
            }
        }
    }
}

/// Replaces the bytes from `start` on by the candidate if that is smaller.
fn keep_smaller(out: &mut Vec<u8>, start: usize, candidate: &[u8]) {
    if candidate.len() < out.len() - start {
        out.truncate(start);
        out.extend_from_slice(candidate);
    }
}

/// Appends decimals if given and not larger than the raw bits; the raw bits otherwise.
fn encode_plain<T: Real>(
    values: &[T],
    decimals: Option<&Decimals>,
    effort: Effort,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    if let Some(decimals) = decimals {
        let tag = if decimals.has_strays() {
            STRAYS
        } else {
            DECIMALS
        };
        out.push(tag + decimals.scale);
        decimals.encode(values, effort, out);
        if out.len() - start <= 1 + values.len() * T::BYTES {
            return;
        }
        out.truncate(start);
    }
    out.push(RAW);
    values.iter().for_each(|value| value.put(out));
}

/// Reads `count` doubles.
pub(crate) fn decode_f64(reader: &mut Reader<'_>, count: usize) -> Result<Vec<f64>, DecodeError> {
    match reader.byte("a codec tag")? {
        NARROW => {
            let values = decode_f32(reader, count)?;
            Ok(values.into_iter().map(f64::from).collect())
        }
        tag => decode(reader, tag, count),
    }
}

/// Reads `count` floats of 32 bits.
pub(crate) fn decode_f32(reader: &mut Reader<'_>, count: usize) -> Result<Vec<f32>, DecodeError> {
    let tag = reader.byte("a codec tag")?;
    decode(reader, tag, count)
}

fn decode<T: Real>(reader: &mut Reader<'_>, tag: u8, count: usize) -> Result<Vec<T>, DecodeError> {
    match tag {
        BINNED => binned::decode(reader, count),
        DICTIONARY => dictionary::decode(reader, count, |reader, entries| {
            let tag = reader.byte("a codec tag of entries")?;
            decode_plain(reader, tag, entries)
        }),
        _ => decode_plain(reader, tag, count),
    }
}

fn decode_plain<T: Real>(
    reader: &mut Reader<'_>,
    tag: u8,
    count: usize,
) -> Result<Vec<T>, DecodeError> {
    match tag {
        RAW => {
            let bytes = reader.take(count * T::BYTES, "raw floats")?;
            Ok(bytes.chunks_exact(T::BYTES).map(T::from_bytes).collect())
        }
        tag if (DECIMALS..DECIMALS + SCALES).contains(&tag) => {
            decimals::decode(reader, tag - DECIMALS, false, count)
        }
        tag if (STRAYS..STRAYS + SCALES).contains(&tag) => {
            decimals::decode(reader, tag - STRAYS, true, count)
        }
        tag => Err(reader.unknown("floats", tag)),
    }
}
