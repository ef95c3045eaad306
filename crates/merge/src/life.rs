//! Expected time of death of a block, from the retention rule and the rate of its source.

/// Expected time of death of a block or segment, in nanoseconds of the caller's clock.
///
/// A prediction only: lanes and policies use it to save writes. It never decides which blocks are
/// dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Death {
    /// Dead at this time.
    At(i64),
    /// Not predictable yet: a ring or quota whose rate has not been measured.
    Unknown,
    /// Kept for ever.
    Never,
}

impl Death {
    /// Returns the death of data kept by age: its newest sample becomes older than `age`
    /// nanoseconds.
    pub fn by_age(newest: i64, age: i64) -> Death {
        Death::At(newest.saturating_add(age.max(0)))
    }

    /// Returns the death of data kept by amount (a ring, a quota): `amount` more has been written,
    /// at `rate` per second. Both have the caller's unit: samples, blocks or bytes.
    pub fn by_amount(now: i64, amount: u64, rate: Option<f64>) -> Death {
        match rate {
            Some(rate) if rate > 0.0 => {
                let wait = amount as f64 / rate * 1e9;
                Death::At(now.saturating_add(wait.min(i64::MAX as f64) as i64))
            }
            _ => Death::Unknown,
        }
    }

    /// Returns the earlier death when two rules apply to the same block. A time is before
    /// `Unknown`, and `Unknown` is before `Never`.
    pub fn or_sooner(self, other: Death) -> Death {
        self.min(other)
    }

    /// Returns the nanoseconds from `now` until death, at least 0; `None` if there is no time.
    pub fn wait(self, now: i64) -> Option<i64> {
        match self {
            Death::At(at) => Some(at.saturating_sub(now).max(0)),
            Death::Unknown | Death::Never => None,
        }
    }
}

/// Measured rate: an average over the latest `window` of the amount; older amounts fade. The pace of
/// a source in a ring is a [`SourcePace`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Time of the latest arrival; 0 before the first.
    at: i64,
    /// Amount that the average covers.
    seen: f64,
    /// Average nanoseconds per unit of the amount.
    pace: f64,
}

impl Rate {
    /// Adds `amount` that arrived at `now`. `window` has the unit of the amount. The first call
    /// only sets the start time.
    pub fn add(&mut self, amount: f64, now: i64, window: f64) {
        if self.at != 0 && amount > 0.0 {
            let elapsed = now.saturating_sub(self.at).max(0) as f64;
            self.seen = (self.seen + amount).min(window.max(amount));
            self.pace += (elapsed / amount - self.pace) * amount / self.seen;
        }
        self.at = if self.at == 0 { now } else { self.at.max(now) };
    }

    /// Returns the amount per second; `None` before there is a measurement.
    pub fn per_second(&self) -> Option<f64> {
        (self.pace > 0.0).then(|| 1e9 / self.pace)
    }

    /// Returns the nanoseconds per unit of the amount; `None` before there is a measurement.
    pub fn pace(&self) -> Option<f64> {
        (self.pace > 0.0).then_some(self.pace)
    }
}

/// Number of ring lengths over which the pace of a source is averaged.
const PACE_RINGS: u64 = 5;
/// Largest number of blocks over which it is averaged.
const MANY: u8 = u8::MAX;
/// Largest number of recent blocks whose average is compared with it.
const FEW: u8 = 16;
/// Recent blocks per spread: 16 for blocks at random, four for a source with a clock.
const FEW_PER_SPREAD: f32 = 24.0;
/// Least number of recent blocks. With two, and with changes by 2 %, rows at random looked like changes of the rate.
const FEWEST: f32 = 4.0;
/// Ratio of recent blocks to the mean from which the rate is taken as changed, at most. Blocks that arrive at random
/// rarely have this ratio.
const CHANGED: f32 = 2.0;
/// The same ratio for a source with a clock, and its growth with the spread.
const CHANGED_STEADY: f32 = 1.1;
const CHANGED_PER_SPREAD: f32 = 1.36;
/// Steps in which the ratio is kept, per 1.
const STEPS: f32 = 4096.0;
/// Steps in which the root of the spread is kept, per 1. The root keeps small spreads exactly enough.
const ROOT_STEPS: f32 = 128.0;

/// Pace of a source: the average time between its blocks, in any unit.
///
/// If blocks arrive at random, only many of them give a good average. After a lasting change of the
/// rate, an average over many blocks is wrong for long. So the average goes over many blocks, and
/// begins anew when recent blocks differ. How many recent blocks are compared, and what counts as
/// different, depends on the spread of the source: with a clock, few blocks show a small change.
///
/// In simulations with V = 0.9 and σ = 1 (1,000 sources, 64 blocks per segment), a store wrote for
/// each byte 1.38 bytes with blocks at random (1.52 with an average over the latest 16 blocks), and
/// 1.30 bytes with a clock and a rate that changes after 400 blocks on average (1.30 with an average
/// over 16 blocks, 1.57 if the average begins anew only after changes by a factor of two).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SourcePace {
    mean: f32,
    /// Ratio of the average over recent blocks to `mean`, in steps.
    ratio: u16,
    /// Root of the spread, in steps.
    spread_root: u8,
    /// Number of averaged blocks.
    blocks: u8,
}

impl SourcePace {
    /// Returns a pace that was found by other means, such as from the blocks on disk.
    pub fn found(mean: f32) -> SourcePace {
        SourcePace::begin(mean, FEW, 1.0)
    }

    /// Returns a pace whose mean is that of its recent blocks.
    fn begin(mean: f32, blocks: u8, spread: f32) -> SourcePace {
        SourcePace {
            mean,
            ratio: STEPS as u16,
            spread_root: (spread.sqrt() * ROOT_STEPS).round() as u8,
            blocks,
        }
    }

    /// Adds the time before a block of a source with a ring of `ring` blocks.
    pub fn add(&mut self, time: f32, ring: u64) {
        if self.mean <= 0.0 {
            *self = SourcePace::begin(time, 1, 1.0);
            return;
        }
        let most = ring
            .saturating_mul(PACE_RINGS)
            .clamp(u64::from(FEW), u64::from(MANY)) as u8;
        let blocks = self.blocks.saturating_add(1).min(most);
        let recent = self.mean * f32::from(self.ratio) / STEPS;
        let mean = self.mean + (time - self.mean) / f32::from(blocks);
        let deviation = (time - recent).abs() / recent.max(f32::MIN_POSITIVE);
        let before = self.spread();
        let spread = before + (deviation - before) / f32::from(FEW);
        let few = (spread * FEW_PER_SPREAD).clamp(FEWEST, FEW.into());
        let recent = recent + (time - recent) / few.min(blocks.into());
        let ratio = recent / mean;
        let limit = (CHANGED_STEADY + CHANGED_PER_SPREAD * spread).min(CHANGED);
        *self = match f32::from(blocks) > few && differs(ratio, limit) {
            true => SourcePace::begin(recent, few as u8, spread),
            false => SourcePace {
                ratio: (ratio * STEPS) as u16,
                ..SourcePace::begin(mean, blocks, spread)
            },
        };
    }

    /// Returns the average distance of a block's time from the average of the blocks before, relative to it: 0 for a
    /// source with a clock, about 0.7 for blocks at random.
    fn spread(self) -> f32 {
        let root = f32::from(self.spread_root) / ROOT_STEPS;
        root * root
    }

    /// Returns the average time; `None` before the first block.
    pub fn mean(self) -> Option<f64> {
        (self.mean > 0.0).then_some(f64::from(self.mean))
    }

    /// Returns the average time, or `time` if this average over at least 16 later blocks shows another rate.
    pub fn mean_or(self, time: f64, blocks: u64) -> f64 {
        match self.mean() {
            Some(mean) if blocks < FEW.into() || !differs((time / mean) as f32, CHANGED) => mean,
            _ => time,
        }
    }
}

/// Returns whether the ratio of two paces is beyond a limit, in either direction.
fn differs(ratio: f32, limit: f32) -> bool {
    !(1.0 / limit..=limit).contains(&ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn deaths_follow_from_ages_and_amounts() {
        assert_eq!(Death::by_age(100, 50), Death::At(150));
        assert_eq!(Death::by_age(i64::MAX, 50), Death::At(i64::MAX));
        // 50 blocks at 2 per second take 25 s.
        assert_eq!(
            Death::by_amount(SECOND, 50, Some(2.0)),
            Death::At(26 * SECOND)
        );
        assert_eq!(Death::by_amount(SECOND, 50, None), Death::Unknown);
        assert_eq!(Death::by_amount(SECOND, 50, Some(0.0)), Death::Unknown);
        assert_eq!(
            Death::by_amount(SECOND, 50, Some(1e-300)),
            Death::At(i64::MAX)
        );
    }

    #[test]
    fn the_sooner_of_two_deaths_applies() {
        assert_eq!(Death::At(5).or_sooner(Death::At(3)), Death::At(3));
        assert_eq!(Death::Never.or_sooner(Death::At(3)), Death::At(3));
        assert_eq!(Death::Unknown.or_sooner(Death::At(3)), Death::At(3));
        assert_eq!(Death::Never.or_sooner(Death::Unknown), Death::Unknown);
        assert_eq!(Death::At(5).wait(3), Some(2));
        assert_eq!(Death::At(5).wait(9), Some(0));
        assert_eq!(Death::Never.wait(9), None);
    }

    #[test]
    fn a_pace_averages_many_blocks_and_follows_a_lasting_change() {
        let mut pace = SourcePace::default();
        assert_eq!(pace.mean(), None);
        assert_eq!(pace.mean_or(7.0, 1), 7.0);
        let mut rng = seiner_random::SplitMixRng::new(1);
        let mut add = |pace: &mut SourcePace, mean: f64, blocks: u32| {
            (0..blocks).for_each(|_| pace.add((mean * rng.exponential()) as f32, 50));
            pace.mean().unwrap()
        };
        let mean = add(&mut pace, 10.0, 1000);
        assert!((8.0..12.5).contains(&mean), "{mean}");
        for (to, blocks) in [(1.0, 60), (10.0, 60), (100.0, 60)] {
            let mean = add(&mut pace, to, blocks);
            assert!((0.45 * to..2.2 * to).contains(&mean), "{to}: {mean}");
        }
        // A source that has become silent has a longer pace than its blocks had.
        assert_eq!(pace.mean_or(1e6, 20), 1e6);
        assert_ne!(pace.mean_or(1e6, 10), 1e6);
    }

    #[test]
    fn a_pace_with_a_clock_follows_a_change_in_ten_blocks() {
        assert_eq!(size_of::<SourcePace>(), 8);
        let mut pace = SourcePace::default();
        (0..100).for_each(|_| pace.add(10.0, 50));
        // A block after ten times the usual time may follow a pause, so this takes longer.
        for (to, blocks) in [(13.0, 10), (9.0, 10), (50.0, 80)] {
            (0..blocks).for_each(|_| pace.add(to, 50));
            let error = pace.mean().unwrap() / f64::from(to) - 1.0;
            assert!(error.abs() < 0.1, "{to}: {error}");
            (0..50).for_each(|_| pace.add(to, 50));
        }
    }

    /// A gateway that is rarely connected sends ten blocks of a source at once.
    #[test]
    fn bursts_do_not_change_the_mean() {
        let mut pace = SourcePace::default();
        for block in 1..1000 {
            pace.add(if block % 10 == 0 { 991.0 } else { 1.0 }, 50);
            let mean = pace.mean().unwrap();
            assert!(
                block < 100 || (80.0..125.0).contains(&mean),
                "{block}: {mean}"
            );
        }
    }

    #[test]
    fn a_pace_is_exact_with_a_clock() {
        let mut pace = SourcePace::found(3.0);
        (0..500).for_each(|_| pace.add(3.0, 50));
        assert_eq!(pace.mean(), Some(3.0));
        for ring in [0, 1, u64::MAX] {
            pace.add(3.0, ring);
            assert_eq!(pace.mean(), Some(3.0), "{ring}");
        }
        pace.add(f32::MAX, 1);
        pace.add(0.0, 1);
        assert!(pace.mean().unwrap().is_finite());
    }

    #[test]
    fn a_rate_follows_arrivals() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(), None);
        rate.add(7.0, SECOND, 100.0);
        assert_eq!(rate.per_second(), None, "one amount gives no rate");
        rate.add(7.0, 2 * SECOND, 100.0);
        assert_eq!(rate.per_second(), Some(7.0), "two amounts give a rate");
        for second in 3..100 {
            rate.add(
                if second % 2 == 0 { 4.0 } else { 6.0 },
                second * SECOND,
                1000.0,
            );
        }
        let measured = rate.per_second().unwrap();
        assert!((measured - 5.0).abs() < 0.3, "{measured}");
        for second in 100..300 {
            rate.add(50.0, second * SECOND, 1000.0);
        }
        let measured = rate.per_second().unwrap();
        assert!((measured - 50.0).abs() < 1.0, "{measured}");
    }
}
