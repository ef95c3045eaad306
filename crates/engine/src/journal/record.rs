//! Records: the unit of writing to the journal. A record is read back completely or not at all.
//!
//! `docs/format/journal.md` specifies the bytes.

use super::staging::Staging;
use crate::bytes::{COUNT_LIMIT, Cursor, Short};
use seiner_codec::{checksum, varint};

/// Bytes of a record header: checksum, length, file number, sequence, lowest sequence that was not
/// yet durable. The same number of zeros after the last record marks the end, and the next record
/// overwrites them. Any other bytes there are a torn or damaged record.
pub const HEADER_BYTES: usize = 4 + 4 + 4 + 8 + 8;
/// Maximum bytes of a body. Longer bodies are damage, because staged rows are cut into much smaller
/// records.
pub const BODY_LIMIT: usize = 64 << 20;
/// Minimum bytes of a stream that is compressed.
const COMPRESS_FROM: usize = 64;
/// Compression level: the fastest level that codes literals by their frequency. The codes and
/// payloads of gauges contain no repeats, only a skewed distribution of bytes.
const LEVEL: i32 = 1;

/// Encoder of staged rows into records.
pub struct Encoder {
    compressor: zstd::bulk::Compressor<'static>,
}

impl Encoder {
    /// Creates an encoder.
    pub fn new() -> Encoder {
        Encoder {
            compressor: zstd::bulk::Compressor::new(LEVEL).expect("level 1 exists"),
        }
    }

    /// Appends a record of all staged rows, and an end mark.
    pub fn encode(&mut self, staging: &mut Staging, position: RecordPosition, out: &mut Vec<u8>) {
        staging.end_width();
        staging.names.append(&mut staging.reused);
        let start = out.len();
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&position.file.to_le_bytes());
        out.extend_from_slice(&position.sequence.to_le_bytes());
        out.extend_from_slice(&position.synced_before.to_le_bytes());
        let counts = [
            staging.first_source,
            staging.new_sources,
            staging.first_layout,
            staging.new_layouts,
            staging.rows,
            position.rows_before,
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

    /// Appends a stream: plain length, stored length (0 if stored uncompressed), bytes.
    fn stream(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        varint::put_u64(bytes.len() as u64, out);
        if bytes.len() >= COMPRESS_FROM {
            let packed = self
                .compressor
                .compress(bytes)
                .expect("zstd allocates a large enough output buffer");
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

/// Position of a record in the journal.
#[derive(Clone, Copy)]
pub struct RecordPosition {
    /// Number of the file that the record belongs to. A reused file still contains records of older
    /// numbers.
    pub file: u32,
    /// Sequence number, which increases by one from record to record.
    pub sequence: u64,
    /// Sequence below which all records were durable when this record was written. A power cut may
    /// have removed any record from this sequence up to the record's own.
    pub synced_before: u64,
    /// Rows in all earlier records. This number is in the body, so it is 0 if only the header was
    /// read.
    pub rows_before: u64,
}

/// Decoded header of a record.
pub struct Header {
    /// Length of the body.
    pub body: usize,
    pub position: RecordPosition,
    sum: u32,
}

impl Header {
    /// Decodes a header. Returns `None` if no record begins here.
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let mut cursor = Cursor(bytes);
        let sum = cursor.u32().ok()?;
        let body = cursor.u32().ok()? as usize;
        let position = RecordPosition {
            file: cursor.u32().ok()?,
            sequence: cursor.u64().ok()?,
            synced_before: cursor.u64().ok()?,
            rows_before: 0,
        };
        (body <= BODY_LIMIT).then_some(Header {
            body,
            position,
            sum,
        })
    }

    /// Returns whether `record`, which is header and body, matches the checksum.
    pub fn holds(&self, record: &[u8]) -> bool {
        record.len() == HEADER_BYTES + self.body && checksum(&record[4..]) == self.sum
    }
}

/// Decoded record.
#[derive(Default)]
pub struct JournalRecord {
    /// Number of the first new source.
    pub first_source: u64,
    /// Number of new sources.
    pub new_sources: u64,
    /// Number of the first new layout.
    pub first_layout: u64,
    /// Number of new layouts.
    pub new_layouts: u64,
    /// Number of rows.
    pub rows: u64,
    /// Rows in all earlier records of the store. `None` in files of version 1.
    pub rows_before: Option<u64>,
    /// Streams, in the order of the fields of [`Staging`].
    pub streams: [Vec<u8>; 7],
}

impl JournalRecord {
    /// Decodes a body with a valid checksum, in a file of the given version.
    pub fn decode(body: &[u8], version: u32) -> Result<JournalRecord, Short> {
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
        Ok(JournalRecord {
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
