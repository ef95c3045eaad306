//! Histograms of latencies, in classes of powers of two.

use crate::request::Nanos;

/// Number of classes. The first ends at 1 µs, each other at twice the end of its predecessor. The last has no
/// end.
pub const CLASSES: usize = 26;

/// Histogram of latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Number of values per class. [`Latency::bound`] is the inclusive end of a class.
    pub classes: [u64; CLASSES],
    /// Sum of all values, ns.
    pub sum: Nanos,
}

impl Latency {
    /// Returns the inclusive end of a class, ns.
    pub fn bound(class: usize) -> Nanos {
        1000 << class
    }

    /// Adds a value.
    pub fn note(&mut self, time: Nanos) {
        let class = (0..CLASSES - 1).find(|&class| time <= Latency::bound(class));
        self.classes[class.unwrap_or(CLASSES - 1)] += 1;
        self.sum += time;
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// Returns the sum of two histograms.
    pub fn plus(&self, other: &Latency) -> Latency {
        let mut sum = *self;
        for (class, more) in sum.classes.iter_mut().zip(other.classes) {
            *class += more;
        }
        sum.sum += other.sum;
        sum
    }

    /// Returns the end of the class that contains the given quantile, ns; 0 if there are no values.
    pub fn quantile(&self, share: f64) -> Nanos {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let class = self.classes.iter().position(|&more| {
            seen += more;
            seen >= wanted.max(1)
        });
        class.map_or(0, Latency::bound)
    }
}

/// Latencies of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Time of writes from arrival to start: the time for which the array held or queued them.
    pub waited: Latency,
    /// Time of writes from arrival to answer.
    pub writes: Latency,
    /// Time of reads from arrival to answer.
    pub reads: Latency,
}

impl Latencies {
    /// Returns the sum of both.
    pub fn plus(&self, other: &Latencies) -> Latencies {
        Latencies {
            waited: self.waited.plus(&other.waited),
            writes: self.writes.plus(&other.writes),
            reads: self.reads.plus(&other.reads),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_ends_of_their_classes() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantile(0.5), 0);
        (0..90).for_each(|_| latency.note(3000));
        (0..10).for_each(|_| latency.note(900_000));
        latency.note(u64::from(u32::MAX) * 1_000_000);
        assert_eq!(latency.count(), 101);
        assert_eq!(
            (latency.quantile(0.5), latency.quantile(0.99)),
            (4000, 1_024_000)
        );
        assert_eq!(latency.plus(&latency).count(), 202);
        assert_eq!(latency.classes[CLASSES - 1], 1);
    }
}
