//! Time: the trusted clock, and the time that the file `clock` covers.

use crate::retention::Retention;
use crate::retention::class::Classes;
use seiner_platform::Clock;

const NANOS: i64 = 1_000_000_000;
/// Fraction of the shortest age that the time on the disk is ahead of the present, within bounds,
/// ns.
const AHEAD_SHARE: i64 = 64;
const SHORTEST_AHEAD: i64 = NANOS;
const LONGEST_AHEAD: i64 = 60 * NANOS;

impl Retention {
    /// Advances the time. `block` is the number of the next block when the oldest buffer that waits
    /// for the log was taken: rows count when they are in the log.
    pub fn advance(&mut self, clock: &dyn Clock, block: u64) {
        self.judge(clock);
        self.now = self.now.max(self.trusted);
        self.block = self.block.max(block);
        self.pace.note(block, self.now);
        let covered = self.now.min(self.covered);
        let rules = self.classes.list().iter().zip(&self.next);
        for ((class, next), floor) in rules.zip(&mut self.floors) {
            // Rows with a next level stay until that level contains them.
            if let Some(age) = class.keep.age.filter(|_| next.is_none()) {
                floor.time = floor
                    .time
                    .max(covered.saturating_sub(age.as_nanos() as i64));
            }
        }
        self.note_late();
    }

    /// Judges the clock without expiring any data.
    pub fn judge(&mut self, clock: &dyn Clock) {
        self.trusted = self.watch.judge(clock.now(), clock.monotonic(), self.now);
    }

    pub(super) fn note_late(&mut self) {
        let named = &self.floors[..self.classes.named().len()];
        let times = named.iter().map(|floor| floor.time);
        let rolled_up = self.rolled_up.iter().map(|(_, time)| *time);
        self.late_before = times.chain(rolled_up).max().unwrap_or(i64::MIN);
    }

    /// Records that the file `clock` contains this time, which a start will find.
    pub fn cover(&mut self, time: i64) {
        self.has_stored_time = true;
        self.covered = self.covered.max(time);
    }

    /// Records the time that a start finds in the file `clock`. The present is not earlier.
    pub fn recall_time(&mut self, time: i64) {
        self.cover(time);
        self.now = self.now.max(time);
    }

    /// Records the time at which a segment found by a start was written. The time counts only if the
    /// file `clock` contains none, because an operator may have set that file back. Age does not
    /// hide data by this time until the file contains it, because the segment may be dropped.
    pub fn recall_born(&mut self, time: i64) {
        if !self.has_stored_time {
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
        self.watch.trust(clock.now(), clock.monotonic());
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
    pub fn time_to_persist(&self, early: bool) -> Option<i64> {
        self.time_to_persist_at(self.trusted, early)
    }

    fn time_to_persist_at(&self, now: i64, early: bool) -> Option<i64> {
        let rules = self.classes.list().iter().zip(&self.next);
        let ages = rules.filter(|(_, next)| next.is_none());
        let age = ages.filter_map(|(class, _)| class.keep.age).min()?;
        let ahead = (age.as_nanos() as i64 / AHEAD_SHARE).clamp(SHORTEST_AHEAD, LONGEST_AHEAD);
        let least = match early {
            true => now.saturating_add(ahead / 2),
            false => now,
        };
        let time = now.saturating_add(ahead);
        match self.has_stored_time {
            true => (self.covered < least).then_some(time),
            false => Some(time.max(self.now)),
        }
    }

    /// Returns the time that a closed store writes to the disk, if it must write one.
    pub fn last_time(&self) -> Option<i64> {
        self.time_to_persist_at(i64::MAX, false).map(|_| self.now)
    }

    /// Returns the wall time in ns. It never decreases.
    pub fn now(&self) -> i64 {
        self.now
    }
}
