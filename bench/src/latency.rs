//! Medians of repeated measurements.

use anyhow::Result;
use std::time::Instant;

/// Number of runs before the measured ones.
pub const WARM_UPS: usize = 5;
/// Number of measured runs.
pub const RUNS: usize = 50;

/// Returns the median; `None` for no values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// Returns the milliseconds of each measured run, after the warm-ups. `ask` receives the number of
/// the run.
pub fn milliseconds(mut ask: impl FnMut(usize) -> Result<()>) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(RUNS);
    for run in 0..WARM_UPS + RUNS {
        let start = Instant::now();
        ask(run)?;
        if run >= WARM_UPS {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
