//! Aggregations with one value for each group: `sum`, `avg`, `min`, `max`, `count`, `group`, `stddev`, `stdvar`,
//! `quantile`.

use super::{Grouping, Groups};
use crate::budget::{Budget, Hold, SERIES, VALUE};
use crate::error::Error;
use crate::notes::Notes;
use crate::numbers::{Mean, Sum, quantile};
use crate::plan::Aggregator;
use crate::series::{ABSENT, Series, Steps, Values, is_absent};
use std::sync::Arc;

/// Values that one step of a group counts as.
const STEP_VALUES: usize = 5;

/// Aggregation that receives series one by one, and keeps only the state of its groups.
pub struct Reducer {
    steps: Steps,
    budget: Arc<Budget>,
    aggregator: Aggregator,
    groups: Groups<Group>,
}

struct Group {
    drop_name: bool,
    states: Vec<State>,
    _hold: Hold,
}

/// State of one step of a group.
#[derive(Clone, Copy, Debug)]
enum State {
    /// No series had a value.
    Empty,
    Sum(Sum),
    Mean(Mean),
    /// Minimum, maximum, or 1.
    Value(f64),
    Count(u64),
    /// Number of values, their mean, and the sum of the squares of differences from it.
    Spread(f64, f64, f64),
}

impl Reducer {
    /// Creates an aggregation without groups.
    pub fn new(
        budget: &Arc<Budget>,
        steps: Steps,
        aggregator: Aggregator,
        grouping: Grouping,
    ) -> Reducer {
        Reducer {
            steps,
            budget: budget.clone(),
            aggregator,
            groups: Groups::new(grouping),
        }
    }

    /// Adds a series.
    pub fn add(&mut self, series: &Series) -> Result<(), Error> {
        let group = self.groups.of(&series.labels, || {
            Ok::<Group, Error>(Group {
                drop_name: series.drop_name,
                _hold: Hold::new(
                    &self.budget,
                    self.steps.count * STEP_VALUES * VALUE + SERIES + series.labels.bytes(),
                )?,
                states: vec![State::Empty; self.steps.count],
            })
        })?;
        for (state, &value) in group.states.iter_mut().zip(series.values.iter()) {
            if !is_absent(value) {
                state.add(self.aggregator, value);
            }
        }
        Ok(())
    }

    /// Returns the groups.
    pub fn finish(self) -> Result<Vec<Series>, Error> {
        let mut results = Vec::with_capacity(self.groups.groups.len());
        for (labels, group) in self.groups.groups {
            let mut values = Values::filled(&self.budget, self.steps.count, ABSENT)?;
            for (value, state) in values.iter_mut().zip(&group.states) {
                *value = state.result(self.aggregator);
            }
            results.push(Series {
                labels,
                drop_name: group.drop_name,
                values,
            });
        }
        Ok(results)
    }
}

impl State {
    fn add(&mut self, aggregator: Aggregator, value: f64) {
        match self {
            State::Empty => *self = State::first(aggregator, value),
            State::Sum(sum) => sum.add(value),
            State::Mean(mean) => mean.add(value),
            State::Value(known) => match aggregator {
                Aggregator::Minimum if *known > value || known.is_nan() => *known = value,
                Aggregator::Maximum if *known < value || known.is_nan() => *known = value,
                _ => {}
            },
            State::Count(count) => *count += 1,
            State::Spread(count, mean, squares) => {
                *count += 1.0;
                let difference = value - *mean;
                *mean += difference / *count;
                *squares += difference * (value - *mean);
            }
        }
    }

    fn first(aggregator: Aggregator, value: f64) -> State {
        match aggregator {
            Aggregator::Sum => State::Sum(Sum::of(value)),
            Aggregator::Average => {
                let mut mean = Mean::default();
                mean.add(value);
                State::Mean(mean)
            }
            Aggregator::Minimum | Aggregator::Maximum => State::Value(value),
            Aggregator::Count => State::Count(1),
            Aggregator::StandardDeviation | Aggregator::Variance => {
                let squares = if value.is_finite() { 0.0 } else { f64::NAN };
                State::Spread(1.0, value, squares)
            }
            _ => State::Value(1.0),
        }
    }

    fn result(&self, aggregator: Aggregator) -> f64 {
        match *self {
            State::Empty => ABSENT,
            State::Sum(sum) => sum.total(),
            State::Mean(mean) => mean.mean(),
            State::Value(value) => value,
            State::Count(count) => count as f64,
            State::Spread(count, _, squares) => match aggregator {
                Aggregator::Variance => squares / count,
                _ => (squares / count).sqrt(),
            },
        }
    }
}

/// Computes a quantile of each group. `q` has a value for each step.
pub fn quantiles(
    budget: &Arc<Budget>,
    notes: &Notes,
    steps: Steps,
    (q, grouping): (&[f64], Grouping),
    input: Vec<Series>,
) -> Result<Vec<Series>, Error> {
    if let Some(bad) = q.iter().find(|q| !(0.0..=1.0).contains(*q)) {
        notes.quantile_out_of_range(*bad);
    }
    let mut groups = Groups::new(grouping);
    for series in input {
        let group = groups.of(&series.labels.clone(), || {
            Ok::<Vec<Series>, Error>(Vec::new())
        })?;
        group.push(series);
    }
    let mut results = Vec::new();
    let mut present = Vec::new();
    for (labels, group) in groups.groups {
        let mut values = Values::filled(budget, steps.count, ABSENT)?;
        for (at, value) in values.iter_mut().enumerate() {
            present.clear();
            let all = group.iter().map(|series| series.values[at]);
            present.extend(all.filter(|value| !is_absent(*value)));
            if !present.is_empty() {
                *value = quantile(q[at], &mut present);
            }
        }
        results.push(Series {
            labels,
            drop_name: group[0].drop_name,
            values,
        });
    }
    Ok(results)
}
