//! Aggregates of the samples within a range: the functions `…_over_time`.

use super::samples::Window;
use crate::error::Error;
use crate::numbers::{Sum, mean, quantile, seconds};

type Answer = Result<Option<f64>, Error>;

/// Computes the arithmetic mean.
pub fn avg(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(Some(mean(window.values)))
}

/// Computes the sum.
pub fn sum(window: Window<'_>, _: &[f64]) -> Answer {
    if let Some(sum) = Sum::of_finite(window.values) {
        return Ok(Some(sum.total()));
    }
    let mut sum = Sum::default();
    window.values.iter().for_each(|value| sum.add(*value));
    Ok(Some(match sum.sum.is_infinite() {
        true => sum.sum,
        false => sum.total(),
    }))
}

/// Counts the samples.
pub fn count(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(Some(window.values.len() as f64))
}

/// Returns the smallest value.
pub fn min(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(Some(
        window.values[extreme(window, |value, best| value < best)],
    ))
}

/// Returns the largest value.
pub fn max(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(Some(
        window.values[extreme(window, |value, best| value > best)],
    ))
}

/// Returns the time of the latest smallest value, in seconds.
pub fn time_of_min(window: Window<'_>, _: &[f64]) -> Answer {
    let at = extreme(window, |value, best| value <= best);
    Ok(Some(seconds(window.times[at])))
}

/// Returns the time of the latest largest value, in seconds.
pub fn time_of_max(window: Window<'_>, _: &[f64]) -> Answer {
    let at = extreme(window, |value, best| value >= best);
    Ok(Some(seconds(window.times[at])))
}

/// Returns the index of the last value that is better than all before it. Any value is better than NaN.
fn extreme(window: Window<'_>, is_better: impl Fn(f64, f64) -> bool) -> usize {
    let mut best = 0;
    for (at, &value) in window.values.iter().enumerate() {
        if is_better(value, window.values[best]) || window.values[best].is_nan() {
            best = at;
        }
    }
    best
}

/// Returns the first value.
pub fn first(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(window.values.first().copied())
}

/// Returns the last value.
pub fn last(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(window.values.last().copied())
}

/// Returns the time of the first sample, in seconds.
pub fn time_of_first(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(window.times.first().map(|time| seconds(*time)))
}

/// Returns the time of the last sample, in seconds.
pub fn time_of_last(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(window.times.last().map(|time| seconds(*time)))
}

/// Returns 1.
pub fn present(_: Window<'_>, _: &[f64]) -> Answer {
    Ok(Some(1.0))
}

/// Computes a quantile.
pub fn quantile_over_time(window: Window<'_>, arguments: &[f64]) -> Answer {
    Ok(Some(quantile(arguments[0], &mut window.values.to_vec())))
}

/// Computes the standard deviation.
pub fn stddev(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(Some(variance(window.values).sqrt()))
}

/// Computes the variance.
pub fn stdvar(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(Some(variance(window.values)))
}

/// Computes the median of the absolute differences from the median.
pub fn mad(window: Window<'_>, _: &[f64]) -> Answer {
    let mut values = window.values.to_vec();
    let median = quantile(0.5, &mut values);
    values
        .iter_mut()
        .for_each(|value| *value = (*value - median).abs());
    Ok(Some(quantile(0.5, &mut values)))
}

/// Computes the variance in one pass (Welford's method).
fn variance(values: &[f64]) -> f64 {
    let (mut mean, mut squares) = (Sum::default(), Sum::default());
    for (at, value) in values.iter().enumerate() {
        let difference = value - mean.total();
        mean.add(difference / (at + 1) as f64);
        squares.add(difference * (value - mean.total()));
    }
    squares.total() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(compute: fn(Window<'_>, &[f64]) -> Answer, values: &[f64]) -> f64 {
        let times: Vec<i64> = (1..=values.len() as i64)
            .map(|at| at * 1_000_000_000)
            .collect();
        let window = Window {
            times: &times,
            values,
            start: 0,
            end: 10_000_000_000,
            now: 10_000_000_000,
        };
        compute(window, &[0.5]).unwrap().unwrap()
    }

    #[test]
    fn aggregates_of_a_window() {
        let values = [3.0, 1.0, f64::NAN, 4.0, 4.0];
        assert_eq!(of(min, &values), 1.0);
        assert_eq!(of(max, &values), 4.0);
        assert_eq!(of(time_of_max, &values), 5.0);
        assert_eq!(of(time_of_min, &values), 2.0);
        assert_eq!(of(count, &values), 5.0);
        assert_eq!(of(last, &values), 4.0);
        assert_eq!(of(max, &[f64::NAN, 1.0]), 1.0);
        assert_eq!(of(avg, &[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(of(stdvar, &[1.0, 2.0, 6.0]), 14.0 / 3.0);
        assert_eq!(of(quantile_over_time, &[1.0, 2.0, 6.0]), 2.0);
        assert_eq!(of(mad, &[1.0, 2.0, 6.0]), 1.0);
        assert_eq!(of(sum, &[f64::INFINITY, 1.0]), f64::INFINITY);
    }
}
