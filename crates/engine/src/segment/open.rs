//! Segments that are being written.
//!
//! Blocks are gathered in memory and handed to the writer in large aligned pieces. Until the
//! segment is sealed, its blocks are found through a chain a source: its line knows the latest
//! block, each block knows the one before.

use super::{ALIGNMENT, Entry};
use seiner_model::Interval;
use seiner_platform::File;
use std::collections::VecDeque;
use std::sync::Arc;

/// The size of a write; of small segments a sixteenth is written at a time.
const PIECE: usize = 1 << 20;
/// No block.
pub const NO_BLOCK: u32 = u32::MAX;

/// A piece on its way to the slot.
#[derive(Clone)]
pub struct Piece {
    /// Where it goes.
    pub offset: u64,
    /// What goes there: whole multiples of [`ALIGNMENT`].
    pub bytes: Arc<Vec<u8>>,
}

/// A segment that is being written, or waits to be sealed.
pub struct OpenSegment {
    /// Its number.
    pub number: u64,
    /// Its slot.
    pub file: Arc<dyn File>,
    /// The number of its first block in the chains.
    pub base: u32,
    /// Its blocks, in the order of sealing, each with the chain number of the source's block before.
    pub entries: Vec<(Entry, u32)>,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of them.
    pub block_bytes: u64,
    /// Blocks by the journal file in which they begin.
    pub pins: Vec<(u32, u64)>,
    /// Whether it takes no more blocks; then, the journal's sequence at that moment.
    pub closed_at: Option<u64>,
    /// Pieces not written yet.
    pub pieces: VecDeque<Piece>,
    span: Interval,
    last_block: u64,
    buffer: Vec<u8>,
    buffer_offset: u64,
    piece: usize,
}

impl OpenSegment {
    /// An empty segment that will have so many bytes.
    pub fn new(number: u64, file: Arc<dyn File>, base: u32, bytes: u64) -> OpenSegment {
        OpenSegment {
            number,
            file,
            base,
            entries: Vec::new(),
            rows: 0,
            block_bytes: 0,
            pins: Vec::new(),
            closed_at: None,
            pieces: VecDeque::new(),
            span: Interval::new(i64::MAX, i64::MIN),
            last_block: 0,
            buffer: Vec::new(),
            buffer_offset: 0,
            piece: (bytes as usize / 16).clamp(ALIGNMENT, PIECE),
        }
    }

    /// Bytes of blocks so far.
    pub fn len(&self) -> u64 {
        self.buffer_offset + self.buffer.len() as u64
    }

    /// The times of its blocks.
    pub fn span(&self) -> Interval {
        self.span
    }

    /// The highest number of its blocks.
    pub fn last_block(&self) -> u64 {
        self.last_block
    }

    /// Bytes of memory: what is not written yet, and the list of blocks.
    pub fn memory(&self) -> usize {
        let pieces: usize = self.pieces.iter().map(|piece| piece.bytes.len()).sum();
        pieces + self.buffer.capacity() + self.entries.capacity() * size_of::<(Entry, u32)>()
    }

    /// Bytes that wait to be written.
    pub fn waiting(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes.len()).sum()
    }

    /// Adds a block: `encode` appends its bytes. Answers its number in the chains and its length.
    pub fn add(
        &mut self,
        mut entry: Entry,
        before: u32,
        journal_file: u32,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> (u32, u32) {
        let at = self.buffer.len();
        encode(&mut self.buffer);
        entry.offset = (self.buffer_offset + at as u64) as u32;
        entry.len = (self.buffer.len() - at) as u32;
        self.rows += u64::from(entry.rows);
        self.block_bytes += u64::from(entry.len);
        self.span = Interval::new(
            self.span.start.min(entry.first),
            self.span.end.max(entry.last),
        );
        self.last_block = self.last_block.max(entry.number);
        match self.pins.iter_mut().find(|(file, _)| *file == journal_file) {
            Some((_, blocks)) => *blocks += 1,
            None => self.pins.push((journal_file, 1)),
        }
        let chain = self.base.wrapping_add(self.entries.len() as u32);
        self.entries.push((entry, before));
        if self.buffer.len() >= self.piece {
            self.cut();
        }
        (chain, entry.len)
    }

    /// Hands over the whole multiples of the alignment.
    fn cut(&mut self) {
        let whole = self.buffer.len() / ALIGNMENT * ALIGNMENT;
        let mut rest = Vec::with_capacity(self.piece + self.piece / 8);
        rest.extend_from_slice(&self.buffer[whole..]);
        let mut bytes = std::mem::replace(&mut self.buffer, rest);
        bytes.truncate(whole);
        self.pieces.push_back(Piece {
            offset: self.buffer_offset,
            bytes: Arc::new(bytes),
        });
        self.buffer_offset += whole as u64;
    }

    /// Ends the list of blocks; what is left is handed over, filled up with zeros.
    pub fn close(&mut self, sequence: u64) {
        self.buffer
            .resize(self.buffer.len().next_multiple_of(ALIGNMENT), 0);
        self.cut();
        self.buffer = Vec::new();
        self.closed_at = Some(sequence);
    }

    /// The block of a number in the chains, and the one before it, if it is in this segment.
    pub fn in_chain(&self, chain: u32) -> Option<&(Entry, u32)> {
        self.entries.get(chain.wrapping_sub(self.base) as usize)
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
