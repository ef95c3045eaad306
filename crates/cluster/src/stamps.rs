//! Stamps: numbers that order the handovers of all ports.

use seiner_platform::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Source of stamps: the wall time in ns, or one more than the highest stamp seen so far.
///
/// The stamps of one port ascend. Stamps of ports whose clocks differ by d may be in the wrong order if they were given
/// within d, unless one port has seen the stamp of the other.
pub(crate) struct Stamps {
    clock: Arc<dyn Clock>,
    last: AtomicU64,
}

impl Stamps {
    /// Creates a source that has seen no stamp.
    pub fn new(clock: Arc<dyn Clock>) -> Stamps {
        Stamps {
            clock,
            last: AtomicU64::new(0),
        }
    }

    /// Returns a stamp that is higher than all before.
    pub fn next(&self) -> u64 {
        let now = self.clock.now().max(0) as u64;
        let before = self
            .last
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| {
                Some(now.max(last + 1))
            })
            .expect("the update always succeeds");
        now.max(before + 1)
    }

    /// Notes a stamp of another port.
    pub fn see(&self, stamp: u64) {
        self.last.fetch_max(stamp, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_platform::sim::SimClock;

    #[test]
    fn stamps_ascend_even_if_the_clock_does_not() {
        let clock = Arc::new(SimClock::new(1000));
        let stamps = Stamps::new(clock.clone());
        let first = stamps.next();
        clock.set_wall(5);
        let second = stamps.next();
        stamps.see(5000);
        let third = stamps.next();
        assert_eq!((first, second, third), (1000, 1001, 5001));
    }
}
