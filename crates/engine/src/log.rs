//! Segments in service: sealed ones begin to serve, and serve no more.

use crate::segment::Entry;
use crate::segment::open::{Horizon, OpenSegment};
use crate::segment::sealed::Segment;
use crate::segment::tally::Tally;
use crate::state::State;
use crate::status::{LogView, OpenStat};
use seiner_merge::Memory;
use std::sync::Arc;

impl State {
    /// Returns the numbers of the log, with the policy's memory.
    pub fn log_view(&self, memory: Memory) -> LogView<'_> {
        let moment = self.retention.moment();
        let tallies = self.tallies.values();
        let open = self.open.iter().map(|open| OpenStat {
            number: open.number,
            lane: open.lane,
            reserved: open.reserved,
            bytes: open.len(),
        });
        LogView {
            now: self.retention.now(),
            fill: self.fill(),
            files: self.used_by_files(),
            segment_bytes: self.options.segment_bytes,
            policy: self.options.policy,
            memory,
            lanes: self.lanes.lanes(),
            sealed: tallies.map(|tally| tally.stat_at(&moment)).collect(),
            open: open.collect(),
            classes: self.class_status(),
            counters: &self.counters,
            extra_left: self.extra_left(),
        }
    }

    /// What an index that is written now says of the store.
    pub fn horizon(&self, store: u64) -> Horizon {
        let sources = self
            .dictionary
            .read()
            .expect("no panic while the dictionary is locked")
            .len();
        Horizon {
            store,
            sequence: self.sequence,
            sources: sources as u32,
            layouts: self.layouts.len() as u32,
            now: self.retention.now(),
        }
    }

    /// Segments serve.
    pub fn add_sealed(&mut self, segments: Vec<(Arc<Segment>, Tally)>) {
        for (segment, tally) in segments {
            self.fence_bytes += segment.memory();
            self.space.seal(segment.room(self.unit));
            self.put_tally(tally);
            // Readers keep the list that they began with.
            Arc::make_mut(&mut self.sealed).insert(segment.trailer.number, segment);
        }
    }

    /// A segment serves no more; its room comes back with its last reader.
    pub fn remove_sealed(&mut self, segment: &Segment) {
        let number = segment.trailer.number;
        Arc::make_mut(&mut self.sealed).remove(&number);
        let tally = self.tallies.remove(&number);
        self.tally_bytes -= tally.map_or(0, |tally| tally.memory());
        self.fence_bytes -= segment.memory();
        self.space.retire(segment.room(self.unit));
    }

    /// Forgets deletes that no block is older than.
    pub fn forget_deletes(&mut self) {
        if !self.retention.has_deletes() {
            return;
        }
        let lowest = self.tallies.values().map(|tally| tally.first_block).min();
        let open = self.open.iter().filter_map(OpenSegment::first_block);
        if let Some(lowest) = lowest.into_iter().chain(open).min() {
            self.retention.forget_before(lowest);
        }
    }

    /// Blocks are on disk: the journal may let go of them, and rings may forget by them.
    pub fn note_durable(&mut self, pins: &[(u32, u64)], entries: &[Entry]) {
        for &(file, blocks) in pins {
            self.pins.unpin(file, blocks);
        }
        for entry in entries {
            self.retention.found(entry);
        }
    }
}
