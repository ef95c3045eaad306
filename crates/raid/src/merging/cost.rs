//! What a way to decide costs, and by what a change of the load is recognised.

use crate::request::Nanos;

/// Slices of which a mean is made, the latest.
const REMEMBERED: u32 = 16;
/// The weight of a slice in the mean of the last few.
const RECENT: f64 = 0.15;

/// Where what is held differs by more, for each write that came, costs differ for that reason.
const ALIKE_HELD: f64 = 0.15;

/// The share of stripes written whole above which nothing is known of others, and how many times as long as a whole stripe a part
/// then takes to be written: a part is read before it is written.
const FILLED: f64 = 0.95;
const SOON: f64 = 2.0;

/// What is known of a way.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Slices that were measured, up to those of which a mean is made.
    pub slices: u32,
    /// Nanoseconds outstanding for each block answered, the mean of slices.
    pub cost: f64,
    /// And how much slices differ, squared.
    pub variance: f64,
    /// The cost of the last few slices.
    pub recent: f64,
    /// Nanoseconds for each block answered: the mean of slices, its variance, and the mean of the last few.
    pub time: f64,
    /// See `time`.
    pub time_variance: f64,
    /// See `time`.
    pub recent_time: f64,
    /// When it may be visited again.
    pub not_before: Nanos,
    /// How long it pauses when it is given up the next time.
    pub pause: Nanos,
    /// It was given up since the load changed.
    pub dismissed: bool,
}

/// What came and went in some time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Since when.
    pub began: Nanos,
    /// Nanoseconds outstanding, summed over requests.
    pub outstanding: f64,
    /// Reads and writes that were answered.
    pub answers: u64,
    /// The reads among them.
    pub reads: u64,
    /// Their blocks.
    pub blocks: u64,
    /// Writes that came.
    pub arrivals: u64,
    /// Arrivals that continued a stream.
    pub continued: u64,
    /// Verdicts that held something.
    pub held: u64,
    /// Writes of stripes that ended, and those of whole ones.
    pub stripes: u64,
    /// See `stripes`.
    pub whole: u64,
    /// Nanoseconds that they took, summed.
    pub writing: f64,
    /// True if clients paused in between.
    pub paused: bool,
}

/// By what a change of the load is recognised.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// The share of writes that continue a stream.
    pub continued: f64,
    /// The share of reads.
    pub reads: f64,
    /// Requests outstanding, in the mean.
    pub outstanding: f64,
    /// Nanoseconds outstanding for each block answered.
    pub cost: f64,
    /// How often something was held, for each write that came.
    pub held: f64,
    /// True if clients paused in between: then the mean number outstanding and the cost depend on how much of a burst is in the
    /// slice.
    pub paused: bool,
}

impl Record {
    /// Of a way that was not tried yet.
    pub fn new(pause: Nanos) -> Record {
        Record {
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

    /// Adds the cost of a slice, and its time for each block.
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

    /// How much the mean of the last few slices differs by chance, squared.
    pub fn recent_variance(&self) -> f64 {
        self.variance * self.recent_share()
    }

    /// Returns the variance of [`Record::recent_time`], ns² (see [`Record::recent_variance`]).
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

impl Tally {
    /// Nothing yet.
    pub fn from(now: Nanos) -> Tally {
        Tally {
            began: now,
            ..Tally::default()
        }
    }

    /// Nanoseconds outstanding for each block answered.
    pub fn cost(&self) -> f64 {
        self.outstanding / self.blocks.max(1) as f64
    }

    /// Returns the nanoseconds for each block answered, if the tally ends now.
    pub fn time(&self, now: Nanos) -> f64 {
        (now - self.began) as f64 / self.blocks.max(1) as f64
    }

    /// Returns whether holding is known to be worth it without trying anything else: requests took less time than a part of a stripe takes
    /// to be written (`partial`), which is what each would take at the least if nothing were held. Where nearly all stripes were
    /// written whole, nothing says how long a part takes.
    pub fn pays(&self, partial: Option<f64>) -> bool {
        let stripes = self.stripes.max(1) as f64;
        let least = match partial {
            Some(partial) if (self.whole as f64) < FILLED * stripes => partial,
            _ => SOON * self.writing / stripes,
        };
        let request = self.outstanding / self.answers.max(1) as f64;
        self.reads * 20 < self.answers.max(1) && self.whole > 0 && request < least
    }

    /// What the load was like.
    pub fn signature(&self, now: Nanos) -> Signature {
        let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        Signature {
            continued: share(self.continued, self.arrivals),
            reads: share(self.reads, self.answers),
            outstanding: self.outstanding / (now - self.began).max(1) as f64,
            cost: self.cost(),
            held: share(self.held, self.arrivals),
            paused: self.paused,
        }
    }
}

impl Signature {
    /// Returns whether the load is another one. A cost that differs tells so only if as much was held: else it may be our own doing.
    pub fn differs(&self, other: &Signature) -> bool {
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

    /// Follows slow changes.
    pub fn approach(&mut self, other: &Signature) {
        let step = |mean: &mut f64, value: f64| *mean += 0.25 * (value - *mean);
        step(&mut self.continued, other.continued);
        step(&mut self.reads, other.reads);
        step(&mut self.outstanding, other.outstanding);
        step(&mut self.cost, other.cost);
        step(&mut self.held, other.held);
        self.paused = other.paused;
    }
}
