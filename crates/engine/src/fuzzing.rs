//! Entry points for the fuzz targets, which are outside the crate. Each passes bytes to a decoder
//! as if their checksum were valid.
//!
//! None may panic, whatever the bytes. Where two readers of the same bytes must agree, they are
//! compared. Built with `--cfg fuzzing` only, which cargo-fuzz sets.

use crate::block::Block;
use crate::buffer::columns;
use crate::buffer::row::{self, ColumnState, TimeState};
use crate::bundle;
use crate::bytes::Cursor;
use crate::catalog::{self, Frame, ReadFrame};
use crate::dictionary::layouts::Layouts;
use crate::inspect::registry::Registry;
use crate::journal::files::{FILE_HEADER_BYTES, FileHeader};
use crate::journal::reader;
use crate::journal::record::{self, Header, JournalRecord};
use crate::journal::rows::JournalRows;
use crate::segment::footer::{self, PageEntry, TRAILER_BYTES, Trailer};
use seiner_codec::checksum;
use seiner_model::{FieldType, Interval};

/// Maximum number of sources and layouts that a small file may name. A number with a valid checksum
/// is trusted, and all lower numbers use some bytes of memory. Larger numbers are therefore not
/// tried.
const NUMBERS: u64 = 1 << 12;

/// Decodes keys and layouts, one after the other, as in catalog and journal.
pub fn names(bytes: &[u8]) {
    let mut cursor = Cursor(bytes);
    while catalog::get_key(&mut cursor).is_ok() {}
    let mut cursor = Cursor(bytes);
    let mut layouts = Layouts::new();
    while catalog::get_layout(&mut cursor, &mut layouts).is_ok() {}
}

/// Decodes the body of a frame: compressed streams of `plain` bytes, with these numbers of sources
/// and layouts.
pub fn frame(body: &[u8], plain: usize, sources: u8, layouts: u8) {
    let mut frame = Frame {
        sources: sources.into(),
        first_layout: 1,
        new_layouts: layouts.into(),
        ..Frame::default()
    };
    let read = catalog::read_streams(body, plain, &mut frame);
    let frame = ReadFrame {
        offset: 0,
        end_source: sources.into(),
        end_layout: u32::from(layouts) + 1,
        frame: read
            .map(|()| frame)
            .map_err(|_| "a frame is malformed".to_string()),
    };
    Registry::read(std::iter::once(frame), &mut |_, _| {});
}

/// Decodes the header of a journal file.
pub fn journal_header(bytes: &[u8]) {
    FileHeader::decode(bytes);
    reader::never_begun(bytes, 1);
}

/// Decodes the body of a record, including its rows.
pub fn record(body: &[u8]) {
    Header::read(body);
    let Ok(record) = JournalRecord::decode(body, 2) else {
        return;
    };
    if record.first_layout <= NUMBERS {
        let _ = Registry::new().add_record(1, &record);
    }
    JournalRows::new(&record).for_each(drop);
}

/// Decodes the rows of a buffer. Rows that a replay accepts one by one must be readable by sealing.
pub fn rows(bytes: &[u8], types: &[FieldType]) {
    let _ = columns::decode(bytes, bytes.len(), types);
    let (mut time, mut states) = (
        TimeState::default(),
        vec![ColumnState::default(); types.len()],
    );
    let (mut at, mut rows) = (0, 0);
    while let Some(codes) = bytes.get(at..at + row::codes_bytes(types.len())) {
        let payload = &bytes[at + codes.len()..];
        let Ok(len) = row::payload_bytes(codes, types.len(), payload) else {
            break;
        };
        let end = at + codes.len() + len;
        let before = time;
        if row::follow(&bytes[..end], at, types, &mut time, &mut states).is_err() {
            time = before;
            break;
        }
        (at, rows) = (end, rows + 1);
    }
    let columns = columns::decode(&bytes[..at], rows, types).expect("a replay took in every row");
    assert_eq!(columns.times.len(), rows);
    assert_eq!(columns.times.last().copied().unwrap_or(0), time.last);
}

/// Decodes a block without its checksum, with the columns of a layout.
pub fn block(bytes: &[u8], types: &[FieldType]) {
    let Ok(block) = Block::parse(bytes) else {
        return;
    };
    let _ = block.summaries(types.len(), Interval::ALL);
    let shape = block.shape(types.len());
    if let (Ok((times, fields)), Ok(shape)) = (block.columns(types, |_| true), shape) {
        assert_eq!(times.len(), block.rows);
        for (field, shape) in fields.into_iter().flatten().zip(shape.columns) {
            assert_eq!(field.values.len(), shape.values);
            crate::block::summary_of(&times, &field);
        }
    }
}

/// Decodes a footer page without its checksum: the compressed page, and `bytes` as its contents.
pub fn page(bytes: &[u8]) {
    let _ = footer::parse_page(bytes);
    let _ = footer::parse_entries(bytes);
}

/// Decodes a sparse index. Returns the number of its pages.
pub fn sparse_index(bytes: &[u8]) -> usize {
    footer::parse_sparse_index(bytes).len()
}

/// Decodes the trailer of a segment of `len` bytes.
pub fn trailer(bytes: &[u8], len: u64) {
    let Some(bytes) = bytes.first_chunk::<TRAILER_BYTES>() else {
        return;
    };
    let mut bytes = *bytes;
    seal(&mut bytes, TRAILER_BYTES - 4, 0..TRAILER_BYTES - 4);
    let _ = Trailer::decode(&bytes, len);
}

/// Corrects the checksums of a store's file, so that the decoders behind the checksums are reached.
pub fn mend(file: &str, bytes: &mut [u8]) {
    match crate::inspect::FileKind::of(file) {
        crate::inspect::FileKind::Catalog => mend_catalog(bytes),
        crate::inspect::FileKind::Journal => mend_journal(bytes),
        crate::inspect::FileKind::Segment => {
            mend_segment(bytes);
        }
        _ => {}
    }
}

/// Writes the checksum of `covered` to `at`, if both are within the bytes.
fn seal(bytes: &mut [u8], at: usize, covered: std::ops::Range<usize>) -> Option<()> {
    let sum = checksum(bytes.get(covered)?);
    bytes
        .get_mut(at..at.checked_add(4)?)?
        .copy_from_slice(&sum.to_le_bytes());
    Some(())
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Cursor(bytes.get(at..)?)
        .u32()
        .ok()
        .map(|word| word as usize)
}

fn mend_catalog(bytes: &mut [u8]) {
    let mut at = catalog::header_bytes(bytes);
    seal(bytes, at - 4, 0..at - 4);
    while let Some(end) = mend_frame(bytes, at) {
        at = end;
    }
}

fn mend_frame(bytes: &mut [u8], at: usize) -> Option<usize> {
    let body = at + catalog::FRAME_HEADER_BYTES;
    let end = body + word(bytes, at + 4)?;
    for count in 0..4 {
        if word(bytes, at + 16 + 4 * count)? as u64 > NUMBERS {
            return None;
        }
    }
    seal(bytes, at + 12, body..end)?;
    seal(bytes, body - 4, at..body - 4)?;
    Some(end)
}

fn mend_journal(bytes: &mut [u8]) {
    let header = FILE_HEADER_BYTES as usize;
    seal(bytes, header - 4, 0..header - 4);
    let mut at = header;
    while let Some(end) = mend_record(bytes, at) {
        at = end;
    }
}

fn mend_record(bytes: &mut [u8], at: usize) -> Option<usize> {
    let header = Header::read(bytes.get(at..)?)?;
    let body = at + record::HEADER_BYTES;
    let end = body + header.body;
    let read = JournalRecord::decode(bytes.get(body..end)?, 2);
    if read.is_ok_and(|read| read.first_source.max(read.first_layout) > NUMBERS) {
        return None;
    }
    seal(bytes, at, at + 4..end)?;
    // Blank space is not a record.
    (header.body > 0).then_some(end)
}

fn mend_segment(bytes: &mut [u8]) -> Option<()> {
    let at = bytes.len().checked_sub(TRAILER_BYTES)?;
    let trailer = Trailer::parse(&bytes[at..at + TRAILER_BYTES - 4]).ok()?;
    if u64::from(trailer.sources.max(trailer.layouts)) > NUMBERS {
        return None;
    }
    let sparse_index_at = usize::try_from(trailer.sparse_index_offset).ok()?;
    let sparse_index_end = sparse_index_at.checked_add(trailer.sparse_index_len as usize)?;
    for (index, page) in footer::parse_sparse_index(bytes.get(sparse_index_at..sparse_index_end)?)
        .into_iter()
        .enumerate()
    {
        mend_page(bytes, &page, sparse_index_at + 16 * index + 12);
    }
    seal(
        bytes,
        at + TRAILER_BYTES - 8,
        sparse_index_at..sparse_index_end,
    )?;
    seal(bytes, at + TRAILER_BYTES - 4, at..at + TRAILER_BYTES - 4)
}

/// Corrects the checksums of a page's blocks, and the page's checksum at `sum`.
fn mend_page(bytes: &mut [u8], page: &PageEntry, sum: usize) -> Option<()> {
    let covered = page.offset as usize..page.offset as usize + page.len as usize;
    for entry in footer::parse_page(bytes.get(covered.clone())?).ok()? {
        let at = entry.offset as usize;
        let end = match entry.is_bundled() {
            // Only the header of a bundle is covered; directory and chunks have checksums of their own.
            true => at + bundle::HEADER_BYTES,
            false => at + entry.len as usize,
        };
        seal(bytes, at, at + 4..end);
    }
    seal(bytes, sum, covered)
}
