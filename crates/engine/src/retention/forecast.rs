//! Forecast: when blocks are expected to die.

use crate::retention::Retention;
use crate::retention::class::{Class, Keep, WhenFull};
use crate::retention::expected::{Clocks, Expected};
use crate::retention::pace::Begun;
use crate::sealing::queue::Taken;
use crate::segment::Entry;
use seiner_merge::SourcePace;

/// Bytes over which the rate of a class is averaged.
const RATE_WINDOW: f64 = (16 << 20) as f64;
/// Duration of a block on the clock of rates.
const BLOCK: i64 = 1000;

impl Retention {
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
                *self.paces.of(source) = SourcePace::found(pace);
            }
        }
    }

    /// Returns whether a source keeps a limited number of rows.
    pub fn is_ring(&self, source: u32) -> bool {
        let class = self.class_of(source) as usize;
        source < self.members.count() && self.classes.list()[class].keep.rows.is_some()
    }

    /// Returns the present readings of both clocks.
    pub fn clocks(&self) -> Clocks {
        Clocks {
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
            let pace = self.note_pace(taken, ring);
            self.after_rows(ring, pace)
        });
        self.clocks().sooner(self.expect(class, last), ring)
    }

    /// Records that a block was filled. Returns the pace of its source.
    fn note_pace(&mut self, taken: &Taken, ring: u64) -> f64 {
        let rows = u64::from(taken.rows);
        let found = self.pace_since(taken.number, rows);
        let pace = self.paces.of(taken.source);
        pace.add(found as f32, ring / rows.max(1));
        pace.mean().unwrap_or(found)
    }

    /// Returns the blocks begun per row of a source since the block number `since`.
    fn pace_since(&self, since: u64, rows: u64) -> f64 {
        self.block.saturating_sub(since).max(1) as f64 / rows.max(1) as f64
    }

    /// Returns when an existing block is expected to die. If the rows of a ring that arrived since the block was begun
    /// show another rate than the source's pace, their rate counts.
    pub fn remaining(&self, entry: &Entry) -> Expected {
        let class = self.class_of(entry.source);
        let keep = self.classes.list()[class as usize].keep;
        let ring = keep.rows.map_or(Expected::Never, |ring| {
            let rows = self.logged_rows.get(entry.source);
            let since = rows.saturating_sub(entry.ordinal);
            let came = since + u64::from(entry.rows);
            let steady = self.pace_since(entry.since, came);
            let blocks = came / u64::from(entry.rows).max(1);
            let pace = self.paces.get(entry.source).mean_or(steady, blocks);
            self.after_rows(ring.saturating_sub(since), pace)
        });
        self.clocks().sooner(self.expect(class, entry.last), ring)
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
            Expected::Time(match self.pass_len(class) {
                // The block dies with the next pass, which may be late.
                Some(pass) => old.saturating_add(pass).max(self.now + pass / 8),
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
        self.clocks().sooner(age, quota)
    }
}
