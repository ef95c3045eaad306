//! Judgement of the wall clock, by which age lets data go.
//!
//! A wall clock that is suddenly a lifetime ahead is wrong, or the host was off so long: nobody but an operator
//! knows which. Until that is clear the store goes by the time that passed while it ran.
//!
//! 1. A clock that is ahead of that time by less than the shortest age is believed: no class loses all.
//! 2. Otherwise it is not, until it comes back, or an operator confirms it, or the store has run for the
//!    longest age that the jump exceeds: what the jump would let go is too old by then in any case.

/// See the module.
#[derive(Debug, Default)]
pub struct Watch {
    /// All ages of the store's classes, ns.
    ages: Vec<i64>,
    /// A time that was believed, and the monotone time then, ns.
    anchor: Option<(i64, u64)>,
    /// The believed time when the wall clock jumped, if it is not believed.
    since: Option<i64>,
    /// How far ahead of the believed time it is then, ns.
    ahead: i64,
}

impl Watch {
    /// A judge for classes that keep their data for these times, ns.
    pub fn new(ages: Vec<i64>) -> Watch {
        Watch {
            ages,
            ..Watch::default()
        }
    }

    /// The time to believe when the clock says `wall`; `known` is a time that has passed for certain.
    pub fn judge(&mut self, wall: i64, monotonic: u64, known: i64) -> i64 {
        let Some(shortest) = self.ages.iter().min() else {
            return wall;
        };
        if known == i64::MIN {
            return self.believe(wall, monotonic);
        }
        let (time, then) = *self.anchor.get_or_insert((known, monotonic));
        let running = time.saturating_add(monotonic.saturating_sub(then) as i64);
        let ahead = wall.saturating_sub(running);
        if ahead < *shortest {
            return self.believe(wall, monotonic);
        }
        let since = *self.since.get_or_insert(time);
        let exceeded = self.ages.iter().filter(|age| **age <= ahead).max();
        if exceeded.is_none_or(|age| running.saturating_sub(since) >= *age) {
            return self.believe(wall, monotonic);
        }
        self.ahead = ahead;
        running
    }

    /// Believes the clock, whatever it says.
    pub fn believe(&mut self, wall: i64, monotonic: u64) -> i64 {
        (self.since, self.ahead) = (None, 0);
        // A clock that is set back does not shorten the time that has passed.
        if self.anchor.is_none_or(|(time, _)| wall > time) {
            self.anchor = Some((wall, monotonic));
        }
        wall
    }

    /// How far ahead of the believed time the clock is, ns; 0 when it is believed.
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
    fn a_clock_that_is_mended_is_believed_again_and_so_is_an_operator() {
        let mut watch = Watch::new(vec![DAY]);
        // A start finds what the disk tells.
        assert_eq!(watch.judge(400 * DAY, 7, 5), 5);
        assert_eq!(watch.judge(400 * DAY + 3, 10, 5), 8);
        assert_eq!(watch.judge(12, 11, 5), 12);
        assert_eq!(watch.ahead(), 0);
        assert!(watch.judge(400 * DAY, 11, 5) < DAY);
        assert_eq!(watch.believe(400 * DAY, 11), 400 * DAY);
        assert_eq!(watch.judge(400 * DAY + 1, 12, 5), 400 * DAY + 1);
        // Set back, and forth again: time passed meanwhile.
        assert_eq!(watch.judge(0, 13, 5), 0);
        assert_eq!(watch.judge(400 * DAY + 2, 14, 5), 400 * DAY + 2);
    }

    #[test]
    fn without_ages_every_clock_is_believed() {
        assert_eq!(Watch::default().judge(i64::MAX, 1, 0), i64::MAX);
    }
}
