//! Expected deaths of blocks, by the clock that decides them.
//!
//! Age follows the wall clock. Rules that displace blocks by later rows follow the arrival of rows,
//! and so the numbers of blocks. If no client writes to a store for an hour, these blocks are not
//! an hour closer to their death.

use seiner_merge::Death;

/// Forecast of a death, like [`Death`]. A forecast never decides which block is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Death at this wall time, ns.
    Time(i64),
    /// Death when the log contains all buffers that were taken before the block with this number
    /// was begun.
    Block(u64),
    /// Death at an unknown time.
    Unknown,
    /// No death.
    Never,
}

/// Present readings of the wall clock and of the block clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clocks {
    /// Wall time, ns.
    pub now: i64,
    /// Number of the next block when the oldest buffer that is not yet in the log was taken.
    pub block: u64,
    /// Recent time per block, ns. `None` if it is not yet known.
    pub block_ns: Option<f64>,
}

impl Clocks {
    /// Converts an expected death to the wall clock.
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

    /// Returns whether an expected death should have happened by now.
    pub fn has_come(&self, expected: Expected) -> bool {
        match expected {
            Expected::Time(at) => at <= self.now,
            Expected::Block(number) => number <= self.block,
            Expected::Unknown | Expected::Never => false,
        }
    }

    /// Returns the earlier of two deaths, for two rules that apply to the same block.
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

    const CLOCKS: Clocks = Clocks {
        now: 1_000_000,
        block: 100,
        block_ns: Some(10.0),
    };

    #[test]
    fn deaths_by_block_convert_to_the_wall_clock() {
        assert_eq!(CLOCKS.death(Expected::Block(150)), Death::At(1_000_500));
        assert_eq!(CLOCKS.death(Expected::Block(90)), Death::At(999_900));
        assert_eq!(
            CLOCKS.death(Expected::Block(u64::MAX)),
            Death::At(i64::MAX),
            "very late"
        );
        let soon = Expected::Block(101);
        assert_eq!(CLOCKS.sooner(soon, Expected::Time(1_000_011)), soon);
        let sooner = Expected::Time(1_000_009);
        assert_eq!(CLOCKS.sooner(soon, sooner), sooner);
        assert_eq!(CLOCKS.sooner(Expected::Never, soon), soon);
    }

    #[test]
    fn elapsed_time_does_not_expire_blocks_that_are_kept_by_count() {
        let later = Clocks {
            now: i64::MAX,
            ..CLOCKS
        };
        assert!(!later.has_come(Expected::Block(101)));
        assert!(later.has_come(Expected::Time(2_000_000)));
        assert!(later.has_come(Expected::Block(100)));
    }
}
