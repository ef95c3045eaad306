//! Execution of a job over many stripes, in order, a few at a time, with a limited rate.

use super::message::Job;
use crate::request::{Failure, Nanos};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Maximum number of failed stripes whose failures are stored.
const REMEMBERED: usize = 16;

/// Next step of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStripe {
    /// Work on this stripe.
    Ready(u64),
    /// Wait until this time.
    NotBefore(Nanos),
    /// Wait until a stripe is done.
    Wait,
    /// All stripes are done.
    Done,
}

/// Stripes on which a job failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedStripes {
    /// Stripes that were doubtful.
    pub doubtful: BTreeSet<u64>,
    /// Stripes that had lost too much.
    pub lost: BTreeSet<u64>,
}

impl FailedStripes {
    /// Adds the stripes of `other`.
    pub fn extend(&mut self, other: FailedStripes) {
        self.doubtful.extend(other.doubtful);
        self.lost.extend(other.lost);
    }

    /// Returns the lowest stripe.
    pub fn first(&self) -> Option<u64> {
        let firsts = [self.doubtful.first(), self.lost.first()];
        firsts.into_iter().flatten().copied().min()
    }
}

/// A job over many stripes.
#[derive(Clone, Debug)]
pub struct StripePass {
    /// Kind of job.
    pub job: Job,
    /// Total number of stripes.
    pub stripes: u64,
    /// Number of stripes done, failed ones included.
    pub done: u64,
    /// Number of stripes that failed.
    pub failed: u64,
    /// Some of the failures.
    pub failures: Vec<(u64, Failure)>,
    /// All stripes that failed, by reason.
    pub failed_stripes: FailedStripes,
    left: VecDeque<Range<u64>>,
    under_way: BTreeSet<u64>,
    /// First stripe that failed or was skipped.
    first_failed: Option<u64>,
    cancelled: bool,
    at_once: usize,
    /// Minimum time between the starts of two stripes, ns.
    pace: Nanos,
    not_before: Nanos,
}

impl StripePass {
    /// Creates a pass over ranges of stripes: at most `at_once` stripes at a time, started at least `pace` ns
    /// apart.
    pub fn new(
        job: Job,
        ranges: impl IntoIterator<Item = Range<u64>>,
        at_once: usize,
        pace: Nanos,
    ) -> StripePass {
        let ranges: VecDeque<Range<u64>> = ranges.into_iter().collect();
        StripePass {
            job,
            stripes: ranges.iter().map(|range| range.end - range.start).sum(),
            done: 0,
            failed: 0,
            failures: Vec::new(),
            failed_stripes: FailedStripes::default(),
            left: ranges,
            under_way: BTreeSet::new(),
            first_failed: None,
            cancelled: false,
            at_once,
            pace,
            not_before: 0,
        }
    }

    /// Returns the next step. A stripe that is returned counts as in flight.
    pub fn next(&mut self, now: Nanos) -> NextStripe {
        while self.left.front().is_some_and(Range::is_empty) {
            self.left.pop_front();
        }
        let Some(range) = self.left.front_mut() else {
            return match self.under_way.is_empty() {
                true => NextStripe::Done,
                false => NextStripe::Wait,
            };
        };
        if self.under_way.len() >= self.at_once {
            return NextStripe::Wait;
        }
        if now < self.not_before {
            return NextStripe::NotBefore(self.not_before);
        }
        // Unused time does not accumulate.
        self.not_before = self.not_before.max(now.saturating_sub(self.pace)) + self.pace;
        let stripe = range.start;
        range.start += 1;
        self.under_way.insert(stripe);
        NextStripe::Ready(stripe)
    }

    /// Reports that a stripe is done.
    pub fn end(&mut self, stripe: u64, result: Result<(), Failure>) {
        self.under_way.remove(&stripe);
        self.done += 1;
        if let Err(failure) = result {
            self.failed += 1;
            self.leave_out(stripe);
            match failure {
                Failure::Doubtful { .. } => self.failed_stripes.doubtful.insert(stripe),
                _ => self.failed_stripes.lost.insert(stripe),
            };
            if self.failures.len() < REMEMBERED {
                self.failures.push((stripe, failure));
            }
        }
    }

    /// Stops the start of further stripes.
    pub fn cancel(&mut self) {
        self.cancelled = true;
        let next = self.left.iter().find(|range| !range.is_empty());
        if let Some(stripe) = next.map(|range| range.start) {
            self.leave_out(stripe);
        }
        self.left.clear();
    }

    /// Returns whether the pass was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Returns whether all stripes are done without failure.
    pub fn is_over(&self) -> bool {
        self.position() == u64::MAX
    }

    fn leave_out(&mut self, stripe: u64) {
        self.first_failed = Some(self.first_failed.map_or(stripe, |first| first.min(stripe)));
    }

    /// Returns the position before which all stripes of the pass are done without failure; [`u64::MAX`] if all
    /// are.
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
        let mut pass = StripePass::new(Job::Scrub, [3..5, 5..5, 9..11], 2, 100);
        assert_eq!(
            (pass.next(1000), pass.next(1000)),
            (NextStripe::Ready(3), NextStripe::Ready(4))
        );
        assert_eq!(pass.next(1000), NextStripe::Wait);
        pass.end(4, Ok(()));
        assert_eq!(
            (pass.position(), pass.next(1000)),
            (3, NextStripe::NotBefore(1100))
        );
        assert_eq!(pass.next(1100), NextStripe::Ready(9));
        pass.end(3, Err(Failure::Broken));
        assert_eq!(pass.next(5000), NextStripe::Ready(10));
        pass.end(9, Ok(()));
        pass.end(10, Ok(()));
        assert_eq!((pass.next(5000), pass.position()), (NextStripe::Done, 3));
        assert_eq!((pass.stripes, pass.done, pass.failed), (4, 4, 1));
    }

    #[test]
    fn a_cancelled_pass_reports_its_position() {
        let mut pass = StripePass::new(Job::Scrub, std::iter::once(0..10), 2, 0);
        assert_eq!(pass.next(0), NextStripe::Ready(0));
        pass.cancel();
        assert_eq!((pass.next(0), pass.position()), (NextStripe::Wait, 0));
        pass.end(0, Ok(()));
        assert_eq!((pass.next(0), pass.position()), (NextStripe::Done, 1));
    }
}
