//! Samples of a store, and their comparison.

use crate::datum::{Datum, digest};
use std::collections::BTreeMap;

/// A series: the index of its source in the generator, and the index of its field.
pub(crate) type Series = (u32, u32);

/// Samples of a store, by series and time.
pub(crate) type Samples = BTreeMap<Series, BTreeMap<i64, Datum>>;

/// Iterates over all samples.
pub(crate) fn each(samples: &Samples) -> impl Iterator<Item = (Series, i64, &Datum)> {
    samples.iter().flat_map(|(&series, samples)| {
        samples
            .iter()
            .map(move |(&time, datum)| (series, time, datum))
    })
}

/// Returns the sum of the digests of all samples. The sum does not depend on the order of the
/// samples.
pub(crate) fn sum_of(samples: &Samples) -> u64 {
    each(samples).fold(0, |sum, (series, time, datum)| {
        sum.wrapping_add(digest(&(series, time, datum)))
    })
}

/// Describes the first difference between two sets of samples; `None` if the sets are equal.
pub(crate) fn first_difference(expected: &Samples, found: &Samples) -> Option<String> {
    if expected == found {
        return None;
    }
    let get = |samples: &Samples, series: Series, time: i64| {
        samples.get(&series).and_then(|s| s.get(&time)).cloned()
    };
    for (series, time, datum) in each(expected) {
        let there = get(found, series, time);
        if there.as_ref() != Some(datum) {
            return Some(format!(
                "series {series:?} at {time}: expected {datum:?}, found {there:?}"
            ));
        }
    }
    each(found)
        .find(|&(series, time, _)| get(expected, series, time).is_none())
        .map(|(series, time, datum)| {
            format!("series {series:?} at {time}: expected nothing, found {datum:?}")
        })
}
