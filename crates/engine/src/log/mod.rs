//! Log: the segments of a store, their dead blocks, and their disk space.
//!
//! Blocks are added to open segments, one for each lane. A full segment is closed and sealed, and
//! stays in service until all its blocks are dead. The log is memory only, under a lock of its own
//! ([`crate::locks`]). The log is independent of the head and of queries. Figures about rows in
//! memory are arguments of its methods, such as [`Load`].

mod blocks;
mod budget;
mod memory;

use crate::counters::Written;
use crate::options::Options;
use crate::retention::Retention;
use crate::segment::Entry;
use crate::segment::open::{Horizon, OpenSegment, Resumed};
use crate::segment::sealed::Segment;
use crate::segment::stats::SegmentStats;
use crate::space::{Debt, Load, Space};
use crate::status::{LogView, OpenStat};
use seiner_merge::LaneId;
use seiner_merge::Memory;
use seiner_merge::{LaneSettings, Lanes};
use seiner_platform::File;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Fraction of a segment reserved for footer and trailer.
const FOOTER_SHARE: u64 = 16;
/// Minimum size of a segment, as a fraction of R.
const LEAST_SHARE: u64 = 16;

/// Sealed segments, by number.
pub type Sealed = BTreeMap<u64, Arc<Segment>>;

/// Log of a store.
pub struct Log {
    options: Arc<Options>,
    /// Allocation unit of the disk in bytes. Files occupy a multiple of it.
    unit: u64,
    /// Segments that are being written, by number. One segment of each lane accepts blocks; the
    /// others wait to be sealed.
    open: Vec<OpenSegment>,
    /// Lanes: groups of blocks with similar lifetimes.
    lanes: Lanes,
    /// Retention rules and dead data.
    pub retention: Retention,
    /// True if open segments should be checkpointed, so that journal files can be released.
    checkpoint_due: bool,
    /// Sealed segments. Readers share the list with which they began.
    sealed: Arc<Sealed>,
    /// Memory of the sparse indexes, bytes.
    sparse_index_bytes: usize,
    /// Statistics of sealed segments, by number. The next field has their memory in bytes.
    segment_stats: BTreeMap<u64, SegmentStats>,
    stats_bytes: usize,
    next_segment: u64,
    /// Slots claimed ahead, so that no block waits for a file to be created. The next field has the
    /// number of slots used since the last claim.
    ready: VecDeque<(u64, Arc<dyn File>)>,
    taken: usize,
    /// Sequence of the journal, as of the last commit.
    sequence: u64,
    /// Number of taken buffers in the log: a position in the queue of the head.
    logged: u64,
    /// Bytes of files on the disk, and the budget for them.
    pub space: Space,
    /// Delay that writers owe to the throttle.
    pub debt: Debt,
    /// Counters of written blocks and bytes.
    pub counters: Written,
}

impl Log {
    /// Creates the log of an empty store. `unit` is the size of the disk's allocation unit in
    /// bytes.
    pub fn new(options: Arc<Options>, retention: Retention, unit: u64) -> Log {
        let needs = options.needs(unit);
        Log {
            unit,
            open: Vec::new(),
            lanes: Lanes::new(LaneSettings {
                lanes: needs.lanes(),
                segment_bytes: options.segment_bytes,
                least_bytes: (options.segment_bytes / LEAST_SHARE).max(needs.thrifty_segment()),
            }),
            retention,
            checkpoint_due: false,
            sealed: Arc::default(),
            sparse_index_bytes: 0,
            segment_stats: BTreeMap::new(),
            stats_bytes: 0,
            next_segment: 1,
            ready: VecDeque::new(),
            taken: 0,
            sequence: 1,
            logged: 0,
            space: Space::new(needs),
            debt: Debt::default(),
            counters: Written::default(),
            options,
        }
    }

    // ---- accessors

    /// Returns the bytes of the disk's allocation unit.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Returns the bytes of a segment, R.
    pub fn segment_bytes(&self) -> u64 {
        self.options.segment_bytes
    }

    /// Returns the segments that are being written.
    pub fn open(&self) -> &[OpenSegment] {
        &self.open
    }

    /// Returns a segment that is being written.
    ///
    /// # Panics
    /// If no open segment has this number.
    pub fn open_mut(&mut self, number: u64) -> &mut OpenSegment {
        let mut open = self.open.iter_mut();
        let found = open.find(|open| open.number == number);
        found.expect("only the job that seals a segment removes it from the list")
    }

    /// Returns the open segments, mutably.
    pub fn iter_open_mut(&mut self) -> impl Iterator<Item = &mut OpenSegment> {
        self.open.iter_mut()
    }

    /// Returns the sealed segments.
    pub fn sealed(&self) -> &Arc<Sealed> {
        &self.sealed
    }

    /// Returns the statistics of sealed segments, by number.
    pub fn segment_stats(&self) -> &BTreeMap<u64, SegmentStats> {
        &self.segment_stats
    }

    /// Returns the statistics of sealed segments, mutably.
    pub fn segment_stats_mut(&mut self) -> impl Iterator<Item = &mut SegmentStats> {
        self.segment_stats.values_mut()
    }

    /// Returns the statistics of a sealed segment, mutably.
    pub fn stats_mut(&mut self, number: u64) -> Option<&mut SegmentStats> {
        self.segment_stats.get_mut(&number)
    }

    /// Returns the number of taken buffers in the log: a position in the queue of the head.
    pub fn logged(&self) -> u64 {
        self.logged
    }

    /// Returns whether checkpoints are due.
    pub fn is_checkpoint_due(&self) -> bool {
        self.checkpoint_due
    }

    /// Sets whether checkpoints are due.
    pub fn set_checkpoint_due(&mut self, due: bool) {
        self.checkpoint_due = due;
    }

    /// Sets the sequence of the journal's next record.
    pub fn set_sequence(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    /// Adapts the lanes to the fill of the store.
    pub fn adapt_lanes(&mut self, load: &Load) {
        let fill = self.fill(load);
        self.lanes.adapt(&fill);
    }

    // ---- slots

    /// Returns whether a segment can be begun without a wait.
    pub fn has_slot(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the number of segments that can be begun without a wait.
    pub fn slots(&self) -> usize {
        self.ready.len()
    }

    /// Adds slots that were claimed.
    pub fn add_slots(&mut self, slots: impl IntoIterator<Item = (u64, Arc<dyn File>)>) {
        self.ready.extend(slots);
    }

    /// Removes and returns all ready slots, which are no longer needed.
    pub fn take_slots(&mut self) -> VecDeque<(u64, Arc<dyn File>)> {
        std::mem::take(&mut self.ready)
    }

    /// Returns whether slots were used since the last claim.
    pub fn is_short_of_slots(&self) -> bool {
        self.taken > 0
    }

    /// Returns numbers of slots to claim: as many as were used, so that at most `most` are ready.
    pub fn number_slots(&mut self, most: usize) -> Vec<u64> {
        let taken = std::mem::take(&mut self.taken);
        let wanted = taken.min(most.saturating_sub(self.ready.len()));
        (0..wanted).map(|_| self.number_segment()).collect()
    }

    /// Records the number of a segment found at a start.
    pub fn note_segment(&mut self, number: u64) {
        self.next_segment = self.next_segment.max(number + 1);
    }

    // ---- segments

    /// Returns the figures of the log, with the policy's memory and the live bytes by class.
    pub fn view(&self, load: &Load, memory: Memory, live: &[u64]) -> LogView<'_> {
        let clocks = self.retention.clocks();
        let all_stats = self.segment_stats.values();
        let open = self.open.iter().map(|open| OpenStat {
            number: open.number,
            lane: open.lane,
            reserved: open.reserved,
            bytes: open.len(),
        });
        LogView {
            now: self.retention.now(),
            fill: self.fill(load),
            files: self.used_by_files(load),
            segment_bytes: self.options.segment_bytes,
            policy: self.options.policy,
            memory,
            lanes: self.lanes.lanes(),
            sealed: all_stats.map(|stats| stats.stat_at(&clocks)).collect(),
            open: open.collect(),
            classes: self.class_status(live),
            counters: &self.counters,
            extra_left: self.extra_left(),
        }
    }

    /// Returns the state of the store for an index written now, with the given numbers of sources
    /// and layouts.
    pub fn horizon(&self, store: u64, sources: u32, layouts: u32) -> Horizon {
        Horizon {
            store,
            sequence: self.sequence,
            sources,
            layouts,
            now: self.retention.now(),
        }
    }

    /// Puts sealed segments into service.
    pub fn add_sealed(&mut self, segments: Vec<(Arc<Segment>, SegmentStats)>) {
        for (segment, stats) in segments {
            self.sparse_index_bytes += segment.memory();
            self.space.seal(segment.disk_bytes(self.unit));
            self.put_stats(stats);
            // Readers keep the list with which they began.
            Arc::make_mut(&mut self.sealed).insert(segment.trailer.number, segment);
        }
    }

    /// Takes a segment out of service. Its space is freed with its last reader.
    pub fn remove_sealed(&mut self, segment: &Segment) {
        let number = segment.trailer.number;
        Arc::make_mut(&mut self.sealed).remove(&number);
        let stats = self.segment_stats.remove(&number);
        self.stats_bytes -= stats.map_or(0, |stats| stats.memory());
        self.sparse_index_bytes -= segment.memory();
        self.space.retire(segment.disk_bytes(self.unit));
    }

    /// Removes deletes that are older than all blocks. `taken` is the lowest number of a block not
    /// yet in the log.
    pub fn forget_deletes(&mut self, taken: Option<u64>) {
        if !self.retention.has_deletes() {
            return;
        }
        let lowest = self
            .segment_stats
            .values()
            .map(|stats| stats.first_block)
            .min();
        let open = self.open.iter().filter_map(OpenSegment::first_block);
        if let Some(lowest) = lowest.into_iter().chain(open).chain(taken).min() {
            self.retention.forget_before(lowest);
        }
    }

    /// Records that blocks are on disk, so that rings may expire by them.
    pub fn note_durable(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.retention.found(entry);
        }
    }

    /// Returns the index of the open segment of a lane with space for one more block. Returns
    /// `None` if a segment must be begun and no slot is ready.
    pub(super) fn active(&mut self, lane: LaneId) -> Option<usize> {
        match self.with_space(lane) {
            Some(at) => Some(at),
            None => self.begin(lane),
        }
    }

    /// Closes the open segment of a lane, if it has one, and begins another. Returns its index, or
    /// `None` if no slot is ready.
    pub(super) fn begin(&mut self, lane: LaneId) -> Option<usize> {
        if let Some(at) = self.accepting(lane) {
            self.open[at].close(self.sequence);
        }
        let (number, file) = self.ready.pop_front()?;
        self.taken += 1;
        let bytes = self.options.piece_bytes();
        self.open.push(OpenSegment::new(number, lane, file, bytes));
        Some(self.open.len() - 1)
    }

    /// Returns the index of the open segment of a lane, if it accepts blocks.
    fn accepting(&self, lane: LaneId) -> Option<usize> {
        let accepts = |open: &OpenSegment| open.lane == lane && open.closed_at.is_none();
        self.open.iter().rposition(accepts)
    }

    /// Returns the index of the open segment of a lane, if it has space for one more block.
    pub(super) fn with_space(&self, lane: LaneId) -> Option<usize> {
        let bytes = self.lanes.segment_bytes(lane);
        let at = self.accepting(lane)?;
        let is_full = self.open[at].len() >= bytes - bytes / FOOTER_SHARE;
        // With very small blocks, the list alone uses memory that their buffers need.
        (!is_full && !self.is_list_long(at)).then_some(at)
    }

    /// Returns the number of the next segment.
    pub fn number_segment(&mut self) -> u64 {
        let number = self.next_segment;
        self.next_segment += 1;
        number
    }

    /// Closes the segments that accept blocks, so that they are sealed as they are.
    pub fn close_active(&mut self) {
        let sequence = self.sequence;
        for open in &mut self.open {
            if open.closed_at.is_none() {
                open.close(sequence);
            }
        }
    }

    /// Continues segments that were being written when the store was closed or crashed.
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

    /// Returns the blocks of a source in open segments.
    pub fn open_blocks_of(&self, source: u32) -> impl Iterator<Item = (&OpenSegment, Entry)> {
        let open = self.open.iter();
        open.flat_map(move |open| open.blocks_of(source).map(move |entry| (open, entry)))
    }

    /// Removes a segment from the open segments and returns it.
    pub fn take_open(&mut self, number: u64) -> OpenSegment {
        let at = self.open.iter().position(|open| open.number == number);
        self.open.remove(at.expect("a segment is sealed once"))
    }
}
