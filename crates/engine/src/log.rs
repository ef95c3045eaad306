//! Segments of a store: open ones take blocks, sealed ones begin to serve, and serve no more.

use crate::segment::Entry;
use crate::segment::open::{Horizon, OpenSegment, Resumed};
use crate::segment::sealed::Segment;
use crate::segment::tally::Tally;
use crate::state::State;
use crate::status::{LogView, OpenStat};
use seiner_merge::LaneId;
use seiner_merge::Memory;
use std::sync::Arc;

/// Free memory is given back so often after something large was freed: with the second time, what its
/// user took with it is free, too.
pub const TRIMS: u8 = 2;
/// Room that footer and trailer may need beside the blocks of a segment.
const FOOTER_SHARE: u64 = 16;

impl State {
    /// Returns the numbers of the log, with the policy's memory and the live bytes by class.
    pub fn log_view(&self, memory: Memory, live: &[u64]) -> LogView<'_> {
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
            classes: self.class_status(live),
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
        let taken = self.sealing.iter().map(|taken| taken.number);
        if let Some(lowest) = lowest.into_iter().chain(open).chain(taken).min() {
            self.retention.forget_before(lowest);
        }
    }

    /// Lets the journal go of blocks that are on disk: numbers of blocks by journal file.
    pub fn unpin(&mut self, pins: &[(u32, u64)]) {
        for &(file, blocks) in pins {
            self.pins.unpin(file, blocks);
        }
    }

    /// Blocks are on disk: rings may forget by them.
    pub fn note_durable(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.retention.found(entry);
        }
    }

    /// Adds a block that lay in another segment, as it is, and returns the number of the segment that has
    /// it now. The journal has let go of it. `None` if a segment must be begun and no slot is ready.
    pub fn add_copy(&mut self, entry: Entry, bytes: &[u8]) -> Option<u64> {
        let expected = self.retention.remaining(&entry);
        let death = self.retention.moment().death(expected);
        let lane = self.lanes.place(death, self.retention.now());
        let at = self.active(lane)?;
        self.open[at].add(entry, None, bytes);
        Some(self.open[at].number)
    }

    /// Returns the place of the segment of a lane that takes blocks, with space for one more. `None` if one
    /// must be begun and no slot is ready.
    pub fn active(&mut self, lane: LaneId) -> Option<usize> {
        let active = |open: &OpenSegment| open.lane == lane && open.closed_at.is_none();
        if let Some(at) = self.open.iter().rposition(active) {
            let bytes = self.lanes.segment_bytes(lane);
            let full = self.open[at].len() >= bytes - bytes / FOOTER_SHARE;
            // Of very small blocks, the list alone takes memory that their buffers need.
            if !full && !self.is_list_long(at) {
                return Some(at);
            }
            self.open[at].close(self.sequence);
        }
        let (number, file) = self.ready.pop_front()?;
        self.taken += 1;
        let bytes = self.options.piece_bytes();
        self.open.push(OpenSegment::new(number, lane, file, bytes));
        Some(self.open.len() - 1)
    }

    /// The number of the next segment.
    pub fn number_segment(&mut self) -> u64 {
        let number = self.next_segment;
        self.next_segment += 1;
        number
    }

    /// Lets the segments that take blocks be sealed as they are.
    pub fn close_active(&mut self) {
        let sequence = self.sequence;
        for open in &mut self.open {
            if open.closed_at.is_none() {
                open.close(sequence);
            }
        }
    }

    /// Goes on with segments that were being written when the store was left.
    pub fn resume(&mut self, segments: Vec<Resumed>) {
        let lanes = self.lanes.count();
        for mut resumed in segments {
            resumed.entries.sort_unstable_by_key(|entry| entry.offset);
            let mut open = resumed.segment.resume(resumed.end, resumed.entries);
            let taken = self
                .open
                .iter()
                .any(|other| other.lane == open.lane && other.closed_at.is_none());
            if taken || open.lane >= lanes {
                open.close(self.sequence);
            }
            self.open.push(open);
        }
    }

    /// The blocks of a source in segments that are being written.
    pub fn open_blocks_of(&self, source: u32) -> impl Iterator<Item = (&OpenSegment, Entry)> {
        let open = self.open.iter();
        open.flat_map(move |open| open.blocks_of(source).map(move |entry| (open, entry)))
    }

    /// Takes a segment off the list of those that are being written.
    pub fn take_open(&mut self, number: u64) -> OpenSegment {
        self.trims_due = TRIMS;
        let at = self.open.iter().position(|open| open.number == number);
        self.open.remove(at.expect("a segment is sealed once"))
    }
}
