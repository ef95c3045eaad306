//! Small blocks: open blocks with few rows of one number, in buffers that neighbouring sources share.
//!
//! A source with its own line costs a line and a slot of the slab, at least 128 bytes, however few
//! rows it has. A small block costs its rows and about six bytes: all that neighbours have in common
//! is stored once for a group of sources. Column states are not stored. They are computed again from
//! the rows, which are few. Most sensors send at the same intervals, so the distance of the first two rows, five bytes
//! of most blocks, is stored once for the group, too: the *beat*.

mod common;
pub mod neighbours;

use super::line::{GROUP, OpenState};
use super::number::{Limit, NUMBER_BYTES, Number};
use super::row::{self, Coded, ColumnState, Reader, START, TimeState};
use super::run;
use super::shared::{MOST, SharedBuffers};
use common::{Common, beat_bytes, beat_of, value_bytes};
use seiner_codec::varint;
use seiner_model::FieldType;
use std::ops::Range;

/// Maximum bytes of the rows of a small block.
pub const SMALL_ROWS: usize = 96;
/// Maximum rows of a small block.
const MOST_ROWS: u16 = 255;
/// Bytes that are read at once.
const WINDOW: usize = 16;
/// Bytes of the first row before its value: the codes, and the time.
const FIRST: usize = 9;
/// Maximum bytes of a block in a shared buffer: two bytes, the head, a time, and rows.
const BLOCK: usize = 2 + 10 + 5 + 2 + 1 + 10 + SMALL_ROWS;
/// Flag of a block: no decimal was found for the last value. Lower bits are the source in its group.
const HOPELESS: u8 = 128;
/// Flag of a block: the distance of its first two rows is that of the group, and is not stored in the block.
const ON_BEAT: u8 = 64;

const _: () = assert!(Common::BYTES + GROUP * BLOCK <= MOST, "a group fits");
const _: () = assert!(GROUP <= ON_BEAT as usize && BLOCK - 2 <= 255);

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

    /// Returns the time of the first row.
    fn first_time(&self) -> i64 {
        debug_assert_eq!(self.rows[0] & 15, START, "a block begins with a time");
        i64::from_le_bytes(self.rows[1..FIRST].try_into().expect("eight bytes"))
    }

    /// Returns the numbers that the group of the block's source has in common.
    fn common(&self) -> Common {
        Common {
            block: self.state.block,
            journal_file: self.state.journal_file,
            time: if self.state.rows == 0 {
                0
            } else {
                self.first_time()
            },
            beat: self.second_time().map_or(0, |time| time.beat),
        }
    }

    /// Returns the place of the second row's time, and the distance of the first two rows. Returns `None` if the block has
    /// no second row, or if that distance cannot be a beat.
    fn second_time(&self) -> Option<SecondTime> {
        if self.state.rows < 2 {
            return None;
        }
        let codes = FIRST + value_bytes(self.rows[0], self.rows[FIRST]);
        let beat = beat_of(self.rows[codes], self.rows[codes + 1..].first_chunk()?)?;
        Some(SecondTime {
            at: codes + 1,
            beat,
        })
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

    /// Adds a row in its journal encoding, which fits. Returns false if it could not be read again.
    pub fn push_encoded(&mut self, codes: &[u8], payload: &[u8], field_type: FieldType) -> bool {
        let at = self.state.bytes as usize;
        let (end, all) = (at + codes.len(), at + codes.len() + payload.len());
        let mut block = [0; SMALL_ROWS];
        block[..at].copy_from_slice(self.rows());
        block[at..end].copy_from_slice(codes);
        block[end..all].copy_from_slice(payload);
        let (mut time, mut states) = (TimeState::default(), [ColumnState::default()]);
        let followed = row::follow(&block[..all], at, &[field_type], &mut time, &mut states);
        if followed.is_ok() {
            self.push(&block[at..all]);
        }
        followed.is_ok()
    }
}

/// Returns whether a block of these bytes and rows can be small.
pub fn fits(bytes: usize, rows: u16) -> bool {
    bytes <= SMALL_ROWS && rows <= MOST_ROWS
}

/// Returns whether another row of `bytes` bytes fits into a small block.
pub fn has_space(state: OpenState, bytes: usize) -> bool {
    fits(state.bytes as usize + bytes, state.rows + 1)
}

/// Time of the second row of a block.
struct SecondTime {
    /// Position in the rows.
    at: usize,
    /// Distance to the first row in ns.
    beat: i64,
}

/// Small blocks of a store, by source.
#[derive(Default)]
pub struct SmallBlocks {
    buffers: SharedBuffers,
    /// String that is being written.
    string: Vec<u8>,
    /// Source of the block that was written last, and the end of that block: rows often arrive in the order of their
    /// sources, and the next block follows.
    last: Option<(u32, usize)>,
}

impl SmallBlocks {
    /// Adds a source, which has no small block.
    pub fn add_source(&mut self, source: u32) {
        self.buffers.add_group(group(source));
    }

    /// Stores the small block of a source. It replaces the block that the source has.
    pub fn put(&mut self, source: u32, small: &Small) {
        self.replace(source, Some(small));
    }

    /// Removes the small block of a source, if it has one.
    pub fn remove(&mut self, source: u32) {
        if !self.find(source).1.is_empty() {
            self.replace(source, None);
        }
    }

    /// Appends a number to the small block of a source. Returns the codes of its time and value, and its bytes. Returns
    /// `None` if the source has no small block with a row, or if the block accepts no more rows.
    pub fn append(
        &mut self,
        source: u32,
        field_type: FieldType,
        tick: u16,
        limit: Limit,
        (time, value): (i64, Number),
    ) -> Option<((Coded, Coded), usize)> {
        let stored = self.stored(source)?;
        let (row, coded) = stored.next_row(field_type, tick, limit, (time, value))?;
        let (row, beat) = stored.without_beat(row, stored.beat);
        let (block, figures) = (stored.range, stored.figures);
        self.last = Some((source, block.end + row.stored().len()));
        let string = self.buffers.insert(group(source), block.end, row.stored());
        Common::set_beat(string, beat);
        row.count(source, &mut string[block.start..], figures - block.start);
        Some((coded, row.len))
    }

    /// Appends the first row to the small block of a source. Returns `None` if the source has no small block without
    /// rows.
    pub fn append_first(
        &mut self,
        source: u32,
        tick: u16,
        (time, value): (i64, Number),
    ) -> Option<((Coded, Coded), usize)> {
        let mut small = self.get(source).filter(|small| small.state.rows == 0)?;
        let mut column = ColumnState::default();
        let coded = (
            row::code_time(time, &mut TimeState::default(), true),
            value.code(&mut column),
        );
        let mut row = [0; NUMBER_BYTES];
        let bytes = run::put_number(coded.0, coded.1, &mut row);
        small.push(&row[..bytes]);
        (small.state.touched, small.hopeless) = (tick, column.hopeless);
        self.put(source, &small);
        Some((coded, bytes))
    }

    fn replace(&mut self, source: u32, small: Option<&Small>) {
        let old = self.find(source).1;
        let string = self.buffers.get(group(source));
        let blocks = string.get(Common::BYTES..).unwrap_or_default();
        let old = old.start - Common::BYTES..old.end - Common::BYTES;
        let new = small.map(Small::common);
        let common = match old.len() == blocks.len() {
            // The only block of the group may have been without rows.
            true => new,
            false => Some(Common::read(string).or_beat_of(new)),
        };
        let Some(common) = common else {
            self.last = None;
            return self.buffers.remove(group(source));
        };
        let out = &mut self.string;
        out.clear();
        common.put(out);
        out.extend_from_slice(&blocks[..old.start]);
        if let Some(small) = small {
            put(source, small, common, out);
        }
        self.last = Some((source, out.len()));
        out.extend_from_slice(&blocks[old.end..]);
        self.buffers.put(group(source), out);
    }

    /// Frees the pages that no block uses.
    pub fn release_idle(&mut self) {
        self.buffers.release_idle();
    }

    /// Returns the figures of the small block of a source.
    pub fn state(&self, source: u32) -> Option<OpenState> {
        Some(self.stored(source)?.state)
    }

    /// Returns the string of a source's group, and the range of the source's block as [`find`] does.
    #[inline]
    fn find(&self, source: u32) -> (&[u8], Range<usize>) {
        let string = self.buffers.get(group(source));
        let from = match self.last {
            Some((last, end)) if last < source && group(last) == group(source) => end,
            _ => Common::BYTES,
        };
        (string, find(string, from, source))
    }

    /// Finds the small block of a source.
    fn stored(&self, source: u32) -> Option<Stored<'_>> {
        let (string, found) = self.find(source);
        (!found.is_empty()).then(|| read(string, found))
    }

    /// Copies the small block of a source.
    pub fn get(&self, source: u32) -> Option<Small> {
        Some(self.stored(source)?.small())
    }

    /// Prefetches the place of the small block of a source.
    #[inline]
    pub fn prefetch_place(&self, source: u32) {
        self.buffers.prefetch_place(group(source));
    }

    /// Prefetches the small block of a source.
    #[inline]
    pub fn prefetch(&self, source: u32) {
        self.buffers.prefetch(group(source));
    }

    /// Returns the memory of all blocks, in bytes.
    pub fn page_bytes(&self) -> usize {
        self.buffers.page_bytes()
    }

    /// Returns the permanent memory of all sources, in bytes.
    pub fn source_bytes(&self) -> usize {
        self.buffers.place_bytes() + self.string.capacity()
    }
}

/// Small block in the string of its group.
struct Stored<'s> {
    state: OpenState,
    hopeless: bool,
    /// Time of the first row.
    time: i64,
    /// Distance of the first two rows in the group. 0 if it is not known yet.
    beat: i64,
    /// True if this distance is not in `rows`.
    is_on_beat: bool,
    /// Rows without the time of the first row.
    rows: &'s [u8],
    /// Position of the block.
    range: Range<usize>,
    /// Position of the arrival of the last row, and after it of the number of rows.
    figures: usize,
}

impl Stored<'_> {
    /// Returns whether the block has a row, and space for another of `bytes` bytes.
    fn continues(&self, bytes: usize) -> bool {
        self.state.rows != 0 && has_space(self.state, bytes)
    }

    /// Encodes a number that follows the last row. Returns the row, and the codes of its time and value. Returns `None` if
    /// the block has no row, or accepts no more rows.
    fn next_row(
        &self,
        field_type: FieldType,
        tick: u16,
        limit: Limit,
        (time, value): (i64, Number),
    ) -> Option<(NewRow, (Coded, Coded))> {
        if !self.continues(NUMBER_BYTES) || limit.is_reached(self.state) {
            return None;
        }
        let (mut times, mut column) = self.small().column_states(field_type);
        let coded = (
            row::code_time(time, &mut times, false),
            value.code(&mut column),
        );
        let mut row = NewRow::default();
        row.len = run::put_number(coded.0, coded.1, &mut row.bytes);
        row.change = Some((column.hopeless, tick));
        Some((row, coded))
    }

    /// Returns a row that follows without its distance, if it is the second row and on the beat of the group. The first
    /// such row of a group makes the beat, which is also returned.
    fn without_beat(&self, mut row: NewRow, beat: i64) -> (NewRow, i64) {
        if self.state.rows != 1 {
            return (row, beat);
        }
        let payload = row.bytes[1..]
            .first_chunk()
            .expect("a row has space for a word");
        let own = beat_of(row.bytes[0], payload).filter(|own| beat == 0 || beat == *own);
        let Some(own) = own else {
            return (row, beat);
        };
        row.on_beat = beat_bytes(own);
        row.bytes.copy_within(1 + row.on_beat..row.len, 1);
        (row, own)
    }

    fn small(&self) -> Small {
        let mut small = Small::new(self.state, self.hopeless, &[]);
        small.state = self.state;
        let [codes, rest @ ..] = self.rows else {
            return small;
        };
        small.rows[0] = *codes;
        small.rows[1..FIRST].copy_from_slice(&self.time.to_le_bytes());
        if !self.is_on_beat {
            small.rows[FIRST..FIRST + rest.len()].copy_from_slice(rest);
            return small;
        }
        // The distance follows the codes of the second row.
        let (first, second) = rest.split_at(value_bytes(*codes, rest[0]) + 1);
        let at = FIRST + first.len();
        small.rows[FIRST..at].copy_from_slice(first);
        small.rows[at..at + 8].copy_from_slice(&varint::zigzag(self.beat).to_le_bytes());
        let at = at + beat_bytes(self.beat);
        small.rows[at..at + second.len()].copy_from_slice(second);
        small
    }
}

/// Row of one number in its journal encoding, for a block with a row.
#[derive(Clone, Copy, Default)]
struct NewRow {
    bytes: [u8; NUMBER_BYTES],
    /// Bytes of the row, with those left out.
    len: usize,
    /// Bytes of the distance to the first row that were left out.
    on_beat: usize,
    /// The flag of the block, and the arrival of the row. `None` for rows of a journal.
    change: Option<(bool, u16)>,
}

impl NewRow {
    /// Returns the bytes to store.
    fn stored(&self) -> &[u8] {
        &self.bytes[..self.len - self.on_beat]
    }

    /// Counts the row in a block behind which it was added. `figures` is their position in the block.
    fn count(&self, source: u32, block: &mut [u8], figures: usize) {
        block[1] += self.stored().len() as u8;
        block[figures + 2] += 1;
        if let Some((is_hopeless, tick)) = self.change {
            block[0] = nth(source, is_hopeless) | block[0] & ON_BEAT;
            block[figures..figures + 2].copy_from_slice(&tick.to_le_bytes());
        }
        if self.on_beat != 0 {
            block[0] |= ON_BEAT;
        }
    }
}

/// Returns the first byte of a block: the source in its group, and the flag.
fn nth(source: u32, hopeless: bool) -> u8 {
    let flag = if hopeless { HOPELESS } else { 0 };
    (source % GROUP as u32) as u8 | flag
}

fn group(source: u32) -> u32 {
    source / GROUP as u32
}

/// Finds the block of a source in the string of its group, among the blocks from a position on. Blocks are in the order
/// of their sources. The range is empty if the source has no block, and is where its block belongs.
#[inline]
fn find(string: &[u8], mut at: usize, source: u32) -> Range<usize> {
    let nth = nth(source, false);
    while at < string.len() {
        let (found, len) = (string[at] & !(HOPELESS | ON_BEAT), string[at + 1] as usize);
        if found >= nth {
            let end = if found == nth { at + 2 + len } else { at };
            return at..end;
        }
        at += 2 + len;
    }
    at..at
}

/// Appends a block: the source in its group, the bytes that follow, the figures, and the rows.
fn put(source: u32, small: &Small, common: Common, out: &mut Vec<u8>) {
    let (state, start) = (&small.state, out.len());
    out.extend_from_slice(&[nth(source, small.hopeless), 0]);
    varint::put_i64(state.block.wrapping_sub(common.block) as i64, out);
    let file = i64::from(state.journal_file) - i64::from(common.journal_file);
    varint::put_i64(file, out);
    out.extend_from_slice(&state.touched.to_le_bytes());
    out.push(state.rows as u8);
    if state.rows != 0 {
        varint::put_i64(small.first_time().wrapping_sub(common.time), out);
        let rows = small.rows();
        out.push(rows[0]);
        let on_beat = small.second_time().filter(|time| time.beat == common.beat);
        match on_beat {
            Some(time) => {
                out[start] |= ON_BEAT;
                out.extend_from_slice(&rows[FIRST..time.at]);
                out.extend_from_slice(&rows[time.at + beat_bytes(time.beat)..]);
            }
            None => out.extend_from_slice(&rows[FIRST..]),
        }
    }
    out[start + 1] = (out.len() - start - 2) as u8;
}

/// Reads the block at a range of the string of its group.
fn read(string: &[u8], range: Range<usize>) -> Stored<'_> {
    let common = Common::read(string);
    let mut rest = &string[range.start + 2..range.end];
    let mut number = || varint::get_i64(&mut rest).expect("the number was written here");
    let (block, file) = (number(), number());
    let figures = range.end - rest.len();
    let (touched, rows) = (u16::from_le_bytes([rest[0], rest[1]]), u16::from(rest[2]));
    rest = &rest[3..];
    let is_on_beat = string[range.start] & ON_BEAT != 0;
    let (mut time, mut bytes) = (0, 0);
    if rows != 0 {
        time = varint::get_i64(&mut rest).expect("the time was written here");
        bytes = rest.len() + FIRST - 1;
    }
    if is_on_beat {
        bytes += beat_bytes(common.beat);
    }
    let state = OpenState {
        block: common.block.wrapping_add(block as u64),
        journal_file: (i64::from(common.journal_file) + file) as u32,
        bytes: bytes as u32,
        rows,
        touched,
    };
    Stored {
        state,
        hopeless: string[range.start] & HOPELESS != 0,
        time: common.time.wrapping_add(time),
        beat: common.beat,
        is_on_beat,
        rows: rest,
        range,
        figures,
    }
}

#[cfg(test)]
mod tests;
