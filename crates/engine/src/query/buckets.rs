//! Buckets: aggregates of samples by step.

use crate::answer::{Bucket, Step, number};
use crate::query::rows::{Rows, range_of, within};
use crate::retention::rollup::step_start;
use seiner_model::{Column, Interval};

/// Returns the start of the bucket that contains a time, ns. Returns 0 if one bucket covers the
/// whole interval.
pub(crate) fn bucket_start(time: i64, step: Step) -> i64 {
    match step {
        Step::Whole => 0,
        // The lowest bucket may begin before the lowest possible time.
        Step::Every(step) => step_start(time, step as u64),
    }
}

/// Adds the samples of rows within an interval to the buckets of the columns.
pub(crate) fn add_rows(rows: &Rows, interval: Interval, step: Step, buckets: &mut [Vec<Bucket>]) {
    let whole = range_of(&rows.times, interval).len() == rows.times.len();
    for (field, buckets) in rows.fields.iter().zip(buckets) {
        match field {
            Some(field) if whole && field.present.is_none() => {
                add_samples(&rows.times, &field.values, step, buckets);
            }
            Some(field) => {
                if let Some((times, values)) = within(&rows.times, field, interval) {
                    add_samples(&times, &values, step, buckets);
                }
            }
            None => {}
        }
    }
}

fn add_samples(times: &[i64], values: &Column, step: Step, buckets: &mut Vec<Bucket>) {
    match values {
        Column::F64(values) => {
            add_values(times, values.iter().copied(), Bucket::of, step, buckets);
        }
        Column::I64(values) => {
            let values = values.iter().map(|&value| i128::from(value));
            add_values(times, values, Bucket::of_integer, step, buckets);
        }
        Column::U64(values) => {
            let values = values.iter().map(|&value| i128::from(value));
            add_values(times, values, Bucket::of_integer, step, buckets);
        }
        values => {
            let numbers = (0..values.len()).map(|index| number(values.get(index)));
            add_values(times, numbers, Bucket::of, step, buckets);
        }
    }
}

fn add_values<T>(
    times: &[i64],
    values: impl Iterator<Item = T>,
    bucket_of: impl Fn(i64, i64, T) -> Bucket,
    step: Step,
    buckets: &mut Vec<Bucket>,
) {
    // Current bucket with its last possible time, so that most samples need no division.
    let mut open: Option<(Bucket, i64)> = None;
    for (&time, value) in times.iter().zip(values) {
        match &mut open {
            Some((bucket, end)) if time <= *end => {
                bucket.absorb(&bucket_of(bucket.start, time, value))
            }
            _ => {
                if let Some((bucket, _)) = open.take() {
                    add_bucket(bucket, step, buckets);
                }
                let (start, end) = match step {
                    Step::Whole => (time, i64::MAX),
                    Step::Every(every) => {
                        let start = bucket_start(time, step);
                        (
                            start,
                            time.saturating_add(every - 1 - time.rem_euclid(every)),
                        )
                    }
                };
                open = Some((bucket_of(start, time, value), end));
            }
        }
    }
    if let Some((bucket, _)) = open {
        add_bucket(bucket, step, buckets);
    }
}

/// Appends a bucket, or adds it to the last bucket if both start at the same time.
pub(crate) fn add_bucket(bucket: Bucket, step: Step, buckets: &mut Vec<Bucket>) {
    match buckets.last_mut() {
        Some(last) if step == Step::Whole || last.start == bucket.start => last.absorb(&bucket),
        _ => buckets.push(bucket),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_model::FieldColumn;

    #[test]
    fn rows_in_parts_give_the_buckets_of_all_rows() {
        let rows = |range: std::ops::Range<i64>| Rows {
            times: range.clone().collect(),
            fields: vec![Some(FieldColumn {
                present: None,
                values: Column::I64(range.collect()),
            })],
        };
        let interval = Interval::new(-4, 24);
        let mut whole = vec![Vec::new()];
        add_rows(&rows(-7..33), interval, Step::Every(10), &mut whole);
        let starts: Vec<(i64, u64)> = whole[0]
            .iter()
            .map(|bucket| (bucket.start, bucket.count))
            .collect();
        assert_eq!(starts, [(-10, 4), (0, 10), (10, 10), (20, 5)]);
        let mut parts = vec![Vec::new()];
        for part in [-7..3, 3..14, 14..15, 15..33] {
            add_rows(&rows(part), interval, Step::Every(10), &mut parts);
        }
        assert_eq!(whole, parts);
    }
}
