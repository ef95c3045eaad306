//! Rows and deletes of one source of a store with retention, and the visibility of its rows.

use crate::datum::Datum;
use crate::generator::{NUMBER, VALUE};
use crate::samples::Samples;
use seiner_model::Interval;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// An accepted row.
#[derive(Clone, Debug)]
pub(crate) struct NumberedRow {
    /// Number of rows of all sources that were accepted before.
    pub(crate) at: u64,
    pub(crate) number: i64,
    pub(crate) time: i64,
    pub(crate) cells: Vec<(u32, Datum)>,
}

/// A hidden interval of a source. It applies to rows accepted before the delete or the change of rules.
#[derive(Clone, Debug)]
pub(crate) struct HiddenInterval {
    pub(crate) before: u64,
    /// Times that are certainly hidden.
    pub(crate) sure: Interval,
    /// Times that may be hidden.
    pub(crate) maybe: Interval,
    /// Number of the delete, if the outcome of the delete is unknown.
    pub(crate) doubtful: Option<u64>,
}

/// Visibility of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    Shown,
    Maybe,
    Hidden,
}

/// State of one source.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceHistory {
    /// Rows that may still exist.
    pub(crate) rows: Vec<NumberedRow>,
    /// Number of rows before the first of `rows`.
    pub(crate) gone: u64,
    pub(crate) hidden: Vec<HiddenInterval>,
    /// Number of first rows that may have expired under earlier rules. `must` is the number of first
    /// rows that certainly expired.
    pub(crate) may: u64,
    pub(crate) must: u64,
    /// Number of first rows that have permanently expired, as observed.
    pub(crate) seen: u64,
    /// Maximum difference between the row counts of the model and of the engine.
    pub(crate) doubt: u64,
}

impl SourceHistory {
    /// Returns the visibility of a row. `age` is the age in ns at which the rows of the source expire. `now` has the
    /// earliest and latest time that the engine may use as the present time, ns.
    pub(crate) fn visibility(
        &self,
        row: &NumberedRow,
        age: Option<i64>,
        now: &RangeInclusive<i64>,
    ) -> Visibility {
        let mut visibility = Visibility::Shown;
        if row.cells.is_empty() {
            return Visibility::Hidden;
        }
        for interval in self
            .hidden
            .iter()
            .filter(|interval| row.at < interval.before)
        {
            if interval.sure.contains(row.time) {
                return Visibility::Hidden;
            }
            if interval.maybe.contains(row.time) {
                visibility = Visibility::Maybe;
            }
        }
        if let Some(age) = age {
            if row.time < *now.start() - age {
                return Visibility::Hidden;
            }
            if row.time < *now.end() - age {
                visibility = Visibility::Maybe;
            }
        }
        visibility
    }

    /// Keeps the first `kept` of the rows that may still exist, and removes the rows that a crash lost. Rows appended
    /// later take the places of lost rows, so bounds end at the kept rows.
    pub(crate) fn truncate(&mut self, kept: usize) {
        self.rows.truncate(kept);
        let total = self.gone + self.rows.len() as u64;
        for bound in [&mut self.seen, &mut self.may, &mut self.must] {
            *bound = total.min(*bound);
        }
    }

    /// Iterates over the numbers of the deletes of unknown outcome.
    pub(crate) fn doubtful_deletes(&self) -> impl Iterator<Item = u64> + '_ {
        self.hidden.iter().filter_map(|interval| interval.doubtful)
    }

    /// Records the outcome of a delete of unknown outcome.
    pub(crate) fn resolve_delete(&mut self, delete: u64, took_effect: bool) {
        let is_it = |interval: &HiddenInterval| interval.doubtful == Some(delete);
        if !took_effect {
            self.hidden.retain(|interval| !is_it(interval));
            return;
        }
        for interval in self.hidden.iter_mut().filter(|interval| is_it(interval)) {
            (interval.sure, interval.doubtful) = (interval.maybe, None);
        }
    }

    /// Returns true if a later row of the source has the same time.
    pub(crate) fn is_overwritten(&self, row: &NumberedRow) -> bool {
        let later = self.rows.iter().rev();
        let mut later = later.take_while(|other| other.at > row.at);
        later.any(|other| other.time == row.time)
    }
}

/// Samples of one source, by field and time.
pub(crate) type SamplesByField<'a> = BTreeMap<u32, &'a BTreeMap<i64, Datum>>;

/// The empty interval.
pub(crate) const NOTHING: Interval = Interval { start: 1, end: 0 };

/// Groups samples by source.
pub(crate) fn by_source(found: &Samples) -> BTreeMap<usize, SamplesByField<'_>> {
    let mut sources: BTreeMap<usize, SamplesByField<'_>> = BTreeMap::new();
    for ((source, field), samples) in found {
        let of: &mut SamplesByField<'_> = sources.entry(*source as usize).or_default();
        of.insert(*field, samples);
    }
    sources
}

/// Returns true if the number of a row was found at the time of the row.
pub(crate) fn is_there(row: &NumberedRow, found: Option<&SamplesByField<'_>>) -> bool {
    let Some(found) = found else {
        return false;
    };
    [NUMBER, VALUE].iter().any(|field| {
        let datum = found.get(field).and_then(|times| times.get(&row.time));
        datum.is_some_and(|datum| match datum {
            Datum::I64(number) => *number == row.number,
            other => other.number() as i64 == row.number,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_crash_no_bound_reaches_beyond_the_rows_that_survived() {
        let row = |at| NumberedRow {
            at,
            number: at as i64,
            time: 0,
            cells: Vec::new(),
        };
        let mut history = SourceHistory {
            rows: (0..10).map(row).collect(),
            gone: 5,
            seen: 15,
            may: 15,
            must: 12,
            ..SourceHistory::default()
        };
        history.truncate(3);
        assert_eq!((history.seen, history.may, history.must), (8, 8, 8));
    }
}
