//! Staging: accepted rows that are not yet written to the journal, in columns.

use crate::buffer::row::{Coded, put_word};
use crate::buffer::run::{self, Encoded};
use seiner_codec::varint;
use seiner_model::SourceId;

/// Bytes of memory that a stream keeps for the next record.
const KEPT: usize = 1 << 20;

/// Start of a block, stored with the row that begins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Number of the block.
    pub block: u64,
    /// Number of the layout of the block.
    pub layout: u32,
    /// Rows of the source before the block, since the source was registered.
    pub before: u64,
}

/// Rows and registrations for the next record. Each stream is separate because each compresses
/// differently: codes hardly change, and source numbers mostly count up.
#[derive(Default)]
pub struct Staging {
    /// Keys of new sources, in the order of their numbers.
    pub names: Vec<u8>,
    /// Sources with the number of a forgotten one: number and key. They follow the names in the
    /// record.
    pub reused: Vec<u8>,
    /// New layouts: parent, field, type.
    pub layouts: Vec<u8>,
    /// Pairs (columns, rows), one for each run of rows with the same number of columns.
    pub widths: Vec<u8>,
    /// Source of each row, as distance from the number after the source of the previous row.
    pub sources: Vec<u8>,
    /// Starts of blocks: the number of the block as distance, and its layout, for each row that
    /// begins a block.
    pub starts: Vec<u8>,
    /// Codes of the rows.
    pub codes: Vec<u8>,
    /// Payloads of the rows.
    pub payload: Vec<u8>,
    /// Number of new sources.
    pub new_sources: u64,
    /// Number of the first new source.
    pub first_source: u64,
    /// Number of new layouts.
    pub new_layouts: u64,
    /// Number of the first new layout.
    pub first_layout: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of values in the rows.
    pub samples: u64,
    /// Time at which the oldest row was accepted, in monotonic ns of the clock.
    pub since: u64,
    width: usize,
    width_rows: u64,
    next_source: u32,
    next_block: u64,
}

impl Staging {
    /// Returns whether nothing is staged.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 && self.new_sources == 0 && self.new_layouts == 0 && self.reused.is_empty()
    }

    fn streams(&self) -> [&Vec<u8>; 8] {
        [
            &self.names,
            &self.reused,
            &self.layouts,
            &self.widths,
            &self.sources,
            &self.starts,
            &self.codes,
            &self.payload,
        ]
    }

    /// Returns the staged bytes.
    pub fn bytes(&self) -> usize {
        self.streams().iter().map(|stream| stream.len()).sum()
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.streams().iter().map(|stream| stream.capacity()).sum()
    }

    /// Clears all streams and keeps as much memory as the usual record needs.
    pub fn clear(&mut self) {
        let mut kept = std::mem::take(self);
        for stream in kept.streams_mut() {
            stream.clear();
            stream.shrink_to(KEPT);
        }
        *self = Staging {
            names: kept.names,
            reused: kept.reused,
            layouts: kept.layouts,
            widths: kept.widths,
            sources: kept.sources,
            starts: kept.starts,
            codes: kept.codes,
            payload: kept.payload,
            ..Staging::default()
        };
    }

    fn streams_mut(&mut self) -> [&mut Vec<u8>; 8] {
        [
            &mut self.names,
            &mut self.reused,
            &mut self.layouts,
            &mut self.widths,
            &mut self.sources,
            &mut self.starts,
            &mut self.codes,
            &mut self.payload,
        ]
    }

    /// Adds a row of one number: its codes and their payload.
    #[inline(always)]
    pub fn number(&mut self, source: u32, start: Option<Start>, (time, value): (Coded, Coded)) {
        self.place(source, 1, start);
        self.codes.push(run::codes(time, value));
        if time.bytes != 0 {
            put_word(time, &mut self.payload);
        }
        put_word(value, &mut self.payload);
    }

    /// Adds a run of rows of one number. None of them begins a block.
    pub fn run(&mut self, sources: &[SourceId], encoded: &Encoded) {
        if sources.is_empty() {
            return;
        }
        self.widen(1, sources.len());
        let next = self.next_source;
        let last = sources[sources.len() - 1].0;
        // Consecutive source numbers are encoded as zeros.
        let differing = sources
            .iter()
            .zip(next..)
            .fold(0, |all, (source, next)| all | (source.0 ^ next));
        if differing == 0 {
            self.sources.resize(self.sources.len() + sources.len(), 0);
            self.next_source = last.wrapping_add(1);
        } else {
            sources.iter().for_each(|source| self.step(source.0));
        }
        self.codes.extend_from_slice(encoded.codes());
        self.payload.extend_from_slice(encoded.payload());
    }

    /// Adds a row. `start` describes the block if the row begins a block.
    #[inline]
    pub fn row(
        &mut self,
        source: u32,
        columns: usize,
        start: Option<Start>,
        codes: &[u8],
        payload: &[u8],
    ) {
        self.place(source, columns, start);
        self.codes.extend_from_slice(codes);
        self.payload.extend_from_slice(payload);
    }

    #[inline(always)]
    fn place(&mut self, source: u32, columns: usize, start: Option<Start>) {
        self.widen(columns, 1);
        self.step(source);
        if let Some(start) = start {
            let step = start.block.wrapping_sub(self.next_block);
            varint::put_i64(step as i64, &mut self.starts);
            varint::put_u64(u64::from(start.layout), &mut self.starts);
            varint::put_u64(start.before, &mut self.starts);
            self.next_block = start.block.wrapping_add(1);
        }
    }

    /// Counts rows with this number of columns.
    #[inline(always)]
    fn widen(&mut self, columns: usize, rows: usize) {
        if columns != self.width {
            self.end_width();
            self.width = columns;
        }
        self.width_rows += rows as u64;
        self.rows += rows as u64;
    }

    /// Adds the source of the next row.
    #[inline(always)]
    fn step(&mut self, source: u32) {
        let step = i64::from(source) - i64::from(self.next_source);
        if step == 0 {
            self.sources.push(0);
        } else {
            varint::put_i64(step, &mut self.sources);
        }
        self.next_source = source.wrapping_add(1);
    }

    /// Ends the last run of equal widths. Call this before the streams are read.
    pub fn end_width(&mut self) {
        if self.width_rows != 0 {
            varint::put_u64(self.width as u64, &mut self.widths);
            varint::put_u64(self.width_rows, &mut self.widths);
            self.width_rows = 0;
        }
    }
}
