//! Aggregations that choose series: `topk`, `bottomk`, `limitk`, `limit_ratio`.

use super::{Grouping, Groups};
use crate::error::Error;
use crate::functions::order::compare;
use crate::notes::Notes;
use crate::number_text;
use crate::plan::Aggregator;
use crate::series::{ABSENT, Series, Steps, is_absent};

/// Keeps some series of each group at each step. `parameter` has a value for each step. The series of an instant query
/// are sorted by `topk` and `bottomk`.
pub fn choose(
    notes: &Notes,
    steps: Steps,
    (aggregator, parameter, grouping): (Aggregator, &[f64], Grouping),
    mut input: Vec<Series>,
) -> Result<Vec<Series>, Error> {
    if aggregator == Aggregator::LimitRatio {
        note_ratios(notes, parameter);
    }
    let mut groups: Groups<Vec<usize>> = Groups::new(grouping);
    for (at, series) in input.iter().enumerate() {
        groups
            .of(&series.labels, || Ok::<_, Error>(Vec::new()))?
            .push(at);
    }
    let hashes: Vec<f64> = match aggregator {
        Aggregator::LimitRatio => input
            .iter()
            .map(|series| series.labels.hash() as f64 / u64::MAX as f64)
            .collect(),
        _ => Vec::new(),
    };
    let mut order = Vec::new();
    let mut present: Vec<(f64, usize)> = Vec::new();
    for (_, members) in &groups.groups {
        for (at, &parameter) in parameter.iter().enumerate().take(steps.count) {
            // Each value is read once, because the values of a step are far from each other in memory.
            present.clear();
            let values = members
                .iter()
                .map(|&member| (input[member].values[at], member));
            present.extend(values.filter(|(value, _)| !is_absent(*value)));
            if present.is_empty() {
                continue;
            }
            let kept = match aggregator {
                Aggregator::LimitRatio => {
                    let ratio = ratio(parameter)?;
                    present.sort_by_key(|(_, member)| !is_within(ratio, hashes[*member]));
                    present.partition_point(|(_, member)| is_within(ratio, hashes[*member]))
                }
                _ => {
                    let kept = count(parameter)?.min(present.len());
                    if let Aggregator::TopK | Aggregator::BottomK = aggregator {
                        put_best_first(&mut present, kept, aggregator == Aggregator::TopK);
                    }
                    kept
                }
            };
            for (_, dropped) in &present[kept..] {
                input[*dropped].values[at] = ABSENT;
            }
            if steps.count == 1 {
                order.extend(present[..kept].iter().map(|(_, member)| *member));
            }
        }
    }
    if steps.count == 1 {
        let mut places: Vec<Option<Series>> = input.into_iter().map(Some).collect();
        return Ok(order
            .into_iter()
            .filter_map(|at| places[at].take())
            .collect());
    }
    input.retain(|series| !series.values.is_all_absent());
    Ok(input)
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
