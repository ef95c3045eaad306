//! Days in UTC, and the search for the days that have rows.

use anyhow::Result;
use seiner_model::{Interval, rfc3339};

/// Length of a day, ns.
const DAY_NS: i64 = 86_400_000_000_000;

/// Day in UTC: the number of days since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(i64);

impl Day {
    /// Returns the day of a time in ns since 1970.
    pub fn of(time: i64) -> Day {
        Day(time.div_euclid(DAY_NS))
    }

    /// Returns the first and the last time of the day, ns. The first and the last day of all are shorter.
    pub fn interval(self) -> Interval {
        let bound = |time: i128| time.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let start = i128::from(self.0) * i128::from(DAY_NS);
        Interval::new(bound(start), bound(start + i128::from(DAY_NS) - 1))
    }

    /// Returns the date, such as `2026-11-27`.
    pub fn name(self) -> String {
        let mut text = rfc3339(self.interval().end);
        text.truncate(10);
        text
    }
}

/// Returns the days from `first` to `last` with rows, ascending. `has_rows` is called for intervals of whole days; an
/// interval without rows is not divided further.
///
/// # Errors
/// The errors of `has_rows`.
pub fn days_with_rows(
    first: Day,
    last: Day,
    mut has_rows: impl FnMut(Interval) -> Result<bool>,
) -> Result<Vec<Day>> {
    let mut found = Vec::new();
    let mut open = vec![(first, last)];
    while let Some((first, last)) = open.pop() {
        if !has_rows(Interval::new(first.interval().start, last.interval().end))? {
            continue;
        }
        if first == last {
            found.push(first);
            continue;
        }
        let middle = first.0 + (last.0 - first.0) / 2;
        open.push((Day(middle + 1), last));
        open.push((first, Day(middle)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_divide_all_times() {
        let day = Day::of(1_795_745_000_000_000_000);
        assert_eq!(day.name(), "2026-11-27");
        assert_eq!(Day::of(-1).name(), "1969-12-31");
        for time in [i64::MIN, -1, 0, 1_795_745_000_000_000_000, i64::MAX] {
            let Interval { start, end } = Day::of(time).interval();
            assert!((start..=end).contains(&time), "{time}");
            assert_eq!(
                (Day::of(start), Day::of(end)),
                (Day::of(time), Day::of(time))
            );
            assert!(end == i64::MAX || Day::of(end + 1) > Day::of(time));
        }
        assert_eq!(Day::of(i64::MIN).name(), "1677-09-21");
        assert_eq!(Day::of(i64::MAX).name(), "2262-04-11");
    }

    #[test]
    fn the_search_finds_all_days_with_few_questions() {
        let times = [-5 * DAY_NS, 0, DAY_NS - 1, 700 * DAY_NS + 5, 701 * DAY_NS];
        let mut asked = 0;
        let found = days_with_rows(Day::of(i64::MIN), Day::of(i64::MAX), |interval| {
            asked += 1;
            Ok(times.iter().any(|&time| interval.contains(time)))
        });
        let expected: Vec<Day> = [-5, 0, 700, 701].into_iter().map(Day).collect();
        assert_eq!(found.unwrap(), expected);
        assert!(asked < 120, "{asked}");
        let none = days_with_rows(Day(0), Day(100), |_| Ok(false));
        assert_eq!(none.unwrap(), []);
    }
}
