//! Records: what is written to the journal at once, and read back whole or not at all.
//!
//! `docs/format/journal.md` has the bytes.

use super::staging::Staging;
use crate::bytes::{COUNT_LIMIT, Cursor, Short};
use seiner_codec::{checksum, varint};

/// Checksum, length, file number, sequence, next to be synced. As many zeros behind the last record mark
/// the end, which the next record overwrites: other bytes there are a record that was torn or damaged.
pub const HEADER_BYTES: usize = 4 + 4 + 4 + 8 + 8;
/// Longer bodies are damage: staging is cut into records long before.
pub const BODY_LIMIT: usize = 64 << 20;
/// Shorter streams are not worth compressing.
const COMPRESS_FROM: usize = 64;
/// The fastest level that codes literals by their frequency: what is left of gauges in codes and
/// payloads has no repeats to find, only skewed bytes.
const LEVEL: i32 = 1;

/// Turns staged rows into records.
pub struct Encoder {
    compressor: zstd::bulk::Compressor<'static>,
}

impl Encoder {
    /// An encoder.
    pub fn new() -> Encoder {
        Encoder {
            compressor: zstd::bulk::Compressor::new(LEVEL).expect("level 1 exists"),
        }
    }

    /// Appends a record with all that is staged, and an end mark.
    pub fn encode(&mut self, staging: &mut Staging, place: Place, out: &mut Vec<u8>) {
        staging.end_width();
        let start = out.len();
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&place.file.to_le_bytes());
        out.extend_from_slice(&place.sequence.to_le_bytes());
        out.extend_from_slice(&place.synced_before.to_le_bytes());
        let counts = [
            staging.first_source,
            staging.new_sources,
            staging.first_layout,
            staging.new_layouts,
            staging.rows,
            place.rows_before,
        ];
        counts.iter().for_each(|&count| varint::put_u64(count, out));
        for stream in [
            &staging.names,
            &staging.layouts,
            &staging.widths,
            &staging.sources,
            &staging.starts,
            &staging.codes,
            &staging.payload,
        ] {
            self.stream(stream, out);
        }
        let body = (out.len() - start - HEADER_BYTES) as u32;
        out[start + 4..start + 8].copy_from_slice(&body.to_le_bytes());
        let sum = checksum(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&[0; HEADER_BYTES]);
    }

    /// Plain length, stored length (0: stored plainly), bytes.
    fn stream(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        varint::put_u64(bytes.len() as u64, out);
        if bytes.len() >= COMPRESS_FROM {
            let packed = self
                .compressor
                .compress(bytes)
                .expect("zstd compresses into a buffer of its own");
            if packed.len() < bytes.len() {
                varint::put_u64(packed.len() as u64, out);
                out.extend_from_slice(&packed);
                return;
            }
        }
        varint::put_u64(0, out);
        out.extend_from_slice(bytes);
    }
}

/// Where a record stands in the journal.
#[derive(Clone, Copy)]
pub struct Place {
    /// The file it is written for: a file that is written over still holds older records.
    pub file: u32,
    /// Counts up from record to record.
    pub sequence: u64,
    /// Records with lower sequences were on disk when it was written. Of those between, a power cut may
    /// have taken any.
    pub synced_before: u64,
    /// Rows in all records before it. It stands in the body; 0 where only the header was read.
    pub rows_before: u64,
}

/// A record's header as it was read.
pub struct Header {
    /// The body's length.
    pub body: usize,
    pub place: Place,
    sum: u32,
}

impl Header {
    /// Reads a header; `None` where no record can begin.
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let mut cursor = Cursor(bytes);
        let sum = cursor.u32().ok()?;
        let body = cursor.u32().ok()? as usize;
        let place = Place {
            file: cursor.u32().ok()?,
            sequence: cursor.u64().ok()?,
            synced_before: cursor.u64().ok()?,
            rows_before: 0,
        };
        (body <= BODY_LIMIT).then_some(Header { body, place, sum })
    }

    /// Whether header and body, `record`, are what was written.
    pub fn holds(&self, record: &[u8]) -> bool {
        record.len() == HEADER_BYTES + self.body && checksum(&record[4..]) == self.sum
    }
}

/// A record's streams.
pub struct Record {
    /// The first new source's number.
    pub first_source: u64,
    /// How many there are.
    pub new_sources: u64,
    /// The first new layout's number.
    pub first_layout: u64,
    /// How many there are.
    pub new_layouts: u64,
    /// Rows.
    pub rows: u64,
    /// Rows in all records before it, ever; none in files of version 1.
    pub rows_before: Option<u64>,
    /// The streams, in the order of [`Staging`]'s fields.
    pub streams: [Vec<u8>; 7],
}

impl Record {
    /// Reads a body whose checksum held, in a file of a version.
    pub fn decode(body: &[u8], version: u32) -> Result<Record, Short> {
        let mut cursor = Cursor(body);
        let first_source = cursor.varint()?;
        let new_sources = cursor.varint()?;
        let first_layout = cursor.varint()?;
        let new_layouts = cursor.varint()?;
        let rows = cursor.varint()?;
        let rows_before = match version {
            1 => None,
            _ => Some(cursor.varint()?).filter(|&before| before <= COUNT_LIMIT),
        };
        let mut streams: [Vec<u8>; 7] = Default::default();
        for stream in &mut streams {
            let plain = cursor.count(BODY_LIMIT)?;
            let stored = cursor.count(body.len())?;
            *stream = if stored == 0 {
                cursor.take(plain)?.to_vec()
            } else {
                zstd::bulk::decompress(cursor.take(stored)?, plain).map_err(|_| Short)?
            };
            if stream.len() != plain {
                return Err(Short);
            }
        }
        if !cursor.is_empty() {
            return Err(Short);
        }
        Ok(Record {
            first_source,
            new_sources,
            first_layout,
            new_layouts,
            rows,
            rows_before,
            streams,
        })
    }
}
