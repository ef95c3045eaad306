//! Time: the clock as far as it is believed, and the time that the disk vouches for.

use crate::retention::Retention;
use crate::retention::class::Classes;
use seiner_platform::Clock;

const NANOS: i64 = 1_000_000_000;
/// A promise to the disk of how late it is holds for this part of the shortest age, within bounds, ns.
const PROMISES: i64 = 64;
const SHORTEST_PROMISE: i64 = NANOS;
const LONGEST_PROMISE: i64 = 60 * NANOS;

impl Retention {
    /// The time goes on; `next_block` is the next block's number.
    pub fn advance(&mut self, clock: &dyn Clock, next_block: u64) {
        self.judge(clock);
        self.now = self.now.max(self.believed);
        self.block = self.block.max(next_block);
        self.pace.note(next_block, self.now);
        let told = self.now.min(self.vouched);
        let rules = self.classes.list().iter().zip(&self.next);
        for ((class, next), floor) in rules.zip(&mut self.floors) {
            // What has a next level stays until it is in it.
            if let Some(age) = class.keep.age.filter(|_| next.is_none()) {
                floor.time = floor.time.max(told.saturating_sub(age.as_nanos() as i64));
            }
        }
        self.note_late();
    }

    /// Judges the clock; nothing is let go by it yet.
    pub fn judge(&mut self, clock: &dyn Clock) {
        self.believed = self.watch.judge(clock.now(), clock.monotonic(), self.now);
    }

    pub(super) fn note_late(&mut self) {
        let named = &self.floors[..self.classes.named().len()];
        let times = named.iter().map(|floor| floor.time);
        let coarsened = self.coarsened.iter().map(|(_, time)| *time);
        self.late_before = times.chain(coarsened).max().unwrap_or(i64::MIN);
    }

    /// The file `clock` has this time, so that a start finds it.
    pub fn vouch(&mut self, time: i64) {
        self.told = true;
        self.vouched = self.vouched.max(time);
    }

    /// A start finds this time in the file `clock`: the present is no earlier.
    pub fn recall_time(&mut self, time: i64) {
        self.vouch(time);
        self.now = self.now.max(time);
    }

    /// A start finds a segment that was written at this time. The time counts only if the file `clock`
    /// has none: an operator may have set that one back. Age does not hide by the segment's time until
    /// the file has it, because the segment may be dropped.
    pub fn recall_born(&mut self, time: i64) {
        if !self.told {
            self.now = self.now.max(time);
        }
    }

    /// Returns whether the stored rules have an age by the clock. Then the file `clock` must be there: a start
    /// writes it before it stores such rules.
    pub fn needs_clock(&self) -> bool {
        self.known_rules
            .as_ref()
            .is_some_and(Classes::hides_by_clock)
    }

    /// An operator confirms the clock.
    pub fn accept_clock(&mut self, clock: &dyn Clock) {
        self.watch.believe(clock.now(), clock.monotonic());
    }

    /// How far the clock is ahead of the time that is believed, and how far that is ahead of the clock, ns.
    /// 0 where the store goes by its clock, or lets nothing go by it.
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

    /// The time that the disk should tell, so that age can hide by the clock as far as it is believed, if it
    /// is not told yet, or `early`: not for much longer. However often a store is started, it tells no
    /// time that is further ahead of the clock.
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

    /// The time that a store that is closed leaves on the disk, if it has to leave one.
    pub fn last_time(&self) -> Option<i64> {
        self.promise_at(i64::MAX, false).map(|_| self.now)
    }

    /// Wall time in ns; does not go back.
    pub fn now(&self) -> i64 {
        self.now
    }
}
