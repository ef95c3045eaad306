//! What is live and what is dead in a segment, as of its last survey.

use super::Entry;
use crate::retention::Retention;
use seiner_merge::{Death, SegmentStat};

/// A segment is surveyed again when about this part of it should have died, or all that is left: so
/// D is known as well as that, and no segment is surveyed more often than this and once.
const SHARE: u64 = 16;
/// Lives this short cannot be told apart, ns.
const MOMENT: i64 = 1_000_000;

/// What a class has in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The class.
    pub class: u8,
    /// Bytes of its live blocks.
    pub live: u64,
    /// The lowest number of them.
    pub first: u64,
    /// The highest.
    pub last: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Tally {
    /// What policies look at.
    pub stat: SegmentStat,
    /// Live bytes by class.
    pub shares: Vec<Share>,
    /// The lowest number of its blocks.
    pub first_block: u64,
    /// When it is worth another survey: wall time, ns.
    pub due: i64,
}

/// A survey in progress: entries are told one by one.
pub struct Survey {
    number: u64,
    live: u64,
    dead: u64,
    shares: Vec<Share>,
    first_block: u64,
    deaths: Vec<(Death, u64)>,
}

impl Survey {
    /// Nothing was looked at yet.
    pub fn new(number: u64) -> Survey {
        Survey {
            number,
            live: 0,
            dead: 0,
            shares: Vec::new(),
            first_block: u64::MAX,
            deaths: Vec::new(),
        }
    }

    /// Counts a block. `copied`: another segment has it, too.
    pub fn add(&mut self, entry: &Entry, retention: &Retention, copied: bool) {
        let bytes = u64::from(entry.len);
        self.first_block = self.first_block.min(entry.number);
        if copied || retention.may_drop(entry) {
            self.dead += bytes;
            return;
        }
        self.live += bytes;
        self.deaths.push((retention.remaining(entry), bytes));
        let class = retention.class_of(entry.source);
        match self.shares.iter_mut().find(|share| share.class == class) {
            Some(share) => {
                share.live += bytes;
                share.first = share.first.min(entry.number);
                share.last = share.last.max(entry.number);
            }
            None => self.shares.push(Share {
                class,
                live: bytes,
                first: entry.number,
                last: entry.number,
            }),
        }
    }

    /// What came out. `bytes` is the room that the segment takes, `born` when it was sealed.
    pub fn tally(mut self, lane: u32, bytes: u64, born: i64, now: i64) -> Tally {
        self.deaths.sort_unstable();
        let mut gone = 0;
        let share = (self.live + self.dead).div_ceil(SHARE).min(self.live);
        let next = self.deaths.iter().find(|(_, bytes)| {
            gone += bytes;
            gone >= share
        });
        let due = match next {
            Some((Death::At(at), _)) => (*at).max(now + MOMENT),
            // The rate will be known some day.
            Some((Death::Unknown, _)) => now + MOMENT,
            Some((Death::Never, _)) | None => i64::MAX,
        };
        Tally {
            stat: SegmentStat {
                number: self.number,
                lane,
                bytes,
                live: self.live,
                dead: self.dead,
                born,
                dies: self
                    .deaths
                    .last()
                    .map_or(Death::At(now), |(death, _)| *death),
            },
            shares: self.shares,
            first_block: self.first_block,
            due,
        }
    }
}
