//! Buffers: accepted rows that are not yet in a segment, source by source.
//!
//! Each source has one cache line, its *line*. A source with unsealed rows also has a slot of
//! encoded rows, and with more than one column a second slot for the column states. Appending a row
//! to a source with one field touches two cache lines, which can be prefetched.

pub mod columns;
pub mod decimals;
pub mod row;
pub mod run;
pub mod slab;

use crate::dictionary::layouts::Layout;
use crate::prefetch::prefetch;
use row::{Coded, ColumnState, Row, TimeState};
use run::{Encoded, Floats, LINES_AHEAD, ROWS_AHEAD};
use seiner_model::Value;
use slab::{BufferSlot, Slab, class_for};

/// Lines per page. Pages never move, so growth copies nothing.
const LINES: usize = 4096;
/// Bytes of a [`ColumnState`] in a slot.
const STATE_BYTES: usize = 10;

/// Line of a source: 64 bytes.
#[repr(align(64))]
#[derive(Clone)]
pub struct Line {
    /// Previous time, and its distance from the time before it.
    pub time: TimeState,
    /// Previous value of the first column. The parts of that column's state are separate fields: a
    /// whole [`ColumnState`] would be padded past the end of the line.
    previous: u64,
    scale: u8,
    hopeless: bool,
    /// Number of the open block. Blocks of a store are numbered in the order in which they are
    /// begun.
    pub block: u64,
    /// Slot of the encoded rows.
    pub rows_slot: BufferSlot,
    /// Slot of the states of the second and later columns.
    states_slot: BufferSlot,
    /// Number of the layout that defines the columns.
    pub layout: u32,
    /// Bytes of encoded rows.
    pub bytes: u32,
    /// Number of the journal file in which the open block begins.
    pub journal_file: u32,
    /// Rows in the open block.
    pub rows: u16,
    /// Arrival of the last row, in ticks of the store's idle clock.
    pub touched: u16,
}

const _: () = assert!(
    size_of::<Line>() == slab::SMALLEST,
    "a line is one cache line"
);

impl Line {
    fn new() -> Line {
        Line {
            time: TimeState::default(),
            previous: 0,
            scale: 0,
            hopeless: false,
            block: 0,
            rows_slot: BufferSlot::NONE,
            states_slot: BufferSlot::NONE,
            layout: 0,
            bytes: 0,
            journal_file: 0,
            rows: 0,
            touched: 0,
        }
    }

    #[inline]
    fn first(&self) -> ColumnState {
        ColumnState {
            previous: self.previous,
            scale: self.scale,
            hopeless: self.hopeless,
        }
    }

    #[inline]
    fn set_first(&mut self, state: ColumnState) {
        (self.previous, self.scale, self.hopeless) = (state.previous, state.scale, state.hopeless);
    }
}

/// Buffers of all sources of a store.
#[derive(Default)]
pub struct Buffers {
    pages: Vec<Box<[Line; LINES]>>,
    sources: usize,
    slab: Slab,
    rows: u64,
    row_bytes: u64,
    open: u64,
    states: Vec<ColumnState>,
}

/// Maximum bytes of a row of one number: a byte of codes, and two words.
pub const NUMBER_BYTES: usize = 17;

/// Numeric value of a row, not a text.
#[derive(Clone, Copy)]
pub enum Number {
    /// A 64-bit float.
    F64(f64),
    /// A 32-bit float.
    F32(f32),
    /// An integer or a boolean, as bits.
    Integer(u64),
}

impl Number {
    /// Converts a value to a number. Returns `None` for a text.
    #[inline(always)]
    pub fn of(value: Value<'_>) -> Option<Number> {
        Some(match value {
            Value::F64(value) => Number::F64(value),
            Value::F32(value) => Number::F32(value),
            Value::I64(value) => Number::Integer(value as u64),
            Value::U64(value) => Number::Integer(value),
            Value::Bool(value) => Number::Integer(u64::from(value)),
            Value::Str(_) => return None,
        })
    }
}

/// Condition on an open block that accepts another row.
#[derive(Clone, Copy)]
pub struct Limit {
    /// Maximum bytes of the rows before it.
    pub bytes: u32,
    /// Lowest number of a block that accepts rows.
    pub first_block: u64,
}

impl Limit {
    /// Returns whether the open block of a line accepts no more rows.
    #[inline(always)]
    pub fn is_reached(self, line: &Line) -> bool {
        line.bytes > self.bytes || line.rows == u16::MAX || line.block < self.first_block
    }
}

/// Copy of an open block, for readers.
#[derive(Clone)]
pub struct OpenBlock {
    /// Number of the block.
    pub number: u64,
    /// Number of the layout of the columns.
    pub layout: u32,
    /// Encoded rows.
    pub bytes: Vec<u8>,
    /// Number of rows.
    pub rows: usize,
}

impl Buffers {
    /// Adds a line for a source with the next number.
    pub fn add_source(&mut self) {
        if self.sources == self.pages.len() * LINES {
            let page = vec![Line::new(); LINES].into_boxed_slice();
            self.pages
                .push(page.try_into().ok().expect("the page has LINES lines"));
        }
        self.sources += 1;
    }

    /// Returns the number of sources.
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// Returns the line of a source.
    #[inline]
    pub fn line(&self, source: u32) -> &Line {
        &self.pages[source as usize / LINES][source as usize % LINES]
    }

    /// Returns the line of a source, mutably.
    #[inline]
    pub fn line_mut(&mut self, source: u32) -> &mut Line {
        &mut self.pages[source as usize / LINES][source as usize % LINES]
    }

    /// Prefetches the line of a source.
    #[inline]
    pub fn prefetch_line(&self, source: u32) {
        prefetch(self.line(source));
    }

    /// Prefetches the end of the rows of a source. The line of the source should be in the cache.
    #[inline]
    pub fn prefetch_rows(&self, source: u32) {
        let line = self.line(source);
        self.slab.prefetch(line.rows_slot, line.bytes as usize);
    }

    /// Appends a row to the open block, or begins a block with this row if none is open. `values`
    /// contains a value or a gap for every column of the layout. The encoded row is left in `row`.
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
        let line = &mut self.pages[source as usize / LINES][source as usize % LINES];
        let columns = layout.columns();
        let first = line.rows == 0;
        if first {
            open(line, layout, bound, &mut self.slab);
            self.open += 1;
        }
        row.begin(time, &mut line.time, first);
        let mut at = line.bytes as usize;
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
            load_states(&mut self.states, columns, line, &self.slab);
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
            store_states(&self.states, line, &mut self.slab);
        }
        let slot = self.slab.bytes_mut(line.rows_slot);
        put(slot, &mut at, &row.codes);
        put(slot, &mut at, &row.payload);
        self.row_bytes += (at - line.bytes as usize) as u64;
        line.bytes = at as u32;
        line.rows += 1;
        self.rows += 1;
    }

    /// Begins the open block of a source with one column, or allocates space for another number.
    #[cold]
    pub fn make_space(&mut self, source: u32, layout: &Layout) {
        let line = &mut self.pages[source as usize / LINES][source as usize % LINES];
        if line.rows_slot == BufferSlot::NONE {
            open(line, layout, NUMBER_BYTES, &mut self.slab);
            self.open += 1;
        }
        let at = line.bytes as usize;
        if self.slab.bytes(line.rows_slot).len() < at + NUMBER_BYTES {
            line.rows_slot = self.slab.grow(line.rows_slot, at);
        }
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
        let line = &mut self.pages[source as usize / LINES][source as usize % LINES];
        let at = line.bytes as usize;
        if limit.is_reached(line) || line.rows_slot == BufferSlot::NONE {
            return None;
        }
        let window: &mut [u8; NUMBER_BYTES] = self.slab.window_mut(line.rows_slot, at)?;
        let coded_time = row::code_time(time, &mut line.time, line.rows == 0);
        let mut state = line.first();
        let coded_value = match value {
            Number::F64(value) => row::code_f64(value, &mut state),
            Number::F32(value) => row::code_f32(value, &mut state),
            Number::Integer(value) => row::code_integer(value, &mut state),
        };
        line.set_first(state);
        let bytes = run::put_number(coded_time, coded_value, window);
        line.bytes = (at + bytes) as u32;
        line.rows += 1;
        line.touched = tick;
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
            if let Some(ahead) = floats.sources.get(row + LINES_AHEAD) {
                self.prefetch_line(ahead.0);
            }
            if let Some(ahead) = floats.sources.get(row + ROWS_AHEAD) {
                self.prefetch_rows(ahead.0);
            }
            let source = sources[row].0;
            let line = &mut self.pages[source as usize / LINES][source as usize % LINES];
            // Between the first row and the last row that the line can count.
            let follows = line.rows.wrapping_sub(1) < u16::MAX - 1;
            let is_full = line.bytes > limit.bytes || line.block < limit.first_block;
            if line.layout != layout || !follows || is_full {
                break;
            }
            let mut state = line.first();
            let Some(value) = row::code_near_f64(values[row], &mut state) else {
                break;
            };
            let at = line.bytes as usize;
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
            line.bytes = (at + length) as u32;
            line.rows += 1;
            line.touched = tick;
            row += 1;
        }
        encoded.end(row, bytes);
        self.rows += row as u64;
        self.row_bytes += (row + bytes) as u64;
        row
    }

    /// Appends a row in its journal encoding.
    pub fn replay(
        &mut self,
        source: u32,
        layout: &Layout,
        codes: &[u8],
        payload: &[u8],
    ) -> Result<(), row::Malformed> {
        let line = &mut self.pages[source as usize / LINES][source as usize % LINES];
        let bound = codes.len() + payload.len() + 8;
        let first = line.rows == 0;
        if first != row::is_start(codes) || line.rows == u16::MAX {
            return Err(row::Malformed);
        }
        if first {
            open(line, layout, bound, &mut self.slab);
            self.open += 1;
        }
        let start = line.bytes as usize;
        let mut at = start;
        while self.slab.bytes(line.rows_slot).len() < at + bound {
            line.rows_slot = self.slab.grow(line.rows_slot, at);
        }
        let slot = self.slab.bytes_mut(line.rows_slot);
        put(slot, &mut at, codes);
        put(slot, &mut at, payload);
        load_states(&mut self.states, layout.columns(), line, &self.slab);
        let block = &self.slab.bytes(line.rows_slot)[..at];
        if let Err(malformed) = row::follow(
            block,
            start,
            layout.types(),
            &mut line.time,
            &mut self.states,
        ) {
            if first {
                release(line, &mut self.slab);
                self.open -= 1;
            }
            return Err(malformed);
        }
        store_states(&self.states, line, &mut self.slab);
        self.row_bytes += (at - line.bytes as usize) as u64;
        line.bytes = at as u32;
        line.rows += 1;
        self.rows += 1;
        Ok(())
    }

    /// Appends a row of one number that follows another row, in its journal encoding: codes, and a
    /// payload whose first bytes belong to the row. Returns the number of payload bytes used, or
    /// `None` if the row is of another kind and needs [`Buffers::replay`].
    #[inline]
    pub fn replay_number(&mut self, source: u32, codes: u8, payload: &[u8]) -> Option<usize> {
        let line = &mut self.pages[source as usize / LINES][source as usize % LINES];
        let (time, value) = ((codes & 15) as usize, (codes >> 4) as usize);
        let window: &[u8; 16] = payload.first_chunk()?;
        let at = line.bytes as usize;
        if line.rows == 0 || line.rows == u16::MAX || time > 8 || value > 8 {
            return None;
        }
        let mut slot = self.slab.bytes_mut(line.rows_slot);
        if slot.len() < at + NUMBER_BYTES {
            line.rows_slot = self.slab.grow(line.rows_slot, at);
            slot = self.slab.bytes_mut(line.rows_slot);
        }
        slot[at] = codes;
        slot[at + 1..at + NUMBER_BYTES].copy_from_slice(window);
        row::follow_time(&mut line.time, window, time);
        line.previous = row::follow_number(line.previous, window, time, value);
        let bytes = 1 + time + value;
        line.bytes = (at + bytes) as u32;
        line.rows += 1;
        self.rows += 1;
        self.row_bytes += bytes as u64;
        Some(time + value)
    }

    /// Detaches the encoded rows of the open block of a source, which then has no open block. The
    /// rows remain counted until [`Buffers::free`] receives the slot.
    pub fn detach(&mut self, source: u32) -> BufferSlot {
        let line = &mut self.pages[source as usize / LINES][source as usize % LINES];
        if line.states_slot != BufferSlot::NONE {
            self.slab.free(line.states_slot);
        }
        let slot = std::mem::replace(&mut line.rows_slot, BufferSlot::NONE);
        (line.states_slot, line.rows, line.bytes) = (BufferSlot::NONE, 0, 0);
        slot
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
        let line = self.line(source);
        (line.rows != 0).then(|| OpenBlock {
            number: line.block,
            layout: line.layout,
            bytes: self.slab.bytes(line.rows_slot)[..line.bytes as usize].to_vec(),
            rows: line.rows as usize,
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

    /// Returns the memory of the lines and of the slab's pages, in bytes.
    pub fn memory(&self) -> usize {
        self.line_bytes() + self.slab.page_bytes()
    }

    /// Returns the memory of the lines, in bytes.
    pub fn line_bytes(&self) -> usize {
        self.pages.len() * LINES * size_of::<Line>()
    }

    /// Returns memory that no buffer uses to the system.
    pub fn release_idle(&mut self) {
        self.slab.release_idle();
    }

    /// Returns the slab that stores the encoded rows.
    pub fn slab(&self) -> &Slab {
        &self.slab
    }
}

fn open(line: &mut Line, layout: &Layout, bound: usize, slab: &mut Slab) {
    line.rows_slot = slab.take(class_for(bound.min(slab::SMALLEST)));
    line.set_first(ColumnState::default());
    line.bytes = 0;
    if layout.columns() > 1 {
        let bytes = (layout.columns() - 1) * STATE_BYTES;
        line.states_slot = slab.take(class_for(bytes));
        slab.bytes_mut(line.states_slot)[..bytes].fill(0);
    }
}

fn release(line: &mut Line, slab: &mut Slab) {
    slab.free(line.rows_slot);
    if line.states_slot != BufferSlot::NONE {
        slab.free(line.states_slot);
    }
    (line.rows_slot, line.states_slot, line.rows, line.bytes) =
        (BufferSlot::NONE, BufferSlot::NONE, 0, 0);
}

/// Copies into a slot that is large enough.
#[inline]
fn put(slot: &mut [u8], at: &mut usize, bytes: &[u8]) {
    slot[*at..*at + bytes.len()].copy_from_slice(bytes);
    *at += bytes.len();
}

#[inline]
fn load_states(states: &mut Vec<ColumnState>, columns: usize, line: &Line, slab: &Slab) {
    states.clear();
    states.push(line.first());
    if columns > 1 {
        let bytes = slab.bytes(line.states_slot);
        states.extend(
            bytes
                .chunks_exact(STATE_BYTES)
                .take(columns - 1)
                .map(|state| ColumnState {
                    previous: u64::from_le_bytes(state[..8].try_into().expect("eight bytes")),
                    scale: state[8],
                    hopeless: state[9] != 0,
                }),
        );
    }
}

#[inline]
fn store_states(states: &[ColumnState], line: &mut Line, slab: &mut Slab) {
    line.set_first(states[0]);
    if states.len() > 1 {
        let bytes = slab.bytes_mut(line.states_slot);
        for (slot, state) in bytes.chunks_exact_mut(STATE_BYTES).zip(&states[1..]) {
            slot[..8].copy_from_slice(&state.previous.to_le_bytes());
            slot[8] = state.scale;
            slot[9] = u8::from(state.hopeless);
        }
    }
}
