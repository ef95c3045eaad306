//! Retention: which blocks are dead, which rows are hidden, and when a block is expected to die.
//!
//! What is dead is decided by four rules, each of which only ever lets more die: age and ring of the
//! source's class, the class's *floor* (the lowest block number that its quota, or shedding, has
//! left), and *tombstones* (deletes). A dead block is not shown from then on; its room comes back
//! when its segment is dropped or merged.
//!
//! Invariant: what was dead stays dead, after any crash. Age is measured against a clock that does
//! not go back, and hides by a time that the disk tells (`timekeeper`); floors and tombstones are on disk
//! before they count; and a ring drops by rows that are on disk alone. Where a class has coarser levels, age
//! hides nothing before it is in the next level, on disk, and the catalog says so.

pub mod class;
mod clock;
pub mod coarser;
pub mod counts;
pub mod expected;
mod forecast;
mod late;
pub mod lateness;
pub mod news;
pub mod pace;
pub mod veil;
pub mod watch;

use self::class::{Class, Classes, Keep};
use self::counts::Counts;
use self::lateness::Lateness;
use self::news::put_tombstone;
use self::pace::Pace;
use self::veil::Veil;
use self::watch::Watch;
use crate::members::Members;
use crate::segment::Entry;
use roaring::RoaringBitmap;
use seiner_merge::Rate;
use seiner_model::Interval;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a delete hides: the rows of some sources in an interval, in blocks that were begun before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tombstone {
    /// The sources.
    pub sources: RoaringBitmap,
    /// The times.
    pub interval: Interval,
    /// Blocks with this number or a higher one are younger than the delete.
    pub before: u64,
}

/// How far a class has let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Blocks with lower numbers are dead.
    pub number: u64,
    /// Rows with lower times are dead.
    pub time: i64,
}

const NO_FLOOR: Floor = Floor {
    number: 0,
    time: i64::MIN,
};

/// See the module.
pub struct Retention {
    classes: Classes,
    members: Arc<Members>,
    budget: Option<u64>,
    /// Of every class, what becomes of rows that are too old: the length of a step in ns.
    next: Vec<Option<u64>>,
    /// Whether any class is a ring.
    rings: bool,
    /// Of each source in a ring, rows up to its latest block in the log.
    logged_rows: Counts,
    /// Of each source in a ring, rows up to its latest block that is on disk.
    durable_rows: Counts,
    /// Of each source in a ring, how many blocks are begun while a row of it comes: an average over its
    /// latest [`PACE_BLOCKS`].
    paces: Counts<f32>,
    /// Of each source, the latest beginning of a sealed block, or the end of one that is overwritten in
    /// part: what begins no later may overwrite something. As [`ordered`] says.
    edges: Counts,
    /// Sources that have blocks which may overwrite others, and their times; and those of which some are
    /// in segments that are being written.
    late: BTreeMap<u32, Interval>,
    late_and_open: BTreeMap<u32, Interval>,
    floors: Vec<Floor>,
    /// Of classes with a quota: bytes by blocks, [`BLOCK`] of the clock each.
    rates: Vec<Rate>,
    tombstones: Vec<Tombstone>,
    /// Blocks up to this ordinal are dead, of sources whose ring was longer under other rules, or
    /// whose latest rows were deleted.
    past: HashMap<u32, u64>,
    /// The rules that the catalog has.
    known_rules: Option<Classes>,
    /// And how far it knows them to have let go.
    known_floors: HashMap<String, u64>,
    /// And up to when it knows their rows to be in the next level.
    known_made: HashMap<String, i64>,
    /// Levels that other rules made, by the lengths of their steps, and up to when.
    older: BTreeMap<u64, i64>,
    /// Sources of which, before a time, other rules left levels and no samples.
    coarsened: Arc<Vec<(RoaringBitmap, i64)>>,
    pace: Pace,
    /// Wall time in ns; does not go back.
    now: i64,
    /// The next block's number, as of the latest batch or block.
    block: u64,
    /// A time that the disk will tell after a crash, so that the clock cannot be behind it. Age hides by
    /// no later one.
    vouched: i64,
    /// True if the file `clock` has a time. Times in segments do not count then.
    told: bool,
    /// Tells a clock that jumped from one that goes.
    watch: Watch,
    /// The clock, as far as it is believed, ns; may go back.
    believed: i64,
    /// Outside rows before this time may be too old when they come.
    late_before: i64,
    /// Whether the catalog says that the store has a ledger.
    has_ledger: bool,
    /// What the catalog does not have yet.
    news: Vec<u8>,
}

impl Retention {
    /// Nothing has died yet.
    /// `budget`: what the disk may hold, in bytes, if it is known.
    pub fn new(members: Arc<Members>, budget: Option<u64>) -> Retention {
        let classes = members.classes().clone();
        let count = classes.list().len();
        let rings = classes.list().iter().any(|class| class.keep.rows.is_some());
        let next = (0..count).map(|class| classes.next_step(class as u8));
        let ages = classes.list().iter().filter_map(|class| class.keep.age);
        let watch = Watch::new(ages.map(|age| age.as_nanos() as i64).collect());
        Retention {
            next: next.collect(),
            classes,
            budget,
            members,
            logged_rows: Counts::default(),
            durable_rows: Counts::default(),
            paces: Counts::default(),
            edges: Counts::default(),
            late: BTreeMap::new(),
            late_and_open: BTreeMap::new(),
            rings,
            floors: vec![NO_FLOOR; count],
            rates: vec![Rate::default(); count],
            tombstones: Vec::new(),
            past: HashMap::new(),
            known_rules: None,
            known_floors: HashMap::new(),
            known_made: HashMap::new(),
            older: BTreeMap::new(),
            coarsened: Arc::default(),
            pace: Pace::default(),
            now: i64::MIN,
            block: 0,
            vouched: i64::MIN,
            told: false,
            watch,
            believed: i64::MIN,
            late_before: i64::MIN,
            has_ledger: false,
            news: Vec::new(),
        }
    }

    /// Of a store with so many sources, of which nothing else is known.
    fn of_unnamed(sources: u32) -> Retention {
        let members = Members::unnamed(Classes::default(), sources);
        Retention::new(Arc::new(members), None)
    }

    /// Returns the class of each source.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The classes.
    pub fn classes(&self) -> &[Class] {
        self.classes.list()
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        let graves: usize = self
            .tombstones
            .iter()
            .map(|tombstone| tombstone.sources.serialized_size())
            .sum();
        let late = (self.late.len() + self.late_and_open.len()) * size_of::<(u32, Interval)>();
        let rows = self.logged_rows.memory() + self.durable_rows.memory() + self.paces.memory();
        let rows = rows + self.edges.memory() + late;
        let coarsened = self.coarsened.iter();
        let coarsened: usize = coarsened.map(|(of, _)| of.serialized_size()).sum();
        rows + 16 * self.past.capacity() + graves + coarsened
    }

    // ---- what happens

    /// Rows of sources deleted before a block's number.
    pub fn bury(&mut self, tombstone: Tombstone) {
        put_tombstone(&tombstone, &mut self.news);
        self.tombstones.push(tombstone);
    }

    /// Lets a class's blocks below a number die.
    pub fn raise(&mut self, class: u8, number: u64) {
        let floor = &mut self.floors[class as usize].number;
        *floor = (*floor).max(number);
    }

    /// The lowest number that a new block may have: what is dead by its number stays apart from what
    /// is to come, though the blocks themselves be gone.
    pub fn next_block(&self) -> u64 {
        let graves = self.tombstones.iter().map(|tombstone| tombstone.before);
        let floors = self.floors.iter().map(|floor| floor.number);
        // A start asks before it applies the rules, and the floors with them.
        let known = self.known_floors.values().copied();
        graves.chain(floors).chain(known).max().unwrap_or(0)
    }

    /// Whether there are deletes to remember.
    pub fn has_deletes(&self) -> bool {
        !self.tombstones.is_empty()
    }

    /// Forgets tombstones that no block is older than.
    pub fn forget_before(&mut self, lowest_block: u64) {
        self.tombstones
            .retain(|tombstone| tombstone.before > lowest_block);
    }

    // ---- what is dead

    /// The class of a source; the last for one whose name is lost, as long as it has no other.
    pub fn class_of(&self, source: u32) -> u8 {
        self.members.class_of(source)
    }

    /// Rows of a class before this time are hidden.
    pub fn hidden_before(&self, class: u8) -> i64 {
        self.floors[class as usize].time
    }

    /// Updates the limits of the times that rows from outside may have.
    pub fn update_lateness(&self, lateness: &mut Lateness) {
        lateness.before = self.late_before;
        lateness.floors.clear();
        let times = self.floors.iter().map(|floor| floor.time);
        lateness.floors.extend(times);
        if !Arc::ptr_eq(&lateness.coarsened, &self.coarsened) {
            lateness.coarsened = self.coarsened.clone();
        }
    }

    /// What is hidden of a source that has had `rows` rows, for a reader.
    pub fn veil(&self, source: u32, rows: u64) -> Veil {
        let class = self.class_of(source);
        let keep = self.classes.list()[class as usize].keep;
        Veil {
            floor: self.floors[class as usize],
            past: self.past(source, rows, keep),
            graves: self
                .tombstones
                .iter()
                .filter(|tombstone| tombstone.sources.contains(source))
                .map(|tombstone| (tombstone.before, tombstone.interval))
                .collect(),
        }
    }

    /// What is hidden of a source for ever, whatever a crash loses, but for its ring.
    pub fn veil_for_good(&self, source: u32) -> Veil {
        Veil {
            past: 0,
            ..self.veil(source, 0)
        }
    }

    /// Whether a block may be dropped: nobody will ever see a row of it again, not even after a
    /// crash that loses what is not on disk yet.
    pub fn may_drop(&self, entry: &Entry) -> bool {
        if entry.source >= self.members.count() {
            return false;
        }
        let class = self.class_of(entry.source);
        let keep = self.classes.list()[class as usize].keep;
        let floor = self.floors[class as usize];
        if entry.last < floor.time || entry.number < floor.number {
            return true;
        }
        let rows = self.durable_rows.get(entry.source);
        entry.ordinal <= self.past(entry.source, rows, keep) || self.is_buried(entry)
    }

    /// Blocks up to this ordinal are dead by a source's ring, which has had so many rows.
    fn past(&self, source: u32, rows: u64, keep: Keep) -> u64 {
        let ring = keep.rows.map_or(0, |ring| rows.saturating_sub(ring));
        // Mostly there are none, and nothing is looked up.
        let older = match self.past.is_empty() {
            true => 0,
            false => self.past.get(&source).copied().unwrap_or(0),
        };
        ring.max(older)
    }

    /// Whether a block was begun before a delete of rows of its source.
    pub fn is_before_delete(&self, source: u32, number: u64) -> bool {
        self.tombstones
            .iter()
            .any(|tombstone| number < tombstone.before && tombstone.sources.contains(source))
    }

    fn is_buried(&self, entry: &Entry) -> bool {
        let span = Interval::new(entry.first, entry.last);
        self.tombstones.iter().any(|tombstone| {
            entry.number < tombstone.before
                && tombstone.interval.covers(&span)
                && tombstone.sources.contains(entry.source)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_platform::sim::SimClock;
    use std::time::Duration;

    const HOUR: i64 = 3600 * 1_000_000_000;

    fn hourly() -> Retention {
        let mut class = Class::forever();
        class.keep.age = Some(Duration::from_secs(3600));
        let classes = Classes::new(vec![class]).unwrap();
        Retention::new(Arc::new(Members::new(classes)), None)
    }

    /// Seed 590 of the simulator: a segment was sealed after the clock had been set back, its time hid
    /// more than the file `clock` covered, and a power cut brought the rows back.
    #[test]
    fn age_hides_only_what_the_file_clock_covers() {
        let clock = SimClock::new(100 * HOUR);
        let mut retention = hourly();
        retention.recall_time(50 * HOUR);
        retention.recall_born(90 * HOUR);
        assert_eq!(retention.now(), 50 * HOUR);
        retention.accept_clock(&clock);
        retention.advance(&clock, 1);
        assert_eq!(retention.hidden_before(0), 49 * HOUR);
        let promise = retention.promise_due(false).unwrap();
        assert!(promise >= 100 * HOUR);
        retention.vouch(promise);
        retention.advance(&clock, 1);
        assert_eq!(retention.hidden_before(0), 99 * HOUR);
    }

    /// Seed 2260 of the simulator: a crash took the blocks below a floor, and new blocks got their
    /// numbers and were dropped with them.
    #[test]
    fn new_blocks_are_above_the_floors_that_a_start_finds() {
        let mut retention = hourly();
        retention.note_floor(0, 19);
        let news = retention.take_news();
        let mut found = hourly();
        found.recall_news(&news).unwrap();
        assert_eq!(found.next_block(), 19);
    }

    #[test]
    fn without_the_file_a_segment_tells_the_time_and_the_file_gets_it() {
        // The clock is behind the segment.
        let clock = SimClock::new(10 * HOUR);
        let mut retention = hourly();
        retention.recall_born(90 * HOUR);
        retention.advance(&clock, 1);
        assert_eq!(
            retention.hidden_before(0),
            i64::MIN,
            "the file has no time yet"
        );
        assert_eq!(retention.promise_due(false), Some(90 * HOUR));
        retention.vouch(90 * HOUR);
        retention.advance(&clock, 1);
        assert_eq!(retention.hidden_before(0), 89 * HOUR);
        assert_eq!(retention.promise_due(true), None);
    }
}
