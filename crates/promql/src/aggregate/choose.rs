//! Aggregations that choose series: `topk`, `bottomk`, `limitk`, `limit_ratio`.

use super::{Grouping, Groups};
use crate::error::Error;
use crate::functions::order::compare;
use crate::notes::Notes;
use crate::number_text;
use crate::plan::Aggregator;
use crate::series::{ABSENT, Series, Steps, is_absent};

/// Number of series of a group from which on those that are not chosen are dropped before the last has come.
const MANY: usize = 256;

/// Aggregation that receives series one by one, and keeps some of each group at each step.
pub struct Chooser<'p> {
    choice: Choice<'p>,
    groups: Groups<Members>,
    /// Number of series so far.
    count: usize,
}

/// Series of a group, each with its place in the input. A series that is not chosen at any step is dropped early: no
/// later series can bring it back.
#[derive(Default)]
struct Members {
    list: Vec<(usize, Series)>,
    /// Length at which the series that are not needed are dropped.
    limit: usize,
}

/// Rule by which series are chosen.
struct Choice<'p> {
    steps: Steps,
    aggregator: Aggregator,
    /// Parameter of the aggregation at each step.
    parameter: &'p [f64],
}

impl<'p> Chooser<'p> {
    /// Creates an aggregation without series. `parameter` has a value for each step.
    pub fn new(
        notes: &Notes,
        steps: Steps,
        (aggregator, parameter, grouping): (Aggregator, &'p [f64], Grouping),
    ) -> Chooser<'p> {
        if aggregator == Aggregator::LimitRatio {
            note_ratios(notes, parameter);
        }
        Chooser {
            choice: Choice {
                steps,
                aggregator,
                parameter,
            },
            groups: Groups::new(grouping),
            count: 0,
        }
    }

    /// Adds a series.
    pub fn add(&mut self, series: Series) -> Result<(), Error> {
        let create = || Ok::<_, Error>(Members::default());
        let members = self.groups.of(&series.labels, create)?;
        members.list.push((self.count, series));
        self.count += 1;
        if members.list.len() >= members.limit.max(MANY) {
            self.choice.apply(&mut members.list)?;
            members.drop_absent();
            members.limit = 2 * members.list.len();
        }
        Ok(())
    }

    /// Returns the chosen series, in the order of the input. Those of an instant query are sorted by `topk` and
    /// `bottomk`.
    pub fn finish(self) -> Result<Vec<Series>, Error> {
        let mut chosen = Vec::new();
        for (_, mut members) in self.groups.groups {
            let order = self.choice.apply(&mut members.list)?;
            if self.choice.steps.count > 1 {
                members.drop_absent();
                chosen.append(&mut members.list);
                continue;
            }
            let mut places: Vec<_> = members.list.into_iter().map(Some).collect();
            chosen.extend(order.into_iter().filter_map(|at| places[at].take()));
        }
        if self.choice.steps.count > 1 {
            chosen.sort_unstable_by_key(|(place, _)| *place);
        }
        Ok(chosen.into_iter().map(|(_, series)| series).collect())
    }
}

impl Members {
    fn drop_absent(&mut self) {
        self.list
            .retain(|(_, series)| !series.values.is_all_absent());
    }
}

impl Choice<'_> {
    /// Removes the values that are not chosen from the series of a group. Returns the series that are chosen at the last
    /// step, the best first.
    fn apply(&self, members: &mut [(usize, Series)]) -> Result<Vec<usize>, Error> {
        let hash = |(_, series): &(usize, Series)| series.labels.hash() as f64 / u64::MAX as f64;
        let hashes: Vec<f64> = match self.aggregator {
            Aggregator::LimitRatio => members.iter().map(hash).collect(),
            _ => Vec::new(),
        };
        let mut present: Vec<(f64, usize)> = Vec::new();
        let mut kept = 0;
        for (at, &parameter) in self.parameter.iter().enumerate().take(self.steps.count) {
            // Each value is read once, because the values of a step are far from each other in memory.
            present.clear();
            let values = members.iter().map(|(_, series)| series.values[at]);
            let values = values.zip(0..).filter(|(value, _)| !is_absent(*value));
            present.extend(values);
            kept = self.put_chosen_first(parameter, &hashes, &mut present)?;
            for (_, dropped) in &present[kept..] {
                members[*dropped].1.values[at] = ABSENT;
            }
        }
        Ok(present[..kept].iter().map(|(_, member)| *member).collect())
    }

    /// Moves the chosen values of a step to the front, and returns their number.
    fn put_chosen_first(
        &self,
        parameter: f64,
        hashes: &[f64],
        present: &mut [(f64, usize)],
    ) -> Result<usize, Error> {
        if present.is_empty() {
            return Ok(0);
        }
        if self.aggregator == Aggregator::LimitRatio {
            let ratio = ratio(parameter)?;
            present.sort_by_key(|(_, member)| !is_within(ratio, hashes[*member]));
            return Ok(present.partition_point(|(_, member)| is_within(ratio, hashes[*member])));
        }
        let kept = count(parameter)?.min(present.len());
        if let Aggregator::TopK | Aggregator::BottomK = self.aggregator {
            put_best_first(present, kept, self.aggregator == Aggregator::TopK);
        }
        Ok(kept)
    }
}

/// Moves the best `count` values to the front and sorts them. Of equal values, those of earlier series are better.
fn put_best_first(present: &mut [(f64, usize)], count: usize, descending: bool) {
    let order = |a: &(f64, usize), b: &(f64, usize)| {
        let by_value = compare(a.0, b.0, descending);
        by_value.then(a.1.cmp(&b.1))
    };
    if count > 0 && count < present.len() {
        present.select_nth_unstable_by(count - 1, order);
    }
    present[..count].sort_unstable_by(order);
}

/// Converts a parameter to a number of series.
fn count(parameter: f64) -> Result<usize, Error> {
    match parameter >= i64::MIN as f64 && parameter < i64::MAX as f64 {
        true => Ok(parameter.max(0.0) as usize),
        false => Err(Error::execution(format!(
            "Scalar value {} overflows int64",
            number_text(parameter)
        ))),
    }
}

/// Limits a ratio to -1 to 1.
fn ratio(parameter: f64) -> Result<f64, Error> {
    match parameter.is_nan() {
        true => Err(Error::execution("Ratio value NaN is NaN")),
        false => Ok(parameter.clamp(-1.0, 1.0)),
    }
}

/// Returns whether a hash, from 0 to 1, is within a ratio. A negative ratio is the complement of the rest.
fn is_within(ratio: f64, hash: f64) -> bool {
    match ratio >= 0.0 {
        true => hash < ratio,
        false => hash >= 1.0 + ratio,
    }
}

fn note_ratios(notes: &Notes, ratios: &[f64]) {
    let greatest = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    for (found, limit) in [(greatest, 1.0), (least, -1.0)] {
        if found.abs() > 1.0 && (found > 0.0) == (limit > 0.0) {
            notes.warning(format!(
                "PromQL warning: ratio value should be between -1 and 1, got {}, capping to {limit}",
                number_text(found)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, Limits};
    use crate::labels::Labels;
    use crate::series::Values;
    use std::sync::Arc;

    const STEPS: usize = 3;

    /// Returns the value of a series at a step. Some series lack a value.
    fn value(place: usize, step: usize) -> f64 {
        match (place * 7919 + step * 104_729) % 1009 {
            0 => f64::NAN,
            1..100 => ABSENT,
            other => (other % 301) as f64,
        }
    }

    fn series(place: usize, steps: Steps, budget: &Arc<Budget>) -> Series {
        let labels = [("n", place.to_string()), ("group", (place % 3).to_string())];
        let mut values = Values::filled(budget, steps.count, ABSENT).unwrap();
        (0..steps.count).for_each(|step| values[step] = value(place, step));
        Series {
            labels: labels.into_iter().collect::<Labels>(),
            drop_name: false,
            values,
        }
    }

    /// Returns the places of the best series of a group at a step, by a plain sort.
    fn plain(count: usize, group: usize, step: usize, aggregator: Aggregator) -> Vec<usize> {
        let all = (group..count).step_by(3);
        let mut all: Vec<usize> = all.filter(|at| !is_absent(value(*at, step))).collect();
        if aggregator != Aggregator::LimitK {
            let is_top = aggregator == Aggregator::TopK;
            all.sort_by(|a, b| compare(value(*a, step), value(*b, step), is_top));
        }
        all.truncate(4);
        all
    }

    #[test]
    fn the_chosen_of_many_series_are_those_of_a_plain_sort() {
        let budget = Arc::new(Budget::new(Limits::default(), None));
        for (aggregator, count) in [
            (Aggregator::TopK, 5_000),
            (Aggregator::BottomK, 5_000),
            (Aggregator::LimitK, 5_000),
            (Aggregator::TopK, 100),
        ] {
            for steps in [1, STEPS] {
                let steps = Steps {
                    start: 0,
                    step: 1,
                    count: steps,
                };
                let grouping = Grouping::new(false, &["group".into()]);
                let parameter = [4.0; STEPS];
                let rule = (aggregator, &parameter[..], grouping);
                let notes = Notes::default();
                let mut chooser = Chooser::new(&notes, steps, rule);
                for place in 0..count {
                    let series = series(place, steps, &budget);
                    if !series.values.is_all_absent() {
                        chooser.add(series).unwrap();
                    }
                }
                let members = chooser.groups.groups.iter();
                let held = members.map(|(_, members)| members.list.len());
                assert!(held.sum::<usize>() <= 3 * MANY, "few series are held");
                let found = chooser.finish().unwrap();
                let place = |series: &Series| series.labels.get("n").parse::<usize>().unwrap();
                for group in 0..3 {
                    for step in 0..steps.count {
                        let present = found.iter().filter(|series| {
                            place(series) % 3 == group && !is_absent(series.values[step])
                        });
                        let mut present: Vec<usize> = present.map(place).collect();
                        let mut expected = plain(count, group, step, aggregator);
                        if steps.count > 1 {
                            expected.sort_unstable();
                            present.sort_unstable();
                        }
                        assert_eq!(present, expected, "{aggregator:?}, {group}, {step}");
                    }
                }
                if steps.count > 1 {
                    assert!(found.iter().map(place).is_sorted());
                }
            }
        }
    }
}
