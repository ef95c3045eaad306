//! Sections: parts of a source's interval that are read one after another.
//!
//! Rows of levels are compared with all finer rows in their steps. An interval with levels is
//! therefore divided at times at which steps of all levels end, and only the rows of one section
//! are in memory. The rest of the interval is one section, without levels.

use crate::query::source::Source;
use seiner_model::Interval;

/// Approximate number of rows of the finest level in a section.
const ROWS: u64 = 4096;

impl Source {
    /// Returns the next section with rows from a time on, or `None` at the end of the interval.
    pub fn section(&self, from: i64) -> Option<Interval> {
        let Interval { start, end } = self.interval;
        let from = from.max(start);
        if from > end {
            return None;
        }
        if self.levels.is_empty() || from >= self.levels_until {
            return Some(Interval::new(from, end));
        }
        let views = self.levels.iter().map(|(_, view)| view).chain([&self.own]);
        let blocks = views.flat_map(|view| view.blocks.iter());
        let blocks = blocks.filter(|entry| entry.last >= from);
        let blocks = blocks.map(|entry| entry.first.max(from));
        let open = self.open_times.partition_point(|time| *time < from);
        let open = self.open_times.get(open).copied();
        let first = blocks.chain(open).min().filter(|first| *first <= end)?;
        let steps = self.levels.iter().map(|(step, _)| *step);
        Some(Interval::new(first, end.min(section_end(first, steps))))
    }
}

/// Returns the last time of the section that contains a time. Steps of all these lengths end there.
fn section_end(time: i64, steps: impl Iterator<Item = u64> + Clone) -> i64 {
    let common = steps.clone().try_fold(1_u64, |common, step| {
        let factor = step / gcd(common, step);
        common.checked_mul(factor)
    });
    // Without a common end, the whole interval is one section.
    let Some(common) = common.and_then(|common| i64::try_from(common).ok()) else {
        return i64::MAX;
    };
    let finest = steps.min().unwrap_or(1);
    let wanted = finest.saturating_mul(ROWS) / common as u64;
    let len = i128::from(common) * i128::from(wanted.max(1));
    let end = (i128::from(time).div_euclid(len) + 1) * len - 1;
    i64::try_from(end).unwrap_or(i64::MAX)
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a.max(1),
        b => gcd(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(time: i64, steps: &[u64]) -> i64 {
        section_end(time, steps.iter().copied())
    }

    #[test]
    fn a_section_ends_where_steps_of_all_levels_end() {
        for (time, steps) in [
            (0, &[10, 60][..]),
            (-1, &[10, 60]),
            (12_345_678, &[7, 10]),
            (5, &[1_000_000]),
            (-99_999_999, &[3, 6, 86_400]),
        ] {
            let last = end(time, steps);
            assert!(last >= time);
            for step in steps {
                assert_eq!((last + 1).rem_euclid(*step as i64), 0, "{time} {steps:?}");
            }
        }
    }

    #[test]
    fn a_section_has_some_thousand_steps_of_the_finest_level() {
        assert_eq!(end(0, &[10]), 40_959);
        assert_eq!(end(40_960, &[10]), 81_919);
        // At least one step of the coarsest level.
        assert_eq!(end(0, &[1, 100_000]), 99_999);
    }

    #[test]
    fn steps_without_a_common_end_make_one_section() {
        assert_eq!(end(7, &[u64::MAX / 3, u64::MAX / 5 - 1]), i64::MAX);
        assert_eq!(end(i64::MAX - 1, &[10]), i64::MAX);
    }
}
