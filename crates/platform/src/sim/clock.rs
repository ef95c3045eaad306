//! A clock that advances only on request.

use crate::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A clock that advances only by [`SimClock::advance`] and by sleeping. Clones share the time.
#[derive(Clone, Debug)]
pub struct SimClock {
    times: Arc<Times>,
}

#[derive(Debug)]
struct Times {
    wall: AtomicI64,
    monotonic: AtomicU64,
}

impl SimClock {
    /// Creates a clock with the wall time `now`, in ns since 1970-01-01T00:00:00Z.
    pub fn new(now: i64) -> SimClock {
        SimClock {
            times: Arc::new(Times {
                wall: AtomicI64::new(now),
                monotonic: AtomicU64::new(0),
            }),
        }
    }

    /// Advances both the wall time and the monotonic time by `ns` nanoseconds.
    pub fn advance(&self, ns: u64) {
        self.times.wall.fetch_add(ns as i64, Ordering::SeqCst);
        self.times.monotonic.fetch_add(ns, Ordering::SeqCst);
    }

    /// Sets the wall time in ns, as an administrator or a time server does. The monotonic time stays the same.
    pub fn set_wall(&self, now: i64) {
        self.times.wall.store(now, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> i64 {
        self.times.wall.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> u64 {
        self.times.monotonic.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration.as_nanos() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_of_the_wall_clock_does_not_move_the_monotonic_clock() {
        let clock = SimClock::new(-5);
        let same = clock.clone();
        clock.advance(7);
        assert_eq!((same.now(), same.monotonic()), (2, 7));
        clock.set_wall(-100);
        assert_eq!((same.now(), same.monotonic()), (-100, 7));
    }
}
