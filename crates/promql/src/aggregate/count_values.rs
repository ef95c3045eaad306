//! Aggregation `count_values`: a series for each value, with the number of series that have it.

use super::Grouping;
use crate::budget::Budget;
use crate::error::Error;
use crate::labels::Labels;
use crate::number_text;
use crate::series::{ABSENT, Series, Steps, Values, is_absent};
use std::collections::HashMap;
use std::sync::Arc;

/// Counts the series of each group that have the same value, and writes the value into a label.
pub fn count_values(
    budget: &Arc<Budget>,
    steps: Steps,
    (label, grouping): (&str, Grouping),
    input: &[Series],
) -> Result<Vec<Series>, Error> {
    if label.is_empty() {
        return Err(Error::execution(format!("invalid label name {label:?}")));
    }
    let label: Arc<str> = label.into();
    let mut places: HashMap<Labels, usize> = HashMap::new();
    let mut results: Vec<Series> = Vec::new();
    for series in input {
        budget.check()?;
        for (at, &value) in series.values.iter().enumerate() {
            if is_absent(value) {
                continue;
            }
            let mut labels = series.labels.clone();
            labels.set(label.clone(), number_text(value));
            let labels = grouping.of(&labels);
            let place = match places.get(&labels) {
                Some(place) => *place,
                None => {
                    places.insert(labels.clone(), results.len());
                    let mut values = Values::filled(budget, steps.count, ABSENT)?;
                    values.hold_labels(&labels)?;
                    results.push(Series {
                        labels,
                        drop_name: false,
                        values,
                    });
                    results.len() - 1
                }
            };
            let count = &mut results[place].values[at];
            *count = if is_absent(*count) { 1.0 } else { *count + 1.0 };
        }
    }
    Ok(results)
}
