//! Wall time, monotonic time and sleeping.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Source of time.
pub trait Clock: Send + Sync {
    /// Returns the wall time in ns since 1970-01-01T00:00:00Z. It may jump in both directions.
    fn now(&self) -> i64;

    /// Returns the monotonic time in ns since a fixed moment.
    fn monotonic(&self) -> u64;

    /// Blocks the calling thread for `duration`.
    fn sleep(&self, duration: Duration);
}

/// Clock of the operating system.
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts at 0 now.
    #[allow(clippy::disallowed_methods, reason = "the clock of the system")]
    pub fn new() -> SystemClock {
        SystemClock {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the clock of the system")]
    fn now(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_nanos() as i64,
            Err(before) => -(before.duration().as_nanos() as i64),
        }
    }

    fn monotonic(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    #[allow(clippy::disallowed_methods, reason = "the clock of the system")]
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}
