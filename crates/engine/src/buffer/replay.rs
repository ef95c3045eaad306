//! Replay: rows that are buffered in their journal encoding.

use super::Buffers;
use super::line::OpenState;
use super::number::NUMBER_BYTES;
use super::row;
use super::small::neighbours::Neighbours;
use super::small::{self, Small};
use crate::dictionary::layouts::Layout;
use seiner_model::FieldType;

impl Buffers {
    /// Begins a small block of a source without an open block, with its first row in its journal encoding, and counts the
    /// row. Returns false if [`Buffers::begin`] and [`Buffers::replay`] must do it, or reject the row.
    pub fn begin_with(
        &mut self,
        source: u32,
        state: OpenState,
        field_type: FieldType,
        (codes, payload): (&[u8], &[u8]),
    ) -> bool {
        let mut small = Small::new(state, false, &[]);
        let bytes = codes.len() + payload.len();
        let has_row = self.scarce
            && row::is_start(codes)
            && small::has_space(state, bytes)
            && small.push_encoded(codes, payload, field_type);
        if has_row {
            self.small.put(source, &small);
            self.count_row(true, bytes);
        }
        has_row
    }

    /// Appends a row in its journal encoding to a block that was begun.
    pub fn replay(
        &mut self,
        source: u32,
        layout: &Layout,
        codes: &[u8],
        payload: &[u8],
    ) -> Result<(), row::Malformed> {
        let state = self.state(source);
        let first = state.rows == 0;
        if first != row::is_start(codes) || state.rows == u16::MAX {
            return Err(row::Malformed);
        }
        if let Some(mut small) = self.small.get(source) {
            let bytes = codes.len() + payload.len();
            if small::has_space(small.state, bytes) {
                if !small.push_encoded(codes, payload, layout.types()[0]) {
                    return Err(row::Malformed);
                }
                self.small.put(source, &small);
                self.count_row(first, bytes);
                return Ok(());
            }
            self.give_line(source, layout, small.state.touched);
        }
        let line = self.lines.create(source);
        let row = (codes, payload);
        let bytes = line.append_encoded(layout, row, &mut self.slab, &mut self.states)?;
        self.count_row(first, bytes);
        Ok(())
    }

    /// Appends a row of one number that follows another row in a line, in its journal encoding: codes, and a payload whose
    /// first bytes belong to the row. Returns the number of payload bytes used, or `None` if the row needs [`Buffers::replay`].
    #[inline]
    pub fn replay_number(&mut self, source: u32, codes: u8, payload: &[u8]) -> Option<usize> {
        let (time, value) = ((codes & 15) as usize, (codes >> 4) as usize);
        let window: &[u8; 16] = payload.first_chunk()?;
        let bytes = 1 + time + value;
        if time > 8 || value > 8 {
            return None;
        }
        let line = self.lines.get_mut(source);
        let line = line.filter(|line| line.open.rows != 0)?;
        let at = line.open.bytes as usize;
        if line.open.rows == u16::MAX {
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
        line.open.bytes = (at + bytes) as u32;
        line.open.rows += 1;
        self.rows += 1;
        self.row_bytes += bytes as u64;
        Some(time + value)
    }

    /// Returns whether a source may have a small block.
    #[inline]
    pub fn may_be_small(&self, source: u32) -> bool {
        let exists = (source as usize) < self.sources();
        exists
            && self
                .lines
                .get(source)
                .is_none_or(|line| line.open.rows == 0)
    }

    /// Does the same for rows that follow others in small blocks, up to the first row of a source without such a block, or
    /// whose block accepts no more rows. Returns the number of rows appended.
    pub fn replay_neighbours(&mut self, rows: &Neighbours) -> usize {
        let (count, bytes) = self.small.append_neighbours(rows);
        self.count_rows(count, bytes);
        count
    }
}
