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

/// Measured rate: an average over the latest `window` of the amount; older amounts fade. For a
/// ring, a window of a few ring lengths is steady enough to predict when a block is overwritten.
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

    /// Returns the time of the latest arrival; 0 before the first.
    pub fn at(&self) -> i64 {
        self.at
    }
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
