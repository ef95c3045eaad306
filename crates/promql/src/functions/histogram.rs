//! Classic histograms: series of cumulative counts, whose label `le` is the upper bound of a bucket.

use crate::budget::Budget;
use crate::error::Error;
use crate::labels::{BUCKET, METRIC_NAME};
use crate::notes::Notes;
use crate::series::{ABSENT, Series, Steps, Values, is_absent};
use std::collections::HashMap;
use std::sync::Arc;

/// Relative difference of two counts that is assumed to come from rounding.
const ROUNDING: f64 = 1e-12;

/// Bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bucket {
    /// Inclusive upper bound.
    bound: f64,
    /// Number of observations up to the bound.
    count: f64,
}

/// Series of one histogram.
struct Histogram {
    /// Series with the labels of the result.
    result: Series,
    /// Name of the metric.
    metric: String,
    /// Bounds, with the series of their counts.
    buckets: Vec<(f64, Values)>,
}

/// Computes a quantile of each histogram. `q` has a value for each step.
pub fn quantiles(
    budget: &Arc<Budget>,
    notes: &Notes,
    steps: Steps,
    q: &[f64],
    input: Vec<Series>,
) -> Result<Vec<Series>, Error> {
    if let Some(bad) = q.iter().find(|q| !(0.0..=1.0).contains(*q)) {
        notes.quantile_out_of_range(*bad);
    }
    each_histogram(budget, notes, steps, input, |at, metric, buckets| {
        let (value, forced) = quantile(q[at], buckets);
        if forced {
            notes.info(format!(
                "PromQL info: input to histogram_quantile needed to be fixed for monotonicity (see \
                 https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile) for metric name \
                 {metric:?}"
            ));
        }
        value
    })
}

/// Computes the share of observations between two bounds of each histogram.
pub fn fractions(
    budget: &Arc<Budget>,
    notes: &Notes,
    steps: Steps,
    (lower, upper): (&[f64], &[f64]),
    input: Vec<Series>,
) -> Result<Vec<Series>, Error> {
    each_histogram(budget, notes, steps, input, |at, _, buckets| {
        fraction(lower[at], upper[at], buckets)
    })
}

fn each_histogram(
    budget: &Arc<Budget>,
    notes: &Notes,
    steps: Steps,
    input: Vec<Series>,
    compute: impl Fn(usize, &str, &mut Vec<Bucket>) -> f64,
) -> Result<Vec<Series>, Error> {
    let mut results = Vec::new();
    let mut buckets = Vec::new();
    for mut histogram in histograms(budget, notes, steps, input)? {
        for at in 0..steps.count {
            buckets.clear();
            let present = histogram
                .buckets
                .iter()
                .filter(|(_, counts)| !is_absent(counts[at]));
            buckets.extend(present.map(|(bound, counts)| Bucket {
                bound: *bound,
                count: counts[at],
            }));
            if !buckets.is_empty() {
                histogram.result.values[at] = compute(at, &histogram.metric, &mut buckets);
            }
        }
        if !histogram.result.values.is_all_absent() {
            results.push(histogram.result);
        }
    }
    Ok(results)
}

/// Groups the series of buckets by their other labels.
fn histograms(
    budget: &Arc<Budget>,
    notes: &Notes,
    steps: Steps,
    input: Vec<Series>,
) -> Result<Vec<Histogram>, Error> {
    let mut found: Vec<Histogram> = Vec::new();
    let mut places = HashMap::new();
    for series in input {
        let bound = series.labels.get(BUCKET);
        let Some(bound) = parse_bound(bound) else {
            notes.warning(format!(
                "PromQL warning: bucket label {BUCKET:?} is missing or has a malformed value of {bound:?} for metric \
                 name {:?}",
                series.labels.get(METRIC_NAME)
            ));
            continue;
        };
        let mut labels = series.labels.clone();
        labels.remove(BUCKET);
        let place = match places.get(&labels) {
            Some(place) => *place,
            None => {
                places.insert(labels.clone(), found.len());
                let metric = labels.get(METRIC_NAME).to_string();
                labels.remove_metadata();
                found.push(Histogram {
                    result: Series {
                        labels,
                        drop_name: true,
                        values: Values::filled(budget, steps.count, ABSENT)?,
                    },
                    metric,
                    buckets: Vec::new(),
                });
                found.len() - 1
            }
        };
        found[place].buckets.push((bound, series.values));
    }
    Ok(found)
}

/// Parses the upper bound of a bucket.
fn parse_bound(text: &str) -> Option<f64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    text.parse().ok()
}

/// Returns a quantile, and whether counts that decrease were raised.
///
/// Within a bucket, the observations are assumed to be spread evenly. The lowest bucket begins at 0 if its bound is
/// positive. In the bucket without an upper bound, the result is the highest other bound.
fn quantile(q: f64, buckets: &mut Vec<Bucket>) -> (f64, bool) {
    if q.is_nan() {
        return (f64::NAN, false);
    }
    if q < 0.0 {
        return (f64::NEG_INFINITY, false);
    }
    if q > 1.0 {
        return (f64::INFINITY, false);
    }
    if !sort(buckets) {
        return (f64::NAN, false);
    }
    let forced = make_monotonic(buckets);
    let last = buckets.len() - 1;
    let observations = buckets[last].count;
    if last == 0 || observations == 0.0 || observations.is_nan() {
        return (f64::NAN, forced && last > 0);
    }
    let mut rank = q * observations;
    let at = buckets[..last].partition_point(|bucket| bucket.count < rank);
    if at == last {
        return (buckets[last - 1].bound, forced);
    }
    let Bucket { bound, mut count } = buckets[at];
    if at == 0 && bound <= 0.0 {
        return (bound, forced);
    }
    let mut start = 0.0;
    if at > 0 {
        start = buckets[at - 1].bound;
        count -= buckets[at - 1].count;
        rank -= buckets[at - 1].count;
    }
    (start + (bound - start) * (rank / count), forced)
}

/// Returns the share of observations between two bounds.
fn fraction(lower: f64, upper: f64, buckets: &mut Vec<Bucket>) -> f64 {
    if !sort(buckets) {
        return f64::NAN;
    }
    let total = buckets[buckets.len() - 1].count;
    if total == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    let rank = |bound: f64| match rank(bound, buckets) {
        Some(rank) if rank > total => total,
        found => found.unwrap_or(total),
    };
    (rank(upper) - rank(lower)) / total
}

/// Returns the number of observations up to a bound, interpolated within a bucket.
fn rank(bound: f64, buckets: &[Bucket]) -> Option<f64> {
    let (mut begin, mut below) = (f64::NEG_INFINITY, 0.0);
    for bucket in buckets {
        if begin >= bound {
            return Some(below);
        }
        if bucket.bound > bound {
            return Some(below + (bucket.count - below) * (bound - begin) / (bucket.bound - begin));
        }
        (begin, below) = (bucket.bound, bucket.count);
    }
    None
}

/// Sorts buckets by their bounds, and adds up those with equal bounds. Returns whether the last bound is infinite, as
/// a histogram requires.
fn sort(buckets: &mut Vec<Bucket>) -> bool {
    buckets.sort_by(|a, b| a.bound.total_cmp(&b.bound));
    buckets.dedup_by(|later, earlier| {
        let is_equal = later.bound == earlier.bound;
        if is_equal {
            earlier.count += later.count;
        }
        is_equal
    });
    buckets
        .last()
        .is_some_and(|last| last.bound == f64::INFINITY)
}

/// Raises counts that are below an earlier one. Returns whether a difference was larger than by rounding.
fn make_monotonic(buckets: &mut [Bucket]) -> bool {
    let mut forced = false;
    let mut before = buckets[0].count;
    for bucket in &mut buckets[1..] {
        if bucket.count == before {
            continue;
        }
        let is_rounding = is_close(before, bucket.count);
        if is_rounding || bucket.count < before {
            forced |= !is_rounding;
            bucket.count = before;
        } else {
            before = bucket.count;
        }
    }
    forced
}

fn is_close(a: f64, b: f64) -> bool {
    let (difference, sum) = ((a - b).abs(), a.abs() + b.abs());
    match a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        true => difference < ROUNDING * f64::MIN_POSITIVE,
        false => difference / sum.min(f64::MAX) < ROUNDING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(pairs: &[(f64, f64)]) -> Vec<Bucket> {
        pairs
            .iter()
            .map(|&(bound, count)| Bucket { bound, count })
            .collect()
    }

    #[test]
    fn quantiles_are_interpolated_within_a_bucket() {
        let all = [(0.5, 2.0), (1.0, 6.0), (f64::INFINITY, 8.0)];
        assert_eq!(quantile(0.5, &mut buckets(&all)).0, 0.75);
        assert_eq!(quantile(0.125, &mut buckets(&all)).0, 0.25);
        assert_eq!(quantile(1.0, &mut buckets(&all)).0, 1.0);
        assert!(quantile(0.5, &mut buckets(&all[..2])).0.is_nan());
        assert!(quantile(0.5, &mut buckets(&all[2..])).0.is_nan());
    }

    #[test]
    fn decreasing_counts_are_raised() {
        let mut decreasing = buckets(&[(1.0, 5.0), (2.0, 3.0), (f64::INFINITY, 10.0)]);
        assert_eq!(quantile(0.5, &mut decreasing), (1.0, true));
        let mut rounded = buckets(&[(1.0, 5.0), (2.0, 5.0 - 1e-14), (f64::INFINITY, 10.0)]);
        assert!(!quantile(0.5, &mut rounded).1);
    }

    #[test]
    fn fractions_are_interpolated_within_a_bucket() {
        let all = [(1.0, 2.0), (2.0, 6.0), (f64::INFINITY, 8.0)];
        assert_eq!(fraction(1.0, 2.0, &mut buckets(&all)), 0.5);
        assert_eq!(fraction(1.5, 2.0, &mut buckets(&all)), 0.25);
        assert_eq!(
            fraction(f64::NEG_INFINITY, f64::INFINITY, &mut buckets(&all)),
            1.0
        );
        assert_eq!(fraction(2.0, 1.0, &mut buckets(&all)), 0.0);
    }
}
