//! Blocks added to the log: blocks from the sealer, and blocks that a merge rewrites.

use super::Log;
use crate::maps::{HashMap, HashSet};
use crate::memory;
use crate::sealing::encode::{Bundle, Encoded, Encoder};
use crate::segment::Entry;
use seiner_merge::LaneId;
use std::sync::Arc;

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
        let lane = self.lane_of(block);
        let at = self.active(lane).expect("a slot is ready");
        self.append_to(at, block, bytes);
        true
    }

    /// Adds a block to an open segment.
    fn append_to(&mut self, at: usize, block: &Encoded, bytes: &[u8]) {
        let taken = &block.taken;
        let entry = Entry {
            late: self.retention.is_late(taken.source, block.first),
            ..block.entry()
        };
        let len = self.open[at].add(entry, Some(taken.journal_file), bytes);
        self.open[at].replayable += memory::replay_cost(u64::from(taken.bytes));
        self.logged += 1;
        self.counters.blocks += 1;
        self.counters.block_bytes += u64::from(len);
        self.counters.block_samples += block.samples;
    }

    /// Returns the lane in which a new block belongs. The lanes learn from it.
    fn lane_of(&mut self, block: &Encoded) -> LaneId {
        let raw = u64::from(block.taken.bytes);
        let expected = self.retention.death(&block.taken, raw, block.last);
        let death = self.retention.clocks().death(expected);
        self.lanes.lane(death, raw, self.retention.now())
    }

    /// Returns the lanes in which new blocks belong.
    pub fn lanes_of<'b>(&mut self, blocks: impl Iterator<Item = &'b Encoded>) -> Vec<LaneId> {
        blocks.map(|block| self.lane_of(block)).collect()
    }

    /// Returns the number of segments that must be begun before blocks are added to these lanes.
    pub fn slots_for(&self, lanes: impl Iterator<Item = LaneId>) -> usize {
        let lanes: HashSet<LaneId> = lanes.collect();
        let full = lanes
            .into_iter()
            .filter(|lane| self.with_space(*lane).is_none());
        full.count()
    }

    /// Appends all blocks and bundles of an encoder, which has assigned them to lanes. A segment that
    /// is full meanwhile accepts the rest of them.
    ///
    /// # Panics
    /// If fewer slots are ready than [`Log::slots_for`] returns for the lanes.
    pub fn append_all(&mut self, encoder: &Encoder) {
        let chosen = self.choose(encoder.lanes());
        for bundle in encoder.bundles() {
            self.append_bundle(bundle, chosen[&bundle.lane]);
        }
        for block in encoder.blocks() {
            let lane = block.lane.expect("the encoder assigned a lane");
            self.append_to(chosen[&lane], block, encoder.bytes(block));
        }
    }

    /// Returns the indexes of the open segments that accept some blocks of these lanes.
    fn choose(&mut self, lanes: impl Iterator<Item = LaneId>) -> HashMap<LaneId, usize> {
        let lanes: HashSet<LaneId> = lanes.collect();
        let found = lanes.into_iter().map(|lane| (lane, self.with_space(lane)));
        let (with_space, full): (Vec<_>, Vec<_>) = found.partition(|(_, at)| at.is_some());
        let with_space = with_space
            .into_iter()
            .filter_map(|(lane, at)| Some((lane, at?)));
        let mut chosen: HashMap<LaneId, usize> = with_space.collect();
        for (lane, _) in full {
            chosen.insert(lane, self.begin(lane).expect("slots are ready"));
        }
        chosen
    }

    fn append_bundle(&mut self, bundle: &Bundle, at: usize) {
        let retention = &mut self.retention;
        let entries = bundle.blocks.iter().map(|(block, entry)| {
            let late = retention.is_late(entry.source, block.first);
            (Entry { late, ..*entry }, Some(block.taken.journal_file))
        });
        self.open[at].add_bundle(entries, bundle.bytes.clone());
        for (block, _) in &bundle.blocks {
            self.open[at].replayable += memory::replay_cost(u64::from(block.taken.bytes));
            self.counters.block_samples += block.samples;
        }
        self.logged += bundle.blocks.len() as u64;
        self.counters.blocks += bundle.blocks.len() as u64;
        self.counters.block_bytes += bundle.bytes.len() as u64;
    }

    /// Returns the lanes in which blocks of other segments belong.
    pub fn places_of<'e>(&self, entries: impl Iterator<Item = &'e Entry>) -> Vec<LaneId> {
        entries.map(|entry| self.place_of(entry)).collect()
    }

    fn place_of(&self, entry: &Entry) -> LaneId {
        let death = self
            .retention
            .clocks()
            .death(self.retention.remaining(entry));
        self.lanes.place(death, self.retention.now())
    }

    /// Adds a bundle of blocks from other segments to a lane, and returns the number of the segment
    /// that now contains it. The journal has released the blocks. Returns `None` if a segment must be
    /// begun and no slot is ready.
    pub fn add_bundle_copy(
        &mut self,
        lane: LaneId,
        entries: &[Entry],
        bytes: Arc<Vec<u8>>,
    ) -> Option<u64> {
        let at = self.active(lane)?;
        let entries = entries.iter().map(|entry| (*entry, None));
        self.open[at].add_bundle(entries, bytes);
        Some(self.open[at].number)
    }

    /// Adds a block from another segment unchanged, and returns the number of the segment that now
    /// contains it. The journal has released the block. Returns `None` if a segment must be begun
    /// and no slot is ready.
    pub fn add_copy(&mut self, entry: Entry, bytes: &[u8]) -> Option<u64> {
        let at = self.active(self.place_of(&entry))?;
        self.open[at].add(entry, None, bytes);
        Some(self.open[at].number)
    }
}
