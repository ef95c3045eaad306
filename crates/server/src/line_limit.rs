//! Limit of the lines of the log that clients cause, so that they cannot fill the disk.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Number of lines of rejected, failed and slow requests that may follow each other, and the time that gives one back.
const BURST: u32 = 20;
const REFILL: Duration = Duration::from_secs(1);

/// Limit of the lines about requests, so that clients cannot flood the log.
pub struct LineLimit(Mutex<Lines>);

struct Lines {
    /// Number of lines that may be logged now.
    left: u32,
    /// Time up to which lines were given back.
    at: Instant,
    /// Number of lines that were left out since the last one.
    left_out: u64,
}

impl Default for LineLimit {
    fn default() -> LineLimit {
        LineLimit(Mutex::new(Lines {
            left: BURST,
            at: crate::time::now(),
            left_out: 0,
        }))
    }
}

impl LineLimit {
    /// Takes the place of a line. Returns the number of lines that were left out before it; `None` if this line is left
    /// out.
    pub fn take(&self) -> Option<u64> {
        self.take_at(crate::time::now())
    }

    fn take_at(&self, now: Instant) -> Option<u64> {
        let mut lines = self.0.lock().expect("no thread panics while it counts");
        let periods = now.saturating_duration_since(lines.at).as_nanos() / REFILL.as_nanos();
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        if periods > 0 {
            lines.left = lines.left.saturating_add(periods).min(BURST);
            lines.at += REFILL * periods;
        }
        match lines.left.checked_sub(1) {
            Some(left) => {
                lines.left = left;
                Some(std::mem::take(&mut lines.left_out))
            }
            None => {
                lines.left_out += 1;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_limited_and_those_left_out_are_counted() {
        let limit = LineLimit::default();
        let began = crate::time::now();
        for _ in 0..BURST {
            assert_eq!(limit.take_at(began), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(limit.take_at(began), None);
        }
        assert_eq!(limit.take_at(began + 2 * REFILL), Some(5));
        assert_eq!(limit.take_at(began + 2 * REFILL), Some(0));
        assert_eq!(limit.take_at(began + 2 * REFILL), None);
        // A long pause gives back the burst, and no more.
        let later = began + 10_000 * REFILL;
        let taken = (0..2 * BURST).filter_map(|_| limit.take_at(later));
        assert_eq!(taken.collect::<Vec<u64>>()[..2], [1, 0]);
        assert_eq!(limit.take_at(later), None);
    }
}
