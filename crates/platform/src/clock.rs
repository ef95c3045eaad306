//! The clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Wall time in ns since 1970-01-01T00:00:00Z; may jump.
    fn now(&self) -> i64;

    /// Monotone time in ns since some fixed moment.
    fn monotonic(&self) -> u64;

    /// Waits.
    fn sleep(&self, duration: Duration);
}

/// The operating system's clock.
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotone time begins now.
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
    fn now(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_nanos() as i64,
            Err(before) => -(before.duration().as_nanos() as i64),
        }
    }

    fn monotonic(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}
