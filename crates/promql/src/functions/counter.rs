//! Functions of counters and differences: `rate`, `increase`, `delta`, `irate`, `idelta`, `resets`, `changes`.

use super::samples::Window;
use crate::error::Error;
use crate::numbers::seconds;

/// Factor of the average distance of samples. If a sample is farther from an end of the range, the series is assumed
/// to begin or end within the range.
const FAR: f64 = 1.1;

type Answer = Result<Option<f64>, Error>;

/// Computes the increase per second.
pub fn rate(window: Window<'_>, _: &[f64]) -> Answer {
    let range = seconds(window.end.saturating_sub(window.start));
    Ok(extrapolated(window, true).map(|(difference, factor)| difference * (factor / range)))
}

/// Computes the increase.
pub fn increase(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(extrapolated(window, true).map(|(difference, factor)| difference * factor))
}

/// Computes the difference of a gauge.
pub fn delta(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(extrapolated(window, false).map(|(difference, factor)| difference * factor))
}

/// Returns the difference of the last and the first sample, and the factor that extrapolates it to the whole range.
/// Needs two samples.
///
/// The difference is extrapolated to an end of the range if a sample is close to it. Otherwise it is extrapolated by
/// half of the average distance of samples. A counter is not extrapolated to a time at which it would be negative.
fn extrapolated(window: Window<'_>, is_counter: bool) -> Option<(f64, f64)> {
    let (times, values) = (window.times, window.values);
    if values.len() < 2 {
        return None;
    }
    let last = values.len() - 1;
    let mut difference = values[last] - values[0];
    if is_counter && falls(values) {
        let resets = values.windows(2).filter(|pair| pair[1] < pair[0]);
        for pair in resets {
            difference += pair[0];
        }
    }
    let sampled = seconds(times[last] - times[0]);
    let distance = sampled / last as f64;
    let mut to_start = seconds(times[0].saturating_sub(window.start));
    let mut to_end = seconds(window.end.saturating_sub(times[last]));
    let far = distance * FAR;
    if to_start >= far {
        to_start = distance / 2.0;
    }
    if is_counter && difference > 0.0 && values[0] >= 0.0 {
        let to_zero = sampled * (values[0] / difference);
        if to_zero < to_start {
            to_start = to_zero;
        }
    }
    if to_end >= far {
        to_end = distance / 2.0;
    }
    Some((difference, (sampled + to_start + to_end) / sampled))
}

/// Returns whether a value is less than the one before. Most ranges of counters have no reset, and a loop without an exit
/// is compiled to vector instructions.
fn falls(values: &[f64]) -> bool {
    let pairs = values.iter().zip(&values[1..]);
    pairs.fold(false, |falls, (before, value)| falls | (value < before))
}

/// Computes the increase per second from the last two samples.
pub fn irate(window: Window<'_>, _: &[f64]) -> Answer {
    let Some((before, last, distance)) = last_two(window) else {
        return Ok(None);
    };
    let increase = match last < before {
        true => last,
        false => last - before,
    };
    Ok(Some(increase / distance))
}

/// Computes the difference of the last two samples.
pub fn idelta(window: Window<'_>, _: &[f64]) -> Answer {
    Ok(last_two(window).map(|(before, last, _)| last - before))
}

/// Returns the last two values, and their distance in seconds.
fn last_two(window: Window<'_>) -> Option<(f64, f64, f64)> {
    let [.., before, last] = window.values else {
        return None;
    };
    let [.., first, second] = window.times else {
        return None;
    };
    Some((*before, *last, seconds(second - first)))
}

/// Counts decreases.
pub fn resets(window: Window<'_>, _: &[f64]) -> Answer {
    let pairs = window.values.windows(2);
    Ok(Some(pairs.filter(|pair| pair[1] < pair[0]).count() as f64))
}

/// Counts changes.
pub fn changes(window: Window<'_>, _: &[f64]) -> Answer {
    let pairs = window.values.windows(2);
    let changed = |pair: &[f64]| pair[0] != pair[1] && !(pair[0].is_nan() && pair[1].is_nan());
    Ok(Some(pairs.filter(|pair| changed(pair)).count() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn window<'a>(times: &'a [i64], values: &'a [f64]) -> Window<'a> {
        Window {
            times,
            values,
            start: 0,
            end: 60 * SECOND,
            now: 60 * SECOND,
        }
    }

    #[test]
    fn increases_are_extrapolated_to_the_range() {
        let times: Vec<i64> = (1..=6).map(|at| at * 10 * SECOND).collect();
        let values = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        // 50 in 50 s, extrapolated by the 10 s before the first sample.
        assert_eq!(increase(window(&times, &values), &[]).unwrap(), Some(60.0));
        assert_eq!(rate(window(&times, &values), &[]).unwrap(), Some(1.0));
    }

    #[test]
    fn counters_are_not_extrapolated_below_zero() {
        let times = [40 * SECOND, 50 * SECOND, 60 * SECOND];
        // The counter was 0 one second before the first sample.
        assert_eq!(
            increase(window(&times, &[1.0, 11.0, 21.0]), &[]).unwrap(),
            Some(21.0)
        );
        assert_eq!(
            delta(window(&times, &[1.0, 11.0, 21.0]), &[]).unwrap(),
            Some(25.0)
        );
    }

    #[test]
    fn a_reset_adds_the_value_before_it() {
        let times = [20 * SECOND, 40 * SECOND, 60 * SECOND];
        assert_eq!(
            increase(window(&times, &[100.0, 110.0, 5.0]), &[]).unwrap(),
            Some(22.5)
        );
        assert_eq!(
            resets(window(&times, &[100.0, 110.0, 5.0]), &[]).unwrap(),
            Some(1.0)
        );
        assert_eq!(
            irate(window(&times, &[100.0, 110.0, 5.0]), &[]).unwrap(),
            Some(0.25)
        );
    }
}
