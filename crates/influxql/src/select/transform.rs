//! Transformations of a series.

use super::fill::Series;
use super::function::Transform;
use super::state::difference;
use crate::cell::{Cell, integer};
use std::collections::VecDeque;

/// Returns the transformed series. Null values are left out. Of samples with the same time only the first counts.
pub fn transformed(transform: Transform, series: &Series) -> Series {
    let mut points: Vec<(i64, &Cell)> = Vec::with_capacity(series.len());
    for (time, value) in series {
        let is_new = points.last().is_none_or(|(last, _)| last != time);
        if let Some(value) = value.as_ref().filter(|_| is_new) {
            points.push((*time, value));
        }
    }
    match transform {
        Transform::CumulativeSum => cumulative_sum(&points),
        Transform::MovingAverage(count) => moving_average(&points, count),
        _ => {
            let pairs = points.windows(2);
            let pairs = pairs.filter_map(|pair| Some((pair[1].0, Some(of_pair(transform, pair)?))));
            pairs.collect()
        }
    }
}

/// Returns the result for two neighbours, unless it is left out.
fn of_pair(transform: Transform, pair: &[(i64, &Cell)]) -> Option<Cell> {
    let [(before, left), (after, right)] = pair else {
        return None;
    };
    let distance = after.saturating_sub(*before);
    let (result, non_negative) = match transform {
        Transform::Derivative { unit, non_negative } => {
            let change = difference(right, left)?.number()?;
            let rate = change / (distance as f64 / unit as f64);
            (Cell::Float(rate), non_negative)
        }
        Transform::Difference { non_negative } => (difference(right, left)?, non_negative),
        Transform::Elapsed(unit) => (Cell::Integer(distance / unit), false),
        Transform::CumulativeSum | Transform::MovingAverage(_) => return None,
    };
    let is_negative = result.number().is_some_and(|number| number < 0.0);
    (!non_negative || !is_negative).then_some(result)
}

fn cumulative_sum(points: &[(i64, &Cell)]) -> Series {
    let (mut sum, mut whole) = (0.0, Some(0_i128));
    let add = |(time, value): &(i64, &Cell)| {
        sum += value.number()?;
        whole = whole.and_then(|sum| sum.checked_add(value.whole()?));
        Some((*time, Some(whole.map_or(Cell::Float(sum), integer))))
    };
    points.iter().filter_map(add).collect()
}

fn moving_average(points: &[(i64, &Cell)], count: usize) -> Series {
    let mut window: VecDeque<f64> = VecDeque::new();
    let mut averages = Vec::new();
    for (time, value) in points {
        let Some(number) = value.number() else {
            continue;
        };
        window.push_back(number);
        if window.len() > count {
            window.pop_front();
        }
        if window.len() == count {
            // A running sum would collect errors of rounding.
            let mean = window.iter().sum::<f64>() / count as f64;
            averages.push((*time, Some(Cell::Float(mean))));
        }
    }
    averages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(transform: Transform) -> Vec<(i64, Cell)> {
        let series: Series = [
            (0, Some(5)),
            (10, None),
            (20, Some(9)),
            (20, Some(1)),
            (30, Some(6)),
        ]
        .map(|(time, value)| (time, value.map(Cell::Integer)))
        .to_vec();
        let transformed = transformed(transform, &series).into_iter();
        transformed
            .filter_map(|(time, value)| Some((time, value?)))
            .collect()
    }

    #[test]
    fn neighbours_are_compared_without_nulls() {
        let rate = |non_negative| Transform::Derivative {
            unit: 10,
            non_negative,
        };
        assert_eq!(
            apply(rate(false)),
            [(20, Cell::Float(2.0)), (30, Cell::Float(-3.0))]
        );
        assert_eq!(apply(rate(true)), [(20, Cell::Float(2.0))]);
        let difference = Transform::Difference {
            non_negative: false,
        };
        assert_eq!(
            apply(difference),
            [(20, Cell::Integer(4)), (30, Cell::Integer(-3))]
        );
        assert_eq!(
            apply(Transform::Elapsed(5)),
            [(20, Cell::Integer(4)), (30, Cell::Integer(2))]
        );
        assert_eq!(
            apply(Transform::CumulativeSum),
            [
                (0, Cell::Integer(5)),
                (20, Cell::Integer(14)),
                (30, Cell::Integer(20))
            ]
        );
        assert_eq!(
            apply(Transform::MovingAverage(2)),
            [(20, Cell::Float(7.0)), (30, Cell::Float(7.5))]
        );
    }
}
