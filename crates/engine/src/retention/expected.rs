//! When a block is expected to die, by the clock that decides it.
//!
//! Age goes by the wall clock. What is pushed out by later rows goes by their coming, and so by the
//! numbers of blocks: a store that nobody writes to for an hour is not an hour closer to their death.

use seiner_merge::Death;

/// A prediction only, as [`Death`]: it never decides what is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// At this wall time, ns.
    Time(i64),
    /// When the block of this number is begun.
    Block(u64),
    /// Nobody can tell yet.
    Unknown,
    /// Never.
    Never,
}

/// Now, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Wall time, ns.
    pub now: i64,
    /// The next block's number.
    pub block: u64,
    /// How long a block has taken lately, ns; none if nobody can tell yet.
    pub block_ns: Option<f64>,
}

impl Moment {
    /// The same by the wall clock alone.
    pub fn death(&self, expected: Expected) -> Death {
        match expected {
            Expected::Time(at) => Death::At(at),
            Expected::Block(number) => match self.block_ns {
                Some(block_ns) => {
                    let blocks = number as f64 - self.block as f64;
                    Death::At(self.now.saturating_add((blocks * block_ns) as i64))
                }
                None => Death::Unknown,
            },
            Expected::Unknown => Death::Unknown,
            Expected::Never => Death::Never,
        }
    }

    /// Whether it should have happened by now.
    pub fn has_come(&self, expected: Expected) -> bool {
        match expected {
            Expected::Time(at) => at <= self.now,
            Expected::Block(number) => number <= self.block,
            Expected::Unknown | Expected::Never => false,
        }
    }

    /// Whichever comes first, of two rules that hold for the same block.
    pub fn sooner(&self, one: Expected, other: Expected) -> Expected {
        match self.death(one) <= self.death(other) {
            true => one,
            false => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Moment = Moment {
        now: 1_000_000,
        block: 100,
        block_ns: Some(10.0),
    };

    #[test]
    fn both_clocks_are_told_as_one() {
        assert_eq!(MOMENT.death(Expected::Block(150)), Death::At(1_000_500));
        assert_eq!(MOMENT.death(Expected::Block(90)), Death::At(999_900));
        assert_eq!(
            MOMENT.death(Expected::Block(u64::MAX)),
            Death::At(i64::MAX),
            "very late"
        );
        let soon = Expected::Block(101);
        assert_eq!(MOMENT.sooner(soon, Expected::Time(1_000_011)), soon);
        let sooner = Expected::Time(1_000_009);
        assert_eq!(MOMENT.sooner(soon, sooner), sooner);
        assert_eq!(MOMENT.sooner(Expected::Never, soon), soon);
    }

    #[test]
    fn a_pause_brings_no_block_closer_to_its_death() {
        let later = Moment {
            now: i64::MAX,
            ..MOMENT
        };
        assert!(!later.has_come(Expected::Block(101)));
        assert!(later.has_come(Expected::Time(2_000_000)));
        assert!(later.has_come(Expected::Block(100)));
    }
}
