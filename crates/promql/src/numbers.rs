//! Arithmetic that several functions share: sums without rounding errors, quantiles, seconds.

/// Sum with the error that its additions lost (Neumaier's variant of Kahan's summation).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Sum of the additions.
    pub sum: f64,
    /// Lost part, which has to be added to the sum at the end.
    pub lost: f64,
}

impl Sum {
    /// Returns a sum of one number.
    pub fn of(number: f64) -> Sum {
        Sum {
            sum: number,
            lost: 0.0,
        }
    }

    /// Returns the sum of numbers, as [`Sum::add`] computes it. `None` if it overflows, or a number is not finite.
    ///
    /// The lost part of an addition is exact, so it does not depend on the larger of both numbers. Knuth's form needs no
    /// comparison (The Art of Computer Programming 2, section 4.2.2).
    pub fn of_finite(numbers: &[f64]) -> Option<Sum> {
        let (mut sum, mut lost) = (0.0, 0.0);
        for &number in numbers {
            let next = sum + number;
            let added = next - sum;
            lost += (sum - (next - added)) + (number - added);
            sum = next;
        }
        (sum.is_finite() && f64::is_finite(lost)).then_some(Sum { sum, lost })
    }

    /// Adds a number.
    pub fn add(&mut self, number: f64) {
        let sum = self.sum + number;
        if sum.is_infinite() {
            self.lost = 0.0;
        } else if self.sum.abs() >= number.abs() {
            self.lost += (self.sum - sum) + number;
        } else {
            self.lost += (number - sum) + self.sum;
        }
        self.sum = sum;
    }

    /// Returns the sum with the lost part.
    pub fn total(self) -> f64 {
        self.sum + self.lost
    }
}

/// Arithmetic mean. Divides the sum, unless it overflows: then the mean itself is updated with each number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    /// Sum, or mean.
    figure: Sum,
    /// Number of numbers.
    count: f64,
    /// True if `figure` is the mean.
    is_mean: bool,
}

impl Mean {
    /// Adds a number.
    pub fn add(&mut self, number: f64) {
        self.count += 1.0;
        if self.count == 1.0 {
            self.figure = Sum::of(number);
            return;
        }
        if !self.is_mean {
            let mut sum = self.figure;
            sum.add(number);
            if !sum.sum.is_infinite() {
                self.figure = sum;
                return;
            }
            self.is_mean = true;
            self.figure.sum /= self.count - 1.0;
            self.figure.lost /= self.count - 1.0;
        }
        let share = (self.count - 1.0) / self.count;
        self.figure.sum *= share;
        self.figure.lost *= share;
        self.figure.add(number / self.count);
    }

    /// Returns the mean.
    pub fn mean(&self) -> f64 {
        match self.is_mean {
            true => self.figure.total(),
            false => self.figure.sum / self.count + self.figure.lost / self.count,
        }
    }
}

/// Returns the mean of numbers, as [`Mean`] computes it.
pub fn mean(numbers: &[f64]) -> f64 {
    let count = numbers.len() as f64;
    if let Some(Sum { sum, lost }) = Sum::of_finite(numbers) {
        return sum / count + lost / count;
    }
    let mut mean = Mean::default();
    numbers.iter().for_each(|number| mean.add(*number));
    mean.mean()
}

/// Returns a quantile, interpolated between two neighbours. Sorts the numbers; NaN is the smallest. Returns NaN for no
/// numbers, and an infinity for a quantile outside of 0 to 1.
pub fn quantile(q: f64, numbers: &mut [f64]) -> f64 {
    if numbers.is_empty() || q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    let rank = q * (numbers.len() as f64 - 1.0);
    let lower = rank.floor().max(0.0) as usize;
    let (_, lower, above) = numbers.select_nth_unstable_by(lower, |a, b| nan_first(*a, *b));
    let above = above.iter().copied().min_by(|a, b| nan_first(*a, *b));
    let upper = above.unwrap_or(*lower);
    let weight = rank - rank.floor();
    *lower * (1.0 - weight) + upper * weight
}

/// Compares two numbers. NaN is the smallest.
pub fn nan_first(a: f64, b: f64) -> std::cmp::Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// Converts ns to seconds. Whole milliseconds are divided by 1000, which is exact to the last bit as in Prometheus.
pub fn seconds(ns: i64) -> f64 {
    match ns % 1_000_000 {
        0 => (ns / 1_000_000) as f64 / 1e3,
        _ => ns as f64 / 1e9,
    }
}

/// Writes a number as PromQL does: all digits without an exponent, `NaN`, `+Inf` or `-Inf`.
pub fn number_text(number: f64) -> String {
    match number {
        f64::INFINITY => "+Inf".to_string(),
        f64::NEG_INFINITY => "-Inf".to_string(),
        number => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_small_numbers() {
        let mut sum = Sum::default();
        [1e100, 1.0, -1e100, 1.0]
            .iter()
            .for_each(|number| sum.add(*number));
        assert_eq!(sum.total(), 2.0);
    }

    #[test]
    fn means_do_not_overflow() {
        let mut mean = Mean::default();
        [f64::MAX, f64::MAX, f64::MAX]
            .iter()
            .for_each(|number| mean.add(*number));
        assert!((mean.mean() / f64::MAX - 1.0).abs() < 1e-15);
    }

    #[test]
    fn sums_and_means_of_lists_equal_those_by_number() {
        let mut random = 1_u64;
        let mut next = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            random >> 11
        };
        for _ in 0..2_000 {
            let len = next() % 20;
            let widest = next() % 80;
            let number = |bits: u64| {
                (bits as f64 - 2_f64.powi(52)) * 10_f64.powi((bits % (widest + 1)) as i32)
            };
            let mut numbers: Vec<f64> = (0..len).map(|_| number(next())).collect();
            if next() % 8 == 0 && len > 0 {
                let rare = [f64::MAX, -f64::MAX, f64::INFINITY, f64::NAN, -0.0];
                let places = [next(), next()].map(|at| (at % len) as usize);
                places
                    .iter()
                    .for_each(|at| numbers[*at] = rare[next() as usize % rare.len()]);
            }
            let (mut sum, mut by_number) = (Sum::default(), Mean::default());
            numbers.iter().for_each(|number| {
                sum.add(*number);
                by_number.add(*number);
            });
            if let Some(found) = Sum::of_finite(&numbers) {
                assert_eq!(
                    found.total().to_bits(),
                    sum.total().to_bits(),
                    "{numbers:?}"
                );
            }
            let (found, expected) = (mean(&numbers), by_number.mean());
            assert!(
                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                "{numbers:?}"
            );
        }
    }

    #[test]
    fn quantiles_are_interpolated() {
        assert_eq!(quantile(0.5, &mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(quantile(0.0, &mut [4.0, 1.0]), 1.0);
        assert!(quantile(0.0, &mut [4.0, f64::NAN]).is_nan());
        assert_eq!(quantile(1.1, &mut [4.0]), f64::INFINITY);
        assert!(quantile(0.5, &mut []).is_nan());
    }
}
