//! Aggregates of the values of a timing, a histogram or a distribution.

use seiner_random::{SeededRng, SplitMix64};

/// Maximum number of values that are kept for the percentile. Of more values, a random sample of this size is kept.
const MAX_KEPT: usize = 1000;
/// Share of the values that are at most the percentile.
const PERCENTILE: f64 = 0.9;
/// Seed of the random samples.
const SEED: u64 = 1;

/// Fields of a row, in the order of [`Times::fields`].
pub const FIELDS: [&str; 7] = [
    "count",
    "mean",
    "upper",
    "lower",
    "stddev",
    "sum",
    "90_percentile",
];

/// Value with the number of values that it stands for.
type Weighted = (f64, f64);

/// Values of an interval.
pub struct Times {
    count: f64,
    sum: f64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
    lower: f64,
    upper: f64,
    /// Number of values in lines.
    seen: u64,
    kept: Vec<Weighted>,
    random: SeededRng<SplitMix64>,
}

impl Times {
    /// Creates aggregates of no value.
    pub fn new() -> Times {
        Times {
            count: 0.0,
            sum: 0.0,
            mean: 0.0,
            squares: 0.0,
            lower: f64::INFINITY,
            upper: f64::NEG_INFINITY,
            seen: 0,
            kept: Vec::new(),
            random: SeededRng::new(SEED),
        }
    }

    /// Returns the number of bytes by which `values` further values grow the list.
    pub fn growth(&self, values: usize) -> usize {
        let after = (self.kept.len() + values).min(MAX_KEPT);
        (after - self.kept.len()) * size_of::<Weighted>()
    }

    /// Adds a value that stands for `weight` values.
    pub fn add(&mut self, value: f64, weight: f64) {
        self.count += weight;
        self.sum += value * weight;
        let distance = value - self.mean;
        self.mean += distance * weight / self.count;
        self.squares += weight * distance * (value - self.mean);
        self.lower = self.lower.min(value);
        self.upper = self.upper.max(value);
        self.seen += 1;
        if self.kept.len() < MAX_KEPT {
            self.kept.push((value, weight));
            return;
        }
        // Each value so far is kept with the same probability (algorithm R).
        let place = self.random.below(self.seen) as usize;
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = (value, weight);
        }
    }

    /// Returns the values of [`FIELDS`].
    pub fn fields(mut self) -> [f64; 7] {
        let deviation = (self.squares / self.count).max(0.0).sqrt();
        let percentile = percentile(&mut self.kept);
        [
            self.count, self.mean, self.upper, self.lower, deviation, self.sum, percentile,
        ]
    }
}

/// Returns the first value above whose share of the weights lies [`PERCENTILE`], as Telegraf does.
fn percentile(values: &mut [Weighted]) -> f64 {
    values.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let total: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut before = 0.0;
    let found = values.iter().find(|(_, weight)| {
        before += weight;
        before > total * PERCENTILE
    });
    found
        .or(values.last())
        .map_or(f64::NAN, |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = Weighted>) -> [f64; 7] {
        let mut times = Times::new();
        for (value, weight) in values {
            times.add(value, weight);
        }
        times.fields()
    }

    #[test]
    fn aggregates_are_those_of_all_values() {
        let found = of((1..=10).map(|value| (f64::from(value), 1.0)));
        let expected = [10.0, 5.5, 10.0, 1.0, 8.25_f64.sqrt(), 55.0, 10.0];
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        assert_eq!(of([(7.0, 1.0)]), [1.0, 7.0, 7.0, 7.0, 0.0, 7.0, 7.0]);
    }

    #[test]
    fn a_value_with_a_weight_counts_as_often() {
        let weighted = of([(1.0, 10.0), (3.0, 2.0)]);
        let repeated = of((0..12).map(|n| (if n < 10 { 1.0 } else { 3.0 }, 1.0)));
        for (weighted, repeated) in weighted.into_iter().zip(repeated) {
            assert!((weighted - repeated).abs() < 1e-9, "{weighted} {repeated}");
        }
    }

    #[test]
    fn many_values_need_limited_memory() {
        let mut times = Times::new();
        assert_eq!(times.growth(2), 2 * size_of::<Weighted>());
        for value in 0..100_000 {
            times.add(f64::from(value), 1.0);
        }
        assert_eq!((times.kept.len(), times.growth(9)), (MAX_KEPT, 0));
        let [count, .., percentile] = times.fields();
        assert_eq!(count, 100_000.0);
        assert!((85_000.0..95_000.0).contains(&percentile), "{percentile}");
    }
}
