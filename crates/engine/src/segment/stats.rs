//! Segment statistics: live and dead bytes of a segment, as of its last liveness scan.

use super::Entry;
use crate::retention::Retention;
use crate::retention::expected::{Clocks, Expected};
use crate::retention::records::Past;
use seiner_merge::{Death, SegmentStat};
use std::cell::Cell;

/// Fraction of a segment that is expected to have died when the segment is scanned again, unless
/// less is live. Between scans, D is the forecast. The fraction limits the number of scans of a
/// segment.
const SHARE: u64 = 4;
/// Minimum delay before the next scan of a segment, ns.
const SOON: i64 = 1_000_000;

/// Live blocks of a class in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Number of the class.
    pub class: u8,
    /// Bytes of the live blocks.
    pub live: u64,
    /// Lowest number of a live block.
    pub first: u64,
    /// Highest number of a live block.
    pub last: u64,
}

/// Bytes that are expected to be dead at a given reading of one clock.
#[derive(Clone, Copy, Debug)]
struct ForecastPoint {
    at: i64,
    dead: u64,
}

/// Forecast of the deaths of live blocks in order of time, with the time of the last death. Every
/// decision reads the forecasts of all segments, and usually nothing has changed since. Such a read
/// does not touch the list.
#[derive(Clone, Debug)]
struct ExpiryForecast {
    list: Vec<ForecastPoint>,
    last: Option<i64>,
    /// Number of deaths that have passed, the dead bytes up to then, and the time of the next
    /// death. Time never decreases.
    passed: Cell<usize>,
    dead: Cell<u64>,
    next: Cell<i64>,
}

impl ExpiryForecast {
    fn new(list: Vec<ForecastPoint>, last: Option<i64>) -> ExpiryForecast {
        ExpiryForecast {
            next: Cell::new(list.first().map_or(i64::MAX, |point| point.at)),
            passed: Cell::new(0),
            dead: Cell::new(0),
            list,
            last,
        }
    }

    /// Returns the bytes that are expected to be dead by now.
    fn dead(&self, now: i64) -> u64 {
        if now >= self.next.get() {
            let left = &self.list[self.passed.get()..];
            let passed = self.passed.get() + left.partition_point(|point| point.at <= now);
            self.passed.set(passed);
            self.dead
                .set(self.list[..passed].last().map_or(0, |point| point.dead));
            self.next
                .set(self.list.get(passed).map_or(i64::MAX, |point| point.at));
        }
        self.dead.get()
    }
}

/// Maximum number of forecast entries per segment.
const FORECAST_POINTS: u64 = 128;

/// Result of a liveness scan of a segment, with a forecast.
#[derive(Clone, Debug)]
pub struct SegmentStats {
    /// Result of the liveness scan.
    pub stat: SegmentStat,
    /// Forecast by the wall clock.
    by_time: ExpiryForecast,
    /// Forecast by block numbers.
    by_block: ExpiryForecast,
    /// Death of blocks without a forecast, if there are any: never, or unknown.
    beyond: Option<Death>,
    /// Live bytes by class.
    pub shares: Vec<Share>,
    /// Lowest number of a block in the segment.
    pub first_block: u64,
    /// Number of live blocks.
    pub blocks: u64,
    /// Number of sources with live blocks.
    pub sources: u64,
    /// Time of the next liveness scan.
    due: Expected,
}

impl SegmentStats {
    /// Returns the figures for merge policies: the scan result, adjusted by the forecast. A
    /// segment counts as entirely dead only if the scan found it so.
    pub fn stat_at(&self, clocks: &Clocks) -> SegmentStat {
        let died = self.by_time.dead(clocks.now) + self.by_block.dead(clocks.block as i64);
        let died = died.min(self.stat.live.saturating_sub(1));
        let by_time = self.by_time.last.map(Death::At);
        let by_block = self.by_block.last;
        let by_block = by_block.map(|last| clocks.death(Expected::Block(last as u64)));
        let dies = by_time.into_iter().chain(by_block).chain(self.beyond).max();
        SegmentStat {
            live: self.stat.live - died,
            dead: self.stat.dead + died,
            dies: dies.unwrap_or(self.stat.dies),
            ..self.stat
        }
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        let points = self.by_time.list.capacity() + self.by_block.list.capacity();
        let shares = self.shares.capacity() * size_of::<Share>();
        size_of::<SegmentStats>() + points * size_of::<ForecastPoint>() + shares
    }

    /// Returns whether the forecast has more dead bytes than the scan found.
    pub fn has_forecast_deaths(&self, clocks: &Clocks) -> bool {
        self.stat_at(clocks).live != self.stat.live
    }

    /// Returns whether another scan is due.
    pub fn is_due(&self, clocks: &Clocks) -> bool {
        clocks.has_come(self.due)
    }

    /// Requests a scan of the segment at the next opportunity.
    pub fn request_scan(&mut self) {
        self.due = Expected::Time(i64::MIN);
    }

    /// Excludes the segment from scans because its index is unreadable.
    pub fn give_up(&mut self) {
        self.due = Expected::Never;
    }
}

#[cfg(test)]
impl SegmentStats {
    /// Returns the statistics of a segment of lane 0 in which every block is live.
    pub fn living(number: u64, live: u64, blocks: u64, sources: u64) -> SegmentStats {
        SegmentStats {
            stat: SegmentStat {
                number,
                lane: 0,
                bytes: live,
                live,
                dead: 0,
                born: 0,
                dies: Death::Never,
            },
            beyond: Some(Death::Never),
            by_time: ExpiryForecast::new(Vec::new(), None),
            by_block: ExpiryForecast::new(Vec::new(), None),
            shares: Vec::new(),
            first_block: 0,
            blocks,
            sources,
            due: Expected::Never,
        }
    }

    /// Returns the statistics with a time at which the last block dies.
    pub fn until(self, dies: i64) -> SegmentStats {
        SegmentStats {
            beyond: Some(Death::At(dies)),
            ..self
        }
    }
}

/// Liveness scan in progress. Entries are added one by one.
pub struct LivenessScan {
    number: u64,
    live: u64,
    dead: u64,
    shares: Vec<Share>,
    first_block: u64,
    sources: u64,
    last_source: Option<u32>,
    blocks: u64,
    /// Ends of lives with the bytes of their blocks. Neighbours with one end are one item.
    deaths: Vec<(Expected, u64)>,
    past: Vec<Past>,
}

impl LivenessScan {
    /// Creates a scan without entries.
    pub fn new(number: u64) -> LivenessScan {
        LivenessScan {
            number,
            live: 0,
            dead: 0,
            shares: Vec::new(),
            first_block: u64::MAX,
            sources: 0,
            last_source: None,
            blocks: 0,
            deaths: Vec::new(),
            past: Vec::new(),
        }
    }

    /// Counts a block. The blocks of a source must be consecutive. `elsewhere` is true if other
    /// blocks contain all rows of the block.
    pub fn add(&mut self, entry: &Entry, retention: &Retention, elsewhere: bool) {
        let bytes = u64::from(entry.len);
        self.first_block = self.first_block.min(entry.number);
        if elsewhere || retention.may_drop(entry) {
            self.dead += bytes;
            self.past.extend(retention.past_of(entry));
            return;
        }
        self.live += bytes;
        self.sources += u64::from(self.last_source != Some(entry.source));
        self.last_source = Some(entry.source);
        self.blocks += 1;
        let expected = retention.remaining(entry);
        match self.deaths.last_mut() {
            Some((last, sum)) if *last == expected => *sum += bytes,
            _ => self.deaths.push((expected, bytes)),
        }
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

    /// Returns the bytes of live blocks.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Returns the rows of rings whose end only the dead blocks prove.
    pub fn past(&self) -> &[Past] {
        &self.past
    }

    /// Returns the result. `bytes` is the disk space of the segment, `born` the time of its seal.
    pub fn stats(self, lane: u32, bytes: u64, born: i64, clocks: &Clocks) -> SegmentStats {
        let deaths = self.deaths.iter();
        let deaths = deaths.map(|&(expected, bytes)| (clocks.death(expected), expected, bytes));
        let mut deaths: Vec<(Death, Expected, u64)> = deaths.collect();
        deaths.sort_unstable_by_key(|&(death, ..)| death);
        let mut gone = 0;
        let share = (self.live + self.dead).div_ceil(SHARE).min(self.live);
        let next = deaths.iter().find(|(.., bytes)| {
            gone += bytes;
            gone >= share
        });
        let due = match next {
            Some(&(_, Expected::Time(at), _)) => Expected::Time(at.max(clocks.now + SOON)),
            Some(&(_, Expected::Block(at), _)) => Expected::Block(at.max(clocks.block + 1)),
            // The rate will become known later.
            Some((_, Expected::Unknown, _)) => Expected::Time(clocks.now + SOON),
            Some((_, Expected::Never, _)) | None => Expected::Never,
        };
        let by_time = |expected| match expected {
            Expected::Time(at) => Some(at),
            _ => None,
        };
        let by_block = |expected| match expected {
            Expected::Block(at) => Some(at.min(i64::MAX as u64) as i64),
            _ => None,
        };
        let beyond = deaths
            .iter()
            .filter_map(|&(_, expected, _)| match expected {
                Expected::Unknown => Some(Death::Unknown),
                Expected::Never => Some(Death::Never),
                Expected::Time(_) | Expected::Block(_) => None,
            });
        SegmentStats {
            stat: SegmentStat {
                number: self.number,
                lane,
                bytes,
                live: self.live,
                dead: self.dead,
                born,
                dies: Death::At(clocks.now),
            },
            beyond: beyond.max(),
            by_time: forecast(&deaths, by_time, self.live, clocks.now),
            by_block: forecast(&deaths, by_block, self.live, clocks.block as i64),
            shares: self.shares,
            first_block: self.first_block,
            blocks: self.blocks,
            sources: self.sources,
            due,
        }
    }
}

/// Returns the forecast of the deaths by one `clock`, in steps of equal live bytes. `deaths` are in
/// order of time. Skips blocks that should already be dead: their time of death is unknown.
fn forecast(
    deaths: &[(Death, Expected, u64)],
    clock: impl Fn(Expected) -> Option<i64>,
    live: u64,
    now: i64,
) -> ExpiryForecast {
    let (mut list, mut last) = (Vec::new(), None);
    let (mut dead, mut listed) = (0, 0);
    for &(_, expected, bytes) in deaths {
        let Some(at) = clock(expected) else { continue };
        last = Some(at);
        if at <= now {
            continue;
        }
        dead += bytes;
        if (dead - listed) * FORECAST_POINTS >= live {
            listed = dead;
            list.push(ForecastPoint { at, dead });
        }
    }
    ExpiryForecast::new(list, last)
}
