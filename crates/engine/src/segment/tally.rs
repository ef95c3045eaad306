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

/// Bytes that should have died when it is so late: wall time, ns.
#[derive(Clone, Copy, Debug)]
struct Fate {
    at: i64,
    dead: u64,
}

/// Fates that are kept of a segment at most.
const FATES: u64 = 128;

/// See the module.
#[derive(Clone, Debug)]
pub struct Tally {
    /// What was found.
    pub stat: SegmentStat,
    /// What is foretold of the live blocks, in the order of time.
    fates: Vec<Fate>,
    /// Live bytes by class.
    pub shares: Vec<Share>,
    /// The lowest number of its blocks.
    pub first_block: u64,
    /// Live blocks.
    pub blocks: u64,
    /// Sources that have some.
    pub sources: u64,
    /// When it is worth another survey: wall time, ns.
    pub due: i64,
}

impl Tally {
    /// What policies look at: what was found, and what should have died since. A segment is said to
    /// be all dead only when it was found so.
    pub fn stat_at(&self, now: i64) -> SegmentStat {
        let passed = self.fates.partition_point(|fate| fate.at <= now);
        let died = passed
            .checked_sub(1)
            .map_or(0, |last| self.fates[last].dead);
        let died = died.min(self.stat.live.saturating_sub(1));
        SegmentStat {
            live: self.stat.live - died,
            dead: self.stat.dead + died,
            ..self.stat
        }
    }
}

/// A survey in progress: entries are told one by one.
pub struct Survey {
    number: u64,
    live: u64,
    dead: u64,
    shares: Vec<Share>,
    first_block: u64,
    sources: u64,
    last_source: Option<u32>,
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
            sources: 0,
            last_source: None,
            deaths: Vec::new(),
        }
    }

    /// Counts a block; a source's come one after the other. `copied`: another segment has it, too.
    pub fn add(&mut self, entry: &Entry, retention: &Retention, copied: bool) {
        let bytes = u64::from(entry.len);
        self.first_block = self.first_block.min(entry.number);
        if copied || retention.may_drop(entry) {
            self.dead += bytes;
            return;
        }
        self.live += bytes;
        self.sources += u64::from(self.last_source != Some(entry.source));
        self.last_source = Some(entry.source);
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
        let fates = fates(&self.deaths, self.live, now);
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
            fates,
            shares: self.shares,
            first_block: self.first_block,
            blocks: self.deaths.len() as u64,
            sources: self.sources,
            due,
        }
    }
}

/// Steps of the live bytes, evenly high. `deaths` are in the order of time. What should be dead now
/// and is not says nothing of when it will be.
fn fates(deaths: &[(Death, u64)], live: u64, now: i64) -> Vec<Fate> {
    let mut fates: Vec<Fate> = Vec::new();
    let mut dead = 0;
    let mut told = 0;
    for (death, bytes) in deaths {
        let Death::At(at) = *death else { break };
        if at <= now {
            continue;
        }
        dead += bytes;
        if (dead - told) * FATES >= live {
            told = dead;
            fates.push(Fate { at, dead });
        }
    }
    fates
}
