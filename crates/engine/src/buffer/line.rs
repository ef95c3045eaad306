//! Lines: one cache line for each source with a buffer of its own, in groups of neighbours.
//!
//! A group of lines exists while one of its sources needs a line. Other sources cost only the number
//! of their layout.

use super::row::{self, ColumnState, TimeState};
use super::slab::{self, BufferSlot, Slab, class_for};
use crate::dictionary::layouts::Layout;
use crate::prefetch::prefetch;
use crate::retention::counts::Counts;

/// Lines of a group.
pub const GROUP: usize = 16;
/// Bytes of a [`ColumnState`] in a slot.
const STATE_BYTES: usize = 10;
/// Groups of a page.
const GROUPS: usize = 64;
/// Place of a group that does not exist.
const NOWHERE: u32 = u32::MAX;

/// Figures of an open block.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct OpenState {
    /// Number of the block. Blocks of a store are numbered in the order in which they are begun.
    pub block: u64,
    /// Number of the journal file in which the block begins.
    pub journal_file: u32,
    /// Bytes of encoded rows.
    pub bytes: u32,
    /// Rows in the block. 0 if the source has no open block.
    pub rows: u16,
    /// Arrival of the last row, in ticks of the store's idle clock.
    pub touched: u16,
}

/// Copy of an open block, for readers.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// Line of a source: 64 bytes.
#[repr(align(64))]
pub struct Line {
    /// Previous time, and its distance from the time before it.
    pub time: TimeState,
    /// Previous value of the first column. The parts of that column's state are separate fields: a
    /// whole [`ColumnState`] would be padded past the end of the line.
    pub previous: u64,
    scale: u8,
    hopeless: bool,
    /// Figures of the open block.
    pub open: OpenState,
    /// Slot of the encoded rows.
    pub rows_slot: BufferSlot,
    /// Slot of the states of the second and later columns.
    pub states_slot: BufferSlot,
    /// Number of the layout that defines the columns.
    pub layout: u32,
}

const _: () = assert!(
    size_of::<Line>() == slab::SMALLEST,
    "a line is one cache line"
);

impl Line {
    fn new(layout: u32) -> Line {
        Line {
            time: TimeState::default(),
            previous: 0,
            scale: 0,
            hopeless: false,
            open: OpenState::default(),
            rows_slot: BufferSlot::NONE,
            states_slot: BufferSlot::NONE,
            layout,
        }
    }

    /// Returns the state of the first column.
    #[inline]
    pub fn first(&self) -> ColumnState {
        ColumnState {
            previous: self.previous,
            scale: self.scale,
            hopeless: self.hopeless,
        }
    }

    /// Sets the state of the first column.
    #[inline]
    pub fn set_first(&mut self, state: ColumnState) {
        (self.previous, self.scale, self.hopeless) = (state.previous, state.scale, state.hopeless);
    }

    /// Takes the slots of the block that the line begins, whose first row has at most `bound` bytes.
    pub fn begin(&mut self, layout: &Layout, bound: usize, slab: &mut Slab) {
        self.rows_slot = slab.take(class_for(bound.min(slab::SMALLEST)));
        self.set_first(ColumnState::default());
        self.open.bytes = 0;
        if layout.columns() > 1 {
            let bytes = (layout.columns() - 1) * STATE_BYTES;
            self.states_slot = slab.take(class_for(bytes));
            slab.bytes_mut(self.states_slot)[..bytes].fill(0);
        }
    }

    /// Appends a row in its journal encoding, and begins the block with the first. Returns the bytes of the row.
    ///
    /// # Errors
    /// If the row could not be read again. The line is then as before.
    pub fn append_encoded(
        &mut self,
        layout: &Layout,
        (codes, payload): (&[u8], &[u8]),
        slab: &mut Slab,
        states: &mut Vec<ColumnState>,
    ) -> Result<usize, row::Malformed> {
        let (first, bytes) = (self.open.rows == 0, codes.len() + payload.len());
        // A reader of the row reads whole words.
        let bound = bytes + 8;
        if first {
            self.begin(layout, bound, slab);
        }
        let at = self.open.bytes as usize;
        while slab.bytes(self.rows_slot).len() < at + bound {
            self.rows_slot = slab.grow(self.rows_slot, at);
        }
        let slot = &mut slab.bytes_mut(self.rows_slot)[at..at + bytes];
        slot[..codes.len()].copy_from_slice(codes);
        slot[codes.len()..].copy_from_slice(payload);
        self.load_states(layout.columns(), slab, states);
        let block = &slab.bytes(self.rows_slot)[..at + bytes];
        let followed = row::follow(block, at, layout.types(), &mut self.time, states);
        if let Err(malformed) = followed {
            if first {
                self.release(slab);
            }
            return Err(malformed);
        }
        self.store_states(states, slab);
        self.open.bytes = (at + bytes) as u32;
        self.open.rows += 1;
        Ok(bytes)
    }

    /// Frees the slots of the open block, whose rows are discarded or are elsewhere.
    pub fn release(&mut self, slab: &mut Slab) {
        let slot = self.detach(slab);
        slab.free(slot);
    }

    /// Ends the open block and returns the slot of its rows.
    pub fn detach(&mut self, slab: &mut Slab) -> BufferSlot {
        if self.states_slot != BufferSlot::NONE {
            slab.free(self.states_slot);
        }
        let slot = std::mem::replace(&mut self.rows_slot, BufferSlot::NONE);
        self.states_slot = BufferSlot::NONE;
        (self.open.rows, self.open.bytes) = (0, 0);
        slot
    }

    /// Copies the states of all columns.
    #[inline]
    pub fn load_states(&self, columns: usize, slab: &Slab, states: &mut Vec<ColumnState>) {
        states.clear();
        states.push(self.first());
        if columns > 1 {
            let bytes = slab.bytes(self.states_slot).chunks_exact(STATE_BYTES);
            states.extend(bytes.take(columns - 1).map(|state| ColumnState {
                previous: u64::from_le_bytes(state[..8].try_into().expect("eight bytes")),
                scale: state[8],
                hopeless: state[9] != 0,
            }));
        }
    }

    /// Stores the states of all columns.
    #[inline]
    pub fn store_states(&mut self, states: &[ColumnState], slab: &mut Slab) {
        self.set_first(states[0]);
        if states.len() > 1 {
            let bytes = slab.bytes_mut(self.states_slot);
            for (slot, state) in bytes.chunks_exact_mut(STATE_BYTES).zip(&states[1..]) {
                slot[..8].copy_from_slice(&state.previous.to_le_bytes());
                slot[8] = state.scale;
                slot[9] = u8::from(state.hopeless);
            }
        }
    }
}

/// Lines of neighbouring sources.
type Group = [Line; GROUP];

/// Lines and layouts of all sources. Groups that exist are stored without gaps: the last group moves
/// into the place of a removed group, and pages at the end are freed.
#[derive(Default)]
pub struct Lines {
    /// Place of each group.
    places: Vec<u32>,
    /// Group at each place.
    owners: Vec<u32>,
    /// Groups in pages of equal capacity.
    pages: Vec<Vec<Group>>,
    layouts: Counts<u32>,
    sources: usize,
}

impl Lines {
    /// Adds a source with the next number.
    pub fn add_source(&mut self) {
        self.layouts.of(self.sources as u32);
        self.sources += 1;
        self.places.resize(self.sources.div_ceil(GROUP), NOWHERE);
    }

    /// Returns the number of sources.
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// Returns the number of groups, whether they exist or not.
    pub fn groups(&self) -> usize {
        self.places.len()
    }

    /// Returns the line of a source, if it exists.
    #[inline(always)]
    pub fn get(&self, source: u32) -> Option<&Line> {
        let place = self.places[source as usize / GROUP] as usize;
        let group = &self.pages.get(place / GROUPS)?[place % GROUPS];
        Some(&group[source as usize % GROUP])
    }

    /// Returns the line of a source, mutably, if it exists.
    #[inline(always)]
    pub fn get_mut(&mut self, source: u32) -> Option<&mut Line> {
        let place = self.places[source as usize / GROUP] as usize;
        let group = &mut self.pages.get_mut(place / GROUPS)?[place % GROUPS];
        Some(&mut group[source as usize % GROUP])
    }

    /// Returns the line of a source, and creates the lines of its group if they do not exist.
    pub fn create(&mut self, source: u32) -> &mut Line {
        let group = source as usize / GROUP;
        if self.places[group] == NOWHERE {
            let place = self.owners.len();
            self.owners.push(group as u32);
            self.places[group] = place as u32;
            if place == self.pages.len() * GROUPS {
                self.pages.push(Vec::with_capacity(GROUPS));
            }
            let first = (group * GROUP) as u32;
            let new = |nth| Line::new(self.layouts.get(first + nth as u32));
            self.pages[place / GROUPS].push(std::array::from_fn(new));
        }
        self.get_mut(source).expect("the group was just created")
    }

    /// Removes the lines of a group if no line has an open block, and each line is unused for
    /// `ticks` at least.
    pub fn remove_closed(&mut self, group: usize, tick: u16, ticks: u16) {
        let lines = (group * GROUP) as u32..((group + 1) * GROUP) as u32;
        let is_unused =
            |line: &Line| line.open.rows == 0 && tick.wrapping_sub(line.open.touched) >= ticks;
        let mut lines = lines.map_while(|source| self.get(source));
        if self.places[group] != NOWHERE && lines.all(is_unused) {
            self.remove(group);
        }
    }

    fn remove(&mut self, group: usize) {
        let place = std::mem::replace(&mut self.places[group], NOWHERE) as usize;
        let owner = self.owners.pop().expect("the group has a place");
        let last = self.owners.len();
        let lines = self.pages[last / GROUPS].pop();
        if place != last {
            let lines = lines.expect("the last group is the last in its page");
            self.pages[place / GROUPS][place % GROUPS] = lines;
            self.owners[place] = owner;
            self.places[owner as usize] = place as u32;
        }
        // One free page is kept, so that a group at the limit does not allocate again and again.
        if last + 2 * GROUPS <= self.pages.len() * GROUPS {
            self.pages.pop();
        }
    }

    /// Removes all lines, which have no open blocks.
    pub fn clear(&mut self) {
        if !self.owners.is_empty() {
            self.places.fill(NOWHERE);
            (self.owners, self.pages) = (Vec::new(), Vec::new());
        }
    }

    /// Returns the number of the layout of a source.
    #[inline]
    pub fn layout(&self, source: u32) -> u32 {
        self.layouts.get(source)
    }

    /// Sets the number of the layout of a source.
    pub fn set_layout(&mut self, source: u32, layout: u32) {
        *self.layouts.of(source) = layout;
        if let Some(line) = self.get_mut(source) {
            line.layout = layout;
        }
    }

    /// Prefetches the line of a source, or its layout.
    #[inline]
    pub fn prefetch(&self, source: u32) {
        match self.get(source) {
            Some(line) => prefetch(line),
            None => prefetch(self.layouts.place(source)),
        }
    }

    /// Returns the memory of the lines, in bytes.
    pub fn line_bytes(&self) -> usize {
        self.pages.len() * GROUPS * size_of::<Group>() + self.owners.capacity() * 4
    }

    /// Returns the permanent memory of all sources, in bytes.
    pub fn layout_bytes(&self) -> usize {
        self.layouts.memory() + self.places.capacity() * 4
    }
}
