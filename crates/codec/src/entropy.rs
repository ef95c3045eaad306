//! Bytes through zstd, with one context per thread.
//!
//! The magic number of the frame is left out; it would be an eighth of a short section.

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::compress_bound;

use crate::reader::Reader;
use crate::{DecodeError, Effort};

/// Magic number at the start of every zstd frame.
const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// Reused zstd contexts, one per thread and effort, because they are costly to create.
struct Contexts {
    fast: Option<Compressor<'static>>,
    best: Option<Compressor<'static>>,
    reverse: Option<Decompressor<'static>>,
    frame: Vec<u8>,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> =
        const { RefCell::new(Contexts { fast: None, best: None, reverse: None, frame: Vec::new() }) };
}

/// Appends a length and the compressed bytes. Returns false and appends nothing if they exceed `limit`
/// bytes.
pub(crate) fn encode(bytes: &[u8], effort: Effort, limit: usize, out: &mut Vec<u8>) -> bool {
    CONTEXTS.with_borrow_mut(|contexts| {
        let Contexts {
            fast, best, frame, ..
        } = contexts;
        let (slot, level) = match effort {
            Effort::Fast => (fast, 1),
            Effort::Best => (best, 6),
        };
        let compressor = slot.get_or_insert_with(|| {
            let mut compressor = Compressor::new(level)
                .expect("zstd has this level; creation fails only without memory");
            compressor
                .include_contentsize(false)
                .expect("a flag of every zstd version");
            compressor
        });
        frame.clear();
        frame.reserve(compress_bound(bytes.len()));
        if compressor.compress_to_buffer(bytes, frame).is_err() {
            return false;
        }
        let body = &frame[MAGIC.len()..];
        if body.len() + 2 > limit {
            return false;
        }
        crate::varint::put_u64(body.len() as u64, out);
        out.extend_from_slice(body);
        true
    })
}

/// Reads a section into `into`. Fails unless it decompresses to exactly `length` bytes.
pub(crate) fn decode(
    reader: &mut Reader<'_>,
    into: &mut Vec<u8>,
    length: usize,
) -> Result<(), DecodeError> {
    let compressed = reader.length(usize::MAX >> 1, "a compressed section's length")?;
    let body = reader.take(compressed, "a compressed section")?;
    CONTEXTS.with_borrow_mut(|contexts| {
        let Contexts { reverse, frame, .. } = contexts;
        let decompressor = reverse.get_or_insert_with(|| {
            Decompressor::new().expect("creation fails only without memory")
        });
        frame.clear();
        frame.extend_from_slice(&MAGIC);
        frame.extend_from_slice(body);
        into.clear();
        into.resize(length, 0);
        match decompressor.decompress_to_buffer(frame, into.as_mut_slice()) {
            Ok(written) if written == length => Ok(()),
            _ => Err(reader.invalid("a compressed section is damaged or of another length")),
        }
    })
}
