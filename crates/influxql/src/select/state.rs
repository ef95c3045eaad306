//! Aggregates of the samples of one bucket.

use super::function::Aggregate;
use crate::cell::{Cell, integer};
use seiner_model::FieldType;
use seiner_store::Bucket;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Sample, with the other values of its row.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Time, ns.
    pub time: i64,
    /// Value.
    pub value: Cell,
    /// Other values of the row.
    pub extras: Vec<Option<Cell>>,
}

impl Sample {
    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of::<Sample>() + self.extras.iter().map(Cell::bytes).sum::<usize>()
    }
}

/// Aggregates of samples.
#[derive(Clone, Debug)]
pub enum State {
    /// Number.
    Count(u64),
    /// Sum: as floats, and exactly while all samples are integers.
    Sum(f64, Option<i128>, u64),
    /// Smallest and largest value.
    Range(Option<(Cell, Cell)>),
    /// Count, mean, and sum of squared deviations from the mean.
    Deviation(u64, f64, f64),
    /// Selected sample.
    One(Option<Sample>),
    /// All samples.
    All(Vec<Sample>),
}

impl State {
    /// Creates the state of a function without samples.
    pub fn new(aggregate: Aggregate) -> State {
        match aggregate {
            Aggregate::Count => State::Count(0),
            Aggregate::Sum | Aggregate::Mean => State::Sum(0.0, Some(0), 0),
            Aggregate::Spread => State::Range(None),
            Aggregate::Deviation => State::Deviation(0, 0.0, 0.0),
            Aggregate::First | Aggregate::Last | Aggregate::Max | Aggregate::Min => {
                State::One(None)
            }
            _ => State::All(Vec::new()),
        }
    }

    /// Adds a sample. Values that the function does not take are left out. Returns the bytes of samples that the state
    /// keeps in addition.
    pub fn add(
        &mut self,
        aggregate: Aggregate,
        time: i64,
        value: &Cell,
        extras: impl Fn() -> Vec<Option<Cell>>,
    ) -> usize {
        let sample = || Sample {
            time,
            value: value.clone(),
            extras: extras(),
        };
        match self {
            State::Count(count) => *count += 1,
            State::Sum(sum, whole, count) => {
                let Some(number) = value.number() else {
                    return 0;
                };
                *sum += number;
                *whole = whole.and_then(|sum| sum.checked_add(value.whole()?));
                *count += 1;
            }
            State::Range(range) => {
                if value.number().is_some() {
                    widen(range, value.clone(), value.clone());
                }
            }
            State::Deviation(count, mean, squares) => {
                if let Some(number) = value.number() {
                    *count += 1;
                    let before = number - *mean;
                    *mean += before / *count as f64;
                    *squares += before * (number - *mean);
                }
            }
            State::One(one) => {
                if is_better(aggregate, one.as_ref(), time, value) {
                    *one = Some(sample());
                }
            }
            State::All(samples) => {
                let sample = sample();
                let bytes = sample.bytes();
                samples.push(sample);
                return bytes;
            }
        }
        0
    }

    /// Adds the aggregates of a bucket of the store.
    pub fn absorb(&mut self, aggregate: Aggregate, bucket: &Bucket, field_type: FieldType) {
        let cell = |number: f64, whole: Option<i128>| match (field_type, whole) {
            (_, Some(whole)) => integer(whole),
            (FieldType::I64 | FieldType::U64, None) => integer(number as i128),
            (FieldType::F32, _) => Cell::Single(number as f32),
            _ => Cell::Float(number),
        };
        let exact = bucket.exact;
        match self {
            State::Count(count) => *count += bucket.count,
            State::Sum(sum, whole, count) => {
                *sum += exact.map_or(bucket.sum, |exact| exact.sum as f64);
                *whole = whole.and_then(|sum| sum.checked_add(exact?.sum));
                *count += bucket.count;
            }
            State::Range(range) => {
                let min = cell(bucket.min, exact.map(|exact| exact.min));
                let max = cell(bucket.max, exact.map(|exact| exact.max));
                widen(range, min, max);
            }
            State::One(_) => {
                let (time, value) = match aggregate {
                    Aggregate::First => {
                        let (time, value) = bucket.first;
                        (time, cell(value, exact.map(|exact| exact.first)))
                    }
                    Aggregate::Last => {
                        let (time, value) = bucket.last;
                        (time, cell(value, exact.map(|exact| exact.last)))
                    }
                    Aggregate::Min => {
                        (bucket.start, cell(bucket.min, exact.map(|exact| exact.min)))
                    }
                    _ => (bucket.start, cell(bucket.max, exact.map(|exact| exact.max))),
                };
                self.add(aggregate, time, &value, Vec::new);
            }
            State::Deviation(..) | State::All(_) => {}
        }
    }

    /// Returns the results, at most one for functions that do not have many. `start` is the time of results that are
    /// not samples.
    pub fn results(self, aggregate: Aggregate, start: i64, distinct: &[usize]) -> Vec<Sample> {
        let value = match self {
            State::Count(count) => Some(integer(i128::from(count))),
            State::Sum(_, _, 0) => None,
            State::Sum(sum, whole, count) => match (aggregate, whole) {
                (Aggregate::Mean, _) => {
                    let sum = whole.map_or(sum, |whole| whole as f64);
                    Some(Cell::Float(sum / count as f64))
                }
                (_, Some(whole)) => Some(integer(whole)),
                (_, None) => Some(Cell::Float(sum)),
            },
            State::Range(range) => range.and_then(|(min, max)| difference(&max, &min)),
            State::Deviation(count, _, squares) => {
                (count > 1).then(|| Cell::Float((squares / (count - 1) as f64).sqrt()))
            }
            State::One(one) => return one.into_iter().collect(),
            State::All(samples) => return of_all(aggregate, samples, start, distinct),
        };
        let result = value.map(|value| at(start, value));
        result.into_iter().collect()
    }
}

/// Returns the difference of two numbers, an integer for integers.
pub fn difference(left: &Cell, right: &Cell) -> Option<Cell> {
    match (left.whole(), right.whole()) {
        (Some(left), Some(right)) => Some(integer(left - right)),
        _ => Some(Cell::Float(left.number()? - right.number()?)),
    }
}

fn at(time: i64, value: Cell) -> Sample {
    Sample {
        time,
        value,
        extras: Vec::new(),
    }
}

fn widen(range: &mut Option<(Cell, Cell)>, min: Cell, max: Cell) {
    let (min, max) = match range.take() {
        None => (min, max),
        Some((least, most)) => (
            if min.total_order(&least).is_lt() {
                min
            } else {
                least
            },
            if max.total_order(&most).is_gt() {
                max
            } else {
                most
            },
        ),
    };
    *range = Some((min, max));
}

/// Returns whether a sample takes the place of the selected one. Samples of the same time, or of the same value, have
/// the order of InfluxDB.
fn is_better(aggregate: Aggregate, one: Option<&Sample>, time: i64, value: &Cell) -> bool {
    let Some(one) = one else {
        return true;
    };
    let by_value = value.total_order(&one.value);
    let by_time = time.cmp(&one.time);
    match aggregate {
        Aggregate::First if matches!(value, Cell::Bool(_)) => by_time.then(by_value).is_lt(),
        Aggregate::First => by_time.is_lt() || (by_time.is_eq() && by_value.is_gt()),
        Aggregate::Last => by_time.is_gt() || (by_time.is_eq() && by_value.is_gt()),
        Aggregate::Min => by_value.is_lt() || (by_value.is_eq() && by_time.is_lt()),
        _ => by_value.is_gt() || (by_value.is_eq() && by_time.is_lt()),
    }
}

fn of_all(
    aggregate: Aggregate,
    mut samples: Vec<Sample>,
    start: i64,
    distinct: &[usize],
) -> Vec<Sample> {
    match aggregate {
        Aggregate::CountDistinct => {
            let count = different(samples).len();
            vec![at(start, integer(count as i128))]
        }
        Aggregate::Distinct => {
            let values = different(samples).into_iter();
            values.map(|value| at(start, value)).collect()
        }
        Aggregate::Median => median(samples)
            .map(|value| at(start, value))
            .into_iter()
            .collect(),
        Aggregate::Mode => mode(samples)
            .map(|value| at(start, value))
            .into_iter()
            .collect(),
        Aggregate::Percentile(percent) => {
            samples.sort_by(|a, b| a.value.total_order(&b.value).then(a.time.cmp(&b.time)));
            // The nearest rank, as in InfluxDB.
            let rank = (samples.len() as f64 * percent / 100.0 + 0.5).floor() - 1.0;
            match rank >= 0.0 && rank < samples.len() as f64 {
                true => vec![samples.swap_remove(rank as usize)],
                false => Vec::new(),
            }
        }
        Aggregate::Top(count) => best(samples, count, distinct, |a, b| b.total_order(a)),
        Aggregate::Bottom(count) => best(samples, count, distinct, Cell::total_order),
        _ => Vec::new(),
    }
}

/// Returns the different values, sorted.
fn different(samples: Vec<Sample>) -> Vec<Cell> {
    let mut values: Vec<Cell> = samples.into_iter().map(|sample| sample.value).collect();
    values.sort_by(Cell::total_order);
    values.dedup();
    values
}

/// Returns the value in the middle, or the mean of the two in the middle: a float, also of integers.
fn median(samples: Vec<Sample>) -> Option<Cell> {
    let numbers = samples.iter().filter_map(|sample| sample.value.number());
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let high = *numbers.get(middle)?;
    let low = match numbers.len() % 2 {
        1 => high,
        _ => numbers[middle - 1],
    };
    Some(Cell::Float(low + (high - low) / 2.0))
}

/// Returns the most frequent value; of equally frequent ones the one that is first in time.
fn mode(samples: Vec<Sample>) -> Option<Cell> {
    let mut sorted = samples;
    sorted.sort_by(|a, b| a.value.total_order(&b.value).then(a.time.cmp(&b.time)));
    let mut best: Option<(usize, i64, Cell)> = None;
    let mut runs = sorted.chunk_by(|a, b| a.value.total_order(&b.value).is_eq());
    for run in &mut runs {
        let (count, time) = (run.len(), run[0].time);
        let wins = best.as_ref().is_none_or(|(most, earliest, _)| {
            count > *most || (count == *most && time < *earliest)
        });
        if wins {
            best = Some((count, time, run[0].value.clone()));
        }
    }
    best.map(|(_, _, value)| value)
}

/// Returns the first samples by value, in the order of their times. With `distinct`, at most one for each combination
/// of these extras.
fn best(
    mut samples: Vec<Sample>,
    count: usize,
    distinct: &[usize],
    order: impl Fn(&Cell, &Cell) -> Ordering,
) -> Vec<Sample> {
    samples.sort_by(|a, b| order(&a.value, &b.value).then(a.time.cmp(&b.time)));
    if !distinct.is_empty() {
        let mut seen = BTreeSet::new();
        samples.retain(|sample| {
            let tags = distinct.iter().map(|at| match &sample.extras[*at] {
                Some(Cell::Text(text)) => text.to_string(),
                _ => String::new(),
            });
            seen.insert(tags.collect::<Vec<String>>())
        });
    }
    samples.truncate(count);
    samples.sort_by_key(|sample| sample.time);
    samples
}

/// Returns the area under a curve for each bucket, by the trapezium rule. Curves are cut at the ends of buckets, as in
/// InfluxDB. `bucket` returns the begin and the end of the bucket of a time.
pub fn integral(
    mut samples: Vec<Sample>,
    unit: i64,
    bucket: impl Fn(i64) -> (i64, i64),
) -> Vec<(i64, f64)> {
    samples.sort_by_key(|sample| sample.time);
    let distance = |from: i64, to: i64| to.saturating_sub(from) as f64;
    let mut areas: BTreeMap<i64, f64> = BTreeMap::new();
    let mut last: Option<(i64, f64)> = None;
    let mut present = (0, 0);
    for sample in samples {
        let (time, Some(value)) = (sample.time, sample.value.number()) else {
            continue;
        };
        let Some((mut before, mut value_before)) = last else {
            present = bucket(time);
            areas.insert(present.0, 0.0);
            last = Some((time, value));
            continue;
        };
        let area = |from: (i64, f64), to: (i64, f64)| {
            0.5 * (from.1 + to.1) * (distance(from.0, to.0) / unit as f64)
        };
        if time >= present.1 {
            let share = distance(before, present.1) / distance(before, time);
            let cut = (present.1, value_before + (value - value_before) * share);
            *areas.entry(present.0).or_default() += area((before, value_before), cut);
            (before, value_before) = cut;
            present = bucket(time);
        }
        *areas.entry(present.0).or_default() += area((before, value_before), (time, value));
        last = Some((time, value));
    }
    areas.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(aggregate: Aggregate, values: &[f64]) -> Vec<Cell> {
        let mut state = State::new(aggregate);
        for (time, value) in values.iter().enumerate() {
            state.add(aggregate, time as i64, &Cell::Float(*value), Vec::new);
        }
        let results = state.results(aggregate, 0, &[]).into_iter();
        results.map(|sample| sample.value).collect()
    }

    #[test]
    fn aggregates_of_samples() {
        let values = [4.0, 1.0, 3.0, 1.0];
        for (aggregate, expected) in [
            (Aggregate::Mean, 2.25),
            (Aggregate::Median, 2.0),
            (Aggregate::Mode, 1.0),
            (Aggregate::Spread, 3.0),
            (Aggregate::Deviation, 1.5),
            (Aggregate::First, 4.0),
            (Aggregate::Min, 1.0),
            (Aggregate::Percentile(50.0), 1.0),
            (Aggregate::Percentile(100.0), 4.0),
        ] {
            assert_eq!(
                results(aggregate, &values),
                [Cell::Float(expected)],
                "{aggregate:?}"
            );
        }
        assert_eq!(
            results(Aggregate::Top(2), &values),
            [4.0, 3.0].map(Cell::Float)
        );
        assert_eq!(results(Aggregate::Percentile(0.0), &values), []);
        assert_eq!(results(Aggregate::Deviation, &[1.0]), []);
        assert_eq!(
            results(Aggregate::CountDistinct, &values),
            [Cell::Integer(3)]
        );
    }

    #[test]
    fn sums_of_integers_are_exact() {
        let mut state = State::new(Aggregate::Sum);
        for value in [1_i64 << 53, 1, i64::MAX] {
            state.add(Aggregate::Sum, 0, &Cell::Integer(value), Vec::new);
        }
        let sum = state.results(Aggregate::Sum, 0, &[]);
        assert_eq!(
            sum[0].value,
            Cell::Unsigned((1 << 53) + 1 + i64::MAX as u64)
        );
    }

    #[test]
    fn areas_are_cut_at_the_ends_of_buckets() {
        let samples: Vec<Sample> = [(0, 1.0), (10, 1.0), (30, 3.0)]
            .map(|(time, value)| at(time, Cell::Float(value)))
            .to_vec();
        let bucket = |time: i64| (time / 20 * 20, time / 20 * 20 + 20);
        assert_eq!(integral(samples, 1, bucket), [(0, 25.0), (20, 25.0)]);
    }
}
