//! Segments that are being written.
//!
//! Blocks are gathered in memory and handed to the writer in large aligned pieces. Now and then a
//! *chapter* ends: an index of the blocks since the chapter before, written behind them. Blocks in
//! chapters count after a crash, so that the journal may let go of them however slowly the segment
//! fills.
//!
//! Until the segment is sealed, its blocks are found through a chain a source: the segment knows the
//! latest block of each, and each block knows the one before.

use super::footer::{self, Trailer};
use super::list::{BlockList, Listing};
use super::{ALIGNMENT, Entry};
use seiner_model::Interval;
use seiner_platform::File;
use std::collections::VecDeque;
use std::sync::Arc;

/// The largest write.
const PIECE: usize = 1 << 20;

/// A piece on its way to the slot.
#[derive(Clone)]
pub struct Piece {
    /// Where it goes.
    pub offset: u64,
    /// What goes there: whole multiples of [`ALIGNMENT`].
    pub bytes: Arc<Vec<u8>>,
}

/// A segment that was being written when the store was left.
pub struct Resumed {
    /// Its place.
    pub segment: OpenSegment,
    /// Where its last chapter ends.
    pub end: u64,
    /// The blocks in its chapters.
    pub entries: Vec<Entry>,
    /// When the last was written: wall time in ns.
    pub born: i64,
    /// The journal's sequence then.
    pub sequence: u64,
    /// How many sources the store had then.
    pub sources: u32,
    /// How many layouts.
    pub layouts: u32,
}

/// Place of a chapter's index.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Number of the segment.
    pub number: u64,
    /// Its lane.
    pub lane: u32,
    /// Byte at which the index begins.
    pub offset: u64,
    /// Byte at which the chapter before ends.
    pub previous: u64,
}

/// What the store had when an index was made: what the catalog must know at least, and how far the
/// journal had come.
#[derive(Clone, Copy)]
pub struct Horizon {
    /// The store.
    pub store: u64,
    /// The journal's sequence.
    pub sequence: u64,
    /// Sources.
    pub sources: u32,
    /// Layouts.
    pub layouts: u32,
    /// Wall time, ns.
    pub now: i64,
}

impl Horizon {
    /// What an index of some blocks of a segment says about them as a whole; `closed_at`: the journal's
    /// sequence as the segment was closed.
    pub fn trailer(
        &self,
        number: u64,
        lane: u32,
        closed_at: Option<u64>,
        entries: &[Entry],
    ) -> Trailer {
        let span = |span: Interval, entry: &Entry| {
            Interval::new(span.start.min(entry.first), span.end.max(entry.last))
        };
        Trailer {
            number,
            store: self.store,
            blocks: entries.len() as u64,
            rows: entries.iter().map(|entry| u64::from(entry.rows)).sum(),
            block_bytes: entries.iter().map(|entry| u64::from(entry.len)).sum(),
            span: entries.iter().fold(Interval::new(i64::MAX, i64::MIN), span),
            last_block: entries.iter().map(|entry| entry.number).max().unwrap_or(0),
            sequence: closed_at.unwrap_or(self.sequence),
            sources: self.sources,
            layouts: self.layouts,
            fence_offset: 0,
            fence_len: 0,
            fence_sum: 0,
            lane,
            previous: 0,
            born: self.now,
        }
    }
}

/// A segment that is being written, or waits to be sealed.
pub struct OpenSegment {
    /// Its number.
    pub number: u64,
    /// The lane whose blocks it takes.
    pub lane: u32,
    /// Its slot.
    pub file: Arc<dyn File>,
    /// Its blocks, in the order in which they came.
    blocks: BlockList,
    /// Blocks not in a chapter yet, by the journal file in which they begin.
    pub pins: Vec<(u32, u64)>,
    /// Whether it takes no more blocks; then, the journal's sequence at that moment.
    pub closed_at: Option<u64>,
    /// Pieces not written yet.
    pub pieces: VecDeque<Piece>,
    /// How far its name says that it counts.
    pub marked: u64,
    /// Bytes of the slot that are reserved.
    pub reserved: u64,
    /// Bytes of memory that the blocks which no chapter covers take as rows, if they are replayed.
    pub replayable: u64,
    /// How many of the blocks are in chapters.
    in_chapters: usize,
    /// Where the last chapter ends.
    chapter_end: u64,
    buffer: Vec<u8>,
    buffer_offset: u64,
    piece: usize,
}

impl OpenSegment {
    /// An empty segment that is written in pieces of about so many bytes.
    pub fn new(number: u64, lane: u32, file: Arc<dyn File>, piece: u64) -> OpenSegment {
        OpenSegment {
            number,
            lane,
            file,
            blocks: BlockList::default(),
            pins: Vec::new(),
            closed_at: None,
            pieces: VecDeque::new(),
            marked: 0,
            reserved: 0,
            replayable: 0,
            in_chapters: 0,
            chapter_end: 0,
            buffer: Vec::new(),
            buffer_offset: 0,
            piece: (piece as usize).clamp(ALIGNMENT, PIECE),
        }
    }

    /// Goes on with a segment whose chapters were read; its blocks in the order of their places.
    pub fn resume(mut self, end: u64, entries: Vec<Entry>) -> OpenSegment {
        self.in_chapters = entries.len();
        entries
            .into_iter()
            .for_each(|entry| self.blocks.push(entry));
        (self.chapter_end, self.buffer_offset, self.marked) = (end, end, end);
        self.reserved = end;
        self
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.buffer_offset + self.buffer.len() as u64
    }

    /// Bytes of memory: what is not written yet, and the list of blocks.
    pub fn memory(&self) -> usize {
        let pieces = self.pieces.iter().map(|piece| piece.bytes.capacity());
        pieces.sum::<usize>() + self.buffer.capacity() + self.list_bytes()
    }

    /// Bytes of memory of the list of blocks.
    pub fn list_bytes(&self) -> usize {
        self.blocks.memory()
    }

    /// Bytes that wait to be written.
    pub fn waiting(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes.len()).sum()
    }

    /// Whether there are blocks that no chapter covers.
    pub fn has_news(&self) -> bool {
        self.in_chapters < self.blocks.len()
    }

    /// Adds a block. Returns its length in bytes. `journal_file` is where it begins, if the journal
    /// has it.
    pub fn add(&mut self, mut entry: Entry, journal_file: Option<u32>, bytes: &[u8]) -> u32 {
        let at = self.buffer.len();
        self.buffer.extend_from_slice(bytes);
        entry.offset = (self.buffer_offset + at as u64) as u32;
        entry.len = (self.buffer.len() - at) as u32;
        if let Some(file) = journal_file {
            match self.pins.iter_mut().find(|(pinned, _)| *pinned == file) {
                Some((_, blocks)) => *blocks += 1,
                None => self.pins.push((file, 1)),
            }
        }
        self.blocks.push(entry);
        if self.buffer.len() >= self.piece {
            self.cut();
        }
        entry.len
    }

    /// Hands over the whole multiples of the alignment.
    fn cut(&mut self) {
        let whole = self.buffer.len() / ALIGNMENT * ALIGNMENT;
        let mut rest = Vec::with_capacity(self.piece + self.piece / 8);
        rest.extend_from_slice(&self.buffer[whole..]);
        let mut bytes = std::mem::replace(&mut self.buffer, rest);
        bytes.truncate(whole);
        self.hand_over(bytes);
    }

    fn hand_over(&mut self, bytes: Vec<u8>) {
        let offset = self.buffer_offset;
        self.buffer_offset += bytes.len() as u64;
        self.pieces.push_back(Piece {
            offset,
            bytes: Arc::new(bytes),
        });
    }

    /// Hands over all there is, filled up with zeros.
    fn cut_all(&mut self) {
        self.buffer
            .resize(self.buffer.len().next_multiple_of(ALIGNMENT), 0);
        if !self.buffer.is_empty() {
            self.cut();
        }
        self.buffer = Vec::new();
    }

    /// Begins to end a chapter: hands the blocks since the one before over to the writer and returns them.
    /// No block may be added before [`OpenSegment::end_chapter`].
    pub fn begin_chapter(&mut self) -> Listing {
        self.cut_all();
        self.news()
    }

    /// Returns the index of a chapter with these blocks, as it stands behind them. Encodes, and so is
    /// called without a lock, with the figures of [`OpenSegment::place`].
    pub fn index(place: Place, entries: &mut [Entry], horizon: &Horizon) -> Vec<u8> {
        let mut trailer = horizon.trailer(place.number, place.lane, None, entries);
        trailer.previous = place.previous;
        let mut bytes = Vec::new();
        footer::encode(entries, place.offset, trailer, &mut bytes);
        bytes
    }

    /// Returns the place of the index of a chapter that was begun.
    pub fn place(&self) -> Place {
        Place {
            number: self.number,
            lane: self.lane,
            offset: self.buffer_offset,
            previous: self.chapter_end,
        }
    }

    /// Ends a chapter with its index and returns what the journal has of its blocks. The journal may let
    /// go of that once the chapter is written, synced and marked.
    pub fn end_chapter(&mut self, index: Vec<u8>) -> Vec<(u32, u64)> {
        self.hand_over(index);
        self.in_chapters = self.blocks.len();
        self.chapter_end = self.buffer_offset;
        self.replayable = 0;
        std::mem::take(&mut self.pins)
    }

    /// Where the last chapter ends.
    pub fn chapter_end(&self) -> u64 {
        self.chapter_end
    }

    /// Ends the list of blocks; what is left is handed over.
    pub fn close(&mut self, sequence: u64) {
        self.cut_all();
        self.closed_at = Some(sequence);
    }

    /// Returns the blocks that no chapter covers.
    pub fn news(&self) -> Listing {
        self.blocks.listing(self.in_chapters)
    }

    /// Returns all blocks.
    pub fn listing(&self) -> Listing {
        self.blocks.listing(0)
    }

    /// Returns the blocks of a source, the latest first.
    pub fn blocks_of(&self, source: u32) -> impl Iterator<Item = Entry> {
        self.blocks.of(source)
    }

    /// Returns the lowest number of its blocks.
    pub fn first_block(&self) -> Option<u64> {
        self.blocks.first_block()
    }

    /// The end of a block's bytes, as much as is in memory: what precedes it was written, and has to
    /// be read. A piece is cut without regard to blocks, so that either may be empty or not.
    pub fn held_end(&self, entry: &Entry) -> Vec<u8> {
        let (start, end) = (
            u64::from(entry.offset),
            u64::from(entry.offset) + u64::from(entry.len),
        );
        let mut bytes = Vec::new();
        let pieces = self
            .pieces
            .iter()
            .map(|piece| (piece.offset, piece.bytes.as_slice()));
        for (offset, held) in pieces.chain([(self.buffer_offset, self.buffer.as_slice())]) {
            let (from, to) = (start.max(offset), end.min(offset + held.len() as u64));
            if from < to {
                bytes.extend_from_slice(&held[(from - offset) as usize..(to - offset) as usize]);
            }
        }
        bytes
    }
}
