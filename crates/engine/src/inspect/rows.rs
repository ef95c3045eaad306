//! The rows of a journal record, one by one, as they lie in its streams.

use crate::buffer::row;
use crate::bytes::{COUNT_LIMIT, Cursor, Short};
use crate::journal::record::Record;

/// A row in a record.
pub struct RecordRow<'a> {
    /// Its source.
    pub source: u32,
    /// The number and layout of the block that it begins, if it does.
    pub start: Option<(u64, u32)>,
    /// Columns.
    pub columns: usize,
    /// Its codes.
    pub codes: &'a [u8],
    /// What they announce.
    pub payload: &'a [u8],
}

/// Reads the rows of a record.
pub struct Rows<'a> {
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
}

impl<'a> Rows<'a> {
    /// The rows of a record.
    pub fn new(record: &'a Record) -> Rows<'a> {
        let [_, _, widths, sources, starts, codes, payload] =
            record.streams.each_ref().map(|stream| Cursor(stream));
        let rows = record.rows;
        Rows {
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
        }
    }

    /// Whether the streams are used up, as they must be after the last row.
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

    fn row(&mut self) -> Result<RecordRow<'a>, Short> {
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
        let codes = self.codes.take(row::codes_bytes(self.width))?;
        let len = row::payload_bytes(codes, self.width, self.payload.0).map_err(|_| Short)?;
        let payload = self.payload.take(len)?;
        let start = row::is_start(codes).then(|| self.start()).transpose()?;
        Ok(RecordRow {
            source,
            start,
            columns: self.width,
            codes,
            payload,
        })
    }

    fn start(&mut self) -> Result<(u64, u32), Short> {
        let block = self.next_block.wrapping_add(self.starts.signed()? as u64);
        self.next_block = block.wrapping_add(1);
        let layout = self.starts.count(u32::MAX as usize)? as u32;
        let before = self.starts.varint()?;
        if block > COUNT_LIMIT || before > COUNT_LIMIT {
            return Err(Short);
        }
        Ok((block, layout))
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<RecordRow<'a>, Short>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rows = self.rows.checked_sub(1)?;
        let row = self.row();
        if row.is_err() {
            self.rows = 0;
        }
        Some(row)
    }
}
