//! Names of scraped series: labels of the sample and of its target.

use super::parser::Sample;
use crate::remote_write::METRIC_NAME;
use crate::remote_write::notation::put_label;
use std::borrow::Cow;

/// Prefix of a label of a sample whose target has a label of the same name.
const EXPORTED: &str = "exported_";

/// Labels of a target, which all its series get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetLabels {
    /// Labels with a value, sorted by name.
    labels: Vec<(String, String)>,
    honor_labels: bool,
}

impl TargetLabels {
    /// Creates the labels of a target. Labels without a value are left out. With `honor_labels`, a label of a sample
    /// replaces the target's label of the same name; otherwise it is renamed with the prefix `exported_`.
    pub fn new(
        labels: impl IntoIterator<Item = (String, String)>,
        honor_labels: bool,
    ) -> TargetLabels {
        let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
        let mut labels: Vec<(String, String)> = labels.collect();
        labels.sort();
        TargetLabels {
            labels,
            honor_labels,
        }
    }

    /// Returns the labels, sorted by name.
    pub fn labels(&self) -> &[(String, String)] {
        &self.labels
    }

    /// Appends the name of a metric of the target itself, such as `up`.
    pub fn put_own_name(&self, metric: &str, name: &mut Vec<u8>) {
        let own = self.labels.iter();
        let own = own.map(|(label, value)| (Cow::Borrowed(&**label), &**value));
        put(own.collect(), metric, name);
    }

    /// Appends the name of the series of a sample.
    pub fn put_name(&self, sample: &Sample<'_>, name: &mut Vec<u8>) {
        let given = sample.labels.iter();
        let given = given.map(|(label, value)| (Cow::Borrowed(&**label), &**value));
        let mut all: Vec<(Cow<'_, str>, &str)> = given.collect();
        let mut clashing = Vec::new();
        for (label, value) in &self.labels {
            match all.iter_mut().find(|(given, _)| given == label) {
                Some(_) if self.honor_labels => continue,
                Some(given) if !given.1.is_empty() => clashing.push((label, given.1)),
                _ => {}
            }
            all.retain(|(given, _)| given != label);
            all.push((Cow::Borrowed(label), value));
        }
        all.retain(|(_, value)| !value.is_empty());
        // The shortest name first, as Prometheus renames them.
        clashing.sort_by_key(|(label, _)| label.len());
        for (label, value) in clashing {
            let mut label = format!("{EXPORTED}{label}");
            while all.iter().any(|(taken, _)| *taken == label) {
                label.insert_str(0, EXPORTED);
            }
            all.push((Cow::Owned(label), value));
        }
        put(all, &sample.metric, name);
    }
}

fn put<'a>(mut labels: Vec<(Cow<'a, str>, &'a str)>, metric: &'a str, name: &mut Vec<u8>) {
    labels.push((Cow::Borrowed(METRIC_NAME), metric));
    labels.sort();
    for (label, value) in labels {
        put_label(label.as_bytes(), value.as_bytes(), name);
    }
}
