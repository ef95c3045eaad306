//! A store without bytes: blocks, segments and a budget, driven by the same lanes and policies as
//! the engine.

use super::workload::{Arrival, Keep};
use crate::{Death, Decision, Fill, LaneId, Lanes, SegmentStat, SourcePace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Position, size and retention of a block.
#[derive(Clone, Copy, Debug)]
struct Block {
    segment: u64,
    bytes: u32,
    source: u32,
    /// Number of the block within its source, from 1.
    number: u32,
    live: bool,
    born: i64,
    keep: Keep,
}

/// Ring and write rate of a source.
#[derive(Clone, Debug, Default)]
struct Source {
    ring: VecDeque<u32>,
    written: u32,
    /// Time of the latest block.
    latest: Option<i64>,
    /// Nanoseconds between blocks.
    pace: SourcePace,
}

impl Source {
    /// Returns the blocks per second.
    fn per_second(&self) -> Option<f64> {
        self.pace.mean().map(|pace| 1e9 / pace)
    }
}

/// Statistics and block ids of a segment.
#[derive(Clone, Debug)]
struct Segment {
    stat: SegmentStat,
    blocks: Vec<u32>,
}

/// Sealed segments in the order of their numbers. The statistics are contiguous for the policy.
#[derive(Clone, Debug, Default)]
struct Sealed {
    stats: Vec<SegmentStat>,
    blocks: BTreeMap<u64, Vec<u32>>,
}

impl Sealed {
    fn insert(&mut self, segment: Segment) {
        let number = segment.stat.number;
        let at = self.stats.partition_point(|stat| stat.number < number);
        self.stats.insert(at, segment.stat);
        self.blocks.insert(number, segment.blocks);
    }

    fn find(&mut self, number: u64) -> Option<&mut SegmentStat> {
        let at = self.stats.binary_search_by_key(&number, |stat| stat.number);
        at.ok().map(|at| &mut self.stats[at])
    }

    /// Removes the segments in `numbers` and returns them in the order of their numbers.
    fn remove(&mut self, mut numbers: Vec<u64>) -> Vec<Segment> {
        numbers.sort_unstable();
        let named = |stat: &mut SegmentStat| numbers.binary_search(&stat.number).is_ok();
        let taken = self.stats.extract_if(.., named);
        let segments = taken.map(|stat| Segment {
            stat,
            blocks: self
                .blocks
                .remove(&stat.number)
                .expect("a segment has blocks"),
        });
        segments.collect()
    }
}

/// Counts of bytes and segments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Bytes of blocks that arrived.
    pub arrived: u64,
    /// Bytes of blocks that merges rewrote.
    pub rewritten: u64,
    /// Segments dropped unread.
    pub drops: u64,
    /// Segments merged.
    pub merges: u64,
    /// Sum of D over the merged segments.
    pub merged_dead_share: f64,
    /// Seconds of writers' delay, one delay for each segment that writers filled.
    pub throttled_s: f64,
}

/// Simulated store.
pub struct Store {
    budget: u64,
    um: f64,
    reserved: u64,
    largest: u64,
    lanes: Option<Lanes>,
    blocks: Vec<Block>,
    free: Vec<u32>,
    sources: Vec<Source>,
    dying: BinaryHeap<Reverse<(i64, u32)>>,
    sealed: Sealed,
    open: BTreeMap<LaneId, Segment>,
    next_number: u64,
    used: u64,
    live: u64,
    peak: u64,
    now: i64,
    /// Counts since they were last reset.
    pub counts: Counts,
}

/// Error: no space for another segment, and no merge could free any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Full {
    /// Fill at that time, U.
    pub u: f64,
}

impl Store {
    /// Creates an empty store.
    pub fn new(budget: u64, um: f64, segment_bytes: u64, lanes: Option<Lanes>) -> Store {
        Store {
            budget,
            um,
            reserved: segment_bytes,
            largest: segment_bytes,
            lanes,
            blocks: Vec::new(),
            free: Vec::new(),
            sources: Vec::new(),
            dying: BinaryHeap::new(),
            sealed: Sealed::default(),
            open: BTreeMap::new(),
            next_number: 0,
            used: 0,
            live: 0,
            peak: 0,
            now: i64::MIN,
            counts: Counts::default(),
        }
    }

    /// Returns the time of the latest arrival.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Returns the fill of the store.
    pub fn fill(&self) -> Fill {
        Fill {
            budget: self.budget,
            used: self.used,
            live: self.live,
            reserved: self.reserved,
            um: self.um,
        }
    }

    /// Returns the largest number of bytes ever used.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns the lanes; `None` for a single log.
    pub fn lanes(&self) -> Option<&Lanes> {
        self.lanes.as_ref()
    }

    /// Returns the sealed segments in the order of their numbers.
    pub fn stats(&self) -> &[SegmentStat] {
        &self.sealed.stats
    }

    /// Returns the lane of an arriving block and counts the block as flow.
    pub fn lane(&mut self, arrival: &Arrival) -> LaneId {
        self.now = arrival.at;
        let death = match arrival.keep {
            Keep::Age(age) => Death::by_age(arrival.at, age),
            Keep::Forever => Death::Never,
            Keep::Ring(blocks) => {
                let source = self.sources.get(arrival.source as usize);
                let rate = source.and_then(Source::per_second);
                Death::by_amount(arrival.at, u64::from(blocks), rate)
            }
        };
        match &mut self.lanes {
            Some(lanes) => lanes.lane(death, u64::from(arrival.bytes), arrival.at),
            None => 0,
        }
    }

    /// Returns the size of the lane's segments in bytes.
    pub fn segment_bytes(&self, lane: LaneId) -> u64 {
        let lanes = self.lanes.as_ref();
        lanes.map_or(self.largest, |lanes| lanes.segment_bytes(lane))
    }

    /// Returns whether a block fits into the open segment of `lane`.
    pub fn fits(&self, lane: LaneId, bytes: u32) -> bool {
        self.open.get(&lane).is_some_and(|open| {
            open.stat.live + open.stat.dead + u64::from(bytes) <= open.stat.bytes
        })
    }

    /// Seals the open segment of `lane`, if there is one.
    pub fn seal(&mut self, lane: LaneId) {
        let Some(mut segment) = self.open.remove(&lane) else {
            return;
        };
        segment.stat.born = self.now;
        segment.stat.dies = self.dies(&segment.blocks, segment.stat.number);
        self.sealed.insert(segment);
        let fill = self.fill();
        if let Some(lanes) = &mut self.lanes {
            lanes.adapt(&fill);
        }
    }

    /// Opens a segment of `lane` for a writer. Fails if writers have no space.
    pub fn open(&mut self, lane: LaneId) -> Result<(), Full> {
        let fill = self.fill();
        if fill.headroom() < self.segment_bytes(lane) {
            return Err(Full { u: fill.u() });
        }
        self.open_segment(lane);
        Ok(())
    }

    /// Opens a segment for `lane` and occupies all its space at once. Seals the present one first.
    fn open_segment(&mut self, lane: LaneId) {
        self.seal(lane);
        let segment = self.segment(lane);
        self.open.insert(lane, segment);
    }

    fn segment(&mut self, lane: LaneId) -> Segment {
        let bytes = self.segment_bytes(lane);
        let number = self.next_number;
        self.next_number += 1;
        self.used += bytes;
        self.peak = self.peak.max(self.used);
        Segment {
            stat: SegmentStat {
                number,
                lane,
                bytes,
                live: 0,
                dead: 0,
                born: self.now,
                dies: Death::Unknown,
            },
            blocks: Vec::new(),
        }
    }

    /// Writes a block into the open segment of `lane`, in which it must fit, and kills the blocks
    /// that leave the source's ring.
    pub fn write(&mut self, arrival: &Arrival, lane: LaneId) {
        let bytes = u64::from(arrival.bytes);
        let source = arrival.source as usize;
        if source >= self.sources.len() {
            self.sources.resize_with(source + 1, Source::default);
        }
        let id = self.block(arrival);
        self.put(lane, id);
        self.live += bytes;
        self.counts.arrived += bytes;
        match arrival.keep {
            Keep::Ring(blocks) => {
                self.sources[source].ring.push_back(id);
                while self.sources[source].ring.len() > blocks as usize {
                    let oldest = self.sources[source].ring.pop_front();
                    self.kill(oldest.expect("a ring above its limit is not empty"));
                }
            }
            Keep::Age(age) => self
                .dying
                .push(Reverse((arrival.at.saturating_add(age), id))),
            Keep::Forever => {}
        }
    }

    /// Adds a block to the open segment of `lane`, in which it must fit.
    fn put(&mut self, lane: LaneId, id: u32) {
        let open = self
            .open
            .get_mut(&lane)
            .expect("the caller opened a segment of the lane");
        let block = &mut self.blocks[id as usize];
        open.stat.live += u64::from(block.bytes);
        open.blocks.push(id);
        block.segment = open.stat.number;
    }

    fn block(&mut self, arrival: &Arrival) -> u32 {
        let source = &mut self.sources[arrival.source as usize];
        if let Keep::Ring(blocks) = arrival.keep
            && let Some(latest) = source.latest.replace(arrival.at)
        {
            source.pace.add((arrival.at - latest) as f32, blocks.into());
        }
        source.written += 1;
        let block = Block {
            segment: u64::MAX,
            bytes: arrival.bytes,
            source: arrival.source,
            number: source.written,
            live: true,
            born: arrival.at,
            keep: arrival.keep,
        };
        match self.free.pop() {
            Some(id) => {
                self.blocks[id as usize] = block;
                id
            }
            None => {
                self.blocks.push(block);
                (self.blocks.len() - 1) as u32
            }
        }
    }

    /// Kills the blocks that are older than their age limit.
    pub fn expire(&mut self) {
        while let Some(&Reverse((at, id))) = self.dying.peek() {
            if at > self.now {
                break;
            }
            self.dying.pop();
            self.kill(id);
        }
    }

    fn kill(&mut self, id: u32) {
        let block = &mut self.blocks[id as usize];
        block.live = false;
        let bytes = u64::from(block.bytes);
        self.live -= bytes;
        let mut open = self.open.values_mut().map(|open| &mut open.stat);
        let stat = match self.sealed.find(block.segment) {
            Some(stat) => stat,
            None => open
                .find(|stat| stat.number == block.segment)
                .expect("a live block is in a segment"),
        };
        stat.live -= bytes;
        stat.dead += bytes;
        self.free.push(id);
    }

    /// Returns the expected death of a block at the present time.
    fn death(&self, block: &Block) -> Death {
        match block.keep {
            Keep::Age(age) => Death::by_age(block.born, age),
            Keep::Forever => Death::Never,
            Keep::Ring(blocks) => {
                let source = &self.sources[block.source as usize];
                let left = (block.number + blocks).saturating_sub(source.written);
                let latest = source.latest.unwrap_or(self.now);
                Death::by_amount(latest, left.into(), source.per_second())
            }
        }
    }

    fn dies(&self, blocks: &[u32], number: u64) -> Death {
        let blocks = blocks.iter().map(|&id| &self.blocks[id as usize]);
        let living = blocks.filter(|block| block.live && block.segment == number);
        living
            .map(|block| self.death(block))
            .max()
            .unwrap_or(Death::At(self.now))
    }

    /// Drops and merges as decided. The space of the victims is freed after the outputs are
    /// written.
    pub fn carry_out(&mut self, decision: &Decision) {
        for segment in self.sealed.remove(decision.drop.clone()) {
            assert_eq!(segment.stat.live, 0, "only dead segments are dropped");
            self.used -= segment.stat.bytes;
            self.counts.drops += 1;
        }
        let mut kept: Vec<(LaneId, u32)> = Vec::new();
        let mut freed = 0;
        let victims = decision.merge.iter().map(|victim| victim.number);
        for segment in self.sealed.remove(victims.collect()) {
            freed += segment.stat.bytes;
            self.counts.merges += 1;
            self.counts.merged_dead_share += segment.stat.dead_share();
            for id in segment.blocks {
                let block = self.blocks[id as usize];
                if block.live && block.segment == segment.stat.number {
                    self.blocks[id as usize].segment = u64::MAX;
                    kept.push((self.place(&block), id));
                }
            }
        }
        self.write_again(kept);
        self.used -= freed;
    }

    fn place(&self, block: &Block) -> LaneId {
        let lanes = self.lanes.as_ref();
        lanes.map_or(0, |lanes| lanes.place(self.death(block), self.now))
    }

    /// Writes the blocks that a merge keeps into the open segments of their lanes, like new blocks.
    fn write_again(&mut self, kept: Vec<(LaneId, u32)>) {
        for (lane, id) in kept {
            let bytes = self.blocks[id as usize].bytes;
            if !self.fits(lane, bytes) {
                self.open_segment(lane);
            }
            self.put(lane, id);
            self.counts.rewritten += u64::from(bytes);
        }
    }
}
