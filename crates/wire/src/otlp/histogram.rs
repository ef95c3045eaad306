//! Rows of a point: one for a number, several for a histogram or summary.

use super::STALE;
use super::bounds::BoundLabels;
use super::point::{Buckets, MAX_BUCKETS, Point};

/// Labels of the bounds of a histogram and of the quantiles of a summary.
pub(super) const BOUND: &str = "le";
pub(super) const QUANTILE: &str = "quantile";

/// Scales whose bounds are floats that differ. OpenTelemetry uses -10 to 20.
const SCALES: std::ops::RangeInclusive<i32> = -11..=32;

const TOO_LONG: &str = "it has more than 4096 buckets or quantiles; send fewer";
const COUNTS: &str = "the number of its bucket counts is not one more than that of its bounds";
const BOUNDS: &str = "its bounds do not increase, or one is not a number";
const SCALE: &str = "its scale is outside of -11 to 32";
const THRESHOLD: &str = "its zero threshold is negative or not a number";
const NO_VALUE: &str = "it has no value; send as_double or as_int";

/// Series of a metric to which a row belongs, by the suffix of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The name itself.
    Whole,
    /// `_sum`
    Sum,
    /// `_count`
    Count,
    /// `_bucket`
    Bucket,
}

/// Row of a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub part: Part,
    /// Place of the row's label in [`Samples::labels`]; `None` for a row without such a label.
    pub place: Option<usize>,
    pub value: f64,
}

/// Rows of the open point.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub list: Vec<Sample>,
    pub labels: BoundLabels,
    /// Number of labels in use.
    places: usize,
}

impl Samples {
    fn clear(&mut self, label: &'static str) {
        self.list.clear();
        self.labels.set_name(label);
        self.places = 0;
    }

    fn push(&mut self, part: Part, value: f64) {
        self.list.push(Sample {
            part,
            place: None,
            value,
        });
    }

    fn push_at(&mut self, part: Part, bound: f64, value: f64) {
        let place = self.places;
        self.labels.prepare(place, bound);
        self.places += 1;
        self.list.push(Sample {
            part,
            place: Some(place),
            value,
        });
    }

    /// Sets the only row of a series without a point.
    pub fn set_one(&mut self, value: f64) {
        self.list.clear();
        self.push(Part::Whole, value);
    }

    /// Sets the row of a number.
    ///
    /// # Errors
    /// The reason if the point must be rejected.
    #[inline]
    pub fn set_number(&mut self, point: &Point<'_>) -> Result<(), &'static str> {
        match point.value {
            _ if point.is_stale() => self.set_one(f64::from_bits(STALE)),
            Some(value) => self.set_one(value),
            None => return Err(NO_VALUE),
        }
        Ok(())
    }

    /// Sets the rows of a histogram: sum, count and cumulative buckets.
    ///
    /// # Errors
    /// The reason if the point must be rejected.
    pub fn set_histogram(&mut self, point: &Point<'_>) -> Result<(), &'static str> {
        self.begin(point, BOUND)?;
        let (counts, bounds) = (&point.counts, &point.bounds);
        if !counts.is_empty() && counts.len() != bounds.len() + 1 {
            return Err(COUNTS);
        }
        let is_bad = |bound: &f64| bound.is_nan();
        if bounds.iter().any(is_bad) || !bounds.is_sorted_by(|one, next| one < next) {
            return Err(BOUNDS);
        }
        let mut count = 0_u64;
        for (bound, more) in bounds.iter().zip(counts) {
            count = count.saturating_add(*more);
            // The last bucket has all values in any case.
            if *bound < f64::INFINITY {
                self.push_at(Part::Bucket, *bound, count as f64);
            }
        }
        self.push_at(Part::Bucket, f64::INFINITY, point.count as f64);
        self.end(point);
        Ok(())
    }

    /// Sets the rows of an exponential histogram, as those of a histogram with the same bounds.
    ///
    /// # Errors
    /// The reason if the point must be rejected.
    pub fn set_exponential(&mut self, point: &Point<'_>) -> Result<(), &'static str> {
        self.begin(point, BOUND)?;
        if !SCALES.contains(&point.scale) {
            return Err(SCALE);
        }
        if point.zero_threshold.is_nan() || point.zero_threshold < 0.0 {
            return Err(THRESHOLD);
        }
        if point.positive.counts.len() + point.negative.counts.len() > MAX_BUCKETS {
            return Err(TOO_LONG);
        }
        let mut cumulative = Cumulative {
            samples: self,
            count: 0,
            last: f64::NEG_INFINITY,
        };
        let bound = |buckets: &Buckets, index: usize| {
            let index = i64::from(buckets.offset) + index as i64;
            (index as f64 * f64::from(-point.scale).exp2()).exp2()
        };
        // From the most negative bucket on. Its lower bound begins the first bucket.
        let negative = &point.negative;
        if !negative.counts.is_empty() {
            cumulative.bound(-bound(negative, negative.counts.len()), 0);
        }
        for (index, count) in negative.counts.iter().enumerate().rev() {
            cumulative.bound(-bound(negative, index), *count);
        }
        let positive = &point.positive;
        match positive.counts.is_empty() {
            true if point.zero_count > 0 => {
                cumulative.bound(point.zero_threshold, point.zero_count);
            }
            true => {}
            false => {
                let lowest = bound(positive, 0);
                if point.zero_count > 0 && point.zero_threshold < lowest {
                    cumulative.bound(point.zero_threshold, point.zero_count);
                    cumulative.bound(lowest, 0);
                } else {
                    cumulative.bound(lowest, point.zero_count);
                }
            }
        }
        for (index, count) in positive.counts.iter().enumerate() {
            cumulative.bound(bound(positive, index + 1), *count);
        }
        self.push_at(Part::Bucket, f64::INFINITY, point.count as f64);
        self.end(point);
        Ok(())
    }

    /// Sets the rows of a summary: sum, count and quantiles.
    ///
    /// # Errors
    /// The reason if the point must be rejected.
    pub fn set_summary(&mut self, point: &Point<'_>) -> Result<(), &'static str> {
        self.begin(point, QUANTILE)?;
        for (quantile, value) in &point.quantiles {
            self.push_at(Part::Whole, *quantile, *value);
        }
        self.end(point);
        Ok(())
    }

    fn begin(&mut self, point: &Point<'_>, label: &'static str) -> Result<(), &'static str> {
        self.clear(label);
        if point.is_too_long {
            return Err(TOO_LONG);
        }
        // A series that ends has a sum that ends, too.
        if let Some(sum) = point.sum.or(point.is_stale().then_some(0.0)) {
            self.push(Part::Sum, sum);
        }
        self.push(Part::Count, point.count as f64);
        Ok(())
    }

    fn end(&mut self, point: &Point<'_>) {
        if point.is_stale() {
            for sample in &mut self.list {
                sample.value = f64::from_bits(STALE);
            }
        }
    }
}

/// Cumulative buckets with increasing bounds.
struct Cumulative<'s> {
    samples: &'s mut Samples,
    count: u64,
    last: f64,
}

impl Cumulative<'_> {
    /// Adds a bucket by its upper bound. Buckets beyond the range of floats are parts of their neighbours.
    fn bound(&mut self, bound: f64, count: u64) {
        self.count = self.count.saturating_add(count);
        if bound > self.last && bound < f64::INFINITY {
            // No two texts for the bound 0.
            let bound = if bound == 0.0 { 0.0 } else { bound };
            self.last = bound;
            let count = self.count as f64;
            self.samples.push_at(Part::Bucket, bound, count);
        } else if let Some(last) = self.samples.list.last_mut()
            && last.part == Part::Bucket
            && bound < f64::INFINITY
        {
            last.value = self.count as f64;
        }
    }
}
