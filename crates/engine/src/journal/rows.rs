//! Rows of a journal record, decoded one by one. Recovery, checks and inspection share this
//! decoder.

use super::record::JournalRecord;
use crate::buffer::{row, slab};
use crate::bytes::{COUNT_LIMIT, Cursor, Short};

/// Maximum bytes of the rows of a block: the largest slot, less the space that a replay needs after
/// a row.
const BLOCK_LIMIT: usize = slab::LARGEST - 8;
/// Maximum number of rows in a block.
const BLOCK_ROWS: u64 = u16::MAX as u64;

/// Returns whether a block of this many bytes and rows is too large for any buffer.
pub fn is_too_large(bytes: usize, rows: u64) -> bool {
    bytes > BLOCK_LIMIT || rows > BLOCK_ROWS
}

/// Source and number of columns of a row.
#[derive(Clone, Copy)]
pub struct Head {
    /// Number of the source.
    pub source: u32,
    /// Number of columns.
    pub columns: usize,
}

/// Start of a block, at the row that begins it.
#[derive(Clone, Copy)]
pub struct BlockStart {
    /// Number of the block.
    pub block: u64,
    /// Number of the layout of the block. The layout may be unknown.
    pub layout: u32,
    /// Rows of the source before the block.
    pub before: u64,
}

/// Row of a record.
pub struct RecordRow<'a> {
    /// Number of the source.
    pub source: u32,
    /// Start of the block, if the row begins a block.
    pub start: Option<BlockStart>,
    /// Number of columns.
    pub columns: usize,
    /// Codes of the row.
    pub codes: &'a [u8],
    /// Payload that the codes announce.
    pub payload: &'a [u8],
}

/// Iterator over the rows of a record.
#[derive(Clone)]
pub struct JournalRows<'a> {
    widths: Cursor<'a>,
    sources: Cursor<'a>,
    starts: Cursor<'a>,
    codes: Cursor<'a>,
    payload: Cursor<'a>,
    rows: u64,
    width: usize,
    width_rows: u64,
    next_source: i64,
    next_block: u64,
    /// Head of a row that was begun and not ended.
    begun: Option<Head>,
}

impl<'a> JournalRows<'a> {
    /// Creates an iterator over the rows of a record.
    pub fn new(record: &'a JournalRecord) -> JournalRows<'a> {
        let [_, _, widths, sources, starts, codes, payload] =
            record.streams.each_ref().map(|stream| Cursor(stream));
        let rows = record.rows;
        JournalRows {
            widths,
            sources,
            starts,
            codes,
            payload,
            rows,
            width: 0,
            width_rows: 0,
            next_source: 0,
            next_block: 0,
            begun: None,
        }
    }

    /// Returns whether the streams are used up, as required after the last row.
    pub fn is_at_end(&self) -> bool {
        let streams = [
            &self.widths,
            &self.sources,
            &self.starts,
            &self.codes,
            &self.payload,
        ];
        self.width_rows == 0 && streams.iter().all(|stream| stream.is_empty())
    }

    /// Begins the next row, unless it was begun before. Returns `None` after the last row. [`JournalRows::number`] or
    /// [`JournalRows::rest`] ends the row.
    ///
    /// # Errors
    /// [`Short`] if the streams are malformed.
    #[inline]
    pub fn head(&mut self) -> Result<Option<Head>, Short> {
        if self.begun.is_some() {
            return Ok(self.begun);
        }
        let Some(rows) = self.rows.checked_sub(1) else {
            return Ok(None);
        };
        self.rows = rows;
        if self.width_rows == 0 {
            self.width = self.widths.count(crate::MAX_FIELDS)?;
            self.width_rows = self.widths.varint()?;
        }
        self.width_rows = self.width_rows.checked_sub(1).ok_or(Short)?;
        let source = self
            .next_source
            .checked_add(self.sources.signed()?)
            .ok_or(Short)?;
        let source = u32::try_from(source).map_err(|_| Short)?;
        self.next_source = i64::from(source) + 1;
        let columns = self.width;
        self.begun = Some(Head { source, columns });
        Ok(self.begun)
    }

    /// Ends a row of one column if `take` accepts its codes. `take` receives the codes and all
    /// payload from the row on, and returns the length of the row's payload.
    ///
    /// # Errors
    /// [`Short`] if the payload is shorter.
    #[inline]
    pub fn number(&mut self, take: impl FnOnce(u8, &[u8]) -> Option<usize>) -> Result<bool, Short> {
        let Some(&codes) = self.codes.0.first() else {
            return Ok(false);
        };
        let Some(len) = take(codes, self.payload.0) else {
            return Ok(false);
        };
        self.begun = None;
        self.codes.take(1)?;
        self.payload.take(len)?;
        Ok(true)
    }

    /// Ends a row.
    ///
    /// # Errors
    /// [`Short`] if the streams are malformed.
    pub fn rest(&mut self, head: Head) -> Result<RecordRow<'a>, Short> {
        self.begun = None;
        let Head { source, columns } = head;
        let codes = self.codes.take(row::codes_bytes(columns))?;
        let len = row::payload_bytes(codes, columns, self.payload.0).map_err(|_| Short)?;
        let payload = self.payload.take(len)?;
        let start = row::is_start(codes).then(|| self.start()).transpose()?;
        Ok(RecordRow {
            source,
            start,
            columns,
            codes,
            payload,
        })
    }

    fn start(&mut self) -> Result<BlockStart, Short> {
        let block = self.next_block.wrapping_add(self.starts.signed()? as u64);
        self.next_block = block.wrapping_add(1);
        let layout = self.starts.count(u32::MAX as usize)? as u32;
        let before = self.starts.varint()?;
        if block > COUNT_LIMIT || before > COUNT_LIMIT {
            return Err(Short);
        }
        Ok(BlockStart {
            block,
            layout,
            before,
        })
    }
}

impl<'a> Iterator for JournalRows<'a> {
    type Item = Result<RecordRow<'a>, Short>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = match self.head() {
            Ok(Some(head)) => self.rest(head),
            Ok(None) => return None,
            Err(Short) => Err(Short),
        };
        if row.is_err() {
            self.rows = 0;
        }
        Some(row)
    }
}
