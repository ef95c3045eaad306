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

/// A rate measured as amounts arrive: an average over the latest `window`, older ones fading.
///
/// For a class or a source; sixteen bytes and the window, which the caller keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// When it was last told something; 0 if never.
    at: i64,
    /// The amount of one window.
    amount: f64,
}

impl Rate {
    /// `amount` arrived at `now`; `window` in nanoseconds.
    pub fn add(&mut self, amount: u64, now: i64, window: i64) {
        if self.at == 0 {
            self.at = now;
        }
        let elapsed = now.saturating_sub(self.at).max(0);
        self.amount *= (-(elapsed as f64) / window.max(1) as f64).exp();
        self.amount += amount as f64;
        self.at = self.at.max(now);
    }

    /// Amount a second at `now`; none before anything arrived.
    pub fn per_second(&self, now: i64, window: i64) -> Option<f64> {
        let elapsed = now.saturating_sub(self.at).max(0) as f64;
        let window = window.max(1) as f64;
        (self.amount > 0.0).then(|| self.amount * (-elapsed / window).exp() / (window / 1e9))
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
        let (mut rate, window) = (Rate::default(), 100 * SECOND);
        assert_eq!(rate.per_second(SECOND, window), None);
        for second in 1..1000 {
            rate.add(7, second * SECOND, window);
        }
        let measured = rate.per_second(999 * SECOND, window).unwrap();
        assert!((measured - 7.0).abs() < 0.1, "{measured}");
        for second in 1000..2000 {
            rate.add(70, second * SECOND, window);
        }
        let measured = rate.per_second(1999 * SECOND, window).unwrap();
        assert!((measured - 70.0).abs() < 1.0, "{measured}");
        let silent = rate.per_second(2199 * SECOND, window).unwrap();
        assert!(silent < 10.0, "{silent}");
    }
}
