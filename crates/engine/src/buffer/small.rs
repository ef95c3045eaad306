//! Small blocks: open blocks with few rows of one number, in pages that many sources share.
//!
//! A source with its own line costs a line and a slot of the slab, at least 128 bytes, however few
//! rows it has. A small block costs its rows and a head of 18 bytes, rounded up to eight bytes.
//! Blocks of one size are stored without gaps: the last block moves into the place of a removed
//! block. Column states are not stored. They are computed again from the rows, which are few.

use super::line::OpenState;
use super::row::{self, ColumnState, Reader, TimeState};
use crate::prefetch::prefetch;
use crate::retention::counts::Counts;
use seiner_model::FieldType;
use std::ops::Range;

/// Maximum bytes of the rows of a small block.
pub const SMALL_ROWS: usize = 96;
/// Bytes of a head: source, number of the block, journal file, last arrival, rows, bytes.
const HEAD: usize = 18;
/// Bytes of the smallest block, and the distance of the sizes.
const SMALLEST: usize = 24;
const STEP: usize = 8;
const CLASSES: usize = (HEAD + SMALL_ROWS).div_ceil(STEP) - SMALLEST / STEP + 1;
const LARGEST: usize = SMALLEST + (CLASSES - 1) * STEP;
/// Bytes that are read at once.
const WINDOW: usize = 16;
/// Bytes of a page.
const PAGE: usize = 64 << 10;
/// Bits of a handle that store the index of a block among those of its size.
const INDEX_BITS: u32 = 28;
/// Flag in the byte that counts rows: no decimal was found for the last value.
const HOPELESS: u8 = 128;
/// Maximum rows of a small block.
const MOST_ROWS: u16 = 127;

const _: () = assert!(
    CLASSES <= 1 << (32 - INDEX_BITS),
    "a handle contains the size"
);

/// Position of a small block. It changes when the block grows, and when another block is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot(u32);

impl Default for Slot {
    fn default() -> Slot {
        Slot::NONE
    }
}

impl Slot {
    const NONE: Slot = Slot(u32::MAX);

    fn new(class: usize, index: usize) -> Slot {
        Slot((class as u32) << INDEX_BITS | index as u32)
    }

    fn class(self) -> usize {
        (self.0 >> INDEX_BITS) as usize
    }

    fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }
}

/// Blocks of one size.
#[derive(Default)]
struct Class {
    pages: Vec<Box<[u8]>>,
    len: usize,
}

/// Small blocks of a store, by source.
#[derive(Default)]
pub struct SmallBlocks {
    slots: Counts<Slot>,
    classes: [Class; CLASSES],
    page_bytes: usize,
}

/// Copy of a small block.
pub struct Small {
    /// Figures of the block.
    pub state: OpenState,
    /// True if no decimal was found for the last value.
    pub hopeless: bool,
    /// Encoded rows, with space after them for a word.
    rows: [u8; SMALL_ROWS + WINDOW],
}

impl Small {
    /// Returns a block with these rows.
    ///
    /// # Panics
    /// If the rows are too long for a small block.
    pub fn new(state: OpenState, hopeless: bool, rows: &[u8]) -> Small {
        let mut small = Small {
            state,
            hopeless,
            rows: [0; SMALL_ROWS + WINDOW],
        };
        small.state.bytes = rows.len() as u32;
        small.rows[..rows.len()].copy_from_slice(rows);
        small
    }

    /// Returns the encoded rows.
    pub fn rows(&self) -> &[u8] {
        &self.rows[..self.state.bytes as usize]
    }

    /// Returns whether another row of `bytes` bytes fits.
    pub fn has_space(&self, bytes: usize) -> bool {
        fits(self.state.bytes as usize + bytes, self.state.rows + 1)
    }

    /// Adds a row that fits.
    pub fn push(&mut self, row: &[u8]) {
        let at = self.state.bytes as usize;
        self.rows[at..at + row.len()].copy_from_slice(row);
        self.state.bytes += row.len() as u32;
        self.state.rows += 1;
    }

    /// Returns the states after the last row: the bases of the next row.
    pub fn column_states(&self, field_type: FieldType) -> (TimeState, ColumnState) {
        let (mut time, mut column) = (TimeState::default(), ColumnState::default());
        let mut reader = Reader {
            bytes: self.rows(),
            at: 0,
        };
        while reader.at < reader.bytes.len() {
            let codes = reader.bytes[reader.at];
            reader.at += 1;
            let (time_bytes, bytes) = ((codes & 15) as usize, (codes >> 4) as usize);
            // Most rows are two deltas.
            if time_bytes <= 8
                && bytes <= 8
                && let Some(window) = self.rows[reader.at..].first_chunk::<WINDOW>()
            {
                row::follow_time(&mut time, window, time_bytes);
                column.previous = row::follow_number(column.previous, window, time_bytes, bytes);
                reader.at += time_bytes + bytes;
                continue;
            }
            let read = reader.time(codes & 15, &mut time);
            let read = read.and_then(|()| reader.value(codes >> 4, field_type, &mut column));
            read.expect("the rows of a buffer were encoded or checked here");
        }
        column.hopeless = self.hopeless;
        (time, column)
    }

    /// Returns whether the block with another row in its journal encoding can be read.
    pub fn accepts(&self, row: &[u8], field_type: FieldType) -> bool {
        let mut block = [0; SMALL_ROWS];
        let at = self.state.bytes as usize;
        block[..at].copy_from_slice(self.rows());
        block[at..at + row.len()].copy_from_slice(row);
        let (mut time, mut states) = (TimeState::default(), [ColumnState::default()]);
        let block = &block[..at + row.len()];
        row::follow(block, at, &[field_type], &mut time, &mut states).is_ok()
    }
}

/// Returns whether a block of these bytes and rows can be small.
pub fn fits(bytes: usize, rows: u16) -> bool {
    bytes <= SMALL_ROWS && rows <= MOST_ROWS
}

impl SmallBlocks {
    /// Adds a source, which has no small block.
    pub fn add_source(&mut self, source: u32) {
        *self.slots.of(source) = Slot::NONE;
    }

    /// Stores the small block of a source. It replaces the block that the source has.
    pub fn put(&mut self, source: u32, small: &Small) {
        let (slot, class) = (self.slots.get(source), class_of(small.rows().len()));
        if slot != Slot::NONE && slot.class() == class {
            return write(self.block_mut(slot), source, small);
        }
        self.remove(source);
        let list = &mut self.classes[class];
        if list.len == list.pages.len() * blocks(class) {
            list.pages.push(vec![0; PAGE].into_boxed_slice());
            self.page_bytes += PAGE;
        }
        let slot = Slot::new(class, list.len);
        list.len += 1;
        write(self.block_mut(slot), source, small);
        *self.slots.of(source) = slot;
    }

    /// Removes the small block of a source, if it has one. The last block of the same size moves
    /// into its place.
    pub fn remove(&mut self, source: u32) {
        let slot = self.slots.get(source);
        if slot == Slot::NONE {
            return;
        }
        *self.slots.of(source) = Slot::NONE;
        let (class, bytes) = (slot.class(), class_bytes(slot.class()));
        let last = Slot::new(class, self.classes[class].len - 1);
        if slot != last {
            let mut copy = [0; LARGEST];
            copy[..bytes].copy_from_slice(self.block(last));
            self.block_mut(slot).copy_from_slice(&copy[..bytes]);
            *self.slots.of(source_of(&copy)) = slot;
        }
        let list = &mut self.classes[class];
        list.len -= 1;
        // One free page is kept, so that a block at the limit does not allocate again and again.
        if list.len + 2 * blocks(class) <= list.pages.len() * blocks(class) {
            list.pages.pop();
            self.page_bytes -= PAGE;
        }
    }

    /// Frees the pages that no block uses.
    pub fn release_idle(&mut self) {
        for (class, list) in self.classes.iter_mut().enumerate() {
            let needed = list.len.div_ceil(blocks(class));
            self.page_bytes -= (list.pages.len() - needed) * PAGE;
            list.pages.truncate(needed);
        }
    }

    /// Returns the figures of the small block of a source.
    pub fn state(&self, source: u32) -> Option<OpenState> {
        let slot = self.slots.get(source);
        (slot != Slot::NONE).then(|| state(self.block(slot)))
    }

    /// Copies the small block of a source.
    pub fn get(&self, source: u32) -> Option<Small> {
        let slot = self.slots.get(source);
        if slot == Slot::NONE {
            return None;
        }
        let block = self.block(slot);
        let state = state(block);
        let hopeless = block[16] & HOPELESS != 0;
        let rows = &block[HEAD..HEAD + state.bytes as usize];
        Some(Small::new(state, hopeless, rows))
    }

    /// Prefetches the position of the small block of a source.
    #[inline]
    pub fn prefetch_slot(&self, source: u32) {
        prefetch(self.slots.place(source));
    }

    /// Prefetches the small block of a source.
    #[inline]
    pub fn prefetch(&self, source: u32) {
        let slot = self.slots.get(source);
        if slot != Slot::NONE {
            prefetch(self.block(slot));
        }
    }

    /// Returns the memory of all blocks, in bytes.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns the permanent memory of all sources, in bytes.
    pub fn slot_bytes(&self) -> usize {
        self.slots.memory()
    }

    fn block(&self, slot: Slot) -> &[u8] {
        let (page, place) = place(slot);
        &self.classes[slot.class()].pages[page][place]
    }

    fn block_mut(&mut self, slot: Slot) -> &mut [u8] {
        let (page, place) = place(slot);
        &mut self.classes[slot.class()].pages[page][place]
    }
}

/// Returns the page of a block, and its place in the page.
#[inline]
fn place(slot: Slot) -> (usize, Range<usize>) {
    let (bytes, blocks) = (class_bytes(slot.class()), blocks(slot.class()));
    let start = slot.index() % blocks * bytes;
    (slot.index() / blocks, start..start + bytes)
}

/// Returns the number of blocks of a size in a page.
fn blocks(class: usize) -> usize {
    PAGE / class_bytes(class)
}

fn class_bytes(class: usize) -> usize {
    SMALLEST + class * STEP
}

fn class_of(rows: usize) -> usize {
    (HEAD + rows).max(SMALLEST).div_ceil(STEP) - SMALLEST / STEP
}

fn write(block: &mut [u8], source: u32, small: &Small) {
    let state = &small.state;
    assert!(state.block < 1 << 48, "a store begins fewer blocks");
    block[..4].copy_from_slice(&source.to_le_bytes());
    block[4..10].copy_from_slice(&state.block.to_le_bytes()[..6]);
    block[10..14].copy_from_slice(&state.journal_file.to_le_bytes());
    block[14..16].copy_from_slice(&state.touched.to_le_bytes());
    block[16] = state.rows as u8 | if small.hopeless { HOPELESS } else { 0 };
    block[17] = state.bytes as u8;
    block[HEAD..HEAD + small.rows().len()].copy_from_slice(small.rows());
}

fn source_of(block: &[u8]) -> u32 {
    u32::from_le_bytes([block[0], block[1], block[2], block[3]])
}

fn state(block: &[u8]) -> OpenState {
    let mut number = [0; 8];
    number[..6].copy_from_slice(&block[4..10]);
    OpenState {
        block: u64::from_le_bytes(number),
        journal_file: u32::from_le_bytes([block[10], block[11], block[12], block[13]]),
        touched: u16::from_le_bytes([block[14], block[15]]),
        rows: u16::from(block[16] & !HOPELESS),
        bytes: u32::from(block[17]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn small(number: u64, rows: u16, bytes: usize) -> Small {
        let state = OpenState {
            block: number,
            journal_file: number as u32 ^ 7,
            bytes: 0,
            rows,
            touched: number as u16,
        };
        Small::new(state, number.is_multiple_of(2), &vec![number as u8; bytes])
    }

    /// Blocks are added, grow and are removed in a random order; each keeps its contents.
    #[test]
    fn blocks_keep_their_contents_while_others_move() {
        let mut blocks = SmallBlocks::default();
        let mut known: HashMap<u32, (u64, usize)> = HashMap::new();
        let mut random = 1u64;
        (0..40_000).for_each(|source| blocks.add_source(source));
        for step in 0..200_000u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let source = (random >> 33) as u32 % 40_000;
            let bytes = (random >> 50) as usize % (SMALL_ROWS + 1);
            if known.contains_key(&source) && random >> 62 == 0 {
                known.remove(&source);
                blocks.remove(source);
            } else {
                known.insert(source, (step, bytes));
                blocks.put(source, &small(step, 3, bytes));
            }
        }
        for source in 0..40_000 {
            let Some(&(number, bytes)) = known.get(&source) else {
                assert!(blocks.state(source).is_none() && blocks.get(source).is_none());
                continue;
            };
            let found = blocks.get(source).expect("the block was added");
            assert_eq!(blocks.state(source), Some(found.state));
            assert_eq!((found.state.block, found.state.rows), (number, 3));
            assert_eq!(found.state.journal_file, number as u32 ^ 7);
            assert_eq!(
                (found.state.touched, found.hopeless),
                (number as u16, number.is_multiple_of(2))
            );
            assert_eq!(found.rows(), vec![number as u8; bytes]);
        }
        let full = blocks.page_bytes();
        known.keys().for_each(|&source| blocks.remove(source));
        assert!(blocks.page_bytes() < full);
        assert!(
            blocks
                .classes
                .iter()
                .all(|class| class.len == 0 && class.pages.len() <= 1)
        );
    }

    #[test]
    fn sizes_cover_every_length_of_rows() {
        for rows in 0..=SMALL_ROWS {
            let bytes = class_bytes(class_of(rows));
            assert!(bytes >= HEAD + rows && bytes < (HEAD + rows).max(SMALLEST) + STEP);
        }
        assert_eq!(class_of(SMALL_ROWS), CLASSES - 1);
        assert_eq!(class_bytes(CLASSES - 1), LARGEST);
    }
}
