//! Values of buckets without samples.

use crate::cell::Cell;
use crate::error::Error;
use crate::text::statement::Fill;
use crate::zone::Zone;

/// Series of values, ascending by time. An absent value is null.
pub type Series = Vec<(i64, Option<Cell>)>;

/// Maximum number of buckets of one series.
const MAX_BUCKETS: i128 = 10_000_000;

/// Buckets of a query, ns.
#[derive(Clone, Copy, Debug)]
pub struct Buckets<'z> {
    /// Length.
    pub every: i64,
    /// Offset of their begins from multiples of the length.
    pub offset: i64,
    /// Zone in which they begin; UTC without one.
    pub zone: Option<&'z Zone>,
}

impl Buckets<'_> {
    /// Returns the begin of the bucket of a time.
    pub fn start(self, time: i64) -> i64 {
        let shifted = i128::from(time) - i128::from(self.offset);
        let zone = self.zone_offset(time.saturating_sub(self.offset));
        let within = (shifted + i128::from(zone)).rem_euclid(i128::from(self.every));
        let start = clamped(shifted - within + i128::from(self.offset));
        // The clocks may have changed since the begin.
        clamped(i128::from(start) + i128::from(self.change(zone, start)))
    }

    /// Returns the begin of the next bucket, if there is one.
    pub fn next(self, start: i64) -> Option<i64> {
        let next = start.checked_add(self.every)?;
        let zone = self.zone_offset(start);
        Some(next.saturating_add(self.change(zone, next - 1)))
    }

    /// Returns the difference of an offset from the one at a time. As in InfluxDB, changes of a bucket's length or more
    /// have no effect.
    fn change(self, zone: i64, time: i64) -> i64 {
        let change = zone - self.zone_offset(time);
        if change.abs() < self.every { change } else { 0 }
    }

    fn zone_offset(self, time: i64) -> i64 {
        self.zone.map_or(0, |zone| zone.offset(time))
    }
}

fn clamped(time: i128) -> i64 {
    time.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// Returns the number of buckets from `first` to `last`, both begins of buckets.
///
/// # Errors
/// If there are too many.
pub fn count(buckets: Buckets<'_>, (first, last): (i64, i64)) -> Result<usize, Error> {
    let count = (i128::from(last) - i128::from(first)) / i128::from(buckets.every) + 1;
    match count > MAX_BUCKETS {
        true => Err(Error::Limit(format!(
            "the time range has {count} buckets, more than {MAX_BUCKETS}; use a longer GROUP BY time(), or fill(none)"
        ))),
        false => Ok(count.max(0) as usize),
    }
}

/// Returns a series with a value for each bucket from `first` to `last`, both begins of buckets.
pub fn filled(
    series: Series,
    buckets: Buckets<'_>,
    (first, last): (i64, i64),
    fill: Fill,
) -> Series {
    let mut all = Vec::new();
    let mut known = series.iter().peekable();
    let mut before: Option<&(i64, Option<Cell>)> = None;
    let mut start = first;
    loop {
        // After a change of the clocks, a bucket of rows may begin between two others.
        while let Some(found) = known.next_if(|(time, _)| *time < start) {
            all.push(found.clone());
            before = Some(found);
        }
        if let Some(found) = known.next_if(|(time, _)| *time == start) {
            all.push(found.clone());
            before = Some(found);
        } else {
            let value = match fill {
                Fill::Null | Fill::None => None,
                Fill::Previous => before.and_then(|(_, value)| value.clone()),
                Fill::Number(number) => Some(like(&series, number)),
                Fill::Linear => before
                    .zip(known.peek().copied())
                    .and_then(|(before, after)| between(before, after, start)),
            };
            all.push((start, value));
        }
        match buckets.next(start) {
            Some(next) if next <= last => start = next,
            _ => return all,
        }
    }
}

/// Returns a number in the type of a series.
fn like(series: &Series, number: f64) -> Cell {
    let first = series.iter().find_map(|(_, value)| value.as_ref());
    match first.is_some_and(|first| first.whole().is_some()) {
        true => crate::cell::integer(number as i128),
        false => Cell::Float(number),
    }
}

/// Returns the value at a time on the line between two samples.
fn between(before: &(i64, Option<Cell>), after: &(i64, Option<Cell>), time: i64) -> Option<Cell> {
    let (left, right) = (before.1.as_ref()?, after.1.as_ref()?);
    let distance = |from: i64, to: i64| to as f64 - from as f64;
    let share = distance(before.0, time) / distance(before.0, after.0);
    let value = left.number()? + (right.number()? - left.number()?) * share;
    match (left.whole(), right.whole()) {
        (Some(_), Some(_)) => Some(crate::cell::integer(value as i128)),
        _ => Some(Cell::Float(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKETS: Buckets<'_> = Buckets {
        every: 10,
        offset: 3,
        zone: None,
    };

    fn fill(fill: Fill) -> Vec<Option<f64>> {
        let series = vec![(13, Some(Cell::Float(1.0))), (43, Some(Cell::Float(4.0)))];
        let filled = filled(series, BUCKETS, (3, 53), fill).into_iter();
        filled
            .map(|(_, value)| value.and_then(|value| value.number()))
            .collect()
    }

    #[test]
    fn buckets_begin_at_an_offset() {
        let starts = [2, 3, 12, 13, -8].map(|time| BUCKETS.start(time));
        assert_eq!(starts, [-7, 3, 3, 13, -17]);
        BUCKETS.start(i64::MIN);
    }

    #[test]
    fn empty_buckets_have_the_value_that_was_asked_for() {
        let (one, four) = (Some(1.0), Some(4.0));
        assert_eq!(fill(Fill::Null), [None, one, None, None, four, None]);
        assert_eq!(fill(Fill::Previous), [None, one, one, one, four, four]);
        assert_eq!(
            fill(Fill::Linear),
            [None, one, Some(2.0), Some(3.0), four, None]
        );
        assert_eq!(
            fill(Fill::Number(9.0)),
            [Some(9.0), one, Some(9.0), Some(9.0), four, Some(9.0)]
        );
    }

    #[test]
    fn too_many_buckets_are_rejected() {
        assert_eq!(count(BUCKETS, (3, 53)).unwrap(), 6);
        let error = count(BUCKETS, (3, i64::MAX)).unwrap_err();
        assert!(error.to_string().contains("buckets"), "{error}");
    }
}
