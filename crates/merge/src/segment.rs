//! What a policy knows of a sealed segment.

use crate::Death;

/// A sealed segment, as far as a merge is concerned.
///
/// `live + dead` is its payload; `bytes` may be more by footer, alignment and an unfilled end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentStat {
    /// Its number: later segments have higher ones.
    pub number: u64,
    /// The lane that filled it.
    pub lane: u32,
    /// The room it occupies: what comes back when it is dropped.
    pub bytes: u64,
    /// Bytes of blocks that a query can still reach.
    pub live: u64,
    /// Bytes of blocks that no query can reach any more.
    pub dead: u64,
    /// When it was sealed.
    pub born: i64,
    /// When its last live block is expected to die.
    pub dies: Death,
}

impl SegmentStat {
    /// Dead share of the payload, the papers' D. Of nothing at all: 1, as nothing is lost with it.
    pub fn dead_share(&self) -> f64 {
        match self.live {
            0 => 1.0,
            live => self.dead as f64 / (live as f64 + self.dead as f64),
        }
    }

    /// Whether nothing in it is live: it can be dropped unread.
    pub fn is_dead(&self) -> bool {
        self.live == 0
    }

    /// How long ago it was sealed, in nanoseconds; 0 if the clock was set back.
    pub fn age(&self, now: i64) -> i64 {
        now.saturating_sub(self.born).max(0)
    }

    /// Bytes that come back when its live blocks are written elsewhere: their index comes with
    /// them, so what is all live gains nothing.
    pub fn gain(&self) -> u64 {
        (self.dead_share() * self.bytes as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_gains() {
        let mut segment = SegmentStat {
            number: 1,
            lane: 0,
            bytes: 128,
            live: 25,
            dead: 75,
            born: 10,
            dies: Death::Never,
        };
        assert_eq!(segment.dead_share(), 0.75);
        assert_eq!(segment.gain(), 96);
        assert_eq!(
            SegmentStat {
                live: 100,
                dead: 0,
                ..segment
            }
            .gain(),
            0
        );
        assert_eq!((segment.age(15), segment.age(5)), (5, 0));
        segment.live = 0;
        assert!(segment.is_dead());
        assert_eq!(segment.dead_share(), 1.0);
        segment.dead = 0;
        assert_eq!(segment.dead_share(), 1.0, "an empty segment can go");
    }
}
