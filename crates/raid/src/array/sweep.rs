//! A chore for many stripes, one after the other and a few at a time, not faster than allowed.

use super::worker::Chore;
use crate::request::{Failure, Nanos};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Failed stripes that are remembered by number.
const REMEMBERED: usize = 16;

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This stripe.
    Stripe(u64),
    /// Nothing before this time.
    Later(Nanos),
    /// Nothing before a stripe is done.
    Wait,
    /// All are done.
    Over,
}

/// Stripes that a chore could not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Stripes that were doubtful.
    pub doubtful: BTreeSet<u64>,
    /// Stripes of which too much was lost.
    pub lost: BTreeSet<u64>,
}

impl Undone {
    /// Adds the stripes of another one.
    pub fn extend(&mut self, other: Undone) {
        self.doubtful.extend(other.doubtful);
        self.lost.extend(other.lost);
    }

    /// Lowest stripe.
    pub fn first(&self) -> Option<u64> {
        let firsts = [self.doubtful.first(), self.lost.first()];
        firsts.into_iter().flatten().copied().min()
    }
}

/// A chore for many stripes.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The chore.
    pub chore: Chore,
    /// Stripes in all, and done.
    pub stripes: u64,
    /// Stripes done, with success or not.
    pub done: u64,
    /// Stripes that failed.
    pub failed: u64,
    /// Some of them, and why.
    pub failures: Vec<(u64, Failure)>,
    /// Stripes that failed because they are doubtful, and those that failed for another reason.
    pub undone: Undone,
    left: VecDeque<Range<u64>>,
    under_way: BTreeSet<u64>,
    /// The first stripe that failed, or was left out.
    first_failed: Option<u64>,
    cancelled: bool,
    at_once: usize,
    /// Time for one stripe.
    pace: Nanos,
    not_before: Nanos,
}

impl Sweep {
    /// A chore for ranges of stripes, `at_once` of them at a time, and each not sooner than `pace` after the last.
    pub fn new(
        chore: Chore,
        ranges: impl IntoIterator<Item = Range<u64>>,
        at_once: usize,
        pace: Nanos,
    ) -> Sweep {
        let ranges: VecDeque<Range<u64>> = ranges.into_iter().collect();
        Sweep {
            chore,
            stripes: ranges.iter().map(|range| range.end - range.start).sum(),
            done: 0,
            failed: 0,
            failures: Vec::new(),
            undone: Undone::default(),
            left: ranges,
            under_way: BTreeSet::new(),
            first_failed: None,
            cancelled: false,
            at_once,
            pace,
            not_before: 0,
        }
    }

    /// What to do now. A stripe that is given is under way.
    pub fn next(&mut self, now: Nanos) -> Step {
        while self.left.front().is_some_and(Range::is_empty) {
            self.left.pop_front();
        }
        let Some(range) = self.left.front_mut() else {
            return match self.under_way.is_empty() {
                true => Step::Over,
                false => Step::Wait,
            };
        };
        if self.under_way.len() >= self.at_once {
            return Step::Wait;
        }
        if now < self.not_before {
            return Step::Later(self.not_before);
        }
        // Time that was not used is not saved up.
        self.not_before = self.not_before.max(now.saturating_sub(self.pace)) + self.pace;
        let stripe = range.start;
        range.start += 1;
        self.under_way.insert(stripe);
        Step::Stripe(stripe)
    }

    /// A stripe is done.
    pub fn end(&mut self, stripe: u64, result: Result<(), Failure>) {
        self.under_way.remove(&stripe);
        self.done += 1;
        if let Err(failure) = result {
            self.failed += 1;
            self.leave_out(stripe);
            match failure {
                Failure::Doubtful { .. } => self.undone.doubtful.insert(stripe),
                _ => self.undone.lost.insert(stripe),
            };
            if self.failures.len() < REMEMBERED {
                self.failures.push((stripe, failure));
            }
        }
    }

    /// Begins no more.
    pub fn cancel(&mut self) {
        self.cancelled = true;
        let next = self.left.iter().find(|range| !range.is_empty());
        if let Some(stripe) = next.map(|range| range.start) {
            self.leave_out(stripe);
        }
        self.left.clear();
    }

    /// It begins no more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// All stripes are done.
    pub fn is_over(&self) -> bool {
        self.position() == u64::MAX
    }

    fn leave_out(&mut self, stripe: u64) {
        self.first_failed = Some(self.first_failed.map_or(stripe, |first| first.min(stripe)));
    }

    /// All stripes of the sweep before this one are done and did not fail.
    pub fn position(&self) -> u64 {
        let next = self.left.front().map(|range| range.start);
        let first = [next, self.under_way.first().copied(), self.first_failed];
        first.into_iter().flatten().min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_come_in_order_a_few_at_a_time_and_not_too_fast() {
        let mut sweep = Sweep::new(Chore::Scrub, [3..5, 5..5, 9..11], 2, 100);
        assert_eq!(
            (sweep.next(1000), sweep.next(1000)),
            (Step::Stripe(3), Step::Stripe(4))
        );
        assert_eq!(sweep.next(1000), Step::Wait);
        sweep.end(4, Ok(()));
        assert_eq!((sweep.position(), sweep.next(1000)), (3, Step::Later(1100)));
        assert_eq!(sweep.next(1100), Step::Stripe(9));
        sweep.end(3, Err(Failure::Broken));
        assert_eq!(sweep.next(5000), Step::Stripe(10));
        sweep.end(9, Ok(()));
        sweep.end(10, Ok(()));
        assert_eq!((sweep.next(5000), sweep.position()), (Step::Over, 3));
        assert_eq!((sweep.stripes, sweep.done, sweep.failed), (4, 4, 1));
    }

    #[test]
    fn what_is_cancelled_says_how_far_it_came() {
        let mut sweep = Sweep::new(Chore::Scrub, std::iter::once(0..10), 2, 0);
        assert_eq!(sweep.next(0), Step::Stripe(0));
        sweep.cancel();
        assert_eq!((sweep.next(0), sweep.position()), (Step::Wait, 0));
        sweep.end(0, Ok(()));
        assert_eq!((sweep.next(0), sweep.position()), (Step::Over, 1));
    }
}
