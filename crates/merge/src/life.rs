//! When a block is expected to die, from what is known of its source.

/// When something is expected to be dead, in nanoseconds of the caller's clock.
///
/// A prediction only: lanes and policies use it to save writes, never to decide what is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Death {
    /// At this time.
    At(i64),
    /// Nobody can tell yet: a ring or quota whose rate was not measured so far.
    Unknown,
    /// Never: it is kept for ever.
    Never,
}

impl Death {
    /// Kept by age: dead once its newest sample is older than `age` nanoseconds.
    pub fn by_age(newest: i64, age: i64) -> Death {
        Death::At(newest.saturating_add(age.max(0)))
    }

    /// Kept by amount (a ring, a quota): dead once `amount` more has been written at `rate` a
    /// second. The units are the caller's: samples, blocks or bytes, the same in both.
    pub fn by_amount(now: i64, amount: u64, rate: Option<f64>) -> Death {
        match rate {
            Some(rate) if rate > 0.0 => {
                let wait = amount as f64 / rate * 1e9;
                Death::At(now.saturating_add(wait.min(i64::MAX as f64) as i64))
            }
            _ => Death::Unknown,
        }
    }

    /// Whichever comes first, of two rules that hold for the same block. `Unknown` says nothing
    /// beside a time, but is better than never.
    pub fn or_sooner(self, other: Death) -> Death {
        self.min(other)
    }

    /// Nanoseconds from `now`, not below 0; none if there is no time.
    pub fn wait(self, now: i64) -> Option<i64> {
        match self {
            Death::At(at) => Some(at.saturating_sub(now).max(0)),
            Death::Unknown | Death::Never => None,
        }
    }
}

/// A rate, measured as amounts arrive: an average over the latest `window` of them, older ones
/// fading. For a ring, a window of a few of its lengths is steady enough to foretell its turns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// When something arrived last.
    at: i64,
    /// How much the average is over.
    seen: f64,
    /// Nanoseconds for one of it.
    pace: f64,
}

impl Rate {
    /// `amount` arrived at `now`. `window` is in the unit of the amount; the first amount only
    /// starts the clock.
    pub fn add(&mut self, amount: f64, now: i64, window: f64) {
        if self.at != 0 && amount > 0.0 {
            let elapsed = now.saturating_sub(self.at).max(0) as f64;
            self.seen = (self.seen + amount).min(window.max(amount));
            self.pace += (elapsed / amount - self.pace) * amount / self.seen;
        }
        self.at = if self.at == 0 { now } else { self.at.max(now) };
    }

    /// Amount a second; none while there is nothing to tell it by.
    pub fn per_second(&self) -> Option<f64> {
        (self.pace > 0.0).then(|| 1e9 / self.pace)
    }

    /// How far the clock goes for one of it; none while there is nothing to tell it by.
    pub fn pace(&self) -> Option<f64> {
        (self.pace > 0.0).then_some(self.pace)
    }

    /// When it was told something last.
    pub fn at(&self) -> i64 {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn deaths() {
        assert_eq!(Death::by_age(100, 50), Death::At(150));
        assert_eq!(Death::by_age(i64::MAX, 50), Death::At(i64::MAX));
        // 50 blocks at 2 a second: 25 s.
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
    fn the_sooner_of_two() {
        assert_eq!(Death::At(5).or_sooner(Death::At(3)), Death::At(3));
        assert_eq!(Death::Never.or_sooner(Death::At(3)), Death::At(3));
        assert_eq!(Death::Unknown.or_sooner(Death::At(3)), Death::At(3));
        assert_eq!(Death::Never.or_sooner(Death::Unknown), Death::Unknown);
        assert_eq!(Death::At(5).wait(3), Some(2));
        assert_eq!(Death::At(5).wait(9), Some(0));
        assert_eq!(Death::Never.wait(9), None);
    }

    #[test]
    fn a_rate_follows_what_arrives() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(), None);
        rate.add(7.0, SECOND, 100.0);
        assert_eq!(
            rate.per_second(),
            None,
            "one amount says nothing of its rate"
        );
        rate.add(7.0, 2 * SECOND, 100.0);
        assert_eq!(rate.per_second(), Some(7.0), "two say all that is known");
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
