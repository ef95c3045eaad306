//! Order of the series of an instant query: `sort`, `sort_by_label`.

use crate::numbers::nan_first;
use crate::series::Series;
use std::cmp::Ordering;

/// Sorts series by their value at the only step. NaN is last.
pub fn by_value(series: &mut [Series], descending: bool) {
    series.sort_by(|a, b| compare(a.values[0], b.values[0], descending));
}

/// Compares two values. NaN is last in both directions.
pub fn compare(a: f64, b: f64, descending: bool) -> Ordering {
    match (a.is_nan() || b.is_nan(), descending) {
        (true, _) => nan_first(b, a),
        (false, true) => b.total_cmp(&a),
        (false, false) => a.total_cmp(&b),
    }
}

/// Sorts series by the values of some labels, then by all labels. Digits are compared as numbers.
pub fn by_label(series: &mut [Series], names: &[String], descending: bool) {
    series.sort_by(|a, b| {
        let by_names = names
            .iter()
            .map(|name| natural(a.labels.get(name), b.labels.get(name)));
        let order = by_names
            .fold(Ordering::Equal, Ordering::then)
            .then_with(|| a.labels.cmp(&b.labels));
        match descending {
            true => order.reverse(),
            false => order,
        }
    });
}

/// Compares two texts part by part: digits as numbers, other characters as text.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a_rest, mut b_rest) = (a, b);
    while !a_rest.is_empty() && !b_rest.is_empty() {
        let (a_part, b_part) = (part(a_rest), part(b_rest));
        let order = match (a_part.parse::<u64>(), b_part.parse::<u64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            _ => a_part.cmp(b_part),
        };
        if order != Ordering::Equal {
            return order;
        }
        (a_rest, b_rest) = (&a_rest[a_part.len()..], &b_rest[b_part.len()..]);
    }
    a_rest.len().cmp(&b_rest.len())
}

/// Returns the longest begin of a text that has only digits, or none.
fn part(text: &str) -> &str {
    let is_digit = text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| c.is_ascii_digit() != is_digit);
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_compared_as_numbers() {
        let mut texts = ["a10", "a9", "b", "a9b", "", "4.10", "4.9"];
        texts.sort_by(|a, b| natural(a, b));
        assert_eq!(texts, ["", "4.9", "4.10", "a9", "a9b", "a10", "b"]);
    }

    #[test]
    fn nan_is_last() {
        let mut values = [f64::NAN, 1.0, 2.0];
        values.sort_by(|a, b| compare(*a, *b, true));
        assert_eq!(values[..2], [2.0, 1.0]);
    }
}
