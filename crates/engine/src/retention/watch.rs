//! Watch: decides whether to trust the wall clock, by which data expires.
//!
//! If the wall clock is suddenly far ahead, either the clock is wrong or the host was off for that
//! long. Only an operator can decide. Until then, the store uses the time that passed while it ran.
//!
//! 1. A clock that is ahead of that time by less than the shortest age is trusted: no class loses
//!    all its data.
//! 2. Otherwise the clock is not trusted until it returns, an operator confirms it, or the store
//!    has run for the longest age that the jump exceeds. By then, the data that the jump would
//!    expire is too old in any case.

/// Judge of the wall clock.
#[derive(Debug, Default)]
pub struct Watch {
    /// Ages of all classes of the store, ns.
    ages: Vec<i64>,
    /// Trusted time, and the monotonic time at that moment, ns.
    anchor: Option<(i64, u64)>,
    /// Trusted time when the wall clock jumped, while the clock is not trusted.
    since: Option<i64>,
    /// Distance of the wall clock from the trusted time at the jump, ns.
    ahead: i64,
}

impl Watch {
    /// Creates a judge for classes with these ages, ns.
    pub fn new(ages: Vec<i64>) -> Watch {
        Watch {
            ages,
            ..Watch::default()
        }
    }

    /// Returns the time to trust when the wall clock reads `wall`. `known` is a time that has
    /// certainly passed.
    pub fn judge(&mut self, wall: i64, monotonic: u64, known: i64) -> i64 {
        let Some(shortest) = self.ages.iter().min() else {
            return wall;
        };
        if known == i64::MIN {
            return self.trust(wall, monotonic);
        }
        let (time, then) = *self.anchor.get_or_insert((known, monotonic));
        let running = time.saturating_add(monotonic.saturating_sub(then) as i64);
        let ahead = wall.saturating_sub(running);
        if ahead < *shortest {
            return self.trust(wall, monotonic);
        }
        let since = *self.since.get_or_insert(time);
        let exceeded = self.ages.iter().filter(|age| **age <= ahead).max();
        if exceeded.is_none_or(|age| running.saturating_sub(since) >= *age) {
            return self.trust(wall, monotonic);
        }
        self.ahead = ahead;
        running
    }

    /// Trusts the wall clock unconditionally.
    pub fn trust(&mut self, wall: i64, monotonic: u64) -> i64 {
        (self.since, self.ahead) = (None, 0);
        // A clock that is set back does not shorten the elapsed time.
        if self.anchor.is_none_or(|(time, _)| wall > time) {
            self.anchor = Some((wall, monotonic));
        }
        wall
    }

    /// Returns the distance of the wall clock from the trusted time, ns. 0 if the clock is trusted.
    pub fn ahead(&self) -> u64 {
        self.ahead.max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;

    #[test]
    fn a_jump_of_a_lifetime_waits_until_the_store_has_run_for_one() {
        let mut watch = Watch::new(vec![10 * DAY, HOUR]);
        assert_eq!(watch.judge(1000, 0, i64::MIN), 1000);
        // Less than the shortest age.
        let wall = 1000 + HOUR - 1;
        assert_eq!(watch.judge(wall, 0, 1000), wall);
        // Ten hours: more than an hour, less than ten days.
        let wall = wall + 10 * HOUR;
        assert_eq!(watch.judge(wall, 0, 0), 1000 + HOUR - 1);
        assert_eq!(watch.ahead(), 10 * HOUR as u64);
        let half = HOUR as u64 / 2;
        assert_eq!(watch.judge(wall + HOUR / 2, half, 0), 999 + HOUR + HOUR / 2);
        assert_eq!(watch.judge(wall + HOUR, 2 * half, 0), wall + HOUR);
        assert_eq!(watch.ahead(), 0);
        // A year: the longest age that it exceeds counts.
        let year = wall + HOUR + 365 * DAY;
        assert!(watch.judge(year, 2 * half, 0) < year);
        let nearly = 10 * DAY - 1;
        assert!(watch.judge(year + nearly, 2 * half + nearly as u64, 0) < year);
        let then = year + 10 * DAY;
        assert_eq!(watch.judge(then, 2 * half + 10 * DAY as u64, 0), then);
    }

    #[test]
    fn a_corrected_clock_is_trusted_again_and_so_is_an_operator() {
        let mut watch = Watch::new(vec![DAY]);
        // A start finds the time that the disk stores.
        assert_eq!(watch.judge(400 * DAY, 7, 5), 5);
        assert_eq!(watch.judge(400 * DAY + 3, 10, 5), 8);
        assert_eq!(watch.judge(12, 11, 5), 12);
        assert_eq!(watch.ahead(), 0);
        assert!(watch.judge(400 * DAY, 11, 5) < DAY);
        assert_eq!(watch.trust(400 * DAY, 11), 400 * DAY);
        assert_eq!(watch.judge(400 * DAY + 1, 12, 5), 400 * DAY + 1);
        // The clock is set back and forth again: time has passed in the meantime.
        assert_eq!(watch.judge(0, 13, 5), 0);
        assert_eq!(watch.judge(400 * DAY + 2, 14, 5), 400 * DAY + 2);
    }

    #[test]
    fn without_ages_every_clock_is_trusted() {
        assert_eq!(Watch::default().judge(i64::MAX, 1, 0), i64::MAX);
    }
}
