//! Open segments: segments that are being written.
//!
//! Blocks are collected in memory and passed to the writer in large aligned pieces. From time to
//! time a *checkpoint* is written: an index of the blocks since the previous checkpoint, behind
//! these blocks.
//! Checkpointed blocks survive a crash, so the journal can release them even if the segment fills
//! slowly.
//!
//! Until the segment is sealed, its blocks are found through one chain per source. The segment
//! stores the latest block of each source, and each block refers to the previous block.

use super::footer::{self, Trailer};
use super::list::{BlockList, Listing};
use super::{ALIGNMENT, Entry};
use seiner_model::Interval;
use seiner_platform::File;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum bytes of a write.
const PIECE: usize = 1 << 20;

/// Piece to be written to the slot.
#[derive(Clone)]
pub struct WritePiece {
    /// Offset of the piece in the segment, in bytes.
    pub offset: u64,
    /// Bytes of the piece: a multiple of [`ALIGNMENT`].
    pub bytes: Arc<Vec<u8>>,
}

/// Segment that was being written when the store was closed or crashed.
pub struct Resumed {
    /// Segment to be continued.
    pub segment: OpenSegment,
    /// End of the last checkpoint.
    pub end: u64,
    /// Blocks in the checkpoints.
    pub entries: Vec<Entry>,
    /// Time at which the last checkpoint was written: wall time in ns.
    pub born: i64,
    /// Sequence of the journal when the last checkpoint was written.
    pub sequence: u64,
    /// Number of sources in the store when the last checkpoint was written.
    pub sources: u32,
    /// Number of layouts in the store when the last checkpoint was written.
    pub layouts: u32,
}

/// Position of the index of a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointPosition {
    /// Number of the segment.
    pub number: u64,
    /// Number of the segment's lane.
    pub lane: u32,
    /// Offset of the index in the segment, in bytes.
    pub offset: u64,
    /// End of the previous checkpoint, in bytes.
    pub previous: u64,
}

/// State of the store when an index was made: the minimum contents of the catalog, and the position
/// of the journal.
#[derive(Clone, Copy)]
pub struct Horizon {
    /// Identity of the store.
    pub store: u64,
    /// Sequence of the journal.
    pub sequence: u64,
    /// Number of sources.
    pub sources: u32,
    /// Number of layouts.
    pub layouts: u32,
    /// Wall time, ns.
    pub now: i64,
}

impl Horizon {
    /// Returns the trailer of an index of some blocks of a segment. `closed_at` is the sequence of
    /// the journal when the segment was closed.
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
            sparse_index_offset: 0,
            sparse_index_len: 0,
            sparse_index_sum: 0,
            lane,
            previous: 0,
            born: self.now,
        }
    }
}

/// Segment that is being written, or waits to be sealed.
pub struct OpenSegment {
    /// Number of the segment.
    pub number: u64,
    /// Number of the lane whose blocks the segment stores.
    pub lane: u32,
    /// File of the slot.
    pub file: Arc<dyn File>,
    /// Blocks in the order in which they were added.
    blocks: BlockList,
    /// Numbers of blocks that are not yet in a checkpoint, by the journal file in which they begin.
    pub pins: Vec<(u32, u64)>,
    /// Sequence of the journal when the segment was closed. `None` while the segment accepts
    /// blocks.
    pub closed_at: Option<u64>,
    /// Pieces that are not yet written.
    pub pieces: VecDeque<WritePiece>,
    /// Durable length that is encoded in the name of the file.
    pub marked: u64,
    /// Bytes of the slot that are reserved, or will be before the next write.
    pub reserved: u64,
    /// Memory in bytes that the rows of blocks outside any checkpoint would need in a replay.
    pub replayable: u64,
    /// Bundles that are not completely written, with their offsets. Readers share their bytes.
    bundles: VecDeque<(u64, Arc<Vec<u8>>)>,
    /// Number of blocks in checkpoints.
    checkpointed: usize,
    /// End of the last checkpoint.
    checkpoint_end: u64,
    buffer: Vec<u8>,
    buffer_offset: u64,
    piece: usize,
}

impl OpenSegment {
    /// Creates an empty segment that is written in pieces of about `piece` bytes.
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
            bundles: VecDeque::new(),
            checkpointed: 0,
            checkpoint_end: 0,
            buffer: Vec::new(),
            buffer_offset: 0,
            piece: (piece as usize).clamp(ALIGNMENT, PIECE),
        }
    }

    /// Continues a segment whose checkpoints were read. The blocks are in the order of their offsets.
    pub fn resume(mut self, end: u64, entries: Vec<Entry>) -> OpenSegment {
        self.checkpointed = entries.len();
        entries
            .into_iter()
            .for_each(|entry| self.blocks.push(entry));
        (self.checkpoint_end, self.buffer_offset, self.marked) = (end, end, end);
        self.reserved = self.reserved.max(end);
        self
    }

    /// Returns the bytes of the segment so far.
    pub fn len(&self) -> u64 {
        self.buffer_offset + self.buffer.len() as u64
    }

    /// Returns the memory of unwritten bytes and of the list of blocks, in bytes.
    pub fn memory(&self) -> usize {
        let pieces = self.pieces.iter().map(|piece| piece.bytes.capacity());
        let bundles = self.bundles.iter().map(|(_, bytes)| bytes.capacity());
        let unwritten = pieces.chain(bundles).sum::<usize>() + self.buffer.capacity();
        unwritten + self.list_bytes()
    }

    /// Returns the memory of the list of blocks, in bytes.
    pub fn list_bytes(&self) -> usize {
        self.blocks.memory()
    }

    /// Returns the bytes that wait to be written.
    pub fn waiting(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes.len()).sum()
    }

    /// Returns whether any block is not in a checkpoint.
    pub fn has_pending(&self) -> bool {
        self.checkpointed < self.blocks.len()
    }

    /// Adds a block and returns its length in bytes. `journal_file` is the journal file in which
    /// the block begins, if the journal contains the block.
    pub fn add(&mut self, mut entry: Entry, journal_file: Option<u32>, bytes: &[u8]) -> u32 {
        entry.offset = self.len() as u32;
        entry.len = bytes.len() as u32;
        entry.bundle = 0;
        self.buffer.extend_from_slice(bytes);
        self.pin(journal_file);
        self.blocks.push(entry);
        self.cut_if_full();
        entry.len
    }

    /// Adds the blocks of a bundle. Each has the journal file in which it begins, if the journal
    /// contains it. Offsets are set here.
    pub fn add_bundle(
        &mut self,
        blocks: impl Iterator<Item = (Entry, Option<u32>)>,
        bytes: Arc<Vec<u8>>,
    ) {
        let offset = self.len();
        for (entry, journal_file) in blocks {
            debug_assert_eq!(entry.bundle as usize, bytes.len());
            self.pin(journal_file);
            self.blocks.push(Entry {
                offset: offset as u32,
                ..entry
            });
        }
        self.buffer.extend_from_slice(&bytes);
        self.bundles.push_back((offset, bytes));
        self.cut_if_full();
    }

    /// Counts a block that begins in a journal file.
    fn pin(&mut self, journal_file: Option<u32>) {
        let Some(file) = journal_file else { return };
        match self.pins.iter_mut().find(|(pinned, _)| *pinned == file) {
            Some((_, blocks)) => *blocks += 1,
            None => self.pins.push((file, 1)),
        }
    }

    fn cut_if_full(&mut self) {
        if self.buffer.len() >= self.piece {
            self.cut(self.piece + self.piece / 8);
        }
    }

    /// Removes the first `count` pieces, which are written.
    pub fn note_written(&mut self, count: usize) {
        self.pieces.drain(..count);
        let front = self.pieces.front().map(|piece| piece.offset);
        let written = front.unwrap_or(self.buffer_offset);
        while let Some((offset, bytes)) = self.bundles.front()
            && offset + bytes.len() as u64 <= written
        {
            self.bundles.pop_front();
        }
    }

    /// Moves whole multiples of the alignment to the pieces. The buffer then has memory for `capacity` bytes,
    /// or for its bytes if they are more.
    fn cut(&mut self, capacity: usize) {
        let whole = self.buffer.len() / ALIGNMENT * ALIGNMENT;
        let mut rest = Vec::with_capacity(capacity);
        rest.extend_from_slice(&self.buffer[whole..]);
        let mut bytes = std::mem::replace(&mut self.buffer, rest);
        bytes.truncate(whole);
        if whole > 0 {
            self.hand_over(bytes);
        }
    }

    fn hand_over(&mut self, bytes: Vec<u8>) {
        let offset = self.buffer_offset;
        self.buffer_offset += bytes.len() as u64;
        self.pieces.push_back(WritePiece {
            offset,
            bytes: Arc::new(bytes),
        });
    }

    /// Begins a checkpoint: passes the blocks since the previous checkpoint to the writer, but for the
    /// tail, and returns them. No block may be added before [`OpenSegment::end_checkpoint`].
    pub fn begin_checkpoint(&mut self) -> Listing {
        self.cut(0);
        self.pending()
    }

    /// Returns the encoded index of a checkpoint with these blocks. Encoding is slow, so this function
    /// is called without a lock, with the position from [`OpenSegment::position`].
    pub fn index(
        position: CheckpointPosition,
        entries: &mut [Entry],
        horizon: &Horizon,
    ) -> Vec<u8> {
        let mut trailer = horizon.trailer(position.number, position.lane, None, entries);
        trailer.previous = position.previous;
        let mut bytes = Vec::new();
        footer::encode(entries, position.offset, trailer, &mut bytes);
        bytes
    }

    /// Returns the position of the index of a checkpoint that was begun: directly after the blocks.
    pub fn position(&self) -> CheckpointPosition {
        CheckpointPosition {
            number: self.number,
            lane: self.lane,
            offset: self.len(),
            previous: self.checkpoint_end,
        }
    }

    /// Ends a checkpoint with the index, which follows the tail. Returns the numbers of its blocks by journal file. The
    /// journal may release these blocks when the checkpoint is written, synced and marked.
    pub fn end_checkpoint(&mut self, index: Vec<u8>) -> Vec<(u32, u64)> {
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.extend(index);
        debug_assert!(
            bytes.len().is_multiple_of(ALIGNMENT),
            "an index ends at a unit"
        );
        self.hand_over(bytes);
        self.checkpointed = self.blocks.len();
        self.checkpoint_end = self.buffer_offset;
        self.replayable = 0;
        std::mem::take(&mut self.pins)
    }

    /// Takes the pins of journal files with numbers below `file`: their blocks have expired.
    pub fn take_pins_before(&mut self, file: u32) -> Vec<(u32, u64)> {
        self.pins.extract_if(.., |pin| pin.0 < file).collect()
    }

    /// Returns the end of the last checkpoint.
    pub fn checkpoint_end(&self) -> u64 {
        self.checkpoint_end
    }

    /// Closes the segment to new blocks and moves the remaining bytes to the pieces, but for the tail.
    pub fn close(&mut self, sequence: u64) {
        self.cut(0);
        self.closed_at = Some(sequence);
    }

    /// Returns the tail of a closed segment: the bytes after the last piece, less than [`ALIGNMENT`]. They
    /// are written with the footer.
    pub fn tail(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns the blocks that are not in a checkpoint.
    pub fn pending(&self) -> Listing {
        self.blocks.listing(self.checkpointed)
    }

    /// Returns all blocks.
    pub fn listing(&self) -> Listing {
        self.blocks.listing(0)
    }

    /// Returns the blocks of a source, the latest first.
    pub fn blocks_of(&self, source: u32) -> impl Iterator<Item = Entry> {
        self.blocks.of(source)
    }

    /// Returns the lowest block number in the segment.
    pub fn first_block(&self) -> Option<u64> {
        self.blocks.first_block()
    }

    /// Returns the end of a block's bytes, or of its bundle, as far as it is in memory. The bytes before
    /// it are written and must be read from the file. Pieces are cut regardless of block boundaries,
    /// so either part may be empty.
    pub fn held_end(&self, entry: &Entry) -> Arc<Vec<u8>> {
        let (start, len) = entry.extent();
        if entry.is_bundled() {
            let at = self.bundles.binary_search_by_key(&start, |bundle| bundle.0);
            return at.map_or_else(|_| Arc::default(), |at| self.bundles[at].1.clone());
        }
        let end = start + len;
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
        Arc::new(bytes)
    }
}
