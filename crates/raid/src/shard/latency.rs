//! How long things took, in classes of powers of two.

use crate::request::Nanos;

/// Classes: the first up to 1 µs, each up to twice the one before, the last without end.
pub const CLASSES: usize = 26;

/// How long things took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// How many took so long: [`Latency::bound`] of each class, the last without end.
    pub classes: [u64; CLASSES],
    /// All together, in nanoseconds.
    pub sum: Nanos,
}

impl Latency {
    /// The longest time of a class, in nanoseconds.
    pub fn bound(class: usize) -> Nanos {
        1000 << class
    }

    /// Something took so long.
    pub fn note(&mut self, time: Nanos) {
        let class = (0..CLASSES - 1).find(|&class| time <= Latency::bound(class));
        self.classes[class.unwrap_or(CLASSES - 1)] += 1;
        self.sum += time;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// Both together.
    pub fn plus(&self, other: &Latency) -> Latency {
        let mut sum = *self;
        for (class, more) in sum.classes.iter_mut().zip(other.classes) {
            *class += more;
        }
        sum.sum += other.sum;
        sum
    }

    /// The bound of the class below or in which this share of all lie, in nanoseconds; 0 if there were none.
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

/// How long requests took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Of writes, from their arrival until they were begun: what they waited in the array, held or queued.
    pub waited: Latency,
    /// Of writes, from their arrival until they were answered.
    pub writes: Latency,
    /// Of reads, likewise.
    pub reads: Latency,
}

impl Latencies {
    /// Both together.
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
    fn shares_lie_in_classes() {
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
