//! Cost of a strategy, and signs of a change of the load.

use crate::request::Nanos;

/// Number of the latest slices in a mean.
const REMEMBERED: u32 = 16;
/// Weight of a slice in the mean of the last few.
const RECENT: f64 = 0.15;

/// Difference of held verdicts per write above which this difference explains a difference of costs.
const ALIKE_HELD: f64 = 0.15;

/// Share of stripes written whole above which the time for a part is not known. The time is then estimated as
/// [`SOON`] times the time for a whole stripe, because the write of a part also needs reads.
const FILLED: f64 = 0.95;
const SOON: f64 = 2.0;

/// Measurements of one strategy.
#[derive(Clone, Copy, Debug)]
pub struct StrategyCost {
    /// Number of measured slices, at most those in a mean.
    pub slices: u32,
    /// Mean cost of slices: outstanding ns per answered block.
    pub cost: f64,
    /// Variance of the cost of slices, ns².
    pub variance: f64,
    /// Mean cost of the last few slices, ns per block.
    pub recent: f64,
    /// Mean time of slices, ns per answered block.
    pub time: f64,
    /// Variance of the time of slices, ns².
    pub time_variance: f64,
    /// Mean time of the last few slices, ns per block.
    pub recent_time: f64,
    /// Earliest time of the next trial, ns.
    pub not_before: Nanos,
    /// Length of the next pause after the strategy is given up, ns.
    pub pause: Nanos,
    /// True if the strategy was given up since the load changed.
    pub dismissed: bool,
}

/// Counts of requests in a period.
#[derive(Clone, Copy, Debug, Default)]
pub struct SliceCounts {
    /// Start of the period, ns.
    pub began: Nanos,
    /// Outstanding time, summed over requests, ns.
    pub outstanding: f64,
    /// Number of answered requests.
    pub answers: u64,
    /// Number of answered reads.
    pub reads: u64,
    /// Number of answered blocks.
    pub blocks: u64,
    /// Number of arrived writes.
    pub arrivals: u64,
    /// Number of arrived writes that continued a stream.
    pub continued: u64,
    /// Number of verdicts to hold writes.
    pub held: u64,
    /// Number of completed writes of stripes.
    pub stripes: u64,
    /// Number of completed writes of whole stripes.
    pub whole: u64,
    /// Sum of the times that these writes took, ns.
    pub writing: f64,
    /// True if clients paused in the period.
    pub paused: bool,
}

/// Properties of a load by which a change is recognised.
#[derive(Clone, Copy, Debug)]
pub struct LoadSignature {
    /// Share of writes that continue a stream.
    pub continued: f64,
    /// Share of reads.
    pub reads: f64,
    /// Mean number of outstanding requests.
    pub outstanding: f64,
    /// Outstanding ns per answered block.
    pub cost: f64,
    /// Number of verdicts to hold writes, per arrived write.
    pub held: f64,
    /// True if clients paused in the period. The mean number of outstanding requests and the cost then depend on
    /// how much of a burst lies in the slice.
    pub paused: bool,
}

impl StrategyCost {
    /// Returns the record of a strategy that was not tried yet.
    pub fn new(pause: Nanos) -> StrategyCost {
        StrategyCost {
            slices: 0,
            cost: 0.0,
            variance: 0.0,
            recent: 0.0,
            time: 0.0,
            time_variance: 0.0,
            recent_time: 0.0,
            not_before: 0,
            pause,
            dismissed: false,
        }
    }

    /// Adds the cost and the time of a slice, ns per block.
    pub fn add(&mut self, cost: f64, time: f64) {
        self.slices = (self.slices + 1).min(REMEMBERED);
        let weight = 1.0 / f64::from(self.slices);
        let add = |mean: &mut f64, variance: &mut f64, recent: &mut f64, value: f64| {
            let off = value - *mean;
            *mean += weight * off;
            *recent += weight.max(RECENT) * (value - *recent);
            if self.slices > 1 {
                *variance += weight * (off * off - *variance);
            }
        };
        add(&mut self.cost, &mut self.variance, &mut self.recent, cost);
        add(
            &mut self.time,
            &mut self.time_variance,
            &mut self.recent_time,
            time,
        );
    }

    /// Returns the variance of [`StrategyCost::recent`], ns².
    pub fn recent_variance(&self) -> f64 {
        self.variance * self.recent_share()
    }

    /// Returns the variance of [`StrategyCost::recent_time`], ns² (see [`StrategyCost::recent_variance`]).
    pub fn recent_time_variance(&self) -> f64 {
        self.time_variance * self.recent_share()
    }

    /// Returns the variance of the mean time, ns².
    pub fn mean_time_variance(&self) -> f64 {
        self.time_variance / f64::from(self.slices.max(1))
    }

    fn recent_share(&self) -> f64 {
        (RECENT / (2.0 - RECENT)).max(1.0 / f64::from(self.slices.max(1)))
    }
}

impl SliceCounts {
    /// Returns empty costs that start now.
    pub fn from(now: Nanos) -> SliceCounts {
        SliceCounts {
            began: now,
            ..SliceCounts::default()
        }
    }

    /// Returns the cost: outstanding ns per answered block.
    pub fn cost(&self) -> f64 {
        self.outstanding / self.blocks.max(1) as f64
    }

    /// Returns the time per answered block, ns, if the measurement ends now.
    pub fn time(&self, now: Nanos) -> f64 {
        (now - self.began) as f64 / self.blocks.max(1) as f64
    }

    /// Returns whether holding is known to pay without a trial of another strategy. Holding pays if requests took
    /// less time than the write of a part of a stripe (`partial`, ns), which is the minimum time of a request if
    /// nothing is held. If nearly all stripes were written whole, the time for a part is estimated.
    pub fn pays(&self, partial: Option<f64>) -> bool {
        let stripes = self.stripes.max(1) as f64;
        let least = match partial {
            Some(partial) if (self.whole as f64) < FILLED * stripes => partial,
            _ => SOON * self.writing / stripes,
        };
        let request = self.outstanding / self.answers.max(1) as f64;
        self.reads * 20 < self.answers.max(1) && self.whole > 0 && request < least
    }

    /// Returns the properties of the load in the period.
    pub fn signature(&self, now: Nanos) -> LoadSignature {
        let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        LoadSignature {
            continued: share(self.continued, self.arrivals),
            reads: share(self.reads, self.answers),
            outstanding: self.outstanding / (now - self.began).max(1) as f64,
            cost: self.cost(),
            held: share(self.held, self.arrivals),
            paused: self.paused,
        }
    }
}

impl LoadSignature {
    /// Returns whether the load has changed. A difference of cost counts only if as many writes were held. Otherwise
    /// the strategy itself may have caused the difference.
    pub fn differs(&self, other: &LoadSignature) -> bool {
        let ratio = |one: f64, other: f64| one.max(other) / one.min(other).max(1e-9);
        let differs = (self.continued - other.continued).abs() > 0.25
            || (self.reads - other.reads).abs() > 0.2;
        if self.paused || other.paused {
            return differs;
        }
        differs
            || ratio(self.outstanding, other.outstanding) > 1.5
            || (ratio(self.cost, other.cost) > 1.4 && (self.held - other.held).abs() < ALIKE_HELD)
    }

    /// Moves towards another signature, to follow slow changes.
    pub fn approach(&mut self, other: &LoadSignature) {
        let step = |mean: &mut f64, value: f64| *mean += 0.25 * (value - *mean);
        step(&mut self.continued, other.continued);
        step(&mut self.reads, other.reads);
        step(&mut self.outstanding, other.outstanding);
        step(&mut self.cost, other.cost);
        step(&mut self.held, other.held);
        self.paused = other.paused;
    }
}
