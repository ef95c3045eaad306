//! Buffers: accepted rows that are not yet in a segment, source by source.
//!
//! A source with a buffer of its own has one cache line, its *line*, a slot of encoded rows, and with
//! more than one column a second slot for the column states. Appending a row to a source with one
//! field touches two cache lines, which can be prefetched.
//!
//! When memory is short, sources with few rows of one number share buffers instead, as *small blocks*
//! without a line ([`small`]). A source whose rows exceed a small block gets a line and keeps it
//! until its block is sealed. A source without an open block has neither.

pub mod columns;
pub mod decimals;
pub mod line;
pub mod number;
mod replay;
pub mod row;
pub mod run;
mod shared;
pub mod slab;
pub mod small;

use crate::dictionary::layouts::Layout;
use line::{GROUP, Lines, OpenBlock, OpenState};
use number::{Limit, NUMBER_BYTES, Number};
use row::{Coded, ColumnState, Row};
use run::{Encoded, Floats, LINES_AHEAD, ROWS_AHEAD};
use seiner_model::{FieldType, SourceId, Value};
use slab::{BufferSlot, Slab, class_for};
use small::{Small, SmallBlocks};
use std::ops::Range;

/// Buffers of all sources of a store.
#[derive(Default)]
pub struct Buffers {
    lines: Lines,
    small: SmallBlocks,
    slab: Slab,
    /// True if new blocks of one number begin as small blocks.
    scarce: bool,
    /// Next group of lines to make small.
    cursor: usize,
    rows: u64,
    row_bytes: u64,
    open: u64,
    states: Vec<ColumnState>,
}

impl Buffers {
    /// Adds a source with the next number.
    pub fn add_source(&mut self) {
        self.small.add_source(self.lines.sources() as u32);
        self.lines.add_source();
    }

    /// Returns the number of sources.
    pub fn sources(&self) -> usize {
        self.lines.sources()
    }

    /// Returns the number of the layout of a source.
    pub fn layout(&self, source: u32) -> u32 {
        self.lines.layout(source)
    }

    /// Sets the number of the layout of a source without an open block.
    pub fn set_layout(&mut self, source: u32, layout: u32) {
        self.lines.set_layout(source, layout);
    }

    /// Returns the figures of the open block of a source.
    pub fn state(&self, source: u32) -> OpenState {
        if let Some(line) = self.lines.get(source)
            && line.open.rows != 0
        {
            return line.open;
        }
        self.small.state(source).unwrap_or_default()
    }

    /// Prefetches the line of a source, or its layout and the position of its small block.
    #[inline]
    pub fn prefetch_line(&self, source: u32) {
        self.lines.prefetch(source);
        if self.scarce {
            self.small.prefetch_place(source);
        }
    }

    /// Prefetches the end of the rows of a source, for which [`Buffers::prefetch_line`] was called.
    #[inline]
    pub fn prefetch_rows(&self, source: u32) {
        match self.lines.get(source) {
            Some(line) => self.slab.prefetch(line.rows_slot, line.open.bytes as usize),
            None => self.small.prefetch(source),
        }
    }

    /// Prefetches what two later rows need: the line of one, and the rows of the other.
    #[inline(always)]
    pub fn prefetch_ahead(&self, sources: &[SourceId], row: usize) {
        if let Some(ahead) = sources.get(row + LINES_AHEAD) {
            self.prefetch_line(ahead.0);
        }
        if let Some(ahead) = sources.get(row + ROWS_AHEAD) {
            self.prefetch_rows(ahead.0);
        }
    }

    /// Begins a block of a source without an open block. `is_number` is true if the first row is a
    /// number of the only column.
    pub fn begin(&mut self, source: u32, block: u64, journal_file: u32, is_number: bool) {
        if self.scarce && is_number {
            let state = OpenState {
                block,
                journal_file,
                ..OpenState::default()
            };
            return self.small.put(source, &Small::new(state, false, &[]));
        }
        self.small.remove(source);
        let line = self.lines.create(source);
        (line.open.block, line.open.journal_file) = (block, journal_file);
    }

    /// Gives a source a line, for a row that arrives at `tick`. Its small block, if it has one, moves
    /// into a buffer of its own.
    pub fn give_line(&mut self, source: u32, layout: &Layout, tick: u16) {
        let line = self.lines.create(source);
        line.open.touched = tick;
        let Some(small) = self.small.get(source) else {
            return;
        };
        self.small.remove(source);
        line.open = small.state;
        line.open.touched = tick;
        if small.state.rows == 0 {
            return;
        }
        let (time, first) = small.column_states(layout.types()[0]);
        line.time = time;
        line.set_first(first);
        line.rows_slot = self.slab.take(class_for(small.rows().len()));
        self.slab.bytes_mut(line.rows_slot)[..small.rows().len()].copy_from_slice(small.rows());
    }

    /// Appends a row to the block that was begun in the line of its source. `values` contains a
    /// value or a gap for every column of the layout. The encoded row is left in `row`.
    #[inline]
    pub fn append<'v>(
        &mut self,
        source: u32,
        layout: &Layout,
        time: i64,
        values: impl Iterator<Item = Option<Value<'v>>>,
        bound: usize,
        row: &mut Row,
    ) {
        let line = self.lines.get_mut(source);
        let line = line.expect("the source was given a line");
        let columns = layout.columns();
        let first = line.open.rows == 0;
        if first {
            line.begin(layout, bound, &mut self.slab);
            self.open += 1;
        }
        row.begin(time, &mut line.time, first);
        let mut at = line.open.bytes as usize;
        while self.slab.bytes(line.rows_slot).len() < at + bound {
            line.rows_slot = self.slab.grow(line.rows_slot, at);
        }
        let payload_at = at + row::codes_bytes(columns);
        if columns == 1 {
            let text = row::TextPlace {
                block: self.slab.bytes(line.rows_slot),
                payload_at,
            };
            let mut state = line.first();
            for value in values {
                match value {
                    Some(value) => row.value(0, value, &mut state, text),
                    None => row.missing(0),
                }
            }
            line.set_first(state);
        } else {
            line.load_states(columns, &self.slab, &mut self.states);
            let text = row::TextPlace {
                block: self.slab.bytes(line.rows_slot),
                payload_at,
            };
            for (column, value) in values.enumerate() {
                match value {
                    Some(value) => row.value(column, value, &mut self.states[column], text),
                    None => row.missing(column),
                }
            }
            line.store_states(&self.states, &mut self.slab);
        }
        let slot = self.slab.bytes_mut(line.rows_slot);
        put(slot, &mut at, &row.codes);
        put(slot, &mut at, &row.payload);
        self.row_bytes += (at - line.open.bytes as usize) as u64;
        line.open.bytes = at as u32;
        line.open.rows += 1;
        self.rows += 1;
    }

    /// Appends a number like [`Buffers::append_number`] to a block that was begun, and allocates space for it. A small
    /// block to which [`Buffers::append_small`] appends no more moves into a line.
    #[cold]
    pub fn append_number_slowly(
        &mut self,
        source: u32,
        layout: &Layout,
        tick: u16,
        time: i64,
        value: Number,
    ) -> (Coded, Coded) {
        if let Some((coded, bytes)) = self.small.append_first(source, tick, (time, value)) {
            self.count_row(true, bytes);
            return coded;
        }
        self.give_line(source, layout, tick);
        let line = self.lines.create(source);
        if line.rows_slot == BufferSlot::NONE {
            line.begin(layout, NUMBER_BYTES, &mut self.slab);
            self.open += 1;
        }
        let at = line.open.bytes as usize;
        if self.slab.bytes(line.rows_slot).len() < at + NUMBER_BYTES {
            line.rows_slot = self.slab.grow(line.rows_slot, at);
        }
        let any = Limit {
            bytes: u32::MAX,
            first_block: 0,
        };
        let coded = self.append_number(source, tick, any, time, value);
        coded.expect("space was allocated")
    }

    /// Appends a number to the small block of a source whose only column has this type. Returns `None` if the source
    /// has no small block with a row, or if the block accepts no more rows.
    pub fn append_small(
        &mut self,
        source: u32,
        field_type: FieldType,
        tick: u16,
        limit: Limit,
        row: (i64, Number),
    ) -> Option<(Coded, Coded)> {
        let (coded, bytes) = self.small.append(source, field_type, tick, limit, row)?;
        self.count_row(false, bytes);
        Some(coded)
    }

    /// Appends numbers to sources of one group like [`Buffers::append_small`], up to the first source whose block accepts
    /// no more rows. `number` returns the time and value of a row, and `coded` receives the codes of each appended row.
    /// Returns the number of rows appended.
    pub fn append_numbers(
        &mut self,
        sources: &[SourceId],
        field_type: FieldType,
        arrival: (u16, Limit),
        number: impl Fn(usize) -> (i64, Number),
        coded: impl FnMut(usize, (Coded, Coded)),
    ) -> usize {
        let small = &mut self.small;
        let (count, bytes) = small.append_numbers(sources, field_type, arrival, number, coded);
        self.count_rows(count, bytes);
        count
    }

    fn count_row(&mut self, is_first: bool, bytes: usize) {
        self.open += u64::from(is_first);
        self.count_rows(1, bytes);
    }

    fn count_rows(&mut self, rows: usize, bytes: usize) {
        self.rows += rows as u64;
        self.row_bytes += bytes as u64;
    }

    /// Appends a row of a source whose only column has the type of `value`, which is not a text.
    /// Faster path for the most frequent case of [`Buffers::append`]. Returns `None` if the slot
    /// has no space for the row, or if the open block accepts no more rows.
    #[inline(always)]
    pub fn append_number(
        &mut self,
        source: u32,
        tick: u16,
        limit: Limit,
        time: i64,
        value: Number,
    ) -> Option<(Coded, Coded)> {
        let line = self.lines.get_mut(source)?;
        let at = line.open.bytes as usize;
        if limit.is_reached(line.open) || line.rows_slot == BufferSlot::NONE {
            return None;
        }
        let window: &mut [u8; NUMBER_BYTES] = self.slab.window_mut(line.rows_slot, at)?;
        let coded_time = row::code_time(time, &mut line.time, line.open.rows == 0);
        let mut state = line.first();
        let coded_value = value.code(&mut state);
        line.set_first(state);
        let bytes = run::put_number(coded_time, coded_value, window);
        line.open.bytes = (at + bytes) as u32;
        line.open.rows += 1;
        line.open.touched = tick;
        self.rows += 1;
        self.row_bytes += bytes as u64;
        Some((coded_time, coded_value))
    }

    /// Appends rows of one float to sources with a single float column, and stops at the first
    /// unusual row. Equivalent to [`Buffers::append_number`] for each appended row. A usual row
    /// follows another row under the same scale and fits into the slot. Returns the number of rows
    /// appended. They are left in `encoded`, which contains at most [`run::ROWS`] rows.
    pub fn append_floats(
        &mut self,
        layout: u32,
        tick: u16,
        limit: Limit,
        floats: Floats<'_>,
        encoded: &mut Encoded,
    ) -> usize {
        let count = floats.sources.len().min(run::ROWS);
        let (sources, times, values) = (
            &floats.sources[..count],
            &floats.times[..count],
            &floats.values[..count],
        );
        let (mut row, mut bytes) = (0, 0);
        while row < count {
            self.prefetch_ahead(floats.sources, row);
            let Some(line) = self.lines.get_mut(sources[row].0) else {
                break;
            };
            // Between the first row and the last row that the line can count.
            let follows = line.open.rows.wrapping_sub(1) < u16::MAX - 1;
            let is_full = line.open.bytes > limit.bytes || line.open.block < limit.first_block;
            if line.layout != layout || !follows || is_full {
                break;
            }
            let mut state = line.first();
            let Some(value) = row::code_near_f64(values[row], &mut state) else {
                break;
            };
            let at = line.open.bytes as usize;
            let Some(window) = self.slab.window_mut(line.rows_slot, at) else {
                break;
            };
            line.previous = state.previous;
            // Nearly all times have the same distance as the time before. This branch handles them
            // first, because such a time takes no bytes and needs no further test.
            let length;
            (length, bytes) = if line.time.is_kept_by(times[row]) {
                line.time.last = times[row];
                encoded.put(row, bytes, Coded::NOTHING, value, window)
            } else {
                let time = row::code_time(times[row], &mut line.time, false);
                encoded.put(row, bytes, time, value, window)
            };
            line.open.bytes = (at + length) as u32;
            line.open.rows += 1;
            line.open.touched = tick;
            row += 1;
        }
        encoded.end(row, bytes);
        self.rows += row as u64;
        self.row_bytes += (row + bytes) as u64;
        row
    }

    /// Detaches the encoded rows of the open block of a source, which then has no open block. The
    /// rows remain counted until [`Buffers::free`] receives the slot.
    pub fn detach(&mut self, source: u32) -> BufferSlot {
        if let Some(small) = self.small.get(source) {
            self.small.remove(source);
            let slot = self.slab.take(class_for(small.rows().len()));
            self.slab.bytes_mut(slot)[..small.rows().len()].copy_from_slice(small.rows());
            return slot;
        }
        let line = self.lines.get_mut(source);
        let line = line.expect("an open block has a line or is small");
        line.detach(&mut self.slab)
    }

    /// Returns the first `bytes` bytes of a detached slot.
    pub fn detached(&self, slot: BufferSlot, bytes: u32) -> &[u8] {
        &self.slab.bytes(slot)[..bytes as usize]
    }

    /// Frees a detached slot and subtracts its rows and bytes from the totals.
    pub fn free(&mut self, slot: BufferSlot, rows: u32, bytes: u32) {
        self.slab.free(slot);
        self.rows -= u64::from(rows);
        self.row_bytes -= u64::from(bytes);
        self.open -= 1;
    }

    /// Copies the open block of a source. Returns `None` if no block is open.
    pub fn open_block(&self, source: u32) -> Option<OpenBlock> {
        let state = self.state(source);
        let bytes = match self.small.get(source) {
            _ if state.rows == 0 => return None,
            Some(small) => small.rows().to_vec(),
            None => {
                let slot = self.lines.get(source)?.rows_slot;
                self.slab.bytes(slot)[..state.bytes as usize].to_vec()
            }
        };
        Some(OpenBlock {
            number: state.block,
            layout: self.layout(source),
            bytes,
            rows: state.rows as usize,
        })
    }

    /// Returns the rows in all open blocks, detached blocks included.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the bytes of the rows in all open blocks, detached blocks included.
    pub fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// Returns the number of open blocks, detached blocks included.
    pub fn open_blocks(&self) -> u64 {
        self.open
    }

    /// Returns the memory of open blocks, of detached blocks, and of lines, in bytes.
    pub fn block_bytes(&self) -> usize {
        self.slab.page_bytes() + self.small.page_bytes() + self.lines.line_bytes()
    }

    /// Returns the bytes of [`Buffers::block_bytes`] in use.
    pub fn live_bytes(&self) -> usize {
        self.slab.live_bytes() + self.small.page_bytes() + self.lines.line_bytes()
    }

    /// Returns the permanent memory of the sources, in bytes.
    pub fn source_bytes(&self) -> usize {
        self.lines.layout_bytes() + self.small.source_bytes()
    }

    /// Chooses whether blocks of one number begin as small blocks.
    pub fn set_scarce(&mut self, scarce: bool) {
        self.scarce = scarce;
    }

    /// Makes blocks with few rows of one number small, and removes lines that no open block needs,
    /// in the next `groups` groups of lines. `is_number` returns whether a layout has a single column,
    /// which is not a text.
    pub fn make_small(&mut self, groups: usize, is_number: impl Fn(u32) -> bool) {
        for _ in 0..groups.min(self.lines.groups()) {
            self.cursor = (self.cursor + 1) % self.lines.groups();
            let first = self.cursor * GROUP;
            for source in first..(first + GROUP).min(self.sources()) {
                self.make_block_small(source as u32, &is_number);
            }
            self.lines.remove_closed(self.cursor, 0, 0);
        }
    }

    fn make_block_small(&mut self, source: u32, is_number: impl Fn(u32) -> bool) {
        let Some(line) = self.lines.get_mut(source) else {
            return;
        };
        let fits = line.open.rows != 0 && small::fits(line.open.bytes as usize, line.open.rows);
        if !fits || !is_number(line.layout) {
            return;
        }
        let rows = &self.slab.bytes(line.rows_slot)[..line.open.bytes as usize];
        let small = Small::new(line.open, line.first().hopeless, rows);
        line.release(&mut self.slab);
        self.small.put(source, &small);
    }

    /// Removes lines of some sources that were unused for `ticks`.
    pub fn remove_unused(&mut self, sources: Range<u32>, tick: u16, ticks: u16) {
        let groups = sources.start as usize / GROUP..(sources.end as usize).div_ceil(GROUP);
        groups.for_each(|group| self.lines.remove_closed(group, tick, ticks));
    }

    /// Returns memory that no buffer uses to the system.
    pub fn release_idle(&mut self) {
        self.slab.release_idle();
        self.small.release_idle();
        if self.open == 0 {
            self.lines.clear();
        }
    }

    /// Returns the slab that stores the encoded rows.
    pub fn slab(&self) -> &Slab {
        &self.slab
    }
}

/// Copies into a slot that is large enough.
#[inline]
fn put(slot: &mut [u8], at: &mut usize, bytes: &[u8]) {
    slot[*at..*at + bytes.len()].copy_from_slice(bytes);
    *at += bytes.len();
}

#[cfg(test)]
mod tests;
