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
//!   stored on the disk (`timekeeper`).
//! - Floors and tombstones are on disk before they take effect.
//! - A ring drops blocks by rows on disk only.
//! - In a class with coarser levels, age hides rows only when the next level contains them on disk
//!   and the catalog records this.

pub mod class;
pub mod coarser;
pub mod counts;
pub mod expected;
pub mod lateness;
pub mod pace;
pub mod watch;

use crate::bytes::{Cursor, Short, put_text};
use crate::members::Members;
use crate::sealing::queue::Taken;
use crate::segment::Entry;
use class::{Class, Classes, Keep, WhenFull, get_classes, put_classes};
use counts::Counts;
use expected::{Expected, Moment};
use lateness::Lateness;
use pace::{Begun, Pace};
use roaring::RoaringBitmap;
use seiner_codec::varint;
use seiner_merge::Rate;
use seiner_model::{Interval, SourceKey};
use seiner_platform::Clock;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use watch::Watch;

/// Bytes over which the rate of a class is averaged.
const RATE_WINDOW: f64 = (16 << 20) as f64;
/// Duration of a block on the clock of rates.
const BLOCK: i64 = 1000;
/// Number of recent blocks averaged to estimate a source's row rate. A single block is a poor
/// estimate if rows arrive at random.
const PACE_BLOCKS: u64 = 16;
const NANOS: i64 = 1_000_000_000;
/// Kinds of records in the catalog.
const TOMBSTONE: u8 = 1;
const FLOOR: u8 = 2;
const RULES: u8 = 3;
const PAST: u8 = 4;
const MADE: u8 = 5;
const OLDER: u8 = 6;
const COARSENED: u8 = 7;
const LEDGER: u8 = 8;
/// Fraction of the shortest age that the time on the disk is ahead of the present, within bounds,
/// ns.
const PROMISES: i64 = 64;
const SHORTEST_PROMISE: i64 = NANOS;
const LONGEST_PROMISE: i64 = 60 * NANOS;
/// Fraction of a class's age that one round rolls up. With fewer rounds, blocks of a source are
/// read fewer times, but more data stays beyond its age.
const ROUNDS: i64 = 32;

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
    /// Number of blocks begun per row, for each source in a ring: an average over its latest
    /// [`PACE_BLOCKS`].
    paces: Counts<f32>,
    /// Latest beginning of a sealed block of each source, or the end of a block that is partly
    /// overwritten. A block that begins no later may overwrite another block. Encoded by
    /// [`ordered`].
    edges: Counts,
    /// Sources with blocks that may overwrite others, and the times of these blocks. The next field
    /// has the sources whose blocks are partly in segments that are being written.
    late: BTreeMap<u32, Interval>,
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
    coarsened: Arc<Vec<(RoaringBitmap, i64)>>,
    pace: Pace,
    /// Wall time in ns. It does not go back.
    now: i64,
    /// Number of the next block, as of the latest batch or block.
    block: u64,
    /// Time on the disk that a start after a crash will find, so that the clock cannot be behind
    /// it. Age hides no later data.
    vouched: i64,
    /// True if the file `clock` contains a time. Times in segments are then ignored.
    told: bool,
    /// Judge that detects jumps of the wall clock.
    watch: Watch,
    /// Trusted time, ns. It may go back.
    believed: i64,
    /// Time before which rows from outside may be too old on arrival.
    late_before: i64,
    /// True if the catalog records that the store has a ledger.
    has_ledger: bool,
    /// Records that the catalog does not yet contain.
    news: Vec<u8>,
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

    // ---- events

    /// Advances the time. `next_block` is the number of the next block.
    pub fn advance(&mut self, clock: &dyn Clock, next_block: u64) {
        self.judge(clock);
        self.now = self.now.max(self.believed);
        self.block = self.block.max(next_block);
        self.pace.note(next_block, self.now);
        let told = self.now.min(self.vouched);
        let rules = self.classes.list().iter().zip(&self.next);
        for ((class, next), floor) in rules.zip(&mut self.floors) {
            // Rows with a next level stay until that level contains them.
            if let Some(age) = class.keep.age.filter(|_| next.is_none()) {
                floor.time = floor.time.max(told.saturating_sub(age.as_nanos() as i64));
            }
        }
        self.note_late();
    }

    /// Judges the clock without expiring any data.
    pub fn judge(&mut self, clock: &dyn Clock) {
        self.believed = self.watch.judge(clock.now(), clock.monotonic(), self.now);
    }

    fn note_late(&mut self) {
        let named = &self.floors[..self.classes.named().len()];
        let times = named.iter().map(|floor| floor.time);
        let coarsened = self.coarsened.iter().map(|(_, time)| *time);
        self.late_before = times.chain(coarsened).max().unwrap_or(i64::MIN);
    }

    /// Records that the file `clock` contains this time, which a start will find.
    pub fn vouch(&mut self, time: i64) {
        self.told = true;
        self.vouched = self.vouched.max(time);
    }

    /// Records the time that a start finds in the file `clock`. The present is no earlier.
    pub fn recall_time(&mut self, time: i64) {
        self.vouch(time);
        self.now = self.now.max(time);
    }

    /// Records the time at which a segment found by a start was written. The time counts only if the
    /// file `clock` contains none, because an operator may have set that file back. Age does not
    /// hide data by this time until the file contains it, because the segment may be dropped.
    pub fn recall_born(&mut self, time: i64) {
        if !self.told {
            self.now = self.now.max(time);
        }
    }

    /// Returns whether the stored rules have an age by the clock. The file `clock` must then exist:
    /// a start writes it before it stores such rules.
    pub fn needs_clock(&self) -> bool {
        self.known_rules
            .as_ref()
            .is_some_and(Classes::hides_by_clock)
    }

    /// Trusts the clock, because an operator confirmed it.
    pub fn accept_clock(&mut self, clock: &dyn Clock) {
        self.watch.believe(clock.now(), clock.monotonic());
    }

    /// Returns how far the clock is ahead of the trusted time, and how far the trusted time is
    /// ahead of the clock, ns. Both are 0 if the store uses its clock, or if no data expires by it.
    pub fn clock_differences(&self, wall: i64) -> (u64, u64) {
        let has_age = self
            .classes
            .list()
            .iter()
            .any(|class| class.keep.age.is_some());
        let behind = match has_age && self.now > i64::MIN {
            true => self.now.saturating_sub(wall).max(0) as u64,
            false => 0,
        };
        (self.watch.ahead(), behind)
    }

    /// Returns the time to write to the disk so that age can hide data by the trusted clock.
    /// Returns `None` if the time on the disk is sufficient. With `early`, the time is returned
    /// shortly before it is needed. Repeated starts do not move the time further ahead of the
    /// clock.
    pub fn promise_due(&self, early: bool) -> Option<i64> {
        self.promise_at(self.believed, early)
    }

    fn promise_at(&self, now: i64, early: bool) -> Option<i64> {
        let rules = self.classes.list().iter().zip(&self.next);
        let ages = rules.filter(|(_, next)| next.is_none());
        let age = ages.filter_map(|(class, _)| class.keep.age).min()?;
        let ahead = (age.as_nanos() as i64 / PROMISES).clamp(SHORTEST_PROMISE, LONGEST_PROMISE);
        let least = match early {
            true => now.saturating_add(ahead / 2),
            false => now,
        };
        let promise = now.saturating_add(ahead);
        match self.told {
            true => (self.vouched < least).then_some(promise),
            false => Some(promise.max(self.now)),
        }
    }

    /// Returns the time that a closed store writes to the disk, if it must write one.
    pub fn last_time(&self) -> Option<i64> {
        self.promise_at(i64::MAX, false).map(|_| self.now)
    }

    /// Returns the wall time in ns. It does not go back.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Records a block on disk, which a start after a crash will find.
    pub fn found(&mut self, entry: &Entry) {
        if entry.source >= self.members.count() {
            return;
        }
        self.is_late(entry.source, entry.first);
        if entry.late {
            note_times(
                &mut self.late,
                entry.source,
                Interval::new(entry.first, entry.last),
            );
        }
        if self.rings {
            let rows = self.durable_rows.of(entry.source);
            *rows = (*rows).max(entry.ordinal);
            let rows = self.logged_rows.of(entry.source);
            *rows = (*rows).max(entry.ordinal);
        }
    }

    /// Records the beginning of a block. Returns whether the block may overwrite an earlier one.
    pub fn is_late(&mut self, source: u32, first: i64) -> bool {
        let edge = self.edges.of(source);
        let late = *edge != 0 && ordered(first) <= *edge;
        *edge = ordered(first).max(*edge);
        late
    }

    /// Records a partly overwritten block. Blocks that begin before its end may overwrite the rest.
    pub fn expect_late(&mut self, source: u32, last: i64) {
        let edge = self.edges.of(source);
        *edge = ordered(last).max(*edge);
    }

    /// Returns whether any source has blocks that may overwrite others.
    pub fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Removes and returns sources with blocks that may overwrite others, and the times of these
    /// blocks.
    pub fn take_late(&mut self, most: usize) -> Vec<(u32, Interval)> {
        let first = |late: &mut BTreeMap<u32, Interval>| late.pop_first();
        (0..most).map_while(|_| first(&mut self.late)).collect()
    }

    /// Postpones the search in a source until the segments of its blocks are sealed.
    pub fn wait_for_seal(&mut self, source: u32, interval: Interval) {
        note_times(&mut self.late_and_open, source, interval);
    }

    /// Resumes postponed searches after a segment was sealed.
    pub fn look_again(&mut self) {
        for (source, interval) in std::mem::take(&mut self.late_and_open) {
            note_times(&mut self.late, source, interval);
        }
    }

    /// Records a delete.
    pub fn bury(&mut self, tombstone: Tombstone) {
        put_tombstone(&tombstone, &mut self.news);
        self.tombstones.push(tombstone);
    }

    /// Raises the floor of a class, so that blocks below a number die.
    pub fn raise(&mut self, class: u8, number: u64) {
        let floor = &mut self.floors[class as usize].number;
        *floor = (*floor).max(number);
    }

    /// Returns the lowest number that a new block may have. New blocks must not receive numbers
    /// below a floor, even if the dead blocks no longer exist.
    pub fn next_block(&self) -> u64 {
        let graves = self.tombstones.iter().map(|tombstone| tombstone.before);
        let floors = self.floors.iter().map(|floor| floor.number);
        // A start calls this before it applies the rules with their floors.
        let known = self.known_floors.values().copied();
        graves.chain(floors).chain(known).max().unwrap_or(0)
    }

    /// Returns whether any delete is recorded.
    pub fn has_deletes(&self) -> bool {
        !self.tombstones.is_empty()
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
        if !Arc::ptr_eq(&lateness.coarsened, &self.coarsened) {
            lateness.coarsened = self.coarsened.clone();
        }
    }

    /// Returns the hidden parts of a source with `rows` rows, for a reader.
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

    /// Returns the permanently hidden parts of a source, regardless of data lost in a crash,
    /// without its ring.
    pub fn veil_for_good(&self, source: u32) -> Veil {
        Veil {
            past: 0,
            ..self.veil(source, 0)
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
        entry.ordinal <= self.past(entry.source, rows, keep) || self.is_buried(entry)
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

    /// Returns whether a block was begun before a delete of rows of its source.
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

    // ---- forecasts

    /// Records block numbers with times by which they had been begun. A segment written by a merge
    /// contains old blocks at a late time, so the earliest time for each number counts.
    pub fn recall_pace(&mut self, mut ends: Vec<(u64, i64)>) {
        ends.sort_unstable();
        let mut earliest = i64::MAX;
        for (_, time) in ends.iter_mut().rev() {
            earliest = earliest.min(*time);
            *time = earliest;
        }
        for (number, time) in ends {
            self.pace.note(number, time);
        }
    }

    /// Sets the paces of sources in rings from the blocks that a start found.
    pub fn recall_paces(&mut self, begun: &Begun) {
        for (source, pace) in begun.paces() {
            if self.is_ring(source) {
                *self.paces.of(source) = pace;
            }
        }
    }

    /// Returns whether a source keeps a limited number of rows.
    pub fn is_ring(&self, source: u32) -> bool {
        let class = self.class_of(source) as usize;
        source < self.members.count() && self.classes.list()[class].keep.rows.is_some()
    }

    /// Returns the present moment, by the wall clock and by blocks.
    pub fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            block: self.block,
            block_ns: self.pace.block_ns(),
        }
    }

    /// Returns when a block that joins the log is expected to die. The number of blocks begun since
    /// the start of this block measures the time it took to fill. `bytes` are the bytes of its
    /// rows, and `last` is its latest time.
    pub fn death(&mut self, taken: &Taken, bytes: u64, last: i64) -> Expected {
        self.block = self.block.max(taken.next);
        let source = taken.source;
        let class = self.class_of(source);
        let keep = self.classes.list()[class as usize].keep;
        let quota = self.quota(class);
        if keep == Keep::default() && quota.is_none() {
            return Expected::Never;
        }
        if quota.is_some() {
            let now = (1 + self.block) as i64 * BLOCK;
            self.rates[class as usize].add(bytes as f64, now, RATE_WINDOW);
        }
        let ring = keep.rows.map_or(Expected::Never, |ring| {
            *self.logged_rows.of(source) = taken.ordinal;
            let pace = self.note_pace(taken);
            self.after_rows(ring, pace)
        });
        self.moment().sooner(self.expect(class, last), ring)
    }

    /// Records that a block was filled. Returns the pace of its source.
    fn note_pace(&mut self, taken: &Taken) -> f64 {
        let rows = u64::from(taken.rows);
        let found = self.pace_since(taken.number, rows);
        let known = taken.ordinal / rows.max(1);
        let pace = self.paces.of(taken.source);
        let weight = match *pace > 0.0 {
            true => known.clamp(1, PACE_BLOCKS) as f32,
            false => 1.0,
        };
        *pace += (found as f32 - *pace) / weight;
        f64::from(*pace)
    }

    /// Returns the blocks begun per row of a source since the block number `since`.
    fn pace_since(&self, since: u64, rows: u64) -> f64 {
        self.block.saturating_sub(since).max(1) as f64 / rows.max(1) as f64
    }

    /// Returns when an existing block is expected to die. Assumes that the rows of a ring arrived
    /// at a steady rate since the block was begun.
    pub fn remaining(&self, entry: &Entry) -> Expected {
        let class = self.class_of(entry.source);
        let keep = self.classes.list()[class as usize].keep;
        let ring = keep.rows.map_or(Expected::Never, |ring| {
            let rows = self.logged_rows.get(entry.source);
            let since = rows.saturating_sub(entry.ordinal);
            let came = since + u64::from(entry.rows);
            let mean = f64::from(self.paces.get(entry.source));
            let pace = match mean > 0.0 && came < PACE_BLOCKS * u64::from(entry.rows) {
                true => mean,
                false => self.pace_since(entry.since, came),
            };
            self.after_rows(ring.saturating_sub(since), pace)
        });
        self.moment().sooner(self.expect(class, entry.last), ring)
    }

    /// Returns the expected moment at which a source has received `rows` more rows.
    fn after_rows(&self, rows: u64, pace: f64) -> Expected {
        Expected::Block(self.block.saturating_add((rows as f64 * pace) as u64))
    }

    /// Returns the maximum bytes of a class. A class that may be shed keeps data at most until a
    /// disk's worth of new data has arrived.
    fn quota(&self, class: u8) -> Option<u64> {
        let Class {
            keep, when_full, ..
        } = &self.classes.list()[class as usize];
        let budget = self.budget.filter(|_| *when_full == WhenFull::Shed);
        keep.bytes.or(budget)
    }

    /// Returns the expected death by age and quota.
    fn expect(&self, class: u8, last: i64) -> Expected {
        let keep = self.classes.list()[class as usize].keep;
        let age = keep.age.map_or(Expected::Never, |age| {
            let age = age.as_nanos().min(i64::MAX as u128) as i64;
            let old = last.saturating_add(age);
            Expected::Time(match self.round(class) {
                // The block dies with the next round, which may be late.
                Some(round) => old.saturating_add(round).max(self.now + round / 8),
                None => old,
            })
        });
        let quota = self.quota(class).map_or(Expected::Never, |bytes| {
            match self.rates[class as usize].pace() {
                Some(pace) => {
                    let blocks = bytes as f64 * pace / BLOCK as f64;
                    Expected::Block(self.block.saturating_add(blocks as u64))
                }
                None => Expected::Unknown,
            }
        });
        self.moment().sooner(age, quota)
    }

    // ---- the catalog

    /// Returns whether any record is not yet in the catalog.
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Removes and returns the records that are not yet in the catalog.
    pub fn take_news(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.news)
    }

    /// Adds a record of a class's new floor for the catalog. [`Retention::raise`] applies the
    /// floor.
    pub fn note_floor(&mut self, class: u8, number: u64) {
        self.news.push(FLOOR);
        put_text(&self.classes.list()[class as usize].name, &mut self.news);
        varint::put_u64(number, &mut self.news);
    }

    /// Adds a record that blocks of a ring up to an ordinal are dead. Needed if the block that
    /// proves this is about to be dropped.
    pub fn note_past(&mut self, dropped: &[Entry]) {
        let mut past = Vec::new();
        for entry in dropped {
            let class = self.class_of(entry.source) as usize;
            let Some(ring) = self.classes.list()[class].keep.rows else {
                continue;
            };
            let rows = self.durable_rows.get(entry.source);
            if entry.ordinal == rows && rows > ring {
                past.push((entry.source, rows - ring));
            }
        }
        self.put_past(&past);
    }

    fn put_past(&mut self, past: &[(u32, u64)]) {
        if past.is_empty() {
            return;
        }
        self.news.push(PAST);
        varint::put_u64(past.len() as u64, &mut self.news);
        for &(source, ordinal) in past {
            varint::put_u64(u64::from(source), &mut self.news);
            varint::put_u64(ordinal, &mut self.news);
            self.let_past(source, ordinal);
        }
    }

    /// Reads the records in a frame of the catalog.
    pub fn recall_news(&mut self, news: &[u8]) -> Result<(), Short> {
        let mut cursor = Cursor(news);
        while !cursor.is_empty() {
            match cursor.u8()? {
                TOMBSTONE => {
                    let tombstone = get_tombstone(&mut cursor)?;
                    self.tombstones.push(tombstone);
                }
                FLOOR => {
                    let name = cursor.text()?.to_string();
                    let floor = self.known_floors.entry(name).or_default();
                    *floor = cursor.varint()?.max(*floor);
                }
                RULES => {
                    self.known_rules = Some(get_classes(&mut cursor)?);
                    // Floors of other rules were converted into deletes.
                    self.known_floors.clear();
                    self.known_made.clear();
                }
                MADE => {
                    let name = cursor.text()?.to_string();
                    let made = self.known_made.entry(name).or_insert(i64::MIN);
                    *made = cursor.signed()?.max(*made);
                }
                OLDER => {
                    let older = self.older.entry(cursor.varint()?).or_insert(i64::MIN);
                    *older = cursor.signed()?.max(*older);
                }
                COARSENED => {
                    let time = cursor.signed()?;
                    let sources = get_sources(&mut cursor)?;
                    Arc::make_mut(&mut self.coarsened).push((sources, time));
                }
                LEDGER => self.has_ledger = true,
                PAST => {
                    for _ in 0..cursor.count(u32::MAX as usize)? {
                        let source = cursor.count(u32::MAX as usize)? as u32;
                        let ordinal = cursor.varint()?;
                        if source >= self.members.count() {
                            return Err(Short);
                        }
                        self.let_past(source, ordinal);
                    }
                }
                _ => return Err(Short),
            }
        }
        Ok(())
    }

    /// Returns whether the catalog records that the store has a ledger.
    pub fn has_ledger(&self) -> bool {
        self.has_ledger
    }

    /// Adds a record for the catalog that the store has a ledger.
    pub fn note_ledger(&mut self) {
        if !std::mem::replace(&mut self.has_ledger, true) {
            self.news.push(LEDGER);
        }
    }

    /// Returns sources with the ordinal up to which blocks are dead under any rules. The sources
    /// have had at least that many rows.
    pub fn pasts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.past
            .iter()
            .map(|(&source, &ordinal)| (source, ordinal))
    }

    fn let_past(&mut self, source: u32, ordinal: u64) {
        let past = self.past.entry(source).or_default();
        *past = (*past).max(ordinal);
    }

    /// Returns whether the rules differ from those when the store was last open.
    pub fn rules_change(&self) -> bool {
        let bytes = |classes: &Classes| {
            let mut bytes = Vec::new();
            put_classes(classes.named(), &mut bytes);
            bytes
        };
        let new = bytes(&self.classes);
        self.known_rules
            .as_ref()
            .is_some_and(|old| bytes(old) != new)
    }

    /// Applies rules that may have changed since the store was last open. Data that is dead under
    /// the old rules stays dead: it is recorded in a form that no rule changes. All sources must be
    /// known, and the total number of rows of each source in blocks on disk.
    pub fn change_rules(
        &mut self,
        key_of: impl Fn(u32) -> SourceKey,
        rows_of: impl Fn(u32) -> u64,
        next_block: u64,
    ) {
        let mut new = Vec::new();
        put_classes(self.classes.named(), &mut new);
        let Some(old) = self.known_rules.take() else {
            // A store without rules has nothing to record: none of its data ever dies.
            if matches!(self.classes.list(), [only] if only.keep == Keep::default()) {
                return;
            }
            self.news.push(RULES);
            self.news.extend(new);
            return;
        };
        let mut known = Vec::new();
        put_classes(old.named(), &mut known);
        let floors = std::mem::take(&mut self.known_floors);
        let made = std::mem::take(&mut self.known_made);
        if known == new {
            let rules = self.classes.list().iter().zip(&self.next);
            for ((class, next), floor) in rules.zip(&mut self.floors) {
                floor.number = floors.get(&class.name).copied().unwrap_or(0);
                if let (Some(_), Some(&made)) = (next, made.get(&class.name)) {
                    floor.time = made;
                }
            }
            self.note_late();
            return;
        }
        let mut members = vec![RoaringBitmap::new(); old.list().len()];
        let mut past = Vec::new();
        for source in 0..self.members.count() {
            let class = old.of(&key_of(source));
            members[class as usize].insert(source);
            let ring = old.list()[class as usize].keep.rows;
            let rows = rows_of(source);
            if let Some(ordinal) = ring
                .map(|ring| rows.saturating_sub(ring))
                .filter(|&ordinal| ordinal > 0)
            {
                past.push((source, ordinal));
            }
        }
        for ((number, class), sources) in (0_u8..).zip(old.list()).zip(members) {
            let time = |age: std::time::Duration| self.now.saturating_sub(age.as_nanos() as i64);
            let made = made.get(&class.name).copied().unwrap_or(i64::MIN);
            let next = old.next_step(number);
            let floor = Floor {
                number: floors.get(&class.name).copied().unwrap_or(0),
                time: match next {
                    Some(_) => made,
                    None => class.keep.age.map_or(i64::MIN, time),
                },
            };
            if let (Some(step), Some(age), false) =
                (next, class.keep.age, self.members.levels() == 0)
            {
                // A round may have been under way.
                self.note_older(step, made.max(time(age)));
            }
            if next.is_some() && made > i64::MIN && usize::from(number) < old.named().len() {
                self.note_coarsened(sources.clone(), made);
            }
            self.bury_below(sources, floor, next_block);
        }
        self.put_past(&past);
        self.news.push(RULES);
        self.news.extend(new);
        self.note_late();
    }

    /// Converts the floor of a class into deletes.
    fn bury_below(&mut self, sources: RoaringBitmap, floor: Floor, next_block: u64) {
        if floor.number > 0 {
            self.bury(Tombstone {
                sources: sources.clone(),
                interval: Interval::new(i64::MIN, i64::MAX),
                before: floor.number,
            });
        }
        if let Some(end) = floor.time.checked_sub(1) {
            self.bury(Tombstone {
                sources,
                interval: Interval::new(i64::MIN, end),
                before: next_block,
            });
        }
    }
}

/// Maps a timestamp to a u64 with the same order; i64::MIN becomes 0.
fn ordered(time: i64) -> u64 {
    time as u64 ^ 1 << 63
}

fn note_times(late: &mut BTreeMap<u32, Interval>, source: u32, interval: Interval) {
    let known = late.entry(source).or_insert(interval);
    known.start = known.start.min(interval.start);
    known.end = known.end.max(interval.end);
}

/// Returns the rules in consecutive frames of a catalog.
pub fn rules_of<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Classes {
    let mut retention = Retention::of_unnamed(u32::MAX);
    for news in frames {
        // Damaged frames are skipped, as at a start.
        let _ = retention.recall_news(news);
    }
    retention.known_rules.unwrap_or_default()
}

/// Decodes the deletes, floors and rules in a frame of the catalog, for a store with `sources`
/// sources.
///
/// # Errors
/// [`Short`] if the bytes are malformed.
pub fn check_news(news: &[u8], sources: u32) -> Result<(), Short> {
    let mut retention = Retention::of_unnamed(sources);
    retention.recall_news(news)
}

/// Returns whether frames of a catalog record that the store has a ledger.
pub fn has_ledger<'a>(frames: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut retention = Retention::of_unnamed(u32::MAX);
    for news in frames {
        let _ = retention.recall_news(news);
    }
    retention.has_ledger
}

fn put_tombstone(tombstone: &Tombstone, out: &mut Vec<u8>) {
    out.push(TOMBSTONE);
    varint::put_u64(tombstone.before, out);
    varint::put_i64(tombstone.interval.start, out);
    varint::put_i64(tombstone.interval.end, out);
    put_sources(&tombstone.sources, out);
}

fn put_sources(sources: &RoaringBitmap, out: &mut Vec<u8>) {
    varint::put_u64(sources.serialized_size() as u64, out);
    sources
        .serialize_into(out)
        .expect("a vector takes everything");
}

fn get_sources(cursor: &mut Cursor<'_>) -> Result<RoaringBitmap, Short> {
    let len = cursor.count(u32::MAX as usize)?;
    let bytes = cursor.take(len)?;
    RoaringBitmap::deserialize_from(bytes).map_err(|_| Short)
}

fn get_tombstone(cursor: &mut Cursor<'_>) -> Result<Tombstone, Short> {
    let before = cursor.varint()?;
    let interval = Interval::new(cursor.signed()?, cursor.signed()?);
    Ok(Tombstone {
        sources: get_sources(cursor)?,
        interval,
        before,
    })
}

/// Hidden parts of one source.
#[derive(Clone, Debug)]
pub struct Veil {
    floor: Floor,
    /// Ordinal up to which blocks are past the end of the ring.
    past: u64,
    /// Deletes: for blocks below a number, the deleted times.
    graves: Vec<(u64, Interval)>,
}

impl Veil {
    /// Returns whether all rows of a block are hidden.
    pub fn hides(&self, entry: &Entry) -> bool {
        let span = Interval::new(entry.first, entry.last);
        entry.number < self.floor.number
            || entry.last < self.floor.time
            || self.is_past(entry.ordinal)
            || self.graves(entry.number).any(|grave| grave.covers(&span))
    }

    /// Returns whether the ring has expired a block with this ordinal.
    pub fn is_past(&self, ordinal: u64) -> bool {
        ordinal <= self.past
    }

    /// Returns whether any row of a block is hidden for a reason other than its age.
    pub fn touches(&self, number: u64, span: &Interval) -> bool {
        number < self.floor.number || self.graves(number).any(|grave| grave.overlaps(span))
    }

    /// Returns whether a row of a block is hidden.
    pub fn hides_row(&self, number: u64, time: i64) -> bool {
        number < self.floor.number
            || time < self.floor.time
            || self.graves(number).any(|grave| grave.contains(time))
    }

    /// Returns the earliest visible time.
    pub fn start(&self) -> i64 {
        self.floor.time
    }

    fn graves(&self, number: u64) -> impl Iterator<Item = &Interval> {
        self.graves
            .iter()
            .filter(move |(before, _)| number < *before)
            .map(|(_, interval)| interval)
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
