//! Durations of holds of the store's lock, counted so that long holds are noticed.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Buckets for each power of two.
const STEPS: usize = 4;
const BUCKETS: usize = 40 * STEPS;

/// Counter of holds, shared by threads.
pub struct HoldCounter {
    buckets: [AtomicU64; BUCKETS],
    longest_ns: AtomicU64,
    place: Mutex<Option<&'static Location<'static>>>,
}

/// Distribution of the times for which the store's lock was held since the store was opened.
#[derive(Clone, Debug)]
pub struct Holds {
    buckets: Vec<u64>,
    /// Longest hold.
    pub longest: Duration,
    /// Source code location at which the lock was taken for the longest hold.
    pub longest_at: Option<&'static Location<'static>>,
}

impl Default for HoldCounter {
    fn default() -> HoldCounter {
        HoldCounter {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            longest_ns: AtomicU64::new(0),
            place: Mutex::default(),
        }
    }
}

impl HoldCounter {
    /// Counts a hold that began at `place`.
    #[inline]
    pub fn count(&self, held: Duration, place: &'static Location<'static>) {
        let ns = held.as_nanos() as u64;
        self.buckets[bucket(ns)].fetch_add(1, Relaxed);
        if ns > self.longest_ns.load(Relaxed) {
            self.note_longest(ns, place);
        }
    }

    #[cold]
    fn note_longest(&self, ns: u64, place: &'static Location<'static>) {
        let mut known = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if self.longest_ns.fetch_max(ns, Relaxed) < ns {
            *known = Some(place);
        }
    }

    /// Returns the counts so far.
    pub fn read(&self) -> Holds {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        Holds {
            buckets: self
                .buckets
                .iter()
                .map(|count| count.load(Relaxed))
                .collect(),
            longest: Duration::from_nanos(self.longest_ns.load(Relaxed)),
            longest_at: *place,
        }
    }
}

impl Holds {
    /// Returns the number of holds.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns a time that a fraction `part` of the holds did not exceed. The result is at most a
    /// quarter too high, and 0 without holds.
    pub fn quantile(&self, part: f64) -> Duration {
        let wanted = (self.count() as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= wanted {
                return Duration::from_nanos(end(index)).min(self.longest);
            }
        }
        Duration::ZERO
    }

    /// Returns these holds and those of another lock.
    pub fn and(&self, other: &Holds) -> Holds {
        let buckets = self.buckets.iter().zip(&other.buckets);
        let longer = match other.longest > self.longest {
            true => other,
            false => self,
        };
        Holds {
            buckets: buckets.map(|(one, other)| one + other).collect(),
            ..longer.clone()
        }
    }

    /// Returns the holds since `earlier`. The longest hold is that of the whole time.
    pub fn since(&self, earlier: &Holds) -> Holds {
        let buckets = self.buckets.iter().zip(&earlier.buckets);
        Holds {
            buckets: buckets.map(|(now, before)| now - before).collect(),
            ..self.clone()
        }
    }
}

/// Returns the bucket of a time in ns.
#[inline]
fn bucket(ns: u64) -> usize {
    let ns = ns.max(STEPS as u64);
    let power = ns.ilog2() as usize;
    let step = ns >> (power - 2) & 3;
    ((power - 2) * STEPS + step as usize).min(BUCKETS - 1)
}

/// Returns the end of a bucket in ns.
fn end(bucket: usize) -> u64 {
    let (power, step) = (bucket / STEPS + 2, bucket % STEPS);
    (1 << power) + ((step as u64 + 1) << (power - 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_at_most_a_quarter_above_its_values() {
        for ns in [4_u64, 5, 7, 8, 9, 1000, 1_000_000, 999_999_999] {
            let end = end(bucket(ns));
            assert!(ns < end && end <= ns + ns / 4 + 1, "{ns}: {end}");
        }
        assert_eq!(bucket(0), bucket(4));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_and_the_longest_are_those_of_the_holds() {
        let counter = HoldCounter::default();
        assert_eq!(counter.read().quantile(0.99), Duration::ZERO);
        for _ in 0..99 {
            counter.count(Duration::from_micros(10), Location::caller());
        }
        let before = counter.read();
        counter.count(Duration::from_millis(7), Location::caller());
        let holds = counter.read();
        assert_eq!(holds.count(), 100);
        let micros = |part| holds.quantile(part).as_micros();
        assert!((10..=12).contains(&micros(0.99)), "{}", micros(0.99));
        assert_eq!(holds.quantile(1.0), Duration::from_millis(7));
        assert_eq!(holds.longest, Duration::from_millis(7));
        assert!(holds.longest_at.is_some());
        assert_eq!(holds.since(&before).count(), 1);
        let both = before.and(&holds);
        assert_eq!((both.count(), both.longest), (199, holds.longest));
    }
}
