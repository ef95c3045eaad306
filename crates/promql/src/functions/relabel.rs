//! Functions that change labels: `label_replace`, `label_join`.

use crate::error::Error;
use crate::labels::{Labels, METRIC_NAME};
use crate::series::Series;
use regex::Regex;
use std::collections::HashSet;

/// Sets the label `target` of each series to a text with parts of the label `source`, if `pattern` matches `source`.
pub fn replace(
    series: &mut [Series],
    target: &str,
    replacement: &str,
    source: &str,
    pattern: &str,
) -> Result<(), Error> {
    let regex = Regex::new(&format!("^(?s:{pattern})$")).map_err(|_| {
        Error::execution(format!(
            "invalid regular expression in label_replace(): {pattern}"
        ))
    })?;
    if target.is_empty() {
        return Err(Error::execution(format!(
            "invalid destination label name in label_replace(): {target}"
        )));
    }
    for one in series.iter_mut() {
        let value = one.labels.get(source);
        if let Some(captures) = regex.captures(value) {
            // Each reference inserts at most the whole value.
            let longest = replacement.len() + replacement.matches('$').count() * value.len();
            one.values.hold_bytes(longest)?;
            let mut text = String::new();
            captures.expand(replacement, &mut text);
            set(one, target, text);
        }
    }
    check_unique(series)
}

/// Sets the label `target` of each series to the values of other labels, with a separator between them.
pub fn join(
    series: &mut [Series],
    target: &str,
    separator: &str,
    sources: &[String],
) -> Result<(), Error> {
    if let Some(bad) = sources.iter().find(|source| source.is_empty()) {
        return Err(Error::execution(format!(
            "invalid source label name in label_join(): {bad}"
        )));
    }
    if target.is_empty() {
        return Err(Error::execution(format!(
            "invalid destination label name in label_join(): {target}"
        )));
    }
    for one in series.iter_mut() {
        let lengths = sources
            .iter()
            .map(|source| one.labels.get(source).len() + separator.len());
        one.values.hold_bytes(lengths.sum())?;
        let values: Vec<&str> = sources
            .iter()
            .map(|source| one.labels.get(source))
            .collect();
        let text = values.join(separator);
        set(one, target, text);
    }
    check_unique(series)
}

fn set(series: &mut Series, label: &str, value: String) {
    series.labels.set(label, value);
    if label == METRIC_NAME {
        series.drop_name = false;
    }
}

/// Returns an error if two series have equal labels.
pub fn check_unique(series: &[Series]) -> Result<(), Error> {
    let labels: HashSet<&Labels> = series.iter().map(|one| &one.labels).collect();
    match labels.len() == series.len() {
        true => Ok(()),
        false => Err(Error::same_labels()),
    }
}
