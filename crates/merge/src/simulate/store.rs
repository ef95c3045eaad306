//! A store without bytes: blocks, segments and a budget, run by the same lanes and policies.

use super::workload::{Arrival, Keep};
use crate::{Death, Decision, Fill, LaneId, Lanes, Rate, SegmentStat};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// A block: where it is, and what can be said of its death.
#[derive(Clone, Copy, Debug)]
struct Block {
    segment: u64,
    bytes: u32,
    source: u32,
    /// Its number within the source.
    number: u32,
    live: bool,
    born: i64,
    keep: Keep,
}

/// A source, as far as the store knows it.
#[derive(Clone, Debug, Default)]
struct Source {
    ring: VecDeque<u32>,
    written: u32,
    rate: Rate,
}

/// So many turns of a ring are looked back at for its rate.
const RATE_TURNS: f64 = 4.0;

/// A segment and its blocks.
#[derive(Clone, Debug)]
struct Segment {
    stat: SegmentStat,
    blocks: Vec<u32>,
}

/// Sealed segments in the order of their numbers, their statistics side by side for the policy.
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

    /// Takes out what `numbers` name, in the order of the store.
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

/// What was counted, in bytes and segments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Bytes of blocks that arrived.
    pub arrived: u64,
    /// Bytes of blocks that merges wrote again.
    pub rewritten: u64,
    /// Segments dropped unread.
    pub drops: u64,
    /// Segments merged.
    pub merges: u64,
    /// Sum of D over the merged segments.
    pub merged_dead_share: f64,
    /// Segments that merges wrote.
    pub outputs: u64,
    /// Seconds that writers were delayed, one delay a segment that they filled.
    pub throttled_s: f64,
}

/// The store.
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
    /// What was counted.
    pub counts: Counts,
}

/// There was no room for another segment, and nothing that a merge could have done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Full {
    /// The fill at that moment, U.
    pub u: f64,
}

impl Store {
    /// An empty store.
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

    /// The time of the latest arrival.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// How full it is.
    pub fn fill(&self) -> Fill {
        Fill {
            budget: self.budget,
            used: self.used,
            live: self.live,
            reserved: self.reserved,
            um: self.um,
        }
    }

    /// The most that was ever used, in bytes.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// The lanes, if there are any.
    pub fn lanes(&self) -> Option<&Lanes> {
        self.lanes.as_ref()
    }

    /// The sealed segments, by number.
    pub fn stats(&self) -> &[SegmentStat] {
        &self.sealed.stats
    }

    /// The lane of a block that arrives now, which counts as flow.
    pub fn lane(&mut self, arrival: &Arrival) -> LaneId {
        self.now = arrival.at;
        let death = match arrival.keep {
            Keep::Age(age) => Death::by_age(arrival.at, age),
            Keep::Forever => Death::Never,
            Keep::Ring(blocks) => {
                let source = self.sources.get(arrival.source as usize);
                let rate = source.and_then(|source| source.rate.per_second());
                Death::by_amount(arrival.at, u64::from(blocks), rate)
            }
        };
        match &mut self.lanes {
            Some(lanes) => lanes.lane(death, u64::from(arrival.bytes), arrival.at),
            None => 0,
        }
    }

    /// The size of a lane's segments.
    pub fn segment_bytes(&self, lane: LaneId) -> u64 {
        let lanes = self.lanes.as_ref();
        lanes.map_or(self.largest, |lanes| lanes.segment_bytes(lane))
    }

    /// Whether a block fits into the open segment of `lane`.
    pub fn fits(&self, lane: LaneId, bytes: u32) -> bool {
        self.open.get(&lane).is_some_and(|open| {
            open.stat.live + open.stat.dead + u64::from(bytes) <= open.stat.bytes
        })
    }

    /// Whether writers may take another segment of `lane`.
    pub fn has_room(&self, lane: LaneId) -> bool {
        self.fill().room_for_writers() >= self.segment_bytes(lane)
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

    /// Opens a segment for `lane`: all its room is taken at once.
    pub fn open(&mut self, lane: LaneId) -> Result<(), Full> {
        if !self.has_room(lane) {
            return Err(Full { u: self.fill().u() });
        }
        let segment = self.segment(lane, self.segment_bytes(lane));
        self.open.insert(lane, segment);
        Ok(())
    }

    fn segment(&mut self, lane: LaneId, bytes: u64) -> Segment {
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

    /// Writes a block into the open segment of `lane`, where it fits, and lets die what it
    /// overwrites.
    pub fn write(&mut self, arrival: &Arrival, lane: LaneId) {
        let bytes = u64::from(arrival.bytes);
        let source = arrival.source as usize;
        if source >= self.sources.len() {
            self.sources.resize_with(source + 1, Source::default);
        }
        let id = self.block(arrival);
        let open = self.open.get_mut(&lane).expect("the caller opened it");
        open.stat.live += bytes;
        open.blocks.push(id);
        self.blocks[id as usize].segment = open.stat.number;
        self.live += bytes;
        self.counts.arrived += bytes;
        match arrival.keep {
            Keep::Ring(blocks) => {
                self.sources[source].ring.push_back(id);
                while self.sources[source].ring.len() > blocks as usize {
                    let oldest = self.sources[source].ring.pop_front();
                    self.kill(oldest.expect("the ring is longer than it may be"));
                }
            }
            Keep::Age(age) => self
                .dying
                .push(Reverse((arrival.at.saturating_add(age), id))),
            Keep::Forever => {}
        }
    }

    fn block(&mut self, arrival: &Arrival) -> u32 {
        let source = &mut self.sources[arrival.source as usize];
        if let Keep::Ring(blocks) = arrival.keep {
            let window = f64::from(blocks) * RATE_TURNS;
            source.rate.add(1.0, arrival.at, window);
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

    /// Lets die what is older than its age.
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

    /// When a block is expected to die, as of now.
    fn death(&self, block: &Block) -> Death {
        match block.keep {
            Keep::Age(age) => Death::by_age(block.born, age),
            Keep::Forever => Death::Never,
            Keep::Ring(blocks) => {
                let source = &self.sources[block.source as usize];
                let left = (block.number + blocks).saturating_sub(source.written);
                Death::by_amount(source.rate.at(), u64::from(left), source.rate.per_second())
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

    /// Drops and merges as decided. Room of the victims comes back when the outputs are written.
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

    /// Writes what a merge keeps: neighbouring lanes share a segment that would be too small.
    fn write_again(&mut self, mut kept: Vec<(LaneId, u32)>) {
        kept.sort_by_key(|&(lane, _)| lane);
        let bytes = |store: &Store, id: u32| u64::from(store.blocks[id as usize].bytes);
        let amounts: Vec<(LaneId, u64)> = kept
            .iter()
            .map(|&(lane, id)| (lane, bytes(self, id)))
            .collect();
        let mut kept = kept.into_iter();
        let least = self.largest / 16;
        for (lane, count) in crate::gather(&amounts, least, self.largest) {
            let ids: Vec<u32> = kept.by_ref().take(count).map(|(_, id)| id).collect();
            let payload = ids.iter().map(|&id| bytes(self, id)).sum();
            let mut segment = self.segment(lane, payload);
            segment.stat.live = payload;
            for &id in &ids {
                self.blocks[id as usize].segment = segment.stat.number;
            }
            segment.stat.dies = self.dies(&ids, segment.stat.number);
            segment.blocks = ids;
            self.sealed.insert(segment);
            self.counts.rewritten += payload;
            self.counts.outputs += 1;
        }
    }
}
