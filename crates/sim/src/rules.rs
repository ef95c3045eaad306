//! Retention rules of a simulated store.

use seiner_engine::{Class, Keep, WhenFull};

/// Retention rules of a store, and the class of each source of the generator.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) classes: Vec<Class>,
    pub(crate) of: Vec<u8>,
    /// True for each class with rows that expire by age alone. Rows of the other classes stay until
    /// the next level contains them.
    pub(crate) by_clock: Vec<bool>,
    /// True if there is a budget. Then classes may be shed.
    pub(crate) budget: bool,
}

impl Rules {
    /// Returns the limits of a source's rows.
    pub(crate) fn keep(&self, source: usize) -> Keep {
        self.classes[self.of[source] as usize].keep
    }

    /// Returns true if a source may lose its oldest blocks to a quota or to shedding.
    pub(crate) fn is_loose(&self, source: usize) -> bool {
        let class = &self.classes[self.of[source] as usize];
        class.keep.bytes.is_some() || self.budget && class.when_full == WhenFull::Shed
    }

    /// Returns true if the store may reject rows, because some class in use is not shed.
    pub(crate) fn may_reject(&self) -> bool {
        let rejects = |class: &u8| self.classes[*class as usize].when_full == WhenFull::Refuse;
        self.of.iter().any(rejects)
    }

    /// Returns true if a store treats both sets of rules as equal.
    pub(crate) fn is_same(&self, other: &Rules) -> bool {
        let same = |(a, b): (&Class, &Class)| {
            (&a.name, &a.sources, a.keep, &a.rollup) == (&b.name, &b.sources, b.keep, &b.rollup)
        };
        self.classes.len() == other.classes.len()
            && self.classes.iter().zip(&other.classes).all(same)
    }

    /// Maximum lead of the persisted clock over the wall clock, ns. A start after a crash continues
    /// from the persisted clock. The lead is a 64th of the shortest age, between 1 s and 60 s; 0 if
    /// no class has an age.
    pub(crate) fn promise(&self) -> i64 {
        const SECOND: i64 = 1_000_000_000;
        let classes = self.classes.iter().zip(&self.by_clock);
        let by_clock = classes.filter(|(_, by_clock)| **by_clock);
        let shortest = by_clock.filter_map(|(class, _)| class.keep.age).min();
        shortest.map_or(0, |age| {
            (age.as_nanos() as i64 / 64).clamp(SECOND, 60 * SECOND)
        })
    }
}
