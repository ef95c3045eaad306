//! States of the sources and rows of a column: which rows have a value, and which values are strays.

use crate::buffer::FieldBuffer;
use crate::model::{row_state, shared, source_state};

/// States of all sources of a column, and of the rows of those in a mixed state.
#[derive(Default)]
pub(crate) struct States {
    pub(crate) sources: Vec<u8>,
    rows: Vec<u8>,
    /// Bits of the strays.
    strays: Vec<u64>,
    /// Bytes of a stray.
    width: usize,
}

/// Place of a visitor of [`States`].
#[derive(Default)]
pub(crate) struct Cursor {
    row: usize,
    stray: usize,
    last: Option<u64>,
}

impl Cursor {
    /// Forgets the last stray, at the start of a chunk.
    pub(crate) fn start_chunk(&mut self) {
        self.last = None;
    }
}

impl States {
    /// Creates the states of a column without strays. `rows` are the numbers of rows of the sources.
    pub(crate) fn of(field: &FieldBuffer, rows: impl Iterator<Item = usize>) -> States {
        let (mut states, mut present) = (States::default(), field.present.iter());
        for (&count, rows) in field.counts.iter().zip(rows) {
            states.push(count as usize, rows, &mut present);
        }
        states
    }

    /// Appends a source without strays. `present` are the rows of the sources with gaps from this one on.
    pub(crate) fn push<'a>(
        &mut self,
        count: usize,
        rows: usize,
        present: &mut impl Iterator<Item = &'a bool>,
    ) {
        let state = match count {
            0 => source_state::ABSENT,
            count if count == rows => source_state::FULL,
            _ => {
                let bits = present.take(rows).map(|&is_present| match is_present {
                    true => row_state::PRESENT as u8,
                    false => row_state::MISSING as u8,
                });
                self.rows.extend(bits);
                source_state::MIXED
            }
        };
        self.sources.push(state as u8);
    }

    /// Appends a source with strays, by the state of each row. A stray has `width` bytes.
    pub(crate) fn push_strays(
        &mut self,
        states: impl Iterator<Item = u64>,
        strays: impl Iterator<Item = u64>,
        width: usize,
    ) {
        self.rows.extend(states.map(|state| state as u8));
        self.strays.extend(strays);
        self.width = width;
        self.sources.push(source_state::MIXED as u8);
    }

    /// Returns whether the column has no value in this source.
    pub(crate) fn is_absent(&self, source: usize) -> bool {
        u64::from(self.sources[source]) == source_state::ABSENT
    }

    /// Returns the approximate bits of the strays.
    pub(crate) fn stray_bits(&self) -> f32 {
        let changes = self.strays.windows(2).filter(|pair| pair[0] != pair[1]);
        let differing = changes.count() + usize::from(!self.strays.is_empty());
        (differing * self.width * 8 + self.strays.len()) as f32
    }

    /// Passes the states of the rows of a source to `put`, and then its strays.
    pub(crate) fn visit(
        &self,
        cursor: &mut Cursor,
        source: usize,
        rows: usize,
        mut put: impl FnMut(usize, u64),
    ) {
        if u64::from(self.sources[source]) != source_state::MIXED {
            return;
        }
        let states = &self.rows[cursor.row..cursor.row + rows];
        cursor.row += rows;
        let (mut before, mut strays) = (0, 0);
        for &state in states {
            put(shared::ROW_STATE + before, u64::from(state));
            before = usize::from(state);
            strays += usize::from(u64::from(state) == row_state::STRAY);
        }
        for &stray in &self.strays[cursor.stray..cursor.stray + strays] {
            let repeats = cursor.last == Some(stray);
            put(shared::STRAY_REPEATS, u64::from(repeats));
            if !repeats {
                for byte in &stray.to_le_bytes()[..self.width] {
                    put(shared::STRAY_BYTE, u64::from(*byte));
                }
            }
            cursor.last = Some(stray);
        }
        cursor.stray += strays;
    }
}
