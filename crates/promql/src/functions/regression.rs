//! Linear regression and exponential smoothing: `deriv`, `predict_linear`, `double_exponential_smoothing`.

use super::samples::Window;
use crate::error::Error;
use crate::numbers::{Sum, seconds};

type Answer = Result<Option<f64>, Error>;

/// Computes the slope per second. Needs two samples.
pub fn deriv(window: Window<'_>, _: &[f64]) -> Answer {
    Ok((window.values.len() > 1).then(|| line(window, window.times[0]).0))
}

/// Computes the value that the line has some seconds after the step. Needs two samples.
pub fn predict_linear(window: Window<'_>, arguments: &[f64]) -> Answer {
    let predict = || {
        let (slope, value) = line(window, window.now);
        slope * arguments[0] + value
    };
    Ok((window.values.len() > 1).then(predict))
}

/// Returns the slope per second of the line with the least squares, and its value at a time.
fn line(window: Window<'_>, time: i64) -> (f64, f64) {
    let first = window.values[0];
    if window.values.iter().all(|value| *value == first) {
        return match first.is_infinite() {
            true => (f64::NAN, f64::NAN),
            false => (0.0, first),
        };
    }
    let n = window.values.len() as f64;
    let (mut x_sum, mut y_sum) = (Sum::default(), Sum::default());
    let (mut xy_sum, mut xx_sum) = (Sum::default(), Sum::default());
    for (&at, &y) in window.times.iter().zip(window.values) {
        let x = seconds(at.saturating_sub(time));
        x_sum.add(x);
        y_sum.add(y);
        xy_sum.add(x * y);
        xx_sum.add(x * x);
    }
    let (x_sum, y_sum) = (x_sum.total(), y_sum.total());
    let covariance = xy_sum.total() - x_sum * y_sum / n;
    let variance = xx_sum.total() - x_sum * x_sum / n;
    let slope = covariance / variance;
    (slope, y_sum / n - slope * x_sum / n)
}

/// Smooths the samples with a smoothing and a trend factor, and returns the last smoothed value. Needs two samples.
pub fn double_exponential_smoothing(window: Window<'_>, arguments: &[f64]) -> Answer {
    let (smoothing, trend_factor) = (arguments[0], arguments[1]);
    for (name, factor, short) in [
        ("smoothing", smoothing, "sf"),
        ("trend", trend_factor, "tf"),
    ] {
        if factor <= 0.0 || factor >= 1.0 {
            return Err(Error::execution(format!(
                "invalid {name} factor. Expected: 0 < {short} < 1, got: {factor:.6}"
            )));
        }
    }
    let &[first, second, ..] = window.values else {
        return Ok(None);
    };
    let (mut before, mut smoothed, mut trend) = (0.0, first, second - first);
    for (at, value) in window.values[1..].iter().enumerate() {
        if at > 0 {
            trend = trend_factor * (smoothed - before) + (1.0 - trend_factor) * trend;
        }
        let next = smoothing * value + (1.0 - smoothing) * (smoothed + trend);
        (before, smoothed) = (smoothed, next);
    }
    Ok(Some(smoothed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn a_line_is_continued() {
        let times: Vec<i64> = (0..5).map(|at| at * 10 * SECOND).collect();
        let window = Window {
            times: &times,
            values: &[0.0, 5.0, 10.0, 15.0, 20.0],
            start: -1,
            end: 40 * SECOND,
            now: 50 * SECOND,
        };
        assert_eq!(deriv(window, &[]).unwrap(), Some(0.5));
        assert_eq!(predict_linear(window, &[10.0]).unwrap(), Some(30.0));
        assert_eq!(
            double_exponential_smoothing(window, &[0.5, 0.5]).unwrap(),
            Some(20.0)
        );
        assert!(double_exponential_smoothing(window, &[0.0, 0.5]).is_err());
    }
}
