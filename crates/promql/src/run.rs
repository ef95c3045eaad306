//! Evaluation of one series, sample by sample.

use crate::error::Error;
use crate::series::Values;

/// Returns the number of times up to `last`, inclusive. The times are sorted. `guess` is the number at the step before:
/// samples usually come at equal distances, so that it is the number again. Otherwise a search begins with the first
/// times, because few samples lie between two steps, and its range doubles.
pub fn count_until(times: &[i64], last: i64, guess: usize) -> usize {
    let is_before = |at: usize| times.get(at).is_some_and(|time| *time <= last);
    let is_least = guess == 0 || is_before(guess - 1);
    if is_least && guess <= times.len() && !is_before(guess) {
        return guess;
    }
    let mut end = 4;
    while end < times.len() && times[end - 1] <= last {
        end *= 2;
    }
    let (begin, end) = (if end > 4 { end / 2 } else { 0 }, end.min(times.len()));
    begin + times[begin..end].partition_point(|time| *time <= last)
}

/// Evaluation of one series. It receives the samples in their order, and keeps only what later steps need.
pub trait Run: Send {
    /// Adds samples, which are later than all before.
    fn push(&mut self, times: &[i64], values: &[f64]) -> Result<(), Error>;

    /// Returns the values of all steps.
    fn finish(self) -> Result<Values, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_as_by_a_plain_search() {
        for len in 0..40 {
            let times: Vec<i64> = (0..len).map(|at| at / 2 * 3).collect();
            for last in -1..70 {
                let plain = times.iter().filter(|time| **time <= last).count();
                for guess in 0..len as usize + 2 {
                    let found = count_until(&times, last, guess);
                    assert_eq!(found, plain, "{len} {last} {guess}");
                }
            }
        }
    }
}
