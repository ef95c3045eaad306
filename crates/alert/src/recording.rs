//! Series that a recording rule stores.

use crate::rules::RecordingRule;
use seiner_promql::{Labels, METRIC_NAME};
use std::collections::HashSet;

/// Maximum number of series of a rule.
const MOST_SERIES: usize = 100_000;

impl RecordingRule {
    /// Gives the series in a result of the expression the name and the labels of the rule. Returns them.
    ///
    /// # Errors
    /// If two of them have the same labels, or there are too many.
    pub fn series(&self, mut series: Vec<(Labels, f64)>) -> Result<Vec<(Labels, f64)>, String> {
        if series.len() > MOST_SERIES {
            return Err(format!(
                "the expression has {} results; the maximum is {MOST_SERIES}; aggregate them",
                series.len()
            ));
        }
        let mut seen = HashSet::with_capacity(series.len());
        for (labels, _) in &mut series {
            for (name, value) in &self.labels {
                labels.set(name.as_str(), value.as_str());
            }
            labels.set(METRIC_NAME, self.name.as_str());
            if !seen.insert(labels.clone()) {
                return Err(format!(
                    "two results have the same labels as series of {:?}: {:?}",
                    self.name,
                    labels.iter().collect::<Vec<_>>()
                ));
            }
        }
        Ok(series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn rule() -> RecordingRule {
        let labels = [("team", "operations"), ("host", "")];
        RecordingRule {
            name: "cpu:sum".into(),
            expression: "sum(cpu)".into(),
            labels: BTreeMap::from(labels.map(|(name, value)| (name.into(), value.into()))),
        }
    }

    fn result(labels: &[(&str, &str)]) -> (Labels, f64) {
        (labels.iter().copied().collect(), 1.5)
    }

    #[test]
    fn series_have_the_name_and_the_labels_of_the_rule() {
        let found = rule().series(vec![result(&[
            (METRIC_NAME, "cpu"),
            ("host", "a"),
            ("rack", "r"),
            ("team", "b"),
        ])]);
        let wanted = result(&[
            (METRIC_NAME, "cpu:sum"),
            ("rack", "r"),
            ("team", "operations"),
        ]);
        assert_eq!(found, Ok(vec![wanted]));
        assert_eq!(rule().series(Vec::new()), Ok(Vec::new()));
    }

    #[test]
    fn equal_series_and_too_many_are_errors() {
        let equal = vec![result(&[("host", "a")]), result(&[("host", "b")])];
        assert!(
            rule()
                .series(equal)
                .unwrap_err()
                .contains("the same labels")
        );
        let many = vec![result(&[]); MOST_SERIES + 1];
        assert!(rule().series(many).unwrap_err().contains("aggregate"));
    }
}
