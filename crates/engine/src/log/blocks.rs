//! Blocks added to the log: blocks from the sealer, and blocks that a merge rewrites.

use super::Log;
use crate::memory;
use crate::sealing::encode::{Encoded, Encoder};
use crate::segment::Entry;

impl Log {
    /// Appends encoded blocks to the open segments of their lanes, in the order in which their
    /// buffers were taken. Returns the number of appended blocks: less than all if a segment must
    /// be begun and no slot is ready.
    pub fn append_encoded(&mut self, blocks: &[Encoded], encoder: &Encoder) -> usize {
        for (done, block) in blocks.iter().enumerate() {
            if !self.append_block(block, encoder.bytes(block)) {
                return done;
            }
        }
        blocks.len()
    }

    /// Returns false if a segment must be begun and no slot is ready; then nothing has changed.
    fn append_block(&mut self, block: &Encoded, bytes: &[u8]) -> bool {
        if self.ready.is_empty() {
            return false;
        }
        let taken = &block.taken;
        let entry = Entry {
            source: taken.source,
            number: taken.number,
            first: block.first,
            last: block.last,
            rows: block.rows,
            ordinal: taken.ordinal,
            since: taken.number,
            before: taken.before,
            late: self.retention.is_late(taken.source, block.first),
            ..Entry::default()
        };
        let raw = u64::from(taken.bytes);
        let expected = self.retention.death(taken, raw, entry.last);
        let death = self.retention.clocks().death(expected);
        let lane = self.lanes.lane(death, raw, self.retention.now());
        let at = self.active(lane).expect("a slot is ready");
        let len = self.open[at].add(entry, Some(taken.journal_file), bytes);
        self.open[at].replayable += memory::replay_cost(raw);
        self.logged += 1;
        self.counters.blocks += 1;
        self.counters.block_bytes += u64::from(len);
        self.counters.block_samples += block.samples;
        true
    }

    /// Adds a block from another segment unchanged, and returns the number of the segment that now
    /// contains it. The journal has released the block. Returns `None` if a segment must be begun
    /// and no slot is ready.
    pub fn add_copy(&mut self, entry: Entry, bytes: &[u8]) -> Option<u64> {
        let expected = self.retention.remaining(&entry);
        let death = self.retention.clocks().death(expected);
        let lane = self.lanes.place(death, self.retention.now());
        let at = self.active(lane)?;
        self.open[at].add(entry, None, bytes);
        Some(self.open[at].number)
    }
}
