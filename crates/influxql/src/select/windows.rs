//! Parts of the interval of a query with `LIMIT`, which are read one after another until there are enough rows.
//!
//! The first part is about as long as the wanted rows take, and each further part is longer than the one before. A query
//! whose conditions few rows meet reads its whole interval, in few parts.

use super::plan::Plan;
use crate::context::Context;
use crate::text::statement::Kind;
use seiner_model::Interval;
use seiner_store::{Query, Step};
use std::collections::BTreeMap;

/// Ratio of the length of a part to that of the part before.
const GROWTH: i64 = 8;
/// Number of sources whose times are read if all rows are one group.
const SAMPLED_SOURCES: usize = 1_000;
/// Maximum number of sources whose times are read if there are several groups.
const MAX_SOURCES: usize = 100_000;

/// Times of the samples that a query may read, from the aggregates of blocks.
pub struct Extent {
    /// Times of each group. Empty if all rows are one group, whose times are known in part only.
    groups: BTreeMap<Vec<String>, Interval>,
    /// Times of all sources that were read.
    whole: Interval,
    /// Number of samples: of all sources that were read, or of the series that has the most if there are several groups.
    samples: u64,
}

impl Extent {
    /// Reads the times. Returns `None` if they are not known: then the whole interval must be read at once.
    pub fn of(context: &Context, plan: &Plan) -> Option<Extent> {
        let fields = plan.variables.iter().filter(|one| one.kind == Kind::Field);
        let query = Query {
            selector: plan.selector.clone(),
            fields: Some(fields.map(|one| one.name.clone()).collect()),
            interval: plan.condition.interval,
        };
        let is_over = Some(context.budget.is_over());
        let series = context.store.aggregate(&query, Step::Whole, is_over).ok()?;
        let mut extent = Extent {
            groups: BTreeMap::new(),
            whole: Interval::new(i64::MAX, i64::MIN),
            samples: 0,
        };
        let is_one_group = plan.dimensions.is_empty();
        let (mut source, mut sources) = (None, 0);
        for series in series {
            let series = series.ok()?;
            if source.replace(series.source) != Some(series.source) {
                sources += 1;
            }
            if is_one_group && sources > SAMPLED_SOURCES {
                break;
            }
            if sources > MAX_SOURCES {
                return None;
            }
            let tags: Vec<_> = series.key.tags().collect();
            if !plan.wants(&tags) {
                continue;
            }
            for bucket in &series.buckets {
                let times = Interval::new(bucket.first.0, bucket.last.0);
                extent.whole = joined(extent.whole, times);
                if is_one_group {
                    extent.samples += bucket.count;
                    continue;
                }
                let group = extent.groups.entry(plan.group(&tags)).or_insert(times);
                *group = joined(*group, times);
                extent.samples = extent.samples.max(bucket.count);
            }
        }
        (extent.samples > 0).then_some(extent)
    }

    /// Returns whether every group that may have samples in an interval has enough rows already.
    pub fn is_read(&self, rest: Interval, has_enough: impl Fn(&[String]) -> bool) -> bool {
        if self.groups.is_empty() {
            return has_enough(&[]);
        }
        let mut groups = self.groups.iter();
        groups.all(|(group, times)| {
            times.end < rest.start || rest.end < times.start || has_enough(group)
        })
    }
}

fn joined(a: Interval, b: Interval) -> Interval {
    Interval::new(a.start.min(b.start), a.end.max(b.end))
}

/// Parts of an interval, in the order in which they are read.
pub struct Windows {
    /// Times that no part contained yet.
    rest: Interval,
    /// True if the latest times are read first.
    descending: bool,
    /// Times that may have samples.
    extent: Interval,
    /// Length of the next part.
    length: i64,
}

impl Windows {
    /// Divides an interval for a number of wanted rows.
    pub fn new(interval: Interval, extent: &Extent, rows: usize, descending: bool) -> Windows {
        let span = i128::from(extent.whole.end) - i128::from(extent.whole.start) + 1;
        let length = span * rows.max(1) as i128 / i128::from(extent.samples.max(1));
        Windows {
            rest: interval,
            descending,
            extent: extent.whole,
            length: i64::try_from(length).unwrap_or(i64::MAX).max(1),
        }
    }

    /// Returns the times that no part contained yet.
    pub fn rest(&self) -> Interval {
        self.rest
    }

    /// Returns the next part.
    pub fn next(&mut self) -> Option<Interval> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = self.rest;
        let (part, left) = match self.descending {
            false => {
                let begin = rest.start.max(self.extent.start);
                let end = begin.saturating_add(self.length - 1);
                // Beyond the last sample there is nothing to divide.
                let end = if end >= self.extent.end {
                    rest.end
                } else {
                    end
                };
                let left = end
                    .checked_add(1)
                    .map(|start| Interval::new(start, rest.end));
                (Interval::new(rest.start, end), left)
            }
            true => {
                let end = rest.end.min(self.extent.end);
                let start = end.saturating_sub(self.length - 1);
                let start = if start <= self.extent.start {
                    rest.start
                } else {
                    start
                };
                let left = start
                    .checked_sub(1)
                    .map(|end| Interval::new(rest.start, end));
                (Interval::new(start, rest.end), left)
            }
        };
        self.rest = left.unwrap_or(Interval::new(i64::MAX, i64::MIN));
        self.length = self.length.saturating_mul(GROWTH);
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(
        interval: Interval,
        times: (i64, i64),
        samples: u64,
        descending: bool,
    ) -> Vec<Interval> {
        let extent = Extent {
            groups: BTreeMap::new(),
            whole: Interval::new(times.0, times.1),
            samples,
        };
        let mut windows = Windows::new(interval, &extent, 10, descending);
        std::iter::from_fn(|| windows.next()).collect()
    }

    #[test]
    fn parts_grow_and_cover_the_interval_once() {
        for descending in [false, true] {
            for interval in [
                Interval::ALL,
                Interval::new(-500, 100_500),
                Interval::new(7, 90_000),
            ] {
                let mut parts = parts(interval, (0, 99_999), 10_000, descending);
                assert!((4..8).contains(&parts.len()), "{parts:?}");
                if descending {
                    parts.reverse();
                }
                assert_eq!(parts[0].start, interval.start);
                assert_eq!(parts[parts.len() - 1].end, interval.end);
                for pair in parts.windows(2) {
                    assert_eq!(pair[0].end + 1, pair[1].start);
                }
            }
        }
        let first = parts(Interval::ALL, (0, 99_999), 10_000, false)[0];
        assert_eq!(first, Interval::new(i64::MIN, 99));
        let first = parts(Interval::ALL, (0, 99_999), 10_000, true)[0];
        assert_eq!(first, Interval::new(99_900, i64::MAX));
    }

    #[test]
    fn extreme_times_cause_no_overflow() {
        for descending in [false, true] {
            for times in [
                (i64::MIN, i64::MAX),
                (i64::MAX, i64::MAX),
                (i64::MIN, i64::MIN),
            ] {
                let parts = parts(Interval::ALL, times, 1, descending);
                assert!((1..30).contains(&parts.len()), "{parts:?}");
            }
        }
    }
}
