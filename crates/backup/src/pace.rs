//! Pace of copying.

use seiner_platform::Clock;
use std::time::Duration;

/// Limit of the rate of copying segments, so that the disk has time for other work.
pub struct Pace<'a> {
    clock: &'a dyn Clock,
    bytes_per_second: Option<u64>,
    begun: u64,
    bytes: u64,
}

impl<'a> Pace<'a> {
    /// Creates a limit in bytes per second; `None` for no limit.
    pub fn new(clock: &'a dyn Clock, bytes_per_second: Option<u64>) -> Pace<'a> {
        Pace {
            clock,
            bytes_per_second,
            begun: clock.monotonic(),
            bytes: 0,
        }
    }

    /// Waits until the bytes copied so far and these `bytes` are within the limit.
    pub fn advance(&mut self, bytes: u64) {
        self.bytes += bytes;
        let Some(rate) = self.bytes_per_second else {
            return;
        };
        let due = u128::from(self.bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let due = self
            .begun
            .saturating_add(u64::try_from(due).unwrap_or(u64::MAX));
        let now = self.clock.monotonic();
        if due > now {
            self.clock.sleep(Duration::from_nanos(due - now));
        }
    }
}
