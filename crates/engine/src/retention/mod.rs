//! Retention: decides which blocks are dead, which rows are hidden, and when a block is expected to
//! die.
//!
//! Four rules decide which data is dead: the age and the ring of the source's class, the class's
//! *floor* (the lowest block number that its quota, or shedding, has left), and *tombstones*
//! (deletes). Each rule only ever adds dead data. A dead block is hidden at once. Its space is
//! freed when its segment is dropped or merged.
//!
//! Invariant: dead data stays dead after any crash.
//!
//! - Age is measured against a clock that does not go back. It hides data only up to a time that is
//!   stored on the disk (`persisted_clock`).
//! - Floors and tombstones are on disk before they take effect.
//! - A ring drops blocks by rows on disk only.
//! - In a class with roll-up levels, age hides rows only when the next level contains them on disk
//!   and the catalog records this.

pub mod class;
mod clock;
pub mod counts;
mod edges;
pub mod expected;
mod forecast;
mod late;
pub mod lateness;
pub mod pace;
pub mod records;
pub mod rollup;
pub mod visibility;
pub mod watch;

use self::class::{Class, Classes, Keep};
use self::counts::Counts;
use self::edges::Edges;
use self::lateness::Lateness;
use self::pace::Pace;
use self::records::put_tombstone;
use self::visibility::VisibilityFilter;
use self::watch::Watch;
use crate::maps::HashMap;
use crate::members::Members;
use crate::segment::Entry;
use roaring::{MultiOps, RoaringBitmap};
use seiner_merge::{Rate, SourcePace};
use seiner_model::Interval;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Delete: hides rows of `sources` in `interval`, in blocks older than `before`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tombstone {
    /// Sources of the delete.
    pub sources: RoaringBitmap,
    /// Times of the delete.
    pub interval: Interval,
    /// Number of the next block at the time of the delete. Blocks with this number or a higher one
    /// are not affected.
    pub before: u64,
}

/// Limits below which data of a class is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Lowest number of a live block.
    pub number: u64,
    /// Lowest time of a live row, ns.
    pub time: i64,
}

const NO_FLOOR: Floor = Floor {
    number: 0,
    time: i64::MIN,
};

/// Retention state of a store.
pub struct Retention {
    classes: Classes,
    members: Arc<Members>,
    budget: Option<u64>,
    /// Length of the step into which old rows are rolled up, ns, by class.
    next: Vec<Option<u64>>,
    /// True if any class is a ring.
    rings: bool,
    /// Rows up to the latest block in the log, for each source in a ring.
    logged_rows: Counts,
    /// Rows up to the latest block on disk, for each source in a ring.
    durable_rows: Counts,
    /// Number of blocks begun per row, for each source in a ring.
    paces: Counts<SourcePace>,
    /// Latest beginning of a sealed block of each source, or the end of a block that is partly
    /// overwritten. A block that begins no later may overwrite another block. In the order of times,
    /// from 1 on.
    edges: Edges,
    /// Sources with blocks that may overwrite others, and the times of these blocks.
    late: BTreeMap<u32, Interval>,
    /// Sources as in `late` whose blocks are partly in segments that are being written.
    late_and_open: BTreeMap<u32, Interval>,
    floors: Vec<Floor>,
    /// Rates of classes with a quota: bytes by blocks, [`BLOCK`] of the clock each.
    rates: Vec<Rate>,
    tombstones: Vec<Tombstone>,
    /// Ordinals up to which blocks are dead, for sources whose ring was longer under other rules,
    /// or whose latest rows were deleted.
    past: HashMap<u32, u64>,
    /// Rules in the catalog.
    known_rules: Option<Classes>,
    /// Floors in the catalog, by class name.
    known_floors: HashMap<String, u64>,
    /// Times up to which the catalog records that rows are in the next level, by class name.
    known_made: HashMap<String, i64>,
    /// Levels that other rules made, by the lengths of their steps, with the end of each.
    older: BTreeMap<u64, i64>,
    /// Sources that, before a time, have levels of other rules and no samples.
    rolled_up: Arc<Vec<(RoaringBitmap, i64)>>,
    pace: Pace,
    /// Wall time, ns. It never decreases.
    now: i64,
    /// Number of the next block when the oldest buffer that is not yet in the log was taken, as of
    /// the latest batch or block. `logged_rows` lacks the rows taken since then, so blocks begun
    /// since then do not count in paces.
    block: u64,
    /// Time on the disk that a start after a crash will find, so that the clock cannot be behind
    /// it. Age hides no later data.
    covered: i64,
    /// True if the file `clock` contains a time. Times in segments are then ignored.
    has_stored_time: bool,
    /// Judge that detects jumps of the wall clock.
    watch: Watch,
    /// Trusted time, ns. It may go back.
    trusted: i64,
    /// Time before which rows from outside may be too old on arrival.
    late_before: i64,
    /// True if the catalog records that the store has a ledger.
    has_ledger: bool,
    /// Records that the catalog does not yet contain.
    pending: Vec<u8>,
}

impl Retention {
    /// Creates a state without dead data. `budget` is the disk budget in bytes, if it is known.
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
            edges: Edges::default(),
            late: BTreeMap::new(),
            late_and_open: BTreeMap::new(),
            rings,
            floors: vec![NO_FLOOR; count],
            rates: vec![Rate::default(); count],
            tombstones: Vec::new(),
            past: HashMap::default(),
            known_rules: None,
            known_floors: HashMap::default(),
            known_made: HashMap::default(),
            older: BTreeMap::new(),
            rolled_up: Arc::default(),
            pace: Pace::default(),
            now: i64::MIN,
            block: 0,
            covered: i64::MIN,
            has_stored_time: false,
            watch,
            trusted: i64::MIN,
            late_before: i64::MIN,
            has_ledger: false,
            pending: Vec::new(),
        }
    }

    /// Creates the state of a store with `sources` sources and no other information.
    fn of_unnamed(sources: u32) -> Retention {
        let members = Members::unnamed(Classes::default(), sources);
        Retention::new(Arc::new(members), None)
    }

    /// Returns the class of each source.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Returns the classes.
    pub fn classes(&self) -> &[Class] {
        self.classes.list()
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        let deletes: usize = self
            .tombstones
            .iter()
            .map(|tombstone| tombstone.sources.serialized_size())
            .sum();
        let late = (self.late.len() + self.late_and_open.len()) * size_of::<(u32, Interval)>();
        let rows = self.logged_rows.memory() + self.durable_rows.memory() + self.paces.memory();
        let rows = rows + self.edges.memory() + late;
        let rolled_up = self.rolled_up.iter();
        let rolled_up: usize = rolled_up.map(|(of, _)| of.serialized_size()).sum();
        rows + 16 * self.past.capacity() + deletes + rolled_up
    }

    // ---- events

    /// Records a delete.
    pub fn delete(&mut self, tombstone: Tombstone) {
        put_tombstone(&tombstone, &mut self.pending);
        self.tombstones.push(tombstone);
    }

    /// Returns the number of classes with a floor, levels included.
    pub fn class_count(&self) -> u8 {
        self.floors.len() as u8
    }

    /// Raises the floor of a class, so that blocks below a number die.
    pub fn raise(&mut self, class: u8, number: u64) {
        let floor = &mut self.floors[class as usize].number;
        *floor = (*floor).max(number);
    }

    /// Returns the lowest number that a new block may have. New blocks must not receive numbers
    /// below a floor, even if the dead blocks no longer exist.
    pub fn next_block(&self) -> u64 {
        let deletes = self.tombstones.iter().map(|tombstone| tombstone.before);
        let floors = self.floors.iter().map(|floor| floor.number);
        // A start calls this before it applies the rules with their floors.
        let known = self.known_floors.values().copied();
        deletes.chain(floors).chain(known).max().unwrap_or(0)
    }

    /// Returns the sources of all deletes, and the number below which deletes hide their blocks.
    pub fn deleted(&self) -> (RoaringBitmap, u64) {
        let sources = self.tombstones.iter().map(|tombstone| &tombstone.sources);
        let before = self.tombstones.iter().map(|tombstone| tombstone.before);
        (sources.union(), before.max().unwrap_or(0))
    }

    /// Returns whether any delete is recorded.
    pub fn has_deletes(&self) -> bool {
        !self.tombstones.is_empty()
    }

    /// Resets the figures of a source whose number gets another name.
    pub fn reset_source(&mut self, source: u32) {
        self.logged_rows.reset(source);
        self.durable_rows.reset(source);
        self.edges.reset(source);
        self.paces.reset(source);
    }

    /// Removes tombstones that are older than all blocks.
    pub fn forget_before(&mut self, lowest_block: u64) {
        self.tombstones
            .retain(|tombstone| tombstone.before > lowest_block);
    }

    // ---- dead data

    /// Returns the class of a source. A source with a lost name belongs to the last class until it
    /// has another.
    pub fn class_of(&self, source: u32) -> u8 {
        self.members.class_of(source)
    }

    /// Returns the time before which rows of a class are hidden.
    pub fn hidden_before(&self, class: u8) -> i64 {
        self.floors[class as usize].time
    }

    /// Updates the limits of the times that rows from outside may have.
    pub fn update_lateness(&self, lateness: &mut Lateness) {
        lateness.before = self.late_before;
        lateness.floors.clear();
        let times = self.floors.iter().map(|floor| floor.time);
        lateness.floors.extend(times);
        if !Arc::ptr_eq(&lateness.rolled_up, &self.rolled_up) {
            lateness.rolled_up = self.rolled_up.clone();
        }
    }

    /// Returns the hidden parts of a source with `rows` rows, for a reader.
    pub fn visibility(&self, source: u32, rows: u64) -> VisibilityFilter {
        let class = self.class_of(source);
        let keep = self.classes.list()[class as usize].keep;
        VisibilityFilter {
            floor: self.floors[class as usize],
            past: self.past(source, rows, keep),
            deletes: self
                .tombstones
                .iter()
                .filter(|tombstone| tombstone.sources.contains(source))
                .map(|tombstone| (tombstone.before, tombstone.interval))
                .collect(),
            end: u64::MAX,
        }
    }

    /// Returns the permanently hidden parts of a source, regardless of data lost in a crash,
    /// without its ring.
    pub fn permanent_visibility(&self, source: u32) -> VisibilityFilter {
        VisibilityFilter {
            past: 0,
            ..self.visibility(source, 0)
        }
    }

    /// Returns whether a block may be dropped: no row of it will ever be visible again, even after
    /// a crash that loses data not yet on disk.
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
        entry.ordinal <= self.past(entry.source, rows, keep) || self.is_deleted(entry)
    }

    /// Returns the ordinal up to which blocks are dead by the ring of a source with `rows` rows.
    fn past(&self, source: u32, rows: u64, keep: Keep) -> u64 {
        let ring = keep.rows.map_or(0, |ring| rows.saturating_sub(ring));
        // Most stores have no such limits and skip the look-up.
        let older = match self.past.is_empty() {
            true => 0,
            false => self.past.get(&source).copied().unwrap_or(0),
        };
        ring.max(older)
    }

    fn is_deleted(&self, entry: &Entry) -> bool {
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

    /// Seed 590 of the simulator: a segment was sealed after the clock had been set back. Its time hid
    /// rows that the file `clock` did not cover. A power cut made these rows visible again.
    #[test]
    fn age_hides_only_times_that_the_persisted_clock_covers() {
        let clock = SimClock::new(100 * HOUR);
        let mut retention = hourly();
        retention.recall_time(50 * HOUR);
        retention.recall_born(90 * HOUR);
        assert_eq!(retention.now(), 50 * HOUR);
        retention.accept_clock(&clock);
        retention.advance(&clock, 1);
        assert_eq!(retention.hidden_before(0), 49 * HOUR);
        let covered = retention.time_to_persist(false).unwrap();
        assert!(covered >= 100 * HOUR);
        retention.cover(covered);
        retention.advance(&clock, 1);
        assert_eq!(retention.hidden_before(0), 99 * HOUR);
    }

    /// Seed 2260 of the simulator: a crash lost the blocks below a floor. New blocks got the numbers of
    /// the lost blocks, and were dropped.
    #[test]
    fn new_blocks_are_above_the_floors_that_a_start_finds() {
        let mut retention = hourly();
        retention.note_floor(0, 19);
        let pending = retention.take_pending();
        let mut found = hourly();
        found.read_records(&pending).unwrap();
        assert_eq!(found.next_block(), 19);
    }

    #[test]
    fn without_the_file_the_time_of_a_segment_counts_and_is_written() {
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
        assert_eq!(retention.time_to_persist(false), Some(90 * HOUR));
        retention.cover(90 * HOUR);
        retention.advance(&clock, 1);
        assert_eq!(retention.hidden_before(0), 89 * HOUR);
        assert_eq!(retention.time_to_persist(true), None);
    }
}
