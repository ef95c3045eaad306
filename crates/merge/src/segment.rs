//! Statistics of a sealed segment, the input of the policies.

use crate::Death;

/// Statistics of a sealed segment.
///
/// `live + dead` is the payload. `bytes` may be larger by the footer, alignment and an unfilled
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentStat {
    /// Number of the segment; later segments have higher numbers.
    pub number: u64,
    /// Lane that filled the segment.
    pub lane: u32,
    /// Bytes that the segment occupies and that a drop frees.
    pub bytes: u64,
    /// Bytes of blocks that a query can reach.
    pub live: u64,
    /// Bytes of blocks that no query can reach any more.
    pub dead: u64,
    /// Time of sealing, in nanoseconds.
    pub born: i64,
    /// Expected death of the last live block.
    pub dies: Death,
}

impl SegmentStat {
    /// Returns the dead share of the payload, the papers' D; 1 if there are no live bytes.
    pub fn dead_share(&self) -> f64 {
        match self.live {
            0 => 1.0,
            live => self.dead as f64 / (live as f64 + self.dead as f64),
        }
    }

    /// Returns whether no block is live, so that the segment can be dropped unread.
    pub fn is_dead(&self) -> bool {
        self.live == 0
    }

    /// Returns the nanoseconds since sealing; 0 if the clock was set back.
    pub fn age(&self, now: i64) -> i64 {
        now.saturating_sub(self.born).max(0)
    }

    /// Returns the bytes that a merge frees. Footer and padding count by dead share, because live
    /// blocks take their part of the index with them: a wholly live segment gains nothing.
    pub fn gain(&self) -> u64 {
        (self.dead_share() * self.bytes as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_share_and_gain_of_a_segment_are_computed() {
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
        assert_eq!(segment.dead_share(), 1.0, "an empty segment is dead");
    }
}
